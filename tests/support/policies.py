"""Compares the statements of policies with the actions, resources and condition keys that exist in IAM.

Standard input: a JSON object with statements by place. Standard output: a line for each finding, and then the numbers
of statements and actions checked. Arguments: templates and Markdown pages with more policies, in JSON or YAML.

The actions, the resources that each action supports, and the condition keys of resources are from the Service
Authorization Reference, which is part of cfn-lint. No package has the condition keys of requests: KEYS has the ones
used here.
"""

import importlib.util
import json
import os
import re
import sys

import yaml

# Without importing cfn-lint, which takes seconds.
[CFN_LINT] = importlib.util.find_spec("cfnlint").submodule_search_locations
with open(os.path.join(CFN_LINT, "data/AdditionalSpecs/Policies.json")) as file:
    SERVICES = json.load(file)
# Each key with its page in AWS's documentation, the actions with the key, and whether it is valid in resource policies.
KEYS = {
    "aws:PrincipalArn": ("AWS global condition context keys", "*", True),
    "aws:ResourceAccount": ("AWS global condition context keys", "*", True),
    "aws:SecureTransport": ("AWS global condition context keys", "*", True),
    "aws:SourceAccount": ("AWS global condition context keys", "*", True),
    "aws:SourceArn": ("AWS global condition context keys", "*", True),
    "events:detail-type": ("Using IAM policy conditions in Amazon EventBridge", "events:PutEvents", True),
    "events:source": ("Using IAM policy conditions in Amazon EventBridge", "events:PutEvents", True),
    "kms:EncryptionContext:aws:logs:arn": ("Encrypt log data in CloudWatch Logs using AWS KMS", "kms:*", True),
    "lambda:SourceFunctionArn": ("Using source function ARN to control function access behavior", "*", False),
    "s3:if-none-match": ("Enforce conditional writes on Amazon S3 buckets", "s3:PutObject", True),
}
# "IAM JSON policy elements: Condition operators"
TYPES = "String(Not)?(Equals|EqualsIgnoreCase|Like)|(Numeric|Date)(Not)?(Equals|(Less|Greater)Than(Equals)?)|Arn(Not)?(Equals|Like)"
OPERATOR = re.compile(rf"((ForAllValues|ForAnyValue):)?({TYPES}|Bool|BinaryEquals|(Not)?IpAddress)(IfExists)?|Null")


def findings(statement):
    """The elements of a statement that do not exist, or never apply."""
    actions = listed(statement.get("Action", statement.get("NotAction")))
    resources = listed(statement.get("Resource", "*"))
    for action in actions:
        service, _, name = action.lower().partition(":")
        known = SERVICES.get(service, {"Actions": {}})
        name_pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
        matching = [one for known_name, one in known["Actions"].items() if name_pattern.fullmatch(known_name)]
        if action != "*" and not matching:
            yield f"no action {action}"
        elif action != "*" and not any(applies(known, one, resource) for one in matching for resource in resources):
            yield f"{action} on an unsupported resource: {', '.join(resources)}"
    for conditions in alternatives(statement.get("Condition", {})):
        for operator, condition in conditions.items():
            if not OPERATOR.fullmatch(operator):
                yield f"no operator {operator}"
            for key in condition:
                yield from findings_of_key(operator, key, actions, "Principal" in statement)


def applies(service, action, resource):
    """Reports whether an action supports a resource, `*`, or a reference (not a string). Some actions support only `*`."""
    if resource == "*" or not isinstance(resource, str):
        return True
    formats = [arn for name in action.get("Resources", []) for arn in service["Resources"][name.lower()].get("ARNFormats", [])]
    return any(re.fullmatch(re.sub(r"\$\{\w+\}", "[^:]*", arn), resource) for arn in formats)


def findings_of_key(operator, key, actions, is_on_resource):
    # These operators allow actions without the key, so one action with the key is enough.
    enough = any if operator.startswith("ForAllValues:") or operator.endswith("IfExists") else all
    if not enough(has_key(action, key) for action in actions):
        yield f"{', '.join(actions)} without the key {key}, or KEYS lacks it"
    if is_on_resource and key in KEYS and not KEYS[key][2]:
        yield f"the key {key} in a resource's policy"


def has_key(action, key):
    if key in KEYS:
        _page, of, _ = KEYS[key]
        return action == of or of.endswith("*") and action.startswith(of[:-1])
    resources = SERVICES.get(action.lower().partition(":")[0], {"Resources": {}})["Resources"]
    return any(key in resource.get("ConditionKeys", []) for resource in resources.values())


def alternatives(value):
    """Both cases of a condition that depends on a template's parameter."""
    cases = value["Fn::If"][1:] if "Fn::If" in value else [value]
    return [case for case in cases if "Ref" not in case]


def listed(value):
    return value if isinstance(value, list) else [value]


def statements(place, value):
    """The statements anywhere in a document. A CloudFormation stack policy has other actions and is skipped."""
    if isinstance(value, dict):
        actions = listed(value.get("Action", value.get("NotAction")))
        if "Effect" in value and not any(str(action).startswith("Update:") for action in actions):
            yield place, value
        for name, one in value.items():
            yield from statements(f"{place}/{name}", one)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from statements(f"{place}/{index}", one)


class Loader(yaml.SafeLoader):
    """Treats the short forms of CloudFormation's functions as references."""


Loader.add_multi_constructor("!", lambda loader, tag, node: {tag: None})


def documents(path):
    text = open(path).read()
    if not path.endswith(".md"):
        return [yaml.load(text, Loader)]
    blocks = re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [json.loads(block) for block in blocks if '"Effect"' in block]


def main():
    found = list(statements("", json.load(sys.stdin)))
    for path in sys.argv[1:]:
        found += statements(path, documents(path))
    for place, statement in found:
        for finding in findings(statement):
            print(f"{place}: {finding}")
    actions = {action for _, statement in found for action in listed(statement.get("Action", statement.get("NotAction")))}
    print(f"{len(found)} statements, {len(actions)} actions")


if __name__ == "__main__":
    main()
