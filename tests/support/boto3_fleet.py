"""Creates typical queues in two regions through boto3, which shares no code with redeliver.

Arguments: the two regions. The first has each possible problem once; the second has none.
"""

import io
import sys
import zipfile
from datetime import datetime, timedelta, timezone

import boto3

DAY = 24 * 60 * 60


class Region:
    def __init__(self, name):
        self.sqs, self.cloudwatch = boto3.client("sqs", name), boto3.client("cloudwatch", name)
        self.functions = boto3.client("lambda", name)

    def queue(self, name, dlq=None, days=4, messages=0):
        """Creates a queue and returns its ARN."""
        attributes = {"MessageRetentionPeriod": str(days * DAY)}
        if dlq:
            attributes["RedrivePolicy"] = f'{{"deadLetterTargetArn":"{dlq}","maxReceiveCount":"3"}}'
        url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for number in range(messages):
            self.sqs.send_message(QueueUrl=url, MessageBody=str(number))
        return self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    def delete(self, name):
        self.sqs.delete_queue(QueueUrl=self.sqs.get_queue_url(QueueName=name)["QueueUrl"])

    def age(self, queue, hours):
        self.cloudwatch.put_metric_data(
            Namespace="AWS/SQS",
            MetricData=[
                {
                    "MetricName": "ApproximateAgeOfOldestMessage",
                    "Dimensions": [{"Name": "QueueName", "Value": queue}],
                    "Timestamp": datetime.now(timezone.utc) - timedelta(minutes=3),
                    "Value": hours * 60 * 60,
                }
            ],
        )

    def alarm(self, name, queue):
        self.cloudwatch.put_metric_alarm(
            AlarmName=name,
            ComparisonOperator="GreaterThanThreshold",
            Threshold=0,
            EvaluationPeriods=1,
            Namespace="AWS/SQS",
            MetricName="ApproximateNumberOfMessagesVisible",
            Dimensions=[{"Name": "QueueName", "Value": queue}],
            Statistic="Maximum",
            Period=60,
        )

    def function(self, name, **others):
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as bundle:
            bundle.writestr("nothing.py", "def handler(event, context): pass")
        self.functions.create_function(
            FunctionName=name,
            Runtime="python3.12",
            Role="arn:aws:iam::000000000000:role/any",
            Handler="nothing.handler",
            Code={"ZipFile": code.getvalue()},
            **others,
        )

    def mapping(self, queue, function):
        self.functions.create_event_source_mapping(EventSourceArn=queue, FunctionName=function)


def main(wrong, well):
    here = Region(wrong)
    here.queue("healthy", here.queue("healthy-dlq", days=14, messages=2))
    here.alarm("healthy-alarm", "healthy-dlq")
    here.age("healthy-dlq", 1)
    here.queue("unwatched", here.queue("unwatched-dlq", days=14, messages=3))
    here.age("unwatched-dlq", 13.5 * 24)
    here.queue("orders", here.queue("orders-dlq", days=1), days=4)
    here.queue("bills", here.queue("bills-dlq"))
    here.delete("bills-dlq")
    here.queue("forgotten-dlq")
    here.function("mailer", DeadLetterConfig={"TargetArn": here.queue("failed-mails", days=14)})
    here.function("shop", Timeout=60)
    here.mapping(here.queue("unprotected"), "shop")

    there = Region(well)
    there.queue("healthy", there.queue("healthy-dlq", days=14))


main(*sys.argv[1:])
