"""Tests of policies.py with faults planted in statements."""

import unittest

from policies import findings, statements

QUEUE = "arn:aws:sqs:eu-west-1:111111111111:orders"
BUS = "arn:aws:events:eu-west-1:111111111111:event-bus/default"


class Statements(unittest.TestCase):
    def assert_found(self, expected, **members):
        statement = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": QUEUE}
        self.assertEqual(list(findings(statement | members)), expected)

    def test_valid_statements_have_no_findings(self):
        self.assert_found([])
        self.assert_found([], Action=["sqs:ListQueues", "lambda:ListFunctions"], Resource="*")
        self.assert_found([], Action="kms:Decrypt*", Resource={"Ref": "Key"})
        self.assert_found([], Condition={"ArnEquals": {"lambda:SourceFunctionArn": "arn"}})
        key = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": "alias/orders"}}
        self.assert_found([], Action="kms:Decrypt", Resource="arn:aws:kms:eu-west-1:111111111111:key/*", Condition=key)
        source = {"ForAllValues:StringEquals": {"events:source": "redeliver"}}
        self.assert_found([], Action=["events:PutEvents", "sns:Publish"], Resource={"Ref": "Topic"}, Condition=source)

    def test_an_unknown_action_is_found(self):
        self.assert_found(["no action sqs:SendMessageBatch"], Action="sqs:SendMessageBatch")
        self.assert_found(["no action lambda:Invoke"], Action=["lambda:Invoke"], Resource="*")
        self.assert_found(["no action queues:*"], Action="queues:*")

    def test_an_unsupported_resource_is_found(self):
        self.assert_found([f"sqs:ListQueues on an unsupported resource: {QUEUE}"], Action="sqs:ListQueues")
        self.assert_found([f"sqs:SendMessage on an unsupported resource: {BUS}"], Resource=BUS)

    def test_unknown_keys_and_operators_are_found(self):
        self.assert_found(["no operator StringEqual"], Condition={"StringEqual": {"aws:SourceAccount": "111111111111"}})
        without = "sqs:SendMessage without the key {}, or KEYS lacks it"
        for key in ["aws:SourceAcount", "events:source", "kms:ResourceAliases"]:
            self.assert_found([without.format(key)], Condition={"StringEquals": {key: "x"}})
        source = {"StringEquals": {"events:source": "redeliver"}}
        found = "events:PutEvents, sns:Publish without the key events:source, or KEYS lacks it"
        self.assert_found([found], Action=["events:PutEvents", "sns:Publish"], Resource="*", Condition=source)
        found = "the key lambda:SourceFunctionArn in a resource's policy"
        self.assert_found([found], Principal="*", Condition={"ArnEquals": {"lambda:SourceFunctionArn": "arn"}})

    def test_both_cases_of_a_parameter_are_checked(self):
        cases = {"Fn::If": ["HasKey", {"Bool": {"aws:SecureTransports": "true"}}, {"Ref": "AWS::NoValue"}]}
        self.assert_found(["sqs:SendMessage without the key aws:SecureTransports, or KEYS lacks it"], Condition=cases)

    def test_statements_are_found_anywhere_in_a_document(self):
        statement = {"Effect": "Allow", "Action": "sqs:SendMessage"}
        template = {"Resources": {"A": {"Statement": [{"Fn::If": ["B", statement, {"Ref": "AWS::NoValue"}]}]}}}
        self.assertEqual(list(statements("", template)), [("/Resources/A/Statement/0/Fn::If/1", statement)])


unittest.main()
