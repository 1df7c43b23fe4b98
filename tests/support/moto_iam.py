"""Runs moto with IAM enforced as AWS documents it. Arguments: address, port. Runs until its standard input ends.

moto provides SQS and the other services, users, keys, signatures and stored policies. This script determines the
actions that a request needs and whether they are allowed, because moto's own decisions (each tried with 5.2.5) differ
from AWS's:

- SendMessageBatch needs sqs:SendMessage; moto requires sqs:SendMessageBatch, which does not exist ("Actions, resources,
  and condition keys", Service Authorization Reference).
- Except for SQS and IAM, moto treats every request as one on the resource "*"; it does the same for GetQueueUrl of SQS.
- It treats patterns as regular expressions: an ARN that ends with :$LATEST never matches.
- It ignores a queue's key. Senders need kms:GenerateDataKey and kms:Decrypt, and receivers need kms:Decrypt ("Key
  management", Amazon SQS Developer Guide).
- It ignores a queue's own policy. Here its denials are enforced.
- A deny statement applies even if its condition does not hold.
- It checks the signature of a form that it has re-encoded, with + for a space; the SDK writes %20.
- S3 answers 404 for a missing object to everyone who may read it; AWS does so only for those who may also list the
  bucket ("GetObject", Amazon S3 API Reference).

Not implemented here, either: key policies, grants, permission boundaries, session and service control policies.

A request with the header x-moto-account-id is the test's own and has full access. Each decision on another request is a
line of JSON on standard output, written before the answer, and so is each invocation of a function. A user has the name
of its role, so that it matches that role in conditions, and its path is the function's name, for the key
lambda:SourceFunctionArn. The user for Lambda itself with the role is ROLE@lambda. It has no path, so its requests lack
that key.
"""

import functools
import json
import os
import re
import sys
import threading
import urllib.parse

from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.authorization import ActionAuthenticatorMixin
from moto.core.exceptions import AccessDeniedError
from moto.iam import access_control, models
from moto.s3.exceptions import S3AccessDeniedError
from moto.s3.models import s3_backends
from moto.sqs.models import Message, sqs_backends
from werkzeug.serving import run_simple

from aws_models import validating_wsgi

KEY_ACTIONS = {"SendMessage": ["kms:GenerateDataKey", "kms:Decrypt"], "ReceiveMessage": ["kms:Decrypt"]}
WRITING = threading.Lock()
ACCOUNT_OF = models.get_account_id_from


def needed(service, operation, path, body, data, resource, account, region):
    """The actions that a request needs, each with its resource."""
    if service == "sqs":
        action = operation.removesuffix("Batch")
        if action == "GetQueueUrl":
            resource = f"arn:aws:sqs:{region}:{account}:{json.loads(body)['QueueName']}"
        yield f"sqs:{action}", resource
        key = queue_attribute(resource, account, region, "kms_master_key_id")
        for key_action in KEY_ACTIONS.get(action, []) if key else []:
            yield key_action, key
    elif service == "secretsmanager":
        yield f"secretsmanager:{operation}", json.loads(body)["SecretId"]
    elif service == "s3":
        yield f"s3:{operation}", resource
        bucket, _, key = resource.rpartition(":")[2].partition("/")
        if operation == "GetObject" and not s3_backends[account]["aws"].get_object(bucket, key):
            yield "s3:ListBucket", f"arn:aws:s3:::{bucket}"
    elif service == "sns":
        yield f"sns:{operation}", data["TopicArn"][0]
    elif service == "events":
        for entry in json.loads(body)["Entries"]:
            yield f"events:{operation}", entry["EventBusName"]
    elif service == "lambda":
        yield "lambda:InvokeFunction", urllib.parse.unquote(path.split("/")[-2])
    elif service == "logs":
        request = json.loads(body)
        group = f"arn:aws:logs:{region}:{account}:log-group:{request['logGroupName']}"
        yield f"logs:{operation}", f"{group}:log-stream:{request['logStreamName']}"
    elif service == "xray":
        yield f"xray:Put{operation}", resource
    else:
        yield f"{service}:{operation}", resource


def queue_attribute(arn, account, region, name):
    queue = sqs_backends[account][region].queues.get(arn.rsplit(":", 1)[-1])
    return getattr(queue, name, None)


def is_allowed(statements, denials, action, resource, context):
    def names(statement):
        return (
            matches(statement["Action"], action)
            and matches(statement["Resource"], resource)
            and all(holds(*condition, context) for condition in statement.get("Condition", {}).items())
        )

    if any(names(statement) for statement in statements + denials if statement["Effect"] == "Deny"):
        return False
    return any(names(statement) for statement in statements if statement["Effect"] == "Allow")


def matches(patterns, text):
    patterns = patterns if isinstance(patterns, list) else [patterns]
    return any(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) for pattern in patterns)


