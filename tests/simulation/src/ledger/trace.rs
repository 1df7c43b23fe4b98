//! The history of a run, for humans, and to compare two runs.

use std::hash::{Hash as _, Hasher as _};

use chrono::{DateTime, Utc};
use redeliver_embedded::{Change, What};

use super::{Actor, Ledger};
use crate::messages::number;

/// Changes kept for the report of a failure.
const TRACE: usize = 60;

impl Ledger {
    /// A number that is equal for equal histories.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Changes seen.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The last changes, oldest first.
    #[must_use]
    pub fn trace(&self) -> Vec<String> {
        self.trace.iter().cloned().collect()
    }

    pub(super) fn remember(&mut self, actor: Actor, change: &Change) {
        let what = match &change.what {
            What::Sent(content) => {
                content.body.hash(&mut self.digest);
                let names: Vec<_> = content.attributes.keys().map(String::as_str).collect();
                format!(
                    "sent {:?}, delay {}, attributes {}",
                    number(&content.body),
                    content.delay,
                    names.join(" ")
                )
            }
            What::Received { receive_count } => format!("received, {receive_count}"),
            What::Hidden { seconds } => format!("hidden for {seconds} s"),
            What::Moved(to) => format!("moved to {to}"),
            What::Deleted => "deleted".to_owned(),
            What::Expired => "expired".to_owned(),
        };
        let seconds = (change.at - self.start).as_seconds_f64();
        let (_, queue) = change.queue_arn.rsplit_once(':').unwrap_or_default();
        self.keep(format!("{seconds:>12.3} {actor:?} {queue} {} {what}", change.sqs_message_id));
    }

    /// An event that is not a change of a queue.
    pub(super) fn note(&mut self, now: DateTime<Utc>, what: &str) {
        let seconds = (now - self.start).as_seconds_f64();
        self.keep(format!("{seconds:>12.3} {what}"));
    }

    fn keep(&mut self, line: String) {
        line.hash(&mut self.digest);
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }
}
