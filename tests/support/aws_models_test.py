"""Tests of aws_models.py: requests written by boto3 pass, and a planted fault is found with its place.

boto3 uses the same models but shares no code with aws_models.py: the one writes requests, and the other parses them.
"""

import datetime
import json
import unittest

import boto3
import cbor2
from botocore.config import Config

from aws_models import Request, validate

AGENT = "aws-sdk-rust/1.3.10 ua/2.1 api/{} os/linux lang/rust/1.94.1"
QUEUE = "https://sqs.eu-west-1.amazonaws.com/111111111111/orders"
FUNCTION = "arn:aws:lambda:eu-west-1:111111111111:function:orders"
WHEN = datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)


class Sent(Exception):
    pass


def sent(service, operation, edit=lambda body: body, agent=None, **parameters):
    """The request that boto3 would send, with the user agent of redeliver's SDK. boto3's own validation is off."""
    client = boto3.client(
        {"eventbridge": "events"}.get(service, service),
        "eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(parameter_validation=False, s3={"addressing_style": "path"}),
    )

    def keep(request, **_):
        raise Sent(request)

    client.meta.events.register("before-send", keep)
    try:
        getattr(client, operation)(**parameters)
    except Sent as kept:
        [request] = kept.args
    target = "/" + request.url.split("/", 3)[3]
    headers = {name: text.decode() if isinstance(text, bytes) else text for name, text in request.headers.items()}
    headers["User-Agent"] = agent or AGENT.format(f"{service}/1.2.3")
    body = request.body or b""
    body = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else body.read()
    return Request(request.method, target, headers.items(), edit(body))


def in_json(change):
    def edit(body):
        document = json.loads(body)
        change(document)
        return json.dumps(document).encode()

    return edit


def in_cbor(change):
    def edit(body):
        document = cbor2.loads(body)
        change(document)
        return cbor2.dumps(document)

    return edit


def send_batch(entry=None, **parameters):
    entry = {"Id": "0", "MessageBody": "{}", "DelaySeconds": 900} | (entry or {})
    return sent("sqs", "send_message_batch", QueueUrl=QUEUE, Entries=[entry], **parameters)


def metric(**parameters):
    stat = {"Metric": {"Namespace": "AWS/SQS", "MetricName": "Age"}, "Period": 60, "Stat": "Maximum"}
    query = {"Id": "age", "MetricStat": stat, "ReturnData": True}
    request = {"MetricDataQueries": [query], "StartTime": WHEN, "EndTime": WHEN}
    return sent("cloudwatch", "get_metric_data", **(request | parameters))


def subscribers(edit=lambda body: body):
    return sent("eventbridgev2", "list_subscribers", edit, MaxResults=100)


def invoke(edit=lambda body: body, **parameters):
    request = {"FunctionName": FUNCTION, "InvocationType": "RequestResponse", "Payload": b"{}"}
    return sent("lambda", "invoke", edit, **(request | parameters))


def mapping(edit=lambda body: body, **parameters):
    uuid = "0191f3a2-7b1c-7d3e-8f00-000000000001"
    return sent("lambda", "update_event_source_mapping", edit, **({"UUID": uuid, "Enabled": False} | parameters))


def event(**entry):
    entry = {"Source": "redeliver", "DetailType": "notice", "Detail": "{}", "EventBusName": "default"} | entry
    return sent("eventbridge", "put_events", Entries=[entry])


def put_object(**parameters):
    request = {"Bucket": "letters", "Key": "2026/11/a b.json", "Body": b"{}", "IfNoneMatch": "*"}
    return sent("s3", "put_object", **(request | parameters))


def publish(edit=lambda body: body, **parameters):
    attribute = {"kind": {"DataType": "String", "StringValue": "notice"}}
    request = {"TopicArn": "arn:aws:sns:eu-west-1:111111111111:notices", "Message": "x", "MessageAttributes": attribute}
    return sent("sns", "publish", edit, **(request | parameters))


