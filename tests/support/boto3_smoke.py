"""The requests of `cargo xtask smoke` to services other than SQS; each result is a line of JSON.

identity              the account, the user, and the region
stack NAME            the status of a CloudFormation stack, or null
delete NAME           deletes a CloudFormation stack, waits until it is gone, and prints null
alarms PREFIX         the names and states of the alarms with this prefix
"""

import json
import sys

import boto3
from botocore.exceptions import ClientError


def identity():
    caller = boto3.client("sts").get_caller_identity()
    return {"account": caller["Account"], "user": caller["Arn"], "region": boto3.session.Session().region_name}


def stack(name):
    try:
        found = boto3.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    there = [one["StackStatus"] for one in found if one["StackStatus"] != "DELETE_COMPLETE"]
    return there[0] if there else None


def delete(name):
    client = boto3.client("cloudformation")
    client.delete_stack(StackName=name)
    client.get_waiter("stack_delete_complete").wait(StackName=name)


def alarms(prefix):
    pages = boto3.client("cloudwatch").get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix)
    return {alarm["AlarmName"]: alarm["StateValue"] for page in pages for alarm in page["MetricAlarms"]}


COMMANDS = {"identity": identity, "stack": stack, "delete": delete, "alarms": alarms}
print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
