"""What ministack lacks for a deployment: saved log queries, which nothing here asks for, and wrapper scripts.

Its functions in Python and Node.js run in workers of its own, which know no wrapper script (`AWS_LAMBDA_EXEC_WRAPPER`) and no /opt.

A function that has one is run by AWS's own runtime instead, started by the wrapper from its layer, as a `bootstrap` of an OS-only runtime.

It also hands a template's parameters on as text, where CloudFormation makes numbers of them: a mapping's concurrency becomes one here.

It sees no change in a parameter that only conditions of resources read: one is made up here, so that it looks again.

And it refuses an alarm on an expression of several metrics: such an alarm watches the first of them here.
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
# It is not set here, and AWS's runtime for Node.js wants it.
export AWS_LAMBDA_LOG_GROUP_NAME="/aws/lambda/$AWS_LAMBDA_FUNCTION_NAME"
cd "$LAMBDA_TASK_ROOT" && exec "$LAMBDA_TASK_ROOT$AWS_LAMBDA_EXEC_WRAPPER" {command} "$_HANDLER"
"""

without_wrapper = lambda_svc._execute_function_warm
of_numbers = lambda_svc._sqs_esm_concurrency
of_one_metric = provisioners._cw_metric_alarm_record
of_templates = changesets._diff_resources


def execute(func, event, request_id):
    config = func.get("config") or func
    if WRAPPER not in config.get("Environment", {}).get("Variables", {}):
        return without_wrapper(func, event, request_id)
    [command] = [command for family, command in COMMANDS.items() if config["Runtime"].startswith(family)]
    packed = {"config": config | {"Runtime": "provided.al2023"}, "code_zip": package(func["code_zip"], config["Layers"], command)}
    return lambda_svc._execute_function_provided_warm(packed, event, request_id)


def package(code, layers, command):
    """The function's code, what its layers have for /opt, and what starts both."""
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
    return of_numbers(mapping | {"ScalingConfig": scaling}, *others)


def alarm(name, properties):
    metrics = [metric["MetricStat"] for metric in properties.get("Metrics") or [] if "MetricStat" in metric]
    if metrics:
        named = {key: metrics[0]["Metric"].get(key) for key in ("MetricName", "Namespace", "Dimensions")}
        properties = {**properties, **named, "Period": metrics[0]["Period"], "Statistic": metrics[0]["Stat"], "Metrics": None}
    return of_one_metric(name, properties)


def changes(old, new, resources, template, changed_params, retag):
    found = of_templates(old, new, resources, template, changed_params, retag)
    conditional = [name for name, resource in new["Resources"].items() if "Condition" in resource]
    if found or not changed_params or not conditional:
        return found
    return [{"Type": "Resource", "ResourceChange": {"Action": "Modify", "LogicalResourceId": conditional[0]}}]


lambda_svc._execute_function_warm = execute
lambda_svc._sqs_esm_concurrency = concurrency
provisioners._cw_metric_alarm_record = alarm
changesets._diff_resources = changes
