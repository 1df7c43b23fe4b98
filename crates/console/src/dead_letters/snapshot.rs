//! The dead letters from one reading. The list is kept in memory, and the messages in the spool.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};

use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::groups::{DeadLetterGroup, GroupTable};
use redeliver_dead_letters::redrive::RepeatFailure;
use redeliver_dead_letters::{
    CauseNote, CauseState, Choice, Coverage, DeadLetterRecord, Filter, KnownCauses, NotJudged, Retention,
};
use redeliver_operator::CommandFailure;
use redeliver_operator::sentences::describe_expiring_messages;
use redeliver_operator::terminal::escape::shorten_text;
use redeliver_operator::terminal::units::format_count;

use crate::dead_letters::selection::{SINCE_LAST_REFRESH, Selection, parse_moment};
use crate::dead_letters::spool::{BYTES_MAX, Spool, SpoolPosition};
use crate::dead_letters::text_search::TextSearch;

/// Maximum length of a headline in the list, in characters.
const HEADLINE_MAX: usize = 200;
/// Maximum length of a headline in a sentence, in characters.
const HEADLINE_IN_SENTENCE_MAX: usize = 160;
/// Maximum length of a tenant or function name, in characters. Longer names are truncated, including in filters.
const NAME_MAX: usize = 128;
/// Messages received this many times are excluded from SQS's age metric ("Available CloudWatch metrics for Amazon
/// SQS").
const RECEIVES_HIDDEN_FROM_AGE: u32 = 3;
/// Maximum length, in characters, of a `message_id`, which producers can set.
const ID_MAX: usize = 128;
/// Maximum number of messages in one snapshot. An entry takes less than a kibibyte.
pub(crate) const LETTERS_MAX: usize = 120_000;

/// The dead letters from one reading.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) letters: Vec<LetterEntry>,
    pub(crate) groups: Vec<DeadLetterGroup>,
    pub(crate) coverage: Coverage,
    pub(crate) taken_at: Timestamp,
    /// The reference time for ages: the time of the reading or, if a file is in virtual time, the end of that time.
    pub(crate) now: Timestamp,
    /// The queue's retention, if known.
    pub(crate) retention: Option<Retention>,
    pub(crate) causes: CauseHistory,
    /// A sentence about information that could not be determined.
    pub(crate) remark: Option<String>,
    spool: Spool,
}

/// The causes that earlier readings found in a queue, and the marks on them.
#[derive(Debug)]
pub(crate) struct CauseHistory {
    /// Fingerprints that no reading found before this console started.
    pub(crate) new: BTreeSet<String>,
    /// The time of the last reading before this console started or, if there was none, of this console's first reading;
    /// `None` during that first reading.
    pub(crate) last_refresh: Option<Timestamp>,
    known: Mutex<KnownCauses>,
}

impl Default for CauseHistory {
    fn default() -> Self {
        Self::new(KnownCauses::without_causes(""), BTreeSet::new(), None)
    }
}

impl CauseHistory {
    pub(crate) const fn new(
        known: KnownCauses,
        new: BTreeSet<String>,
        last_refresh: Option<Timestamp>,
    ) -> Self {
        Self { new, last_refresh, known: Mutex::new(known) }
    }

    /// Locks the known causes, which mirror the file: each change updates both.
    pub(crate) fn lock_known(&self) -> MutexGuard<'_, KnownCauses> {
        lock(&self.known)
    }
}

/// The state of a cause: new, known, resolved or returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CauseStatus {
    /// True if no reading found the cause before this console started, and it is not marked as known or resolved.
    pub(crate) is_new: bool,
    pub(crate) note: Option<CauseNote>,
    pub(crate) state: CauseState,
}

impl CauseStatus {
    pub(crate) const fn has_returned(&self) -> bool {
        matches!(self.state, CauseState::CameBack(_))
    }

    /// Returns the sort rank in lists: returned and new causes first, known causes later, resolved causes last.
    pub(crate) const fn list_rank(&self) -> u8 {
        match (&self.state, &self.note) {
            (CauseState::CameBack(_), _) => 0,
            (CauseState::Resolved(_), _) => 4,
            (CauseState::Open, Some(_)) => 3,
            (CauseState::Open, None) if self.is_new => 1,
            (CauseState::Open, None) => 2,
        }
    }
}

