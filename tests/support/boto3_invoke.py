"""Invokes a function asynchronously through boto3, once per line of standard input, with the line as the payload.

boto3_invoke.py FUNCTION
"""

import sys

import boto3

client = boto3.client("lambda")
for line in sys.stdin:
    answer = client.invoke(FunctionName=sys.argv[1], InvocationType="Event", Payload=line.rstrip("\n").encode())
    if answer["StatusCode"] != 202:
        sys.exit(f"unexpected status of an invocation: {answer['StatusCode']}")
