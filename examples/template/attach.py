"""Attaches redeliver's layer to a Lambda function: python3 attach.py FUNCTION STACK

STACK is a deployment of redeliver's template for your own function, with ReadsQueue=false. If the function reads the
stack's queue through its own event source mapping, that mapping is deleted first, since Lambda accepts only one per
queue and function: messages wait until ReadsQueue=true.
"""

import json
import sys
import time

import boto3

WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
POLICY = "\nRETRY_POLICY="
# These settings, which are printed, are enough to recreate the mapping.
SETTINGS = ("EventSourceArn", "BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes", "FilterCriteria", "ScalingConfig")


def attach(function, stack):
    cloudformation = boto3.client("cloudformation")
    [deployed] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in deployed["Outputs"]}
    resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    found = boto3.client("lambda").get_function_configuration(FunctionName=function)
    if found["Timeout"] <= 10:
        sys.exit(f"{function} has a timeout of {found['Timeout']} s: it must be more than 10 s")
    delete_own_mapping(found["FunctionArn"], outputs["SourceQueueUrl"], {resource.get("PhysicalResourceId") for resource in resources})
    configure(found, outputs)


def delete_own_mapping(function, queue, ours):
    """The mapping may lack ReportBatchItemFailures, and would receive messages before the layer is attached."""
    attributes = boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    client = boto3.client("lambda")
    pages = client.get_paginator("list_event_source_mappings").paginate(EventSourceArn=attributes["QueueArn"])
    others = [mapping for page in pages for mapping in page["EventSourceMappings"] if mapping["UUID"] not in ours]
    for reader in (mapping["FunctionArn"] for mapping in others if mapping["FunctionArn"] != function):
        sys.exit(f"{reader} also reads the queue: delete its event source mapping, and run this again")
    for mapping in others:
        settings = {name: mapping[name] for name in SETTINGS if mapping.get(name)}
        print(f"deleting the event source mapping {mapping['UUID']}: {json.dumps(settings)}")
        client.delete_event_source_mapping(UUID=mapping["UUID"])
        while is_there(client, mapping["UUID"]):
            time.sleep(2)


def is_there(client, mapping):
    try:
        return bool(client.get_event_source_mapping(UUID=mapping))
    except client.exceptions.ResourceNotFoundException:
        return False


def configure(found, outputs):
    client = boto3.client("lambda")
    function = found["FunctionName"]
    # The policy is the last variable, and may have several lines.
    lines, _, policy = outputs["FunctionVariables"].partition(POLICY)
    wanted = dict(line.split("=", 1) for line in lines.split("\n")) | {"RETRY_POLICY": policy}
    variables = found.get("Environment", {}).get("Variables", {})
    if variables.get(WRAPPER, wanted[WRAPPER]) != wanted[WRAPPER]:
        variables["REDELIVER_NEXT_WRAPPER"] = variables[WRAPPER]
    layer = outputs["LayerArn"]
    of_another_version = layer.rpartition(":")[0] + ":"
    layers = [arn for arn in (other["Arn"] for other in found.get("Layers", [])) if not arn.startswith(of_another_version)]
    client.update_function_configuration(
        FunctionName=function, Layers=[*layers, layer], Environment={"Variables": variables | wanted}
    )
    client.get_waiter("function_updated_v2").wait(FunctionName=function)
    # Otherwise Lambda drops a message after about 16 retries.
    client.put_function_recursion_config(FunctionName=function, RecursiveLoop="Allow")
    print(f"{function} has the layer {layer} and {len(wanted)} variables")


if __name__ == "__main__":
    attach(*sys.argv[1:])
