"""Writes a value of a function's metric to CloudWatch through boto3, like the function's log lines.

boto3_metric.py FUNCTION METRIC VALUE
"""

import sys

import boto3

function, metric, value = sys.argv[1:]
datum = {"MetricName": metric, "Dimensions": [{"Name": "Function", "Value": function}], "Value": float(value)}
boto3.client("cloudwatch").put_metric_data(Namespace="Redeliver", MetricData=[datum])
