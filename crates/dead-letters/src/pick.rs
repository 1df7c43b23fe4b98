//! Selects dead letters, and determines which of the requested ones exist.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde::Serialize;

use crate::{DeadLetterRecord, Filter, FilterError};

/// The length of the shortest id prefix that selects a message, in characters.
const PREFIX_CHARACTERS_MIN: usize = 8;
/// The maximum number of ids to list if several share a prefix.
const LISTED_MAX: usize = 10;

/// A selection of dead letters. Without conditions, it selects all of them.
#[derive(Debug, Default)]
pub struct Pick {
    /// Selects only dead letters with this fingerprint.
    pub group: Option<String>,
    /// Selects only dead letters with one of these ids.
    pub ids: BTreeSet<String>,
    /// Selects only dead letters that match the filter.
    pub filter: Option<Filter>,
    /// True if the ids may be prefixes.
    by_prefix: bool,
    /// Selects only messages with one of these SQS message ids. Copies of a message have different ids.
    set: Option<BTreeSet<String>>,
    found: ObservedNames,
}

/// The filter's choice for one dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Picked,
    NotPicked,
    /// The filter failed for this reason, which contains no values from the message. The message is left unchanged.
    NotJudged(String),
}

/// Dead letters on which the filter failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotJudged {
    pub messages: u64,
    /// The SQS message id of the first of these messages.
    pub example: Option<String>,
    /// The reason why the filter failed on the example.
    pub reason: Option<String>,
}

impl NotJudged {
    /// Counts a dead letter.
    pub fn count_record(&mut self, record: &DeadLetterRecord, reason: String) {
        self.messages += 1;
        if self.example.is_none() {
            self.example = Some(record.message.sqs_message_id.clone());
            self.reason = Some(reason);
        }
    }
}

/// The requested ids and groups that were found.
#[derive(Debug, Default)]
struct ObservedNames {
    group: Cell<bool>,
    ids: RefCell<BTreeSet<String>>,
    /// The full ids of messages that match only by an id prefix.
    by_prefix: RefCell<BTreeSet<String>>,
    /// True if the filter has succeeded on a message.
    is_judged: Cell<bool>,
    /// The messages that the filter failed on.
    not_judged: RefCell<NotJudged>,
}

impl Pick {
    /// Selects the messages of this group that have one of these ids and match the filter. An absent condition matches
    /// all messages.
    #[must_use]
    pub fn new(group: Option<String>, ids: impl IntoIterator<Item = String>, filter: Option<Filter>) -> Self {
        Self { group, ids: ids.into_iter().collect(), filter, ..Self::default() }
    }

