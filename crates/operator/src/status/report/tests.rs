use serde_json::Value;

use super::*;
use crate::status::readers::MissingDataReason;
use crate::terminal::output::json_document;

fn queue(role: &'static str, attributes: &[(&str, &str)]) -> QueueStatus {
    let attributes =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    QueueStatus::new(role, "arn:aws:sqs:eu-central-1:123456789012:prod-source", &attributes)
}

fn source() -> QueueStatus {
    let policy =
        r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:123456789012:prod-dlq","maxReceiveCount":"1"}"#;
    let mapping = LambdaMapping {
        uuid: "u-1".to_owned(),
        function: "prod-message-processor".to_owned(),
        source: String::new(),
        reports_failures: true,
        state: "Disabled".to_owned(),
        batch_size: Some(10),
        maximum_concurrency: None,
        last_modified: None,
    };
    let source = queue(
        "source",
        &[
            ("ApproximateNumberOfMessages", "12345"),
            ("ApproximateNumberOfMessagesNotVisible", "3"),
            ("ApproximateNumberOfMessagesDelayed", "40"),
            ("MessageRetentionPeriod", "604800"),
            ("RedrivePolicy", policy),
        ],
    );
    QueueStatus { mappings: Some(vec![mapping]), ..source }
}

fn status(queues: Vec<QueueStatus>) -> Status {
    Status {
        deployment: Some("prod".to_owned()),
        target: None,
        longest_hold_seconds: None,
        queues,
        blocked: Vec::new(),
        problems: Vec::new(),
    }
}

/// Removes the spaces that align the columns.
fn lines(table: &str) -> Vec<String> {
    table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_status_table_has_depths_retention_redrive_and_readers() {
    let table = status(vec![source()]).render_table(&TextLayout::Whole);
    assert!(table.lines().all(|line| line == line.trim_end()), "{table}");
    let lines = lines(&table);
    assert_eq!(lines[1], "source prod-source 12,345 3 40 7d 1 receive → prod-dlq");
    assert_eq!(lines[4], "source prod-message-processor Disabled 10 no limit u-1");
}

#[test]
fn the_status_table_refers_to_audit_for_the_ages_of_dead_letters() {
    let dlq = |visible| queue("final DLQ", &[("ApproximateNumberOfMessages", visible)]);
    let table = status(vec![source(), dlq("1")]).render_table(&TextLayout::Whole);
    assert_eq!(table.lines().last(), Some(UNSEEN));
    assert!(!status(vec![source(), dlq("0")]).render_table(&TextLayout::Whole).contains(UNSEEN));
}

#[test]
fn blocked_groups_are_listed_with_reason_and_start_time() {
    let blocked =
        Vec::from_iter(BlockedGroup::from_notices(vec![redeliver_testing::dead_letters::blocked_notice(
            "account-7",
            1,
        )]));
    let status = Status { blocked, ..status(vec![source()]) };
    let table = status.render_table(&TextLayout::Whole);
    let group_lines: Vec<_> =
        lines(&table).into_iter().skip_while(|line| !line.starts_with("blocked group")).take(4).collect();
    assert_eq!(
        group_lines,
        [
            "blocked group since retries first message reason",
            "account-7 1970-01-01T00:00:07.000Z 3 00000000-0000-4000-8000-000000000001 RETRY_ATTEMPT_EXCEEDED: \
             HttpStatus.503: HTTP 503",
            "",
            UNBLOCK,
        ]
    );
    let json: Value = serde_json::from_str(&json_document("status", &status)).unwrap();
    assert_eq!(json["blocked"][0]["group"], "account-7");
    assert_eq!(json["blocked"][0].get("receipt_handle"), None, "it would let anyone delete the message");
}

#[test]
fn unknown_counts_are_not_shown_as_zero_and_containers_count_as_readers() {
    let read_by = |role, readers| QueueStatus { readers: Some(readers), ..queue(role, &[]) };
    let idle = Readers::SomethingElse {
        mappings_known: true,
        messages_received: 0,
        empty_receives: 45,
        minutes: 15,
        minutes_with_receives: 15,
    };
    let queues = vec![
        read_by("source", Readers::NotKnown { why: MissingDataReason::Failed("no figures".to_owned()) }),
        read_by("annotation", idle),
        read_by("queue", Readers::NobodySeen { minutes: 15 }),
        queue("final DLQ", &[]),
    ];
    let lines = lines(&status(queues).render_table(&TextLayout::Whole));
    assert_eq!(lines[1], "source prod-source ? ? ? ? -");
    assert_eq!(
        lines[5..],
        [
            "",
            "source: its readers are unknown: no figures",
            "annotation: read by something that is not an event source mapping (a container, or an audit?): 0 messages received \
             and 45 empty receives in the last 15 minutes",
            "prod-source: no reader seen in the last 15 minutes",
        ]
    );
}

#[test]
fn status_json_has_numbers() {
    let json: Value = serde_json::from_str(&json_document("status", &status(vec![source()]))).unwrap();
    let source = &json["queues"][0];
    assert_eq!((&source["visible"], &source["retention_seconds"]), (&12_345.into(), &604_800.into()));
    assert_eq!(source["redrive"], serde_json::json!({ "max_receive_count": 1, "target": "prod-dlq" }));
    assert_eq!(source["mappings"][0]["state"], "Disabled");
}
