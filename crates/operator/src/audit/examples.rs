//! Records for the tests of this crate and of the command line.
#![allow(dead_code, unused_imports, reason = "each crate uses only some of them")]

use redeliver_testing::dead_letters;
pub(crate) use redeliver_testing::dead_letters::{
    at_seconds, attempt_logs, nth_message_id, received_message, retried_body,
};

use super::{AuditContext, AuditReport, AuditTally};
use redeliver_dead_letters::{Coverage, DeadLetterRecord, Retention};

pub(crate) fn foreign_dead_letter(body: &str, number: u32) -> DeadLetterRecord {
    DeadLetterRecord::new(dead_letters::foreign_message(body, number))
}

/// Returns a message with this body.
pub(crate) fn message(body: &str) -> DeadLetterRecord {
    foreign_dead_letter(body, 1)
}

pub(crate) fn annotated_dead_letter(body: &str, code: &str, details: &str, number: u32) -> DeadLetterRecord {
    DeadLetterRecord::new(dead_letters::annotated_record(body, code, details, number))
}

pub(crate) fn record(code: &str, details: &str, number: u32) -> DeadLetterRecord {
    DeadLetterRecord::new(dead_letters::retried_record(code, details, number))
}

pub(crate) fn retried_dead_letter(retry_attempt: u32, failed: &[u32]) -> DeadLetterRecord {
    DeadLetterRecord::new(dead_letters::retried_message(retry_attempt, failed))
}

pub(crate) fn with_sent_time(mut record: DeadLetterRecord, seconds: i64) -> DeadLetterRecord {
    record.message.sent_at = at_seconds(seconds);
    record
}

/// Returns the context of an audit of a queue named `final-dlq`, one day after the Unix epoch.
pub(crate) fn context() -> AuditContext {
    AuditContext {
        queue: "final-dlq".to_owned(),
        retention: None,
        now: at_seconds(86_400),
        virtual_now: None,
        filter: None,
    }
}

/// Returns the report on these records, which make up the entire queue.
pub(crate) fn report(records: &[DeadLetterRecord]) -> AuditReport {
    build_report(context(), records)
}

/// Returns the report for a queue with a retention of one day and ten seconds, so that SQS deletes messages sent at the
/// Unix epoch in ten seconds.
pub(crate) fn report_with_retention(records: &[DeadLetterRecord]) -> AuditReport {
    build_report(AuditContext { retention: Retention::from_seconds(86_410), ..context() }, records)
}

fn build_report(context: AuditContext, records: &[DeadLetterRecord]) -> AuditReport {
    let mut tally = AuditTally::new(context);
    records.iter().for_each(|record| tally.add_record(record));
    let seen = records.len() as u64;
    let coverage = Coverage {
        seen,
        approximate: seen,
        unreadable: 0,
        complete: true,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    tally.into_report(coverage, false)
}
