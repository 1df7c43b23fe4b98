"""Calls SQS through boto3, which shares no code with redeliver.

create NAME              creates a queue with SQS's defaults and prints its ARN
set-attributes URL       sets the attributes on standard input, a JSON object
list                     prints the names of all queues
send URL [GROUP]         sends each line of standard input as a message (to a FIFO queue: in GROUP), prints the ids
attribute URL NAME       prints an attribute of the queue, if it is set
wait-for URL NAME VALUE  waits up to two minutes until an attribute of the queue has this value
receive URL COUNT        prints COUNT messages as JSON lines; waits up to two minutes for them
"""

import json
import sys
import time
import uuid

import boto3

SECONDS_MAX = 120


def create(sqs, name):
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    print(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


def set_attributes(sqs, url):
    sqs.set_queue_attributes(QueueUrl=url, Attributes=json.load(sys.stdin))


def list_(sqs):
    for url in sqs.list_queues().get("QueueUrls", []):
        print(url.rsplit("/", 1)[1])


def send(sqs, url, group=None):
    for line in sys.stdin:
        ordered = {"MessageGroupId": group, "MessageDeduplicationId": str(uuid.uuid4())} if group else {}
        print(sqs.send_message(QueueUrl=url, MessageBody=line.rstrip("\n"), **ordered)["MessageId"])


def attribute(sqs, url, name):
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    if name in found:
        print(found[name])


def wait_for(sqs, url, name, value):
    deadline = time.monotonic() + SECONDS_MAX
    while (found := sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"].get(name)) != value:
        if time.monotonic() > deadline:
            sys.exit(f"{name} is {found} and not {value} after {SECONDS_MAX} s")
        time.sleep(0.2)


def receive(sqs, url, count):
    deadline = time.monotonic() + SECONDS_MAX
    found = 0
    while found < int(count):
        if time.monotonic() > deadline:
            sys.exit(f"only {found} of {count} messages arrived within {SECONDS_MAX} s")
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=2,
            VisibilityTimeout=3600,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        for message in answer.get("Messages", []):
            print(json.dumps(message))
            found += 1


ACTIONS = {
    "create": create,
    "set-attributes": set_attributes,
    "list": list_,
    "send": send,
    "attribute": attribute,
    "wait-for": wait_for,
    "receive": receive,
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](boto3.client("sqs"), *sys.argv[2:])
