"""Tells CloudWatch a value of a function's metric through boto3, as the function's log lines do.

boto3_metric.py FUNCTION METRIC VALUE
"""

import sys

import boto3

function, metric, value = sys.argv[1:]
datum = {"MetricName": metric, "Dimensions": [{"Name": "Function", "Value": function}], "Value": float(value)}
boto3.client("cloudwatch").put_metric_data(Namespace="Redeliver", MetricData=[datum])
