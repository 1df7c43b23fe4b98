"""A team's resources before it uses redeliver, through boto3.

prepare NAME RUNTIME HANDLER PACKAGE   creates a queue, and a function of the same name with a mapping on it; prints the
                                       queue's URL and ARN and the id of the function's role
bucket NAME                            creates a bucket
mappings FUNCTION                      prints the state and the queue of each of the function's mappings
"""

import io
import json
import pathlib
import sys
import zipfile

import boto3


def prepare(name, runtime, handler, package):
    role = boto3.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument="{}")["Role"]
    client = boto3.client("lambda")
    client.create_function(
        FunctionName=name,
        Role=role["Arn"],
        Runtime=runtime,
        Handler=handler,
        Code={"ZipFile": zipped(pathlib.Path(package))},
        Timeout=60,
        Environment={"Variables": {"POWERTOOLS_SERVICE_NAME": name}},
    )
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "360"})["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    client.create_event_source_mapping(EventSourceArn=arn, FunctionName=name, FunctionResponseTypes=["ReportBatchItemFailures"])
    print(json.dumps({"url": url, "arn": arn, "role_id": role["RoleId"]}))


def zipped(folder):
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        for file in folder.rglob("*"):
            archive.write(file, file.relative_to(folder))
    return code.getvalue()


def bucket(name):
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})


def mappings(function):
    for mapping in boto3.client("lambda").list_event_source_mappings(FunctionName=function)["EventSourceMappings"]:
        print(mapping["State"], mapping["EventSourceArn"].rsplit(":", 1)[1])


ACTIONS = {"prepare": prepare, "bucket": bucket, "mappings": mappings}

if __name__ == "__main__":
    action, *arguments = sys.argv[1:]
    ACTIONS[action](*arguments)
