//! What a redrive has done, or would do.

use std::collections::{BTreeMap, BTreeSet};

use redeliver_core::ports::EntryError;
use serde_json::{Value, json};

use super::apply::Watched;
use super::ending::Ending;
use super::plan::{Reason, SendBack, Verdict};
use crate::{Coverage, DeadLetterRecord};

/// Examples that are shown of each reason.
const EXAMPLES: usize = 3;
/// Reasons that are told apart; a reason names places in the message, so there may be as many as messages.
const REASONS: usize = 100;

/// Counts, and examples of what stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Would be sent back.
    pub planned: u64,
    /// Sent back and confirmed.
    pub sent: u64,
    /// Of these, changed by `--edit`.
    pub edited: u64,
    /// Of the edited ones, sent under a new `message_id`.
    pub new_ids: u64,
    /// Sent back by an earlier run that could not delete them any more: deleted.
    pub deleted_only: u64,
    /// Messages that may be in the source queue beyond one for each dead letter: sends that had no answer, of this run and of
    /// one before it that was killed.
    pub possible_copies: u64,
    /// Sent back, by this run or before it, and still in the DLQ: this run could not delete them.
    pub not_deleted: u64,
    /// SQS's last word on that.
    pub why_not_deleted: Option<String>,
    /// What was seen of the pilot, where it was watched.
    pub watched: Option<Watched>,
    /// Not selected.
    pub not_selected: u64,
    /// How much of the DLQ was seen.
    pub coverage: Option<Coverage>,
    /// Too much of what was sent has failed again.
    pub stopped: bool,
    /// Ctrl-C.
    pub interrupted: bool,
    /// Why it could not go on.
    pub failed: Option<String>,
    /// To be sent, and visible to others before its turn came.
    pub no_longer_hidden: u64,
    /// Of what was sent back, or would be.
    pub by_error_type: BTreeMap<String, u64>,
    /// Some ids that messages had, and those that they got.
    pub new_id_examples: Vec<(String, String)>,
    /// Why, how many, and which for example.
    pub staying: BTreeMap<String, (u64, Vec<String>)>,
    /// Messages that this run sent and that are in the DLQ again, by their own ids.
    pub came_back: BTreeSet<String>,
}

impl Report {
    pub(super) fn planned(&mut self, record: &DeadLetterRecord, verdict: &Verdict, max: u64) {
        match verdict {
            Verdict::NotSelected => self.not_selected += 1,
            Verdict::Send(send_back) if self.planned < max => {
                self.planned += 1;
                self.edited(send_back);
                *self.by_error_type.entry(record.error_type.clone()).or_default() += 1;
            }
            Verdict::Send(_) => self.not_selected += 1,
            Verdict::Stays(reason) => self.stays(&record.message.sqs_message_id, reason),
        }
    }

    pub(super) fn sent(&mut self, record: &DeadLetterRecord, send_back: &SendBack) {
        self.sent += 1;
        self.edited(send_back);
        *self.by_error_type.entry(record.error_type.clone()).or_default() += 1;
    }

    fn edited(&mut self, send_back: &SendBack) {
        self.edited += u64::from(send_back.edited);
        if let Some(old) = &send_back.old_message_id {
            self.new_ids += 1;
            if self.new_id_examples.len() < EXAMPLES {
                self.new_id_examples.push((old.clone(), send_back.message_id.clone()));
            }
        }
    }

    pub(super) fn not_sent(&mut self, sqs_message_id: &str, error: &EntryError) {
        self.stay(sqs_message_id, format!("not sent: {error}"));
    }

    pub(super) fn no_longer_hidden(&mut self, sqs_message_id: &str) {
        self.no_longer_hidden += 1;
        self.stay(
            sqs_message_id,
            "could not be kept hidden from others until its turn: run it again".to_owned(),
        );
    }

    pub(super) fn came_back(&mut self, message_id: &str) {
        self.came_back.insert(message_id.to_owned());
    }

    /// What stays is counted by the last pass: it sees all of it again.
    pub(super) fn start_pass(&mut self) {
        self.not_selected = 0;
        self.no_longer_hidden = 0;
        self.staying.clear();
    }

    /// Dead letters that are not to be looked at again.
    pub(super) fn done(&self) -> u64 {
        self.sent + self.deleted_only
    }

    /// How it ended, if at most so many were to be sent.
    #[must_use]
    pub fn ending(&self, max: u64) -> Ending {
        match self {
            // First: whoever does not know it makes copies.
            Self { not_deleted: 1.., .. } => Ending::NotDeleted,
            Self { failed: Some(_), .. } => Ending::Failed,
            Self { interrupted: true, .. } => Ending::Interrupted,
            Self { stopped: true, .. } => Ending::Stopped,
            _ if !self.is_covered() && self.sent < max => Ending::NotSeen,
            _ if self.staying_count() + self.came_back_count() > 0 => Ending::Left,
            _ => Ending::Done,
        }
    }

    /// Whether it looked at all of the DLQ, and was not ended before.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let was_ended = self.stopped || self.interrupted || self.failed.is_some() || self.not_deleted > 0;
        self.is_covered() && !was_ended
    }

    /// Whether all of the DLQ was seen.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.coverage.is_some_and(|coverage| coverage.complete)
    }

    /// Messages that this run sent and that are in the DLQ again.
    #[must_use]
    pub fn came_back_count(&self) -> u64 {
        self.came_back.len() as u64
    }

    /// Selected messages that stay.
    #[must_use]
    pub fn staying_count(&self) -> u64 {
        self.staying.values().map(|(count, _)| count).sum()
    }

    fn stays(&mut self, sqs_message_id: &str, reason: &Reason) {
        self.stay(sqs_message_id, reason.to_string());
    }

    fn stay(&mut self, sqs_message_id: &str, reason: String) {
        let known = self.staying.contains_key(&reason) || self.staying.len() < REASONS;
        let reason = if known { reason } else { "other reasons".to_owned() };
        let (count, examples) = self.staying.entry(reason).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(sqs_message_id.to_owned());
        }
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let staying = self.staying.iter().map(
            |(reason, (count, examples))| json!({ "reason": reason, "count": count, "examples": examples }),
        );
        json!({
            "planned": self.planned,
            "sent": self.sent,
            "by_error_type": self.by_error_type,
            "edited": self.edited,
            "new_ids": {
                "count": self.new_ids,
                "examples": self.new_id_examples.iter().map(|(old, new)| json!({ "old": old, "new": new })).collect::<Vec<_>>(),
            },
            "possible_copies": self.possible_copies,
            "deleted_only": self.deleted_only,
            "not_deleted": self.not_deleted,
            "failed": self.failed,
            "watched": self.watched,
            "came_back": self.came_back_count(),
            "staying": staying.collect::<Vec<_>>(),
            "not_selected": self.not_selected,
            "coverage": self.coverage,
            "complete": self.is_complete(),
            "stopped": self.stopped,
            "interrupted": self.interrupted,
        })
    }
}
