//! The history of a run, for reports and for comparing two runs.

use std::hash::{Hash as _, Hasher as _};

use chrono::{DateTime, Utc};
use redeliver_embedded::{ChangeKind, MessageChange};

use super::{Actor, Ledger};
use crate::messages::message_number;

/// Number of changes kept for a failure report.
const TRACE: usize = 60;

impl Ledger {
    /// Returns a hash that is equal for equal histories.
    #[must_use]
    pub fn history_digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn change_count(&self) -> u64 {
        self.changes
    }

    /// Returns the last changes, oldest first.
    #[must_use]
    pub fn recent_changes(&self) -> Vec<String> {
        self.trace.iter().cloned().collect()
    }

    pub(super) fn record_change(&mut self, actor: Actor, change: &MessageChange) {
        let what = match &change.what {
            ChangeKind::Sent(content) => {
                content.body.hash(&mut self.digest);
                let names: Vec<_> = content.attributes.keys().map(String::as_str).collect();
                format!(
                    "sent {:?}, delay {}, attributes {}",
                    message_number(&content.body),
                    content.delay,
                    names.join(" ")
                )
            }
            ChangeKind::Received { receive_count } => format!("received, {receive_count}"),
            ChangeKind::Hidden { seconds } => format!("hidden for {seconds} s"),
            ChangeKind::Moved(to) => format!("moved to {to}"),
            ChangeKind::Deleted => "deleted".to_owned(),
            ChangeKind::Expired => "expired".to_owned(),
        };
        let seconds = (change.at - self.start).as_seconds_f64();
        let (_, queue) = change.queue_arn.rsplit_once(':').unwrap_or_default();
        self.push_line(format!("{seconds:>12.3} {actor:?} {queue} {} {what}", change.sqs_message_id));
    }

    /// Records an event other than a queue change.
    pub(super) fn record_remark(&mut self, now: DateTime<Utc>, what: &str) {
        let seconds = (now - self.start).as_seconds_f64();
        self.push_line(format!("{seconds:>12.3} {what}"));
    }

    fn push_line(&mut self, line: String) {
        line.hash(&mut self.digest);
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }
}