    /// Selects the messages that match the filter.
    #[must_use]
    pub fn with_filter(filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::default() }
    }

    /// Selects one message and its copies, by its id or an id prefix of at least eight characters. A prefix that
    /// matches several messages selects all of them: see [`Pick::describe_ambiguity`].
    #[must_use]
    pub fn with_id(id: &str) -> Self {
        Self { ids: [id.to_owned()].into(), by_prefix: id.len() >= PREFIX_CHARACTERS_MIN, ..Self::default() }
    }

    /// Selects a fixed set of messages by their SQS message ids in this queue: messages that were shown earlier, and
    /// none that arrived later.
    #[must_use]
    pub fn with_sqs_ids(sqs_message_ids: impl IntoIterator<Item = String>) -> Self {
        Self { set: Some(sqs_message_ids.into_iter().collect()), ..Self::default() }
    }

    /// Decides whether a dead letter is selected.
    ///
    /// # Errors
    /// If the filter's output is neither true nor false, or the filter timed out on four messages in a row.
    pub fn judge_record(&self, record: &DeadLetterRecord) -> Result<Choice, FilterError> {
        if self.set.as_ref().is_some_and(|set| !set.contains(&record.message.sqs_message_id)) {
            return Ok(Choice::NotPicked);
        }
        let is_named = self.observe_record(record);
        match &self.filter {
            Some(filter) if is_named => {
                let choice =
                    filter.judge_document(&record.message.sqs_message_id, &record.filter_document())?;
                match &choice {
                    Choice::NotJudged(why) => {
                        self.found.not_judged.borrow_mut().count_record(record, why.clone())
                    }
                    Choice::Picked | Choice::NotPicked => self.found.is_judged.set(true),
                }
                Ok(choice)
            }
            _ if is_named => Ok(Choice::Picked),
            _ => Ok(Choice::NotPicked),
        }
    }

    /// Records that a dead letter exists, for [`Pick::describe_missing`]. Returns true if it has a requested id and the
    /// requested group; an absent condition always matches.
    pub fn observe_record(&self, record: &DeadLetterRecord) -> bool {
        let ids: Vec<_> = self.ids.iter().filter(|id| has_id(record, id)).cloned().collect();
        let matches_prefix =
            self.by_prefix && ids.is_empty() && self.ids.iter().any(|id| id_has_prefix(record, id));
        if matches_prefix {
            let mut found = self.found.by_prefix.borrow_mut();
            // One more than the listing limit, to detect that some are not listed.
            if found.len() <= LISTED_MAX {
                found.insert(record.message_id().to_owned());
            }
        }
        let by_id = self.ids.is_empty() || !ids.is_empty() || matches_prefix;
        self.found.ids.borrow_mut().extend(ids);
        let by_group = self.group.as_ref().is_none_or(|group| *group == record.fingerprint);
        self.found.group.set(self.found.group.get() || by_group);
        by_id && by_group
    }

    /// Checks that the filter did not fail on every message, which would mean that the filter is wrong.
    ///
    /// # Errors
    /// If it failed on every message; the error names the first one as an example.
    pub fn check_filter(&self) -> Result<(), FilterError> {
        let NotJudged { example, reason, .. } = self.found.not_judged.borrow().clone();
        match (&self.filter, example, reason) {
            (Some(filter), Some(example), Some(reason)) if !self.found.is_judged.get() => {
                Err(filter.all_failed_error(example, reason))
            }
            _ => Ok(()),
        }
    }

    /// Describes requested ids and groups that were not found.
    #[must_use]
    pub fn describe_missing(&self) -> Vec<String> {
        let seen = self.found.ids.borrow();
        let has_prefix_match = !self.found.by_prefix.borrow().is_empty();
        let ids = self.ids.iter().filter(|id| !seen.contains(*id) && !has_prefix_match);
        let group = self.group.iter().filter(|_| !self.found.group.get());
        let group = group.map(|group| format!("no message of the group {group} was found"));
        group.chain(ids.map(|id| format!("no message with the id {id} was found"))).collect()
    }
}

impl Pick {
    /// Lists the messages that match the prefix, if there are several.
    #[must_use]
    pub fn describe_ambiguity(&self) -> Option<String> {
        let (id, found) = (self.ids.first()?, self.found.by_prefix.borrow());
        if found.len() < 2 || !self.found.ids.borrow().is_empty() {
            return None;
        }
        let listed: Vec<_> = found.iter().take(LISTED_MAX).map(String::as_str).collect();
        let more = if found.len() > LISTED_MAX { " and more" } else { "" };
        Some(format!("several ids begin with {id}: {}{more}; name one of them", listed.join(", ")))
    }
}

/// Returns true if this message's own id or its SQS message id starts with these characters.
fn id_has_prefix(record: &DeadLetterRecord, prefix: &str) -> bool {
    let matches_prefix =
        |id: &str| id.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    matches_prefix(record.message_id()) || matches_prefix(&record.message.sqs_message_id)
}

/// Returns true if the id identifies this message: its own id, its SQS message id, or its SQS message id on the source
/// queue, which is in the logs.
fn has_id(record: &DeadLetterRecord, id: &str) -> bool {
    let source_id = record.dead_letter.as_ref().map(|ours| ours.sqs_message_id.as_str());
    record.message_id().eq_ignore_ascii_case(id)
        || record.message.sqs_message_id == id
        || source_id.is_some_and(|source_id| source_id == id)
}

#[cfg(test)]
mod any_body;

#[cfg(test)]
mod tests {
    use redeliver_core::message::ReceivedMessage;
    use redeliver_testing::dead_letters::{annotated_record, foreign_message, retried_record};

    use super::*;