/// An entry in the list.
#[derive(Clone, Debug)]
pub(crate) struct LetterEntry {
    /// The SQS message id in this queue. URLs and plans identify the message by it.
    pub(crate) sqs_message_id: String,
    pub(crate) message_id: String,
    pub(crate) sent_at: Timestamp,
    /// The error in one line.
    pub(crate) headline: String,
    pub(crate) error_type: String,
    pub(crate) fingerprint: String,
    pub(crate) tenant: Option<String>,
    /// The function that gave up on the message, if known.
    pub(crate) function: Option<String>,
    pub(crate) attempts: Option<u32>,
    receive_count: u32,
    place: SpoolPosition,
}

/// Collects messages while the queue is read.
#[derive(Debug)]
pub(crate) struct SnapshotBuilder {
    letters: Vec<LetterEntry>,
    groups: GroupTable,
    spool: Spool,
}

impl SnapshotBuilder {
    pub(crate) fn new(spool: Spool) -> Self {
        Self { letters: Vec::new(), groups: GroupTable::default(), spool }
    }

    /// Returns the number of messages so far.
    pub(crate) fn letter_count(&self) -> usize {
        self.letters.len()
    }

    /// Returns the causes so far, largest first.
    pub(crate) fn current_causes(&self) -> Vec<DeadLetterGroup> {
        self.groups.clone().into_groups()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.letters.len() >= LETTERS_MAX || self.spool.byte_count() >= BYTES_MAX
    }

    pub(crate) fn add_record(&mut self, record: &DeadLetterRecord) -> Result<(), CommandFailure> {
        let place = self.spool.append_message(&record.message)?;
        self.groups.add_record(record);
        self.letters.push(LetterEntry {
            sqs_message_id: record.message.sqs_message_id.clone(),
            message_id: shorten_text(record.message_id(), ID_MAX),
            sent_at: record.message.sent_at,
            headline: shorten_text(&record.headline(), HEADLINE_MAX),
            error_type: record.error_type.clone(),
            fingerprint: record.fingerprint.clone(),
            tenant: record.tenant().map(|tenant| shorten_text(&tenant, NAME_MAX)),
            function: record.failed_function().map(|function| shorten_text(&function, NAME_MAX)),
            attempts: record.attempts(),
            receive_count: record.message.receive_count,
            place,
        });
        Ok(())
    }

    pub(crate) fn into_snapshot(
        self,
        coverage: Coverage,
        taken_at: Timestamp,
        retention: Option<Retention>,
    ) -> Snapshot {
        let Self { mut letters, groups, spool } = self;
        // Newest first. Ids break ties, so that the order is stable.
        letters.sort_by(|left, right| {
            right.sent_at.cmp(&left.sent_at).then_with(|| left.sqs_message_id.cmp(&right.sqs_message_id))
        });
        Snapshot {
            letters,
            groups: groups.into_groups(),
            coverage,
            taken_at,
            now: taken_at,
            retention,
            causes: CauseHistory::default(),
            remark: None,
            spool,
        }
    }
}

/// The dead letters in a selection, newest first.
#[derive(Debug, Default)]
pub(crate) struct SelectedLetters<'l> {
    pub(crate) letters: Vec<&'l LetterEntry>,
    /// Messages for which the jq filter failed. They are not selected.
    pub(crate) not_judged: NotJudged,
}

/// Messages that are about to expire.
pub(crate) struct ExpiringMessages {
    pub(crate) count: u64,
    /// The expiry of the first message.
    pub(crate) first: Timestamp,
}

impl Snapshot {
    pub(crate) fn read_record(&self, letter: &LetterEntry) -> Result<DeadLetterRecord, CommandFailure> {
        Ok(DeadLetterRecord::new(self.spool.read_message(letter.place)?))
    }

    /// Returns the number of messages that were in the queue, read or not.
    pub(crate) fn message_count(&self) -> u64 {
        self.coverage.seen.max(self.coverage.approximate)
    }

    /// Finds a dead letter by its SQS message id.
    pub(crate) fn find_letter(&self, sqs_message_id: &str) -> Option<&LetterEntry> {
        self.letters.iter().find(|letter| letter.sqs_message_id == sqs_message_id)
    }

