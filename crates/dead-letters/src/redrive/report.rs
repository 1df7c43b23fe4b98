//! The report on a redrive or its plan.

use std::collections::{BTreeMap, BTreeSet};

use redeliver_core::ports::EntryError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plan::{PlannedSend, RedrivePlan};
use crate::{Coverage, DeadLetterRecord, DeletionError, SEND_KEY_PERMISSIONS, explain_error};

/// The maximum number of examples per reason.
const EXAMPLES_MAX: usize = 3;
/// The maximum number of reasons that are counted separately. A reason can name locations in the message, so there can
/// be as many reasons as messages.
const REASONS_MAX: usize = 100;

/// The counts of a redrive, with examples of messages that remain in the DLQ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RedriveReport {
    /// Messages that would be sent back.
    pub planned: u64,
    /// Messages sent back and confirmed.
    pub sent: u64,
    /// The planned or sent messages that `--edit` changed.
    pub edited: u64,
    /// The first edited message; only in a plan.
    pub edit_example: Option<EditExample>,
    /// Edited messages that were sent with a new `message_id`.
    pub new_ids: u64,
    /// Messages sent back by an earlier run that could not delete them, and deleted by this one.
    pub deleted_only: u64,
    /// Possible extra copies in the source queue, beyond one message per dead letter. They come from sends without a
    /// response, in this run or in an earlier run that was killed.
    pub possible_copies: u64,
    /// Messages sent back, by this run or an earlier one, that this run could not delete from the DLQ.
    pub not_deleted: u64,
    /// The reason for the last failed deletion in this run.
    pub why_not_deleted: Option<DeletionError>,
    /// The result of watching the pilot.
    pub pilot_result: Option<PilotResult>,
    pub not_selected: u64,
    /// Messages selected, read and left in the DLQ because [`RedriveLimits::max`](super::RedriveLimits::max) was
    /// reached. A run stops reading at that point.
    pub left_by_max: u64,
    /// The part of the DLQ that was read.
    pub coverage: Option<Coverage>,
    /// The reason for an early end, if any.
    pub early_end: Option<EarlyEnd>,
    /// The messages that were, or would be, sent back, by error type.
    pub by_error_type: BTreeMap<String, u64>,
    /// The messages in `by_error_type` that SQS itself moved to the DLQ, by the ARN of their source queue.
    pub by_source: BTreeMap<String, u64>,
    /// Examples of previous ids with their new ones.
    pub new_id_examples: Vec<(String, String)>,
    /// The messages among `staying` that the next run may send.
    pub to_retry: u64,
    /// The messages that remain in the DLQ, by reason: their number, and the SQS message ids of up to three.
    pub staying: BTreeMap<String, (u64, Vec<String>)>,
    /// Messages that this run sent and that are in the DLQ again, by the message's own id.
    pub came_back: BTreeSet<String>,
    /// The causes of the failures in `came_back`, at most 100.
    pub died_again: Vec<RepeatFailure>,
}

/// A message that an edit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditExample {
    pub message_id: String,
    /// The body that would be sent without the edit, so that changes that every redrive makes are not attributed to the
    /// edit.
    pub before: String,
    pub after: String,
    /// True if redeliver wrote the message's `metadata`, which is then shown without `--reveal`.
    pub can_show_metadata: bool,
}

/// Messages that were sent back and failed again with the same cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepeatFailure {
    pub fingerprint: String,
    /// The error of the first message, on one line.
    pub headline: String,
    pub count: u64,
    /// Example SQS message ids in the DLQ.
    pub examples: Vec<String>,
}

impl RepeatFailure {
    /// Merges an entry from another run.
    pub fn merge_into(all: &mut Vec<Self>, more: Self) {
        let is_full = all.len() >= REASONS_MAX;
        match all.iter_mut().find(|known| known.fingerprint == more.fingerprint) {
            Some(known) => {
                known.count += more.count;
                known.examples.extend(more.examples);
                known.examples.truncate(EXAMPLES_MAX);
            }
            None if is_full => {}
            None => all.push(more),
        }
    }
}

/// The reason why a redrive ended early. The variants are in order of increasing severity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EarlyEnd {
    /// Too many of the sent messages failed again.
    Stopped,
    Interrupted,
    /// An error, with the reason.
    Failed(String),
}

/// The result of watching the pilot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PilotResult {
    /// The duration of the watch.
    pub seconds: u64,
    /// The number of messages in the pilot.
    pub sent: u64,
    /// The pilot messages that are in the DLQ again.
    pub came_back: u64,
    /// The increase in SQS's count of delayed messages in the source queue: about this many pilot messages have failed
    /// and are waiting for a retry. `None` if SQS did not return the count.
    pub waiting: Option<u64>,
}

