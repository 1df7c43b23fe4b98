import json

from charge import charge
from reason import reason


def handler(event, context):
    failures = []
    for record in event["Records"]:
        try:
            charge(json.loads(record["body"]))
        except Exception as error:
            failures.append({"itemIdentifier": record["messageId"], "error": reason(error)})
    return {"batchItemFailures": failures}