def holds(operator, expected, context):
    """As in "IAM JSON policy elements: Condition operators"; an operator that no template uses is an error."""
    for key, values in expected.items():
        values = values if isinstance(values, list) else [values]
        is_one = context.get(key) in values
        is_each = is_one or key not in context
        by_operator = {
            "ArnEquals": is_one,
            "ArnNotEquals": not is_one,
            "Bool": is_one,
            "ForAllValues:StringEquals": is_each,
        }
        if not by_operator[operator]:
            return False
    return True


class Denied(AccessDeniedError):
    """A refusal in JSON, as the JSON services of AWS respond; moto always responds in XML."""

    def __init__(self, user_arn, action):
        super().__init__(user_arn=user_arn, action=action)
        is_key = action.startswith("kms:")
        self.code = 400 if is_key else 403
        code = "KmsAccessDenied" if is_key else "AccessDeniedException"
        message = f"User: {user_arn} is not authorized to perform: {action}"
        self.description = json.dumps({"__type": code, "message": message})


class EnforcedRequest(access_control.IAMRequest):
    def _create_auth(self, credentials):
        kind = access_control.S3IAMRequest if self._service == "s3" else access_control.IAMRequest
        return kind._create_auth(self, credentials)

    def check_signature(self):
        if self._service == "sns":
            self._body = urllib.parse.urlencode(self._data, doseq=True, quote_via=urllib.parse.quote).encode()
        super().check_signature()

    def check_action_permitted(self, resource):
        user = self._access_key.arn.rsplit("/", 1)[-1]
        account, region = self.account_id, self._region
        role = f"arn:aws:iam::{account}:role/{user.partition('@')[0]}"
        context = {"aws:PrincipalArn": role, "aws:SecureTransport": "true"}
        function = self._access_key.backend.get_user(user).path.strip("/")
        if function:
            context["lambda:SourceFunctionArn"] = f"arn:aws:lambda:{region}:{account}:function:{function}"
        if self._service == "events":
            [entry] = json.loads(self._body)["Entries"]
            context |= {"events:source": entry["Source"], "events:detail-type": entry["DetailType"]}
        policies = [json.loads(policy["policy_document"]) for policy in self._access_key.collect_policies()]
        statements = [statement for policy in policies for statement in policy["Statement"]]
        operation = self._action.split(":")[1]
        path = self._path.split("?")[0]
        request = (path, self._body, self._data)
        for action, on in needed(self._service, operation, *request, resource, account, region):
            policy = self._service == "sqs" and queue_attribute(on, account, region, "policy")
            denials = json.loads(policy)["Statement"] if policy and action.startswith("sqs:") else []
            allowed = is_allowed(statements, denials, action, on, context)
            report({"account": account, "user": user, "action": action, "resource": on, "allowed": allowed})
            if not allowed and self._service == "s3":
                raise S3AccessDeniedError()
            if not allowed:
                error = AccessDeniedError if self._service in ("ec2", "sns") else Denied
                raise error(user_arn=self._access_key.arn, action=action)


def report(line):
    with WRITING:
        print(json.dumps(line), flush=True)


def authorize(self, _moto_class, resource="*", check=ActionAuthenticatorMixin._authenticate_and_authorize_action):
    if "x-moto-account-id" not in self.headers:
        check(self, EnforcedRequest, resource)


def invoke(self, name, _qualifier, body, _headers, response_headers):
    """A function that fails for the first `data.fails` attempts of a message."""
    event = json.loads(body)
    fails = event.get("metadata", {}).get("retry_attempt", 0) < event.get("data", {}).get("fails", 0)
    report({"account": self.account_id, "function": name, "payload": event, "fails": fails})
    if not fails:
        return b"null"
    response_headers["x-amz-function-error"] = "Unhandled"
    return b'{"errorType": "Down", "errorMessage": "down"}'


def delay(self, delay_seconds, hide=Message.delay):
    """Time does not matter here: delays of 900 s (hops) and of one second are kept, and all others are dropped."""
    hide(self, delay_seconds if delay_seconds in (1, 900) else 0)


@functools.cache
def account_of(access_key):
    """Caches the account: moto searches all accounts at each request. A key is never looked up before it exists."""
    return ACCOUNT_OF(access_key)


def main():
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    models.get_account_id_from = account_of
    ActionAuthenticatorMixin._authenticate_and_authorize_action = authorize
    LambdaSimpleBackend.invoke = invoke
    Message.delay = delay

    from moto.core.config import default_user_config
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

    default_user_config["lambda"] = {"use_docker": False}
    application = validating_wsgi(DomainDispatcherApplication(create_backend_app))
    run_simple(sys.argv[1], int(sys.argv[2]), application, threaded=True, request_handler=MotoRequestHandler)


main()