class RequestValidation(unittest.TestCase):
    def assert_validated(self, request, service, operation, findings):
        self.assertEqual(validate(request), (service, operation, findings))

    def test_requests_written_by_boto3_have_no_findings(self):
        for request, service, operation in [
            (send_batch(), "sqs", "SendMessageBatch"),
            (metric(), "cloudwatch", "GetMetricData"),
            (subscribers(), "eventbridgev2", "ListSubscribers"),
            (invoke(LogType="Tail", TenantId="a"), "lambda", "Invoke"),
            (mapping(ScalingConfig={"MaximumConcurrency": 2}), "lambda", "UpdateEventSourceMapping"),
            (sent("lambda", "list_event_source_mappings", MaxItems=100), "lambda", "ListEventSourceMappings"),
            (sent("lambda", "get_account_settings"), "lambda", "GetAccountSettings"),
            (event(Time=WHEN), "eventbridge", "PutEvents"),
            (put_object(Metadata={"cause": "x"}), "s3", "PutObject"),
            (sent("s3", "get_object", Bucket="letters", Key="a"), "s3", "GetObject"),
            (sent("s3", "list_objects_v2", Bucket="letters", Prefix="2026/", MaxKeys=7), "s3", "ListObjectsV2"),
            (publish(), "sns", "Publish"),
            (sent("sts", "get_caller_identity"), "sts", "GetCallerIdentity"),
            (sent("cloudformation", "describe_stacks", StackName="orders"), "cloudformation", "DescribeStacks"),
            (sent("secretsmanager", "get_secret_value", SecretId="headers"), "secretsmanager", "GetSecretValue"),
        ]:
            with self.subTest(service=service, operation=operation):
                self.assert_validated(request, service, operation, [])

    def test_an_unknown_member_is_found_in_every_protocol(self):
        unknown = "unknown member"
        request = send_batch(edit=in_json(lambda body: body["Entries"][0].update(Delay=1)))
        self.assert_validated(request, "sqs", "SendMessageBatch", [(".Entries[0].Delay", unknown)])
        request = subscribers(edit=in_cbor(lambda body: body.update(Color="red")))
        self.assert_validated(request, "eventbridgev2", "ListSubscribers", [(".Color", unknown)])
        request = mapping(in_json(lambda body: body.update(Paused=True)))
        self.assert_validated(request, "lambda", "UpdateEventSourceMapping", [(".Paused", unknown)])
        request = publish(lambda body: body + b"&Topic=x")
        self.assert_validated(request, "sns", "Publish", [(".Topic", unknown)])
        request = put_object()
        request.query["acls"] = [""]
        request.headers["x-amz-color"] = "red"
        found = [("?acls", "unknown query parameter"), ("x-amz-color", "unknown header")]
        self.assert_validated(request, "s3", "PutObject", found)

    def test_a_missing_member_is_found(self):
        request = send_batch(edit=in_json(lambda body: body["Entries"][0].pop("MessageBody")))
        self.assert_validated(request, "sqs", "SendMessageBatch", [(".Entries[0].MessageBody", "required")])
        request = sent("eventbridgev2", "describe_subscriber")
        self.assert_validated(request, "eventbridgev2", "DescribeSubscriber", [(".SubscriberArn", "required")])

    def test_a_wrong_type_is_found(self):
        request = send_batch({"DelaySeconds": "900"})
        self.assert_validated(request, "sqs", "SendMessageBatch", [(".Entries[0].DelaySeconds", "str instead of integer")])
        request = send_batch({"DelaySeconds": True})
        self.assert_validated(request, "sqs", "SendMessageBatch", [(".Entries[0].DelaySeconds", "bool instead of integer")])
        request = mapping(in_json(lambda body: body.update(Enabled="false")))
        self.assert_validated(request, "lambda", "UpdateEventSourceMapping", [(".Enabled", "str instead of boolean")])
        request = sent("lambda", "list_event_source_mappings", MaxItems="many")
        self.assert_validated(request, "lambda", "ListEventSourceMappings", [(".MaxItems", "str instead of integer")])

    def test_lengths_and_ranges_are_enforced(self):
        request = sent("secretsmanager", "get_secret_value", SecretId="x" * 2049)
        self.assert_validated(request, "secretsmanager", "GetSecretValue", [(".SecretId", "has length 2049, more than 2048")])
        request = mapping(ScalingConfig={"MaximumConcurrency": 1})
        self.assert_validated(
            request, "lambda", "UpdateEventSourceMapping", [(".ScalingConfig.MaximumConcurrency", "is 1, less than 2")]
        )
        request = sent("eventbridge", "put_events", Entries=[])
        self.assert_validated(request, "eventbridge", "PutEvents", [(".Entries", "has length 0, less than 1")])

    def test_an_invalid_enum_value_is_found(self):
        request = invoke(InvocationType="Later")
        self.assert_validated(request, "lambda", "Invoke", [(".InvocationType", "not in the enum InvocationType")])
        request = sent("sqs", "get_queue_attributes", QueueUrl=QUEUE, AttributeNames=["QueueArn", "Age"])
        self.assert_validated(
            request, "sqs", "GetQueueAttributes", [(".AttributeNames[1]", "not in the enum QueueAttributeName")]
        )

    def test_a_partial_match_of_a_pattern_is_found(self):
        [(path, rule)] = validate(invoke(TenantId="a#b"))[2]
        self.assertEqual((path, rule.partition(" [")[0]), (".TenantId", "does not match the pattern"))

    def test_requests_outside_the_model_are_found(self):
        request = send_batch()
        request.headers["x-amz-target"] = "AmazonSQS.SendMessages"
        self.assert_validated(request, "sqs", "unknown", [("", "unknown operation")])
        request = send_batch(edit=lambda body: body[:-1])
        self.assert_validated(request, "sqs", "unknown", [("", "unreadable body: JSONDecodeError")])
        request = invoke()
        request.path += "/later"
        self.assert_validated(request, "lambda", "unknown", [("", "no operation matches the method and path")])

    def test_requests_of_other_clients_are_ignored(self):
        for agent in ["Boto3/1.43.106 md/Botocore#1.43.106", AGENT.format("sqs/1.2.3") + " app/redeliver-tests"]:
            self.assertIsNone(validate(send_batch({"DelaySeconds": "900"}, agent=agent)))


unittest.main()
