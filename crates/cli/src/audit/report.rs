//! What an audit finds: a value, made from records, of bounded size.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::message::Timestamp;
use serde::Serialize;

use super::age::Age;
use super::attempts::{Attempts, SkippedAttempts};
use super::copies::{Copies, Duplicates};
use super::over_time::{OverTime, Times};
use crate::output::document;
use crate::people::{counted, grouped};
use redeliver_dead_letters::groups::{Group, GroupTable, millis};
use redeliver_dead_letters::{Coverage, DeadLetterRecord};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Dead letters that were asked for: all that were seen, or those that the filter let through.
    pub total: u64,
    /// How much of the queue was seen.
    pub coverage: Coverage,
    pub by_error_type: BTreeMap<String, u64>,
    /// By fingerprint, largest first.
    pub groups: Vec<Group>,
    pub attempts: Attempts,
    /// By time in the queue.
    pub age: Age,
    /// By time of arrival.
    pub over_time: OverTime,
    /// The same message more than once.
    pub duplicates: Duplicates,
    /// Attempts without a known failure.
    pub skipped_attempts: SkippedAttempts,
    /// Whether all of the queue was seen.
    pub complete: bool,
    /// Whether the audit was interrupted.
    pub interrupted: bool,
    /// Whether it ended with as many as `--max` asked for.
    pub max_reached: bool,
    #[serde(flatten)]
    pub context: Context,
}

/// What is being looked at, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Context {
    pub queue: String,
    /// How long the queue keeps messages, if that is known.
    #[serde(skip)]
    pub retention: Option<Duration>,
    /// The moment of the audit.
    #[serde(rename = "audited_at", serialize_with = "millis")]
    pub now: Timestamp,
    /// The filter, if there is one.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

impl Report {
    /// One line of JSON.
    pub fn json(&self) -> String {
        document("audit", self)
    }

    /// What is missing, in a sentence; `None` where all was seen.
    pub fn incompleteness(&self) -> Option<String> {
        let Coverage { seen, approximate, unreadable, .. } = self.coverage;
        if self.complete {
            return None;
        }
        let unreadable_too = match unreadable {
            0 => String::new(),
            _ => format!(", and {} that could not be understood and stay", grouped(unreadable)),
        };
        let messages = counted(approximate, "message");
        let told = format!("Not all was seen: {} of about {messages}{unreadable_too}", grouped(seen));
        Some(match self.interrupted {
            true => format!("{told}; the audit was interrupted."),
            false if self.max_reached => format!("{told}; --max has ended the audit."),
            false if unreadable > 0 && seen + unreadable >= approximate => format!("{told}."),
            false => format!(
                "{told}; the others are in flight elsewhere, delayed, or more than the 120,000 that SQS hands out at a time."
            ),
        })
    }
}

/// Counts records, one after the other; its size does not grow with the queue beyond its tables' limits.
#[derive(Debug, Default)]
pub struct Tally {
    context: Context,
    total: u64,
    by_error_type: BTreeMap<String, u64>,
    groups: GroupTable,
    attempts: Attempts,
    age: Age,
    times: Times,
    copies: Copies,
    skipped_attempts: SkippedAttempts,
}

impl Tally {
    pub fn new(context: Context) -> Self {
        Self { context, ..Self::default() }
    }

    /// How many so far.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub fn add(&mut self, record: &DeadLetterRecord) {
        let sent_at = record.message.sent_at;
        self.total += 1;
        // One of seven codes, or none.
        *self.by_error_type.entry(record.error_type.clone()).or_default() += 1;
        self.groups.add(record);
        self.attempts.add(record);
        self.age.add(sent_at, self.context.now, self.context.retention);
        self.times.add(sent_at, &record.error_type);
        self.copies.add(record);
        self.skipped_attempts.add(record);
    }

    pub fn into_report(self, coverage: Coverage, interrupted: bool) -> Report {
        Report {
            total: self.total,
            coverage,
            by_error_type: self.by_error_type,
            groups: self.groups.into_groups(),
            attempts: self.attempts,
            age: self.age,
            over_time: self.times.into_over_time(),
            duplicates: self.copies.into_duplicates(),
            skipped_attempts: self.skipped_attempts,
            complete: coverage.complete,
            interrupted,
            max_reached: false,
            context: self.context,
        }
    }
}

#[cfg(test)]
mod tests;