    #[test]
    fn a_message_is_picked_by_any_of_its_ids() {
        let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{}}"#;
        let record = DeadLetterRecord::new(annotated_record(body, "NON_RETRYABLE_ERROR", "x", 7));
        for id in ["0191F3A2-7B1C-7D3E-8F00-0123456789AB", "sqs-7", "source-7"] {
            assert!(has_id(&record, id), "{id}");
        }
        assert!(!has_id(&record, "sqs-8") && !has_id(&record, ""));
    }

    #[test]
    fn an_eight_character_id_prefix_picks_a_message_or_lists_several() {
        let record_with_id = |first: u32| {
            let body = format!(
                r#"{{"metadata":{{"message_id":"0191f3a{first}-7b1c-7d3e-8f00-0123456789ab"}},"data":{{}}}}"#
            );
            DeadLetterRecord::new(annotated_record(&body, "NON_RETRYABLE_ERROR", "x", first))
        };
        let pick = Pick::with_id("0191F3A2");
        assert_eq!(pick.judge_record(&record_with_id(2)).unwrap(), Choice::Picked);
        assert_eq!(pick.judge_record(&record_with_id(3)).unwrap(), Choice::NotPicked);
        assert_eq!((pick.describe_missing(), pick.describe_ambiguity()), (Vec::new(), None));
        let too_short = Pick::with_id("0191f3a");
        assert_eq!(too_short.judge_record(&record_with_id(2)).unwrap(), Choice::NotPicked);
        assert_eq!(too_short.describe_missing(), ["no message with the id 0191f3a was found"]);
        let pick = Pick::with_id("00000000");
        for number in [1, 2] {
            let record = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", number));
            assert_eq!(pick.judge_record(&record).unwrap(), Choice::Picked);
        }
        assert_eq!(
            pick.describe_ambiguity().unwrap(),
            "several ids begin with 00000000: 00000000-0000-4000-8000-000000000001, \
             00000000-0000-4000-8000-000000000002; name one of them"
        );
    }

    #[test]
    fn an_eleventh_id_with_the_same_prefix_is_counted_but_not_listed() {
        let ambiguity = |messages: u32| {
            let pick = Pick::with_id("00000000");
            for number in 1..=messages {
                pick.observe_record(&DeadLetterRecord::new(retried_record(
                    "NON_RETRYABLE_ERROR",
                    "x",
                    number,
                )));
            }
            pick.describe_ambiguity().unwrap()
        };
        let ids: Vec<_> =
            (1..=10).map(|number: u32| format!("00000000-0000-4000-8000-{number:012}")).collect();
        let listed = format!("several ids begin with 00000000: {}", ids.join(", "));
        assert_eq!(ambiguity(10), format!("{listed}; name one of them"));
        for messages in [11, 12] {
            assert_eq!(ambiguity(messages), format!("{listed} and more; name one of them"));
        }
    }

    #[test]
    fn a_full_id_that_is_a_prefix_of_others_is_not_ambiguous() {
        let record_with_sqs_id = |sqs_message_id: &str| {
            let message =
                ReceivedMessage { sqs_message_id: sqs_message_id.to_owned(), ..foreign_message("x", 1) };
            DeadLetterRecord::new(message)
        };
        let pick = Pick::with_id("delivery-1");
        for longer in ["delivery-10", "delivery-11"] {
            pick.observe_record(&record_with_sqs_id(longer));
        }
        assert_eq!(
            pick.describe_ambiguity().unwrap(),
            "several ids begin with delivery-1: delivery-10, delivery-11; name one of them"
        );
        pick.observe_record(&record_with_sqs_id("delivery-1"));
        assert_eq!((pick.describe_ambiguity(), pick.describe_missing()), (None, Vec::new()));
    }

    #[test]
    fn missing_ids_and_groups_are_reported_but_filtered_out_ones_are_not() {
        let ids = ["sqs-1", "nope"].map(str::to_owned);
        let pick = Pick::new(Some("deadbeef".to_owned()), ids, Some(Filter::new("false").unwrap()));
        let record = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", 1));
        assert_eq!(pick.judge_record(&record).unwrap(), Choice::NotPicked);
        assert_eq!(
            pick.describe_missing(),
            ["no message of the group deadbeef was found", "no message with the id nope was found"]
        );
    }

    #[test]
    fn a_fixed_set_does_not_pick_copies_of_its_messages() {
        let body = r#"{"metadata":{"message_id":"sqs-8"},"data":{}}"#;
        let pick = Pick::with_sqs_ids(["sqs-8".to_owned()]);
        let judge_number = |number| {
            let record = DeadLetterRecord::new(annotated_record(body, "NON_RETRYABLE_ERROR", "x", number));
            pick.judge_record(&record).unwrap()
        };
        let choices = (judge_number(8), judge_number(7));
        assert_eq!(choices, (Choice::Picked, Choice::NotPicked), "message 7 has message 8's id as its own");
        let from_empty_set = Pick::with_sqs_ids([]).judge_record(&DeadLetterRecord::new(retried_record(
            "NON_RETRYABLE_ERROR",
            "x",
            1,
        )));
        assert_eq!(from_empty_set.unwrap(), Choice::NotPicked);
    }

    #[test]
    fn a_pick_without_conditions_reports_nothing_missing() {
        assert!(Pick::default().describe_missing().is_empty());
    }
}
