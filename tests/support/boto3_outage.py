"""The traces of an outage in a deployment, created through boto3, which shares no code with redeliver.

read QUEUE FUNCTION             creates a queue, a function, and a disabled event source mapping
circuit-open FUNCTION AGO ...   writes metrics: the function's circuit was open this number of minutes ago
polls QUEUE AGO ...             creates a queue, and writes metrics: three empty receives this number of minutes ago
"""

import io
import sys
import zipfile
from datetime import datetime, timedelta, timezone

import boto3


def read(queue, function):
    sqs, functions = boto3.client("sqs"), boto3.client("lambda")
    url = sqs.create_queue(QueueName=queue)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as bundle:
        bundle.writestr("nothing.py", "def handler(event, context): pass")
    functions.create_function(
        FunctionName=function,
        Runtime="python3.12",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="nothing.handler",
        Code={"ZipFile": code.getvalue()},
    )
    functions.create_event_source_mapping(EventSourceArn=arn, FunctionName=function, Enabled=False)


def circuit_open(function, *ago):
    measure("Redeliver", "CircuitOpen", "Function", function, 1, ago)


def polls(queue, *ago):
    boto3.client("sqs").create_queue(QueueName=queue)
    measure("AWS/SQS", "NumberOfEmptyReceives", "QueueName", queue, 3, ago)


def measure(namespace, metric, dimension, of, value, ago):
    now = datetime.now(timezone.utc)
    data = [
        {
            "MetricName": metric,
            "Dimensions": [{"Name": dimension, "Value": of}],
            "Timestamp": now - timedelta(minutes=int(minutes)),
            "Value": value,
        }
        for minutes in ago
    ]
    boto3.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=data)


ACTIONS = {"read": read, "circuit-open": circuit_open, "polls": polls}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](*sys.argv[2:])
