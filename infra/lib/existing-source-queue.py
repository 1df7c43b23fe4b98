"""Sets the attributes that redeliver needs on a source queue outside the stack. On delete, removes the redrive policy."""

import json
import os
import time
import urllib.parse
import urllib.request

import boto3

# The physical id of a resource that has changed nothing, so there is nothing to undo on delete.
UNTOUCHED = "untouched"
DAY = 86_400
DLQ_RETENTION = 14 * DAY


class Refused(Exception):
    """An error whose text is one sentence with the problem and the remedy."""


def handler(event, _context):
    check_sender(event)
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer.update(PhysicalResourceId=event.get("PhysicalResourceId", UNTOUCHED), Status="SUCCESS")
    try:
        act(event, event["ResourceProperties"], answer)
    except Exception as error:  # CloudFormation must always get a response, or it waits until the timeout
        url = event["ResourceProperties"]["QueueUrl"]
        problem = f"{error}" if isinstance(error, Refused) else f"could not be read or changed: {error}"
        answer.update(Status="FAILED", Reason=f"The source queue {url} {problem.rstrip('.')}.")
    headers = {"Content-Type": ""}
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], body, headers, method="PUT"), timeout=30).close()


def check_sender(event):
    """Without this check, anyone who may invoke the function could redirect the queue's messages or make it send to any URL."""
    url = urllib.parse.urlsplit(event["ResponseURL"])
    # The emulator's host name; not set on AWS.
    emulator = urllib.parse.urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname
    host, suffix = url.hostname or "", "." + os.environ["URL_SUFFIX"]
    is_aws = url.scheme == "https" and host.startswith("cloudformation-custom-resource-response-") and host.endswith(suffix)
    if event["StackId"] != os.environ["STACK_ID"] or not (is_aws or (emulator and host == emulator)):
        raise PermissionError("not a request of CloudFormation for this stack")


def act(event, wanted, answer):
    if event["RequestType"] == "Delete":
        if answer["PhysicalResourceId"] != UNTOUCHED:
            release(wanted)
        return
    if event["RequestType"] == "Create":
        refuse(wanted)
    if wanted["Step"] == "set":
        answer["PhysicalResourceId"] = wanted["QueueArn"]
        keep(wanted, {dlq(wanted), dlq(event.get("OldResourceProperties", wanted))})


def refuse(wanted):
    """Checks the queue, at creation only: if an update were refused, its rollback would fail as well."""
    if wanted["QueueArn"].split(":")[3:5] != dlq(wanted).split(":")[3:5]:
        raise Refused("is in another account or region than the stack: a DLQ must be in the account and region of its queue")
    found = attributes_of(wanted)
    is_fifo, needs_fifo = found.get("FifoQueue") == "true", dlq(wanted).endswith(".fifo")
    if is_fifo and not needs_fifo:
        raise Refused("is a FIFO queue, which cannot delay individual messages: use a standard queue, or strategy ordered")
    if needs_fifo and not is_fifo:
        raise Refused("is a standard queue, which keeps no order: use a FIFO queue with strategy ordered, or another strategy")
    key = found.get("KmsMasterKeyId", "alias/aws/sqs")
    if not key.endswith("alias/aws/sqs") and wanted["HasKey"] != "true":
        raise Refused(f"is encrypted with the key {key}: set existingSourceQueue.encryptionKey to it")
    run = f"aws sqs set-queue-attributes --queue-url {wanted['QueueUrl']} --attributes"
    if dlq(found) not in (None, dlq(wanted)):
        remedy = f"""if it is no longer needed, run {run} '{{"RedrivePolicy":""}}' and deploy again"""
        raise Refused(f"already has a redrive policy, to {dlq(found)}: {remedy}")
    # In a FIFO DLQ, a message's age restarts ("Setting-up dead-letter queue retention in Amazon SQS").
    if int(found["MessageRetentionPeriod"]) >= DLQ_RETENTION and not is_fifo:
        remedy = f"run {run} MessageRetentionPeriod={DLQ_RETENTION - DAY}, which deletes older messages, and deploy again"
        raise Refused(f"keeps messages as long as its DLQ does, where they keep their age: {remedy}")


def keep(wanted, ours):
    found = attributes_of(wanted)
    if changes := lacking(found, wanted, ours):
        print(json.dumps({"set": changes, "before": {name: found.get(name) for name in changes}}))
        patiently(lambda sqs: sqs.set_queue_attributes(QueueUrl=wanted["QueueUrl"], Attributes=changes))
        for _ in range(60):  # seconds that a change can take ("SetQueueAttributes")
            if not lacking(attributes_of(wanted), wanted, ours):
                return
            time.sleep(1)
        raise Refused(f"does not show the change of {', '.join(changes)} after a minute: deploy again")


def lacking(found, wanted, ours):
    """Returns attributes to set. Numbers are only raised: lower ones would delete or refuse messages, or deliver them twice."""
    names = ("VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize")
    changes = {name: wanted[name] for name in names if int(found[name]) < int(wanted[name])}
    if dlq(found) in {None} | ours and redrive(found) != redrive(wanted):
        changes["RedrivePolicy"] = wanted["RedrivePolicy"]
    return changes


def release(wanted):
    try:
        found = attributes_of(wanted)
    except boto3.client("sqs").exceptions.QueueDoesNotExist:
        return
    if dlq(found) == dlq(wanted):
        patiently(lambda sqs: sqs.set_queue_attributes(QueueUrl=wanted["QueueUrl"], Attributes={"RedrivePolicy": ""}))


def redrive(attributes):
    policy = json.loads(attributes.get("RedrivePolicy") or "{}")
    return policy.get("deadLetterTargetArn"), int(policy.get("maxReceiveCount", 0))


def dlq(attributes):
    return redrive(attributes)[0]


def attributes_of(wanted):
    return patiently(lambda sqs: sqs.get_queue_attributes(QueueUrl=wanted["QueueUrl"], AttributeNames=["All"])["Attributes"])


def patiently(call):
    sqs = boto3.client("sqs")
    for pause in (5, 10, 15, None):
        try:
            return call(sqs)
        except Exception as error:
            if pause is None or isinstance(error, sqs.exceptions.QueueDoesNotExist):
                raise
            time.sleep(pause)  # it takes some seconds until SQS knows the permissions of a new role
