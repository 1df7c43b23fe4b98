"""Adds features to ministack that a deployment needs: wrapper scripts, and saved log queries (accepted and ignored).

- ministack runs functions in Python and Node.js in its own workers, without wrapper scripts (`AWS_LAMBDA_EXEC_WRAPPER`)
  and without /opt. A function with a wrapper script is run by AWS's own runtime instead, started by the wrapper from
  its layer, as the `bootstrap` of an OS-only runtime.
- It passes a template's parameters on as strings, where CloudFormation converts them to numbers: a mapping's
  concurrency is converted here.
- It detects no change in a parameter that only the conditions of resources use: a change is added here.
- It refuses an alarm on an expression of several metrics: here such an alarm uses the first metric.
"""

import io
import os
import zipfile

from ministack.services import lambda_svc
from ministack.services.cloudformation import changesets, provisioners

provisioners._RESOURCE_HANDLERS["AWS::Logs::QueryDefinition"] = {
    "create": lambda logical_id, _properties, stack: (f"{stack}-{logical_id}", {}),
    "delete": lambda _physical_id, _properties: None,
}

COMMANDS = {
    "python": "python3 -B -m awslambdaric",
    "nodejs": f"node {os.environ['RUNTIMES']}/node_modules/aws-lambda-ric/index.mjs",
}
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
START = """#!/bin/sh
# AWS's runtime for Node.js requires this variable, which ministack does not set.
export AWS_LAMBDA_LOG_GROUP_NAME="/aws/lambda/$AWS_LAMBDA_FUNCTION_NAME"
cd "$LAMBDA_TASK_ROOT" && exec "$LAMBDA_TASK_ROOT$AWS_LAMBDA_EXEC_WRAPPER" {command} "$_HANDLER"
"""

without_wrapper = lambda_svc._execute_function_warm
original_concurrency = lambda_svc._sqs_esm_concurrency
original_alarm = provisioners._cw_metric_alarm_record
original_changes = changesets._diff_resources


def execute(func, event, request_id):
    config = func.get("config") or func
    if WRAPPER not in config.get("Environment", {}).get("Variables", {}):
        return without_wrapper(func, event, request_id)
    [command] = [command for family, command in COMMANDS.items() if config["Runtime"].startswith(family)]
    packed = {"config": config | {"Runtime": "provided.al2023"}, "code_zip": package(func["code_zip"], config["Layers"], command)}
    return lambda_svc._execute_function_provided_warm(packed, event, request_id)


def package(code, layers, command):
    """Returns a package with the function's code, the /opt files of its layers, and a `bootstrap` that starts both."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        copy(code, package, "")
        for layer in layers:
            copy(lambda_svc._resolve_layer_zip(layer), package, "opt/")
        package.writestr(zipfile.ZipInfo("bootstrap"), START.format(command=command))
    return packed.getvalue()


def copy(source, package, folder):
    with zipfile.ZipFile(io.BytesIO(source)) as files:
        for file in files.infolist():
            content = files.read(file)
            file.filename = folder + file.filename
            package.writestr(file, content)


def concurrency(mapping, *others):
    scaling = {name: int(limit) for name, limit in (mapping.get("ScalingConfig") or {}).items()}
    return original_concurrency(mapping | {"ScalingConfig": scaling}, *others)


def alarm(name, properties):
    metrics = [metric["MetricStat"] for metric in properties.get("Metrics") or [] if "MetricStat" in metric]
    if metrics:
        named = {key: metrics[0]["Metric"].get(key) for key in ("MetricName", "Namespace", "Dimensions")}
        properties = {**properties, **named, "Period": metrics[0]["Period"], "Statistic": metrics[0]["Stat"], "Metrics": None}
    return original_alarm(name, properties)


def changes(old, new, resources, template, changed_params, retag):
    found = original_changes(old, new, resources, template, changed_params, retag)
    conditional = [name for name, resource in new["Resources"].items() if "Condition" in resource]
    if found or not changed_params or not conditional:
        return found
    return [{"Type": "Resource", "ResourceChange": {"Action": "Modify", "LogicalResourceId": conditional[0]}}]


lambda_svc._execute_function_warm = execute
lambda_svc._sqs_esm_concurrency = concurrency
provisioners._cw_metric_alarm_record = alarm
changesets._diff_resources = changes