impl RedriveReport {
    /// Counts a message that would be sent back.
    pub fn count_planned(&mut self, record: &DeadLetterRecord, send_back: &PlannedSend) {
        self.planned += 1;
        self.count_planned_send(record, send_back);
    }

    /// Keeps the first message that the edit changes as an example for the user.
    pub(super) fn record_edit_example(
        &mut self,
        plan: &RedrivePlan,
        record: &DeadLetterRecord,
        send_back: &PlannedSend,
    ) {
        if send_back.edited && self.edit_example.is_none() {
            self.edit_example = Some(EditExample {
                message_id: record.message_id().to_owned(),
                before: plan.body_without_edit(record),
                after: send_back.message.content().body.clone(),
                can_show_metadata: record.can_show_metadata(),
            });
        }
    }

    pub(super) fn count_sent(&mut self, record: &DeadLetterRecord, send_back: &PlannedSend) {
        self.sent += 1;
        self.count_planned_send(record, send_back);
    }

    fn count_planned_send(&mut self, record: &DeadLetterRecord, send_back: &PlannedSend) {
        self.count_type_and_source(&record.error_type, record.message.redriven_from.as_deref());
        self.edited += u64::from(send_back.edited);
        if let Some(old) = &send_back.old_message_id {
            self.new_ids += 1;
            if self.new_id_examples.len() < EXAMPLES_MAX {
                self.new_id_examples.push((old.clone(), send_back.message_id.clone()));
            }
        }
    }

    /// Counts a message that is sent back, by its error type and by the queue that SQS moved it from.
    pub fn count_type_and_source(&mut self, error_type: &str, source: Option<&str>) {
        *self.by_error_type.entry(error_type.to_owned()).or_default() += 1;
        if let Some(source) = source {
            *self.by_source.entry(source.to_owned()).or_default() += 1;
        }
    }

    /// Returns the numbers of messages from queues other than `to`, by source queue.
    pub fn counts_from_other_queues(&self, to: &str) -> impl Iterator<Item = (&str, u64)> {
        self.by_source.iter().filter(move |(arn, _)| *arn != to).map(|(arn, count)| (arn.as_str(), *count))
    }

    /// Returns the part of the plan's report that a run over a single queue does not count: messages that are not
    /// selected, and those that remain in the DLQ for one of `reasons`.
    #[must_use]
    pub fn part_not_counted_by_runs(&self, reasons: &[String]) -> Self {
        let is_requested = |reason: &String| reasons.contains(reason);
        let staying = self.staying.clone().into_iter().filter(|(reason, _)| is_requested(reason)).collect();
        Self { not_selected: self.not_selected, staying, coverage: self.coverage, ..Self::default() }
    }

    /// Adds the report for another source queue of the same DLQ, except for its messages that were not selected: they
    /// are counted once, elsewhere.
    pub fn add_report(&mut self, other: Self) {
        self.planned += other.planned;
        self.sent += other.sent;
        self.edited += other.edited;
        self.edit_example = self.edit_example.take().or(other.edit_example);
        self.new_ids += other.new_ids;
        self.deleted_only += other.deleted_only;
        self.possible_copies += other.possible_copies;
        self.not_deleted += other.not_deleted;
        self.to_retry += other.to_retry;
        self.left_by_max += other.left_by_max;
        self.why_not_deleted = other.why_not_deleted.or(self.why_not_deleted.take());
        self.pilot_result = self.pilot_result.or(other.pilot_result);
        self.early_end = self.early_end.take().max(other.early_end);
        self.coverage = match (self.coverage, other.coverage) {
            (Some(one), Some(two)) => Some(Coverage { complete: one.complete && two.complete, ..two }),
            (one, two) => two.or(one),
        };
        for (all, more) in
            [(&mut self.by_error_type, other.by_error_type), (&mut self.by_source, other.by_source)]
        {
            more.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
        }
        for (reason, (count, examples)) in other.staying {
            let (all, shown) = self.staying.entry(reason).or_default();
            *all += count;
            shown.extend(examples);
            shown.truncate(EXAMPLES_MAX);
        }
        self.new_id_examples.extend(other.new_id_examples);
        self.new_id_examples.truncate(EXAMPLES_MAX);
        self.came_back.extend(other.came_back);
        other.died_again.into_iter().for_each(|died| RepeatFailure::merge_into(&mut self.died_again, died));
    }

    pub(super) fn count_not_sent(&mut self, sqs_message_id: &str, error: &EntryError) {
        self.to_retry += 1;
        self.count_staying(
            sqs_message_id,
            format!("not sent: {}", explain_error(error, "sqs:SendMessage", SEND_KEY_PERMISSIONS)),
        );
    }

