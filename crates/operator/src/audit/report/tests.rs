use super::*;
use crate::audit::examples::{
    context, foreign_dead_letter, record, report, report_with_retention, with_sent_time,
};

#[test]
fn a_report_in_json_has_its_totals_groups_and_coverage() {
    let report = report(&[
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 1 failed", 1), 10),
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 2 failed", 2), 20),
        with_sent_time(foreign_dead_letter("plain", 3), 30),
    ]);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["total"], 3);
    assert_eq!(json["coverage"], serde_json::json!({"seen": 3, "approximate": 3, "unreadable": 0}));
    assert_eq!(json["by_error_type"], serde_json::json!({"RETRY_ATTEMPT_EXCEEDED": 2, "UNANNOTATED": 1}));
    assert_eq!(
        json["groups"][0],
        serde_json::json!({
            "fingerprint": record("RETRY_ATTEMPT_EXCEEDED", "order 7 failed", 7).fingerprint,
            "headline": "order 2 failed",
            "error_type": "RETRY_ATTEMPT_EXCEEDED",
            "count": 2,
            "first": "1970-01-01T00:00:10.000Z",
            "last": "1970-01-01T00:00:20.000Z",
            "error_details": "order 2 failed",
            "example": "00000000-0000-4000-8000-000000000002",
        })
    );
    assert_eq!(json["groups"].as_array().unwrap().len(), 2);
    assert_eq!(json["attempts"], serde_json::json!({"2": 2, "unknown": 1}));
    assert_eq!(json["age"]["oldest"], "1970-01-01T00:00:10.000Z");
    assert_eq!(json["age"]["oldest_seconds"], 86_390);
    assert_eq!(json["duplicates"], serde_json::json!({"messages": 0, "extra": 0, "examples": []}));
    assert_eq!((&json["complete"], json.get("where")), (&true.into(), None));
}

#[test]
fn audit_json_counts_the_messages_that_sqs_deletes_soon() {
    let report = report_with_retention(&[
        with_sent_time(foreign_dead_letter("old", 1), 0),
        with_sent_time(foreign_dead_letter("young", 2), 80_000),
    ]);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let age = &json["age"];
    assert_eq!(age["first_expires_at"], "1970-01-02T00:00:10.000Z");
    assert_eq!((&age["deleted_soon"], &age["soon_seconds"]), (&1.into(), &17_282.into()));
}

#[test]
fn an_incomplete_audit_is_described_in_a_sentence() {
    let coverage = Coverage {
        seen: 12,
        approximate: 20,
        unreadable: 0,
        complete: false,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    let sentence = |interrupted| {
        AuditTally::new(context()).into_report(coverage, interrupted).describe_incompleteness().unwrap()
    };
    assert!(
        sentence(false)
            .starts_with("Not everything was read: 12 of about 20 messages; the others are in flight")
    );
    assert_eq!(
        sentence(true),
        "Not everything was read: 12 of about 20 messages; the audit was interrupted."
    );
    let unreadable = Coverage { unreadable: 3, ..coverage };
    assert!(AuditTally::new(context()).into_report(unreadable, false).describe_incompleteness().unwrap().starts_with(
        "Not everything was read: 12 of about 20 messages, and 3 that could not be understood and stay in the queue; the others"
    ));
    let these_alone = Coverage { seen: 17, ..unreadable };
    assert_eq!(
        AuditTally::new(context()).into_report(these_alone, false).describe_incompleteness().unwrap(),
        "Not everything was read: 17 of about 20 messages, and 3 that could not be understood and stay in the queue."
    );
    let mut two = report(&[foreign_dead_letter("x", 1), foreign_dead_letter("y", 2)]);
    (two.coverage, two.complete, two.max_reached) = (coverage, false, true);
    assert_eq!(
        two.describe_incompleteness().unwrap(),
        "--max ended the audit after 2 dead letters, of about 20 messages.",
        "ten more were received with them but are not in the report"
    );
    let complete = Coverage { complete: true, ..coverage };
    assert_eq!(AuditTally::new(context()).into_report(complete, false).describe_incompleteness(), None);
}
