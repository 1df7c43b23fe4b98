"""Acts as existing producers, through boto3, which shares no code with redeliver.

event DETAIL                    puts an event on EventBridge's default bus, and prints its id
publish TOPIC ORDER_ID BODY     publishes to SNS with the attribute order-id, and prints SNS's message id
upload BUCKET KEY               puts an object into a bucket
"""

import sys

import boto3


def event(detail):
    entry = {"Source": "shop", "DetailType": "OrderPlaced", "Detail": detail}
    print(boto3.client("events").put_events(Entries=[entry])["Entries"][0]["EventId"])


def publish(topic, order_id, body):
    attributes = {"order-id": {"DataType": "String", "StringValue": order_id}}
    answer = boto3.client("sns").publish(TopicArn=topic, Message=body, MessageAttributes=attributes)
    print(answer["MessageId"])


def upload(bucket, key):
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=b"%PDF-")


ACTIONS = {"event": event, "publish": publish, "upload": upload}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](*sys.argv[2:])
