"""The resources in an account before a stack is deployed, through boto3.

prepare          creates a bucket, a secret, a topic and a function that fails for {"fails": true}; prints them as JSON
outputs STACK    prints the outputs of a stack as JSON
alarms PREFIX    prints the actions of each alarm whose name starts with PREFIX, as JSON lines
"""

import io
import json
import sys
import zipfile

import boto3

HANDLER = """
class Refused(Exception):
    pass

def handler(message, context):
    if message["data"].get("fails"):
        raise Refused("always")
"""


def prepare():
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    headers = json.dumps({"X-Api-Key": "a key of the account"})
    secret = boto3.client("secretsmanager").create_secret(Name="headers", SecretString=headers)
    print(json.dumps({
        "bucket": "artifacts",
        "secret": secret["ARN"],
        "topic": boto3.client("sns").create_topic(Name="alarms")["TopicArn"],
        "function": target(),
    }))


def target():
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", HANDLER)
    role = boto3.client("iam").create_role(RoleName="orders", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    return boto3.client("lambda").create_function(
        FunctionName="orders", Role=role, Runtime="python3.13", Handler="index.handler", Code={"ZipFile": code.getvalue()}
    )["FunctionArn"]


def outputs(stack):
    [found] = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    print(json.dumps({output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}))


def alarms(prefix):
    for alarm in boto3.client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix)["MetricAlarms"]:
        print(json.dumps([alarm["AlarmActions"], alarm["OKActions"]], separators=(",", ":")))


ACTIONS = {"prepare": prepare, "outputs": outputs, "alarms": alarms}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](*sys.argv[2:])
