"""Creates a deployment's other resources for the console's pages: a function that reads the source queue, an active
alarm, and an hour of SQS metrics. `deployment.py ENDPOINT REGION NAME`"""

import datetime
import io
import sys
import zipfile

import boto3

endpoint, region, name = sys.argv[1:]
session = boto3.session.Session("test", "test", region_name=region)
packed = io.BytesIO()
with zipfile.ZipFile(packed, "w") as archive:
    archive.writestr("handler.py", "def handler(event, context):\n    return {}\n")
functions = session.client("lambda", endpoint_url=endpoint)
functions.create_function(
    FunctionName=f"{name}-message-processor",
    Runtime="python3.13",
    Role="arn:aws:iam::000000000000:role/nobody",
    Handler="handler.handler",
    Code={"ZipFile": packed.getvalue()},
)
functions.create_event_source_mapping(
    FunctionName=f"{name}-message-processor",
    EventSourceArn=f"arn:aws:sqs:{region}:000000000000:{name}-source",
)
metrics = session.client("cloudwatch", endpoint_url=endpoint)
metrics.put_metric_alarm(
    AlarmName=f"{name}-dead-letters",
    Namespace="AWS/SQS",
    MetricName="ApproximateNumberOfMessagesVisible",
    Dimensions=[{"Name": "QueueName", "Value": f"{name}-final-dlq"}],
    Period=60,
    EvaluationPeriods=1,
    Threshold=0,
    ComparisonOperator="GreaterThanThreshold",
    Statistic="Maximum",
)
metrics.set_alarm_state(AlarmName=f"{name}-dead-letters", StateValue="ALARM", StateReason="dead letters")
now = datetime.datetime.now(datetime.timezone.utc)
for queue, scale in [("source", 20), ("intermediate-dlq", 2), ("annotation", 1), ("final-dlq", 1)]:
    dimensions = [{"Name": "QueueName", "Value": f"{name}-{queue}"}]
    for point in range(12):
        at = now - datetime.timedelta(minutes=5 * point)
        values = {
            "NumberOfMessagesSent": scale * (10 + 7 * point % 9),
            "NumberOfMessagesDeleted": scale * (9 + 5 * point % 7),
            "ApproximateAgeOfOldestMessage": 60 * scale,
        }
        data = [
            {"MetricName": metric, "Dimensions": dimensions, "Timestamp": at, "Value": value}
            for metric, value in values.items()
        ]
        metrics.put_metric_data(Namespace="AWS/SQS", MetricData=data)
