"""Checks, at deployment, the attributes of a source queue that the stack does not own and so cannot set."""

import json
import shlex
import time
import urllib.request

import boto3

DAY = 86_400
DLQ_RETENTION = 14 * DAY


def handler(event, _context):
    try:
        problem = None if event["RequestType"] == "Delete" else check(event["ResourceProperties"])
    except Exception as error:  # whatever it is, CloudFormation must get an answer, or it waits in vain
        problem = f"The attributes of the source queue could not be read: {error}."
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer["PhysicalResourceId"] = event.get("PhysicalResourceId", event["LogicalResourceId"])
    answer.update({"Status": "FAILED", "Reason": problem} if problem else {"Status": "SUCCESS"})
    body = json.dumps(answer).encode()
    request = urllib.request.Request(event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request, timeout=30).close()


def attributes_of(url):
    for pause in (5, 10, 15, None):
        try:
            return boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        except Exception:
            if pause is None:
                raise
            time.sleep(pause)  # the permissions of a new role take some seconds to reach SQS


def check(wanted):
    """None, or one sentence that says what is missing and how to set it."""
    url = wanted["QueueUrl"]
    found = attributes_of(url)
    if found.get("FifoQueue") == "true":
        return f"The source queue {url} is a FIFO queue, which cannot delay single messages: use a standard queue."
    redrive = json.loads(found.get("RedrivePolicy", "{}"))
    required = json.loads(wanted["Attributes"])
    required_redrive = json.loads(required["RedrivePolicy"])
    missing = []
    if redrive.get("deadLetterTargetArn") != required_redrive["deadLetterTargetArn"]:
        missing.append("RedrivePolicy")
    elif int(redrive.get("maxReceiveCount", 0)) != required_redrive["maxReceiveCount"]:
        missing.append("RedrivePolicy")
    if int(found["VisibilityTimeout"]) < int(required["VisibilityTimeout"]):
        missing.append("VisibilityTimeout")
    # Shorter than required: alarms would come too late. As long as the DLQ's: a moved message would outlive it.
    retention = int(found["MessageRetentionPeriod"])
    if retention < int(required["MessageRetentionPeriod"]):
        missing.append("MessageRetentionPeriod")
    elif retention >= DLQ_RETENTION:
        required["MessageRetentionPeriod"] = str(DLQ_RETENTION - DAY)  # shortening deletes what is older: no more than needed
        missing.append("MessageRetentionPeriod")
    if int(found["MaximumMessageSize"]) != int(required["MaximumMessageSize"]):
        missing.append("MaximumMessageSize")
    if not missing:
        key = found.get("KmsMasterKeyId", "")
        if key and not key.endswith("alias/aws/sqs") and wanted.get("HasKey") != "true":
            return f"The source queue {url} is encrypted with the key {key}: give it as existingSourceQueue.encryptionKey."
        return None
    attributes = shlex.quote(json.dumps({name: required[name] for name in missing}))
    command = f"aws sqs set-queue-attributes --queue-url {url} --attributes {attributes}"
    return f"The source queue {url} lacks what redeliver needs of {' and '.join(missing)}: run {command} and deploy again."
