use clap::ValueEnum as _;

use super::*;

const DLQ: &str = "arn:aws:sqs:REGION:ACCOUNT:FINAL_DLQ";

fn statement(policy: &Value, resource: &str) -> Value {
    let statements = policy["Statement"].as_array().unwrap();
    let matching =
        statements.iter().filter(|statement| statement["Resource"] == resource).collect::<Vec<_>>();
    assert_eq!(matching.len(), 1, "{resource} in {policy}");
    matching[0].clone()
}

#[test]
fn a_purge_may_delete_but_an_audit_may_not() {
    let policy = |command| build_policy(command, &PolicyNames::with_placeholders(command));
    let reads = ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"];
    assert_eq!(
        policy(Audit),
        json!({ "Version": "2012-10-17", "Statement": [
            { "Effect": "Allow", "Action": reads, "Resource": DLQ },
            { "Effect": "Allow", "Action": ["cloudformation:DescribeStacks"],
              "Resource": "arn:aws:cloudformation:REGION:ACCOUNT:stack/STACK/*" },
        ] })
    );
    let purge = statement(&policy(Purge), DLQ);
    assert_eq!(purge["Action"], json!([reads[0], reads[1], reads[2], "sqs:DeleteMessage"]));
}

#[test]
fn the_console_may_redrive_delete_and_pause() {
    let console = build_policy(Console, &PolicyNames::with_placeholders(Console));
    for (resource, actions) in [
        (
            DLQ,
            &[
                "sqs:ReceiveMessage",
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
            ][..],
        ),
        ("arn:aws:sqs:REGION:ACCOUNT:SOURCE", &["sqs:SendMessage", "sqs:GetQueueAttributes"]),
        (
            "arn:aws:lambda:REGION:ACCOUNT:event-source-mapping:*",
            &["lambda:GetEventSourceMapping", "lambda:UpdateEventSourceMapping"],
        ),
        ("*", &["lambda:ListEventSourceMappings", "cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"]),
    ] {
        assert_eq!(statement(&console, resource)["Action"], json!(actions), "{resource}");
    }
}

#[test]
fn a_policy_without_a_stack_lists_queue_names_and_keys() {
    let mut names = PolicyNames::with_placeholders(Redrive);
    names.lookup = DeploymentLookup::Names("orders-prod".to_owned());
    names.keys.insert(Role::Source, "arn:aws:kms:REGION:ACCOUNT:key/k".to_owned());
    names.keys.insert(Role::FinalDlq, "alias/mine".to_owned());
    let redrive = build_policy(Redrive, &names);
    let names = statement(&redrive, "arn:aws:sqs:REGION:ACCOUNT:orders-prod-*");
    assert_eq!(names["Action"], json!(["sqs:GetQueueUrl"]));
    let key = statement(&redrive, "arn:aws:kms:REGION:ACCOUNT:key/k");
    assert_eq!(key["Action"], json!(["kms:Decrypt", "kms:GenerateDataKey"]));
    let by_alias = statement(&redrive, "arn:aws:kms:REGION:ACCOUNT:key/*");
    assert_eq!(by_alias["Action"], json!(["kms:Decrypt"]));
    let condition = json!({ "ForAnyValue:StringEquals": { "kms:ResourceAliases": "alias/mine" } });
    assert_eq!(by_alias["Condition"], condition);
}

#[test]
fn unblock_needs_permissions_on_both_queues() {
    let unblock = build_policy(Unblock, &PolicyNames::with_placeholders(Unblock));
    let on_source = ["sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage"];
    assert_eq!(statement(&unblock, "arn:aws:sqs:REGION:ACCOUNT:SOURCE")["Action"], json!(on_source));
    let on_notices =
        ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage"];
    assert_eq!(statement(&unblock, "arn:aws:sqs:REGION:ACCOUNT:BLOCKED_GROUPS")["Action"], json!(on_notices));
    let status = build_policy(Status, &PolicyNames::with_placeholders(Status)).to_string();
    assert!(!status.contains("BLOCKED_GROUPS"), "only with the strategy ordered");
}

#[test]
fn the_docs_list_every_command_with_a_policy() {
    let page = include_str!("../../../../docs/deploy/permissions.md");
    for command in PolicyCommand::value_variants() {
        let value = command.to_possible_value().unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut names = rows.flat_map(|row| row.split(" | ").next().unwrap_or_default().split('`'));
        assert!(names.any(|name| name == value.get_name()), "{command:?} has no row");
    }
}