    pub(super) fn count_reappeared(&mut self, sqs_message_id: &str) {
        self.to_retry += 1;
        self.count_staying(
            sqs_message_id,
            "became visible to other programs before it was sent: run the redrive again".to_owned(),
        );
    }

    /// Counts a message sent by this run that is in the DLQ again; each message counts once.
    pub(super) fn count_returned_message(&mut self, message_id: &str, record: &DeadLetterRecord) {
        if self.came_back.insert(message_id.to_owned()) {
            let died = RepeatFailure {
                fingerprint: record.fingerprint.clone(),
                headline: record.headline(),
                count: 1,
                examples: vec![record.message.sqs_message_id.clone()],
            };
            RepeatFailure::merge_into(&mut self.died_again, died);
        }
    }

    /// Resets the counts of messages that are not sent, which each pass counts again.
    pub(super) fn start_pass(&mut self) {
        self.not_selected = 0;
        self.to_retry = 0;
        self.staying.clear();
    }

    /// Returns the number of completed dead letters: sent back now, or sent earlier and deleted now.
    #[must_use]
    pub fn done_count(&self) -> u64 {
        self.sent + self.deleted_only
    }

    /// Returns true if the run read the whole DLQ, did not end early, and deleted all sent messages.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.covers_whole_dlq() && self.early_end.is_none() && self.not_deleted == 0
    }

    /// Returns true if the whole DLQ was read.
    #[must_use]
    pub fn covers_whole_dlq(&self) -> bool {
        self.coverage.is_some_and(|coverage| coverage.complete)
    }

    /// Returns the number of messages that this run sent and that are in the DLQ again.
    #[must_use]
    pub fn returned_count(&self) -> u64 {
        self.came_back.len() as u64
    }

    /// Returns the number of messages that remain in the DLQ, for any reason.
    #[must_use]
    pub fn staying_count(&self) -> u64 {
        self.staying.values().map(|(count, _)| count).sum()
    }

    /// Counts a message that remains in the DLQ.
    pub fn count_staying(&mut self, sqs_message_id: &str, reason: String) {
        let has_room = self.staying.contains_key(&reason) || self.staying.len() < REASONS_MAX;
        let reason = if has_room { reason } else { "other reasons".to_owned() };
        let (count, examples) = self.staying.entry(reason).or_default();
        *count += 1;
        if examples.len() < EXAMPLES_MAX {
            examples.push(sqs_message_id.to_owned());
        }
    }

    /// Returns the report as the JSON document that `redrive --format json` prints.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let staying = self.staying.iter().map(
            |(reason, (count, examples))| json!({ "reason": reason, "count": count, "examples": examples }),
        );
        let failed = if let Some(EarlyEnd::Failed(why)) = &self.early_end { Some(why) } else { None };
        json!({
            "planned": self.planned,
            "sent": self.sent,
            "by_error_type": self.by_error_type,
            "by_source": self.by_source,
            "edited": self.edited,
            "new_ids": {
                "count": self.new_ids,
                "examples": self.new_id_examples.iter().map(|(old, new)| json!({ "old": old, "new": new })).collect::<Vec<_>>(),
            },
            "possible_copies": self.possible_copies,
            "deleted_only": self.deleted_only,
            "not_deleted": self.not_deleted,
            "failed": failed,
            "watched": self.pilot_result,
            "came_back": self.returned_count(),
            "staying": staying.collect::<Vec<_>>(),
            "not_selected": self.not_selected,
            "left_by_max": self.left_by_max,
            "coverage": self.coverage,
            "complete": self.is_complete(),
            "stopped": self.early_end == Some(EarlyEnd::Stopped),
            "interrupted": self.early_end == Some(EarlyEnd::Interrupted),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE_COVERAGE: Coverage = Coverage {
        seen: 1,
        approximate: 1,
        unreadable: 0,
        complete: true,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };

    #[test]
    fn added_reports_keep_the_worst_early_end() {
        let report_with_end = |early_end| RedriveReport { early_end, ..RedriveReport::default() };
        let failed_end = || Some(EarlyEnd::Failed("access denied".to_owned()));
        for (first, second, worst) in [
            (Some(EarlyEnd::Stopped), failed_end(), failed_end()),
            (failed_end(), Some(EarlyEnd::Stopped), failed_end()),
            (Some(EarlyEnd::Stopped), Some(EarlyEnd::Interrupted), Some(EarlyEnd::Interrupted)),
            (None, Some(EarlyEnd::Stopped), Some(EarlyEnd::Stopped)),
            (Some(EarlyEnd::Stopped), None, Some(EarlyEnd::Stopped)),
        ] {
            let mut all = report_with_end(first);
            all.add_report(report_with_end(second));
            assert_eq!(all.early_end, worst);
        }
    }

    #[test]
    fn added_reports_sum_every_member_except_unselected_messages() {
        let repeat_failure = |fingerprint: &str, count, examples: &[&str]| RepeatFailure {
            fingerprint: fingerprint.to_owned(),
            headline: fingerprint.to_owned(),
            count,
            examples: examples.iter().map(|id| (*id).to_owned()).collect(),
        };
        let pilot_result = PilotResult { seconds: 90, sent: 10, came_back: 1, waiting: None };
        let example = |times: u64| EditExample {
            message_id: format!("id-{times}"),
            before: "{}".to_owned(),
            after: "[]".to_owned(),
            can_show_metadata: true,
        };
        let run = |times: u64, died_again, why_not_deleted| RedriveReport {
            planned: times,
            sent: 10 * times,
            edited: 2 * times,
            edit_example: Some(example(times)),
            new_ids: 3 * times,
            deleted_only: 4 * times,
            possible_copies: 5 * times,
            not_deleted: 6 * times,
            why_not_deleted,
            pilot_result: Some(PilotResult { sent: 10 * times, ..pilot_result }),
            not_selected: 7 * times,
            left_by_max: 8 * times,
            coverage: Some(COMPLETE_COVERAGE),
            early_end: None,
            by_error_type: [("T".to_owned(), times)].into(),
            by_source: [("orders".to_owned(), times)].into(),
            new_id_examples: vec![(format!("old-{times}"), format!("new-{times}"))],
            to_retry: 9 * times,
            staying: [("parked".to_owned(), (times, vec![format!("sqs-{times}")]))].into(),
            came_back: [format!("id-{times}")].into(),
            died_again,
        };
        let mut all = run(1, vec![repeat_failure("a", 1, &["1", "2"])], Some(DeletionError::VisibleToOthers));
        all.add_report(run(
            2,
            vec![repeat_failure("a", 4, &["3", "4"]), repeat_failure("b", 1, &["5"])],
            None,
        ));
        let expected = RedriveReport {
            pilot_result: Some(pilot_result),
            edit_example: Some(example(1)),
            not_selected: 7,
            new_id_examples: [1, 2].map(|n| (format!("old-{n}"), format!("new-{n}"))).into(),
            staying: [("parked".to_owned(), (3, vec!["sqs-1".to_owned(), "sqs-2".to_owned()]))].into(),
            came_back: ["id-1".to_owned(), "id-2".to_owned()].into(),
            ..run(
                3,
                vec![repeat_failure("a", 5, &["1", "2", "3"]), repeat_failure("b", 1, &["5"])],
                Some(DeletionError::VisibleToOthers),
            )
        };
        assert_eq!(all, expected);
        let other = DeletionError::Failed(EntryError::new(redeliver_core::ports::Fault::NoAnswer, "Timeout"));
        all.add_report(run(1, Vec::new(), Some(other.clone())));
        assert_eq!(all.why_not_deleted, Some(other), "the last run's reason");
    }

    #[test]
    fn reports_for_a_shared_dlq_count_each_message_once() {
        let staying_entry = |reason: &str, count| (reason.to_owned(), (count, vec!["sqs-1".to_owned()]));
        let plan = RedriveReport {
            planned: 4,
            not_selected: 2,
            staying: [staying_entry("parked", 1), staying_entry("unknown", 3)].into(),
            by_source: [("orders".to_owned(), 3), ("mails".to_owned(), 1)].into(),
            coverage: Some(COMPLETE_COVERAGE),
            ..RedriveReport::default()
        };
        let mut all = plan.part_not_counted_by_runs(&["unknown".to_owned()]);
        assert!(all.covers_whole_dlq(), "even if no run follows");
        let run = |source: &str, sent, complete| RedriveReport {
            sent,
            not_selected: 4,
            by_source: [(source.to_owned(), sent)].into(),
            staying: [staying_entry("parked", 1)].into(),
            coverage: Some(Coverage { complete, ..COMPLETE_COVERAGE }),
            came_back: [source.to_owned()].into(),
            ..RedriveReport::default()
        };
        all.add_report(run("orders", 3, true));
        all.add_report(run("mails", 1, false));
        assert_eq!((all.planned, all.sent, all.not_selected, all.returned_count()), (0, 4, 2, 2));
        assert_eq!(all.by_source, plan.by_source);
        assert_eq!(all.staying.values().map(|(count, _)| *count).collect::<Vec<_>>(), [2, 3]);
        assert!(!all.covers_whole_dlq());
        assert_eq!(all.counts_from_other_queues("orders").collect::<Vec<_>>(), [("mails", 1)]);
    }
}