    /// Returns the causes of messages that were sent back and are in the DLQ again. `sent` maps each `message_id` to
    /// the generation in which the message was sent back.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub(crate) fn find_repeat_failures(
        &self,
        sent: &HashMap<String, u32>,
    ) -> Result<Vec<RepeatFailure>, CommandFailure> {
        let mut all = Vec::new();
        for letter in &self.letters {
            let Some(generation) = sent.get(&letter.message_id) else { continue };
            // A message that still has its earlier generation never left the DLQ.
            let record = self.read_record(letter)?;
            if record.metadata.is_some_and(|metadata| metadata.generation() >= *generation) {
                let died = RepeatFailure {
                    fingerprint: letter.fingerprint.clone(),
                    headline: letter.headline.clone(),
                    count: 1,
                    examples: vec![letter.sqs_message_id.clone()],
                };
                RepeatFailure::merge_into(&mut all, died);
            }
        }
        Ok(all)
    }

    /// Returns the time at which SQS deletes a message, if the queue's retention is known.
    pub(crate) fn expires_at(&self, letter: &LetterEntry) -> Option<Timestamp> {
        self.retention?.ends_at(letter.sent_at)
    }

    /// Returns a sentence about the messages that are about to expire, or `None` if there are none.
    pub(crate) fn describe_expiring_messages(&self) -> Option<String> {
        let ExpiringMessages { count, first } = self.count_expiring_soon(self.taken_at)?;
        describe_expiring_messages(count, Some(first), self.retention, self.taken_at)
    }

    /// Counts the messages that are about to expire, or returns `None` if there are none.
    pub(crate) fn count_expiring_soon(&self, now: Timestamp) -> Option<ExpiringMessages> {
        let retention = self.retention?;
        let ends = self.letters.iter().filter_map(|letter| self.expires_at(letter));
        let soon: Vec<_> = ends.filter(|ends_at| retention.ends_soon(*ends_at, now)).collect();
        Some(ExpiringMessages { count: soon.len() as u64, first: soon.into_iter().min()? })
    }

    /// Returns the cutoff: messages sent before it are about to expire.
    pub(crate) fn expiry_cutoff(&self) -> Option<Timestamp> {
        self.taken_at.checked_sub_signed(self.retention?.age_at_last_fifth())
    }

    /// Describes how often the messages have been received, and how many of them SQS's age metric no longer counts.
    pub(crate) fn describe_refresh_cost(&self) -> Option<String> {
        let most = self.letters.iter().map(|letter| letter.receive_count).max()?;
        let hidden =
            self.letters.iter().filter(|letter| letter.receive_count >= RECEIVES_HIDDEN_FROM_AGE).count();
        let receives = format!(
            "A refresh receives every message: these were received {}.",
            if most == 1 { "once".to_owned() } else { format!("up to {most} times") }
        );
        Some(match hidden as u64 {
            0 => receives,
            count => format!(
                "{receives} SQS's age metric no longer counts {} that were received three times or more.",
                format_count(count, "message")
            ),
        })
    }

    /// Returns the state of a cause.
    pub(crate) fn cause_status(&self, group: &DeadLetterGroup) -> CauseStatus {
        self.find_status(&group.fingerprint, Some(group))
    }

    /// Returns the state of a cause without messages in this reading.
    pub(crate) fn gone_cause_status(&self, fingerprint: &str) -> CauseStatus {
        self.find_status(fingerprint, None)
    }

    fn find_status(&self, fingerprint: &str, group: Option<&DeadLetterGroup>) -> CauseStatus {
        let known = self.causes.lock_known();
        let (note, state) = (known.find_note(fingerprint).cloned(), known.cause_state(fingerprint, group));
        let is_marked = note.is_some() || state != CauseState::Open;
        CauseStatus { is_new: self.causes.new.contains(fingerprint) && !is_marked, note, state }
    }

    pub(crate) fn find_group(&self, fingerprint: &str) -> Option<&DeadLetterGroup> {
        self.groups.iter().find(|group| group.fingerprint == fingerprint)
    }

    /// Counts the new causes (see [`CauseStatus::is_new`]), and the resolved causes that have returned.
    pub(crate) fn count_new_and_returned(&self) -> [u64; 2] {
        let lives: Vec<_> = self.groups.iter().map(|group| self.cause_status(group)).collect();
        let count = |is: fn(&CauseStatus) -> bool| lives.iter().filter(|life| is(life)).count() as u64;
        [count(|life| life.is_new), count(CauseStatus::has_returned)]
    }

    /// Returns the fingerprints of the causes that `new` selects.
    fn new_causes(&self, new: &str) -> Result<Option<BTreeSet<&str>>, CommandFailure> {
        let all = self.groups.iter();
        if new == SINCE_LAST_REFRESH {
            let new = all.filter(|group| self.cause_status(group).is_new);
            return Ok(Some(new.map(|group| group.fingerprint.as_str()).collect()));
        }
        let Some(since) = parse_moment("causes new since", new, self.now)? else { return Ok(None) };
        let known = self.causes.lock_known();
        let is_new = |group: &&DeadLetterGroup| {
            let first = known.first_sent_at(&group.fingerprint);
            first.map_or(group.first, |first| first.min(group.first)) >= since
        };
        Ok(Some(all.filter(is_new).map(|group| group.fingerprint.as_str()).collect()))
    }

    /// Returns the selected dead letters, newest first. Reads a body from disk only if the list alone does not rule the
    /// message out.
    ///
    /// # Errors
    /// A time or the filter is invalid, or the filter fails.
    pub(crate) fn select_letters(
        &self,
        selection: &Selection,
    ) -> Result<SelectedLetters<'_>, CommandFailure> {
        let since = parse_moment("since", &selection.since, self.now)?;
        let until = parse_moment("until", &selection.until, self.now)?;
        let filter = Some(&selection.filter).filter(|text| !text.trim().is_empty());
        let filter = filter.map(|text| Filter::for_dead_letters(text)).transpose()?;
        let wanted = TextSearch::new(&selection.q);
        let new_causes = self.new_causes(&selection.new)?;
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let mut selected = SelectedLetters::default();
        for letter in &self.letters {
            let by_list = is(&selection.group, &letter.fingerprint)
                && is(&selection.error_type, &letter.error_type)
                && is(&selection.id, &letter.sqs_message_id)
                && is(&selection.tenant, letter.tenant.as_deref().unwrap_or_default())
                && is(&selection.function, letter.function.as_deref().unwrap_or_default())
                && new_causes.as_ref().is_none_or(|new| new.contains(letter.fingerprint.as_str()))
                && since.is_none_or(|since| letter.sent_at >= since)
                && until.is_none_or(|until| letter.sent_at < until);
            if !by_list {
                continue;
            }
            if filter.is_some() || wanted.is_some() {
                let record = self.read_record(letter)?;
                match choose_record(&record, wanted.as_ref(), filter.as_ref())? {
                    Choice::Picked => {}
                    Choice::NotPicked => continue,
                    Choice::NotJudged(why) => {
                        selected.not_judged.count_record(&record, why);
                        continue;
                    }
                }
            }
            selected.letters.push(letter);
        }
        Ok(selected)
    }

    /// Describes a selection: a cause by its headline, followed by its fingerprint.
    pub(crate) fn describe_selection(&self, selection: &Selection) -> String {
        let Some(group) = self.find_group(&selection.group) else {
            return selection.describe();
        };
        let headline = shorten_text(&group.headline, HEADLINE_IN_SENTENCE_MAX);
        let cause = format!("the cause \u{201c}{headline}\u{201d} ({})", group.fingerprint);
        let others = Selection { group: String::new(), ..selection.clone() };
        if others.selects_all() { cause } else { format!("{cause}, {}", others.describe()) }
    }
}

fn choose_record(
    record: &DeadLetterRecord,
    wanted: Option<&TextSearch>,
    filter: Option<&Filter>,
) -> Result<Choice, CommandFailure> {
    let texts =
        [record.message_id(), &record.message.sqs_message_id, &record.error_details, &record.message.body];
    if wanted.is_some_and(|wanted| !texts.iter().any(|text| wanted.finds_in(text))) {
        return Ok(Choice::NotPicked);
    }
    match filter {
        Some(filter) => Ok(filter.judge_document(&record.message.sqs_message_id, &record.filter_document())?),
        None => Ok(Choice::Picked),
    }
}

#[cfg(test)]
mod tests;
