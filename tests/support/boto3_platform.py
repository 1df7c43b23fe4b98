"""Makes Lambda's own requests with a function's role: for its log, its traces and its network interfaces.

Each line of standard input is a JSON object with a client's settings, a log group and the actions. The responses do not
matter: moto reports its decisions.
"""

import json
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

EVENTS = [{"timestamp": 0, "message": "a line"}]


def calls(group):
    stream = {"logGroupName": group, "logStreamName": "tests"}
    return {
        "logs:CreateLogStream": stream,
        "logs:PutLogEvents": {**stream, "logEvents": EVENTS},
        "xray:PutTraceSegments": {"TraceSegmentDocuments": ["{}"]},
        "xray:PutTelemetryRecords": {"TelemetryRecords": []},
        "ec2:DescribeSubnets": {},
        "ec2:DescribeNetworkInterfaces": {},
        "ec2:CreateNetworkInterface": {"SubnetId": "subnet-0"},
        "ec2:DeleteNetworkInterface": {"NetworkInterfaceId": "eni-0"},
        "ec2:AssignPrivateIpAddresses": {"NetworkInterfaceId": "eni-0"},
        "ec2:UnassignPrivateIpAddresses": {"NetworkInterfaceId": "eni-0", "PrivateIpAddresses": ["10.0.0.1"]},
    }


def method(client, operation):
    names = {client.meta.method_to_api_mapping[name]: name for name in client.meta.method_to_api_mapping}
    return getattr(client, names[operation])


for line in sys.stdin:
    request = json.loads(line)
    for action in request["actions"]:
        service, operation = action.split(":")
        client = boto3.client(service, config=Config(retries={"total_max_attempts": 1}), **request["client"])
        try:
            method(client, operation)(**calls(request["log_group"])[action])
        except ClientError:
            pass
