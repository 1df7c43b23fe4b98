//! The dead letters of one reading. The list is in memory, the messages are in the spool.

use std::collections::{BTreeSet, HashMap};

use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_dead_letters::groups::{Group, GroupTable};
use redeliver_dead_letters::redrive::DiedAgain;
use redeliver_dead_letters::{Choice, Coverage, DeadLetterRecord, Filter, NotJudged, Retention, read_lossy};
use redeliver_operator::Failure;
use redeliver_operator::sentences::deleted_soon;
use redeliver_operator::terminal::escape::shortened;

use crate::dead_letters::selection::{Selection, moment};
use crate::dead_letters::spool::{BYTES_MAX, Place, Spool};

/// Characters of an error in the list.
const DETAILS_MAX: usize = 200;
/// Characters of an id that is not ours.
const ID_MAX: usize = 128;
/// Maximum messages of one snapshot. An entry takes less than a kibibyte.
pub(crate) const LETTERS_MAX: usize = 120_000;

/// The dead letters of one reading.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) letters: Vec<DeadLetter>,
    pub(crate) groups: Vec<Group>,
    pub(crate) coverage: Coverage,
    pub(crate) taken_at: Timestamp,
    /// The queue's retention, if it is known.
    pub(crate) retention: Option<Retention>,
    /// Fingerprints of groups that no earlier reading has seen.
    pub(crate) new_causes: BTreeSet<String>,
    /// A sentence about what could not be determined.
    pub(crate) remark: Option<String>,
    spool: Spool,
}

/// An entry of the list.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    /// SQS's id in this queue. Addresses and plans name the message by it.
    pub(crate) sqs_message_id: String,
    pub(crate) message_id: String,
    pub(crate) sent_at: Timestamp,
    pub(crate) error_type: String,
    pub(crate) error_details: String,
    pub(crate) fingerprint: String,
    pub(crate) attempts: Option<u32>,
    place: Place,
}

/// Collects messages while the queue is read.
#[derive(Debug)]
pub(crate) struct SnapshotBuilder {
    letters: Vec<DeadLetter>,
    groups: GroupTable,
    spool: Spool,
}

impl SnapshotBuilder {
    pub(crate) fn new(spool: Spool) -> Self {
        Self { letters: Vec::new(), groups: GroupTable::default(), spool }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.letters.len() >= LETTERS_MAX || self.spool.bytes() >= BYTES_MAX
    }

    pub(crate) fn add(&mut self, record: &DeadLetterRecord) -> Result<(), Failure> {
        let place = self.spool.add(&record.message)?;
        self.groups.add(record);
        self.letters.push(DeadLetter {
            sqs_message_id: record.message.sqs_message_id.clone(),
            message_id: shortened(record.message_id(), ID_MAX),
            sent_at: record.message.sent_at,
            error_type: record.error_type.clone(),
            error_details: shortened(&record.error_details, DETAILS_MAX),
            fingerprint: record.fingerprint.clone(),
            attempts: record.attempts(),
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
        // Newest first. Ids break ties, so that a page looks the same each time.
        letters.sort_by(|one, other| {
            other.sent_at.cmp(&one.sent_at).then_with(|| one.sqs_message_id.cmp(&other.sqs_message_id))
        });
        Snapshot {
            letters,
            groups: groups.into_groups(),
            coverage,
            taken_at,
            retention,
            new_causes: BTreeSet::new(),
            remark: None,
            spool,
        }
    }
}

/// The dead letters of a selection, newest first.
#[derive(Debug, Default)]
pub(crate) struct Selected<'l> {
    pub(crate) letters: Vec<&'l DeadLetter>,
    /// Messages that the jq filter failed on. They are not selected.
    pub(crate) not_judged: NotJudged,
}

impl Snapshot {
    pub(crate) fn record(&self, letter: &DeadLetter) -> Result<DeadLetterRecord, Failure> {
        Ok(DeadLetterRecord::new(self.spool.get(letter.place)?))
    }

    /// Finds a dead letter by SQS's id.
    pub(crate) fn find(&self, sqs_message_id: &str) -> Option<&DeadLetter> {
        self.letters.iter().find(|letter| letter.sqs_message_id == sqs_message_id)
    }

    /// The causes that messages died of again: they were sent back in these generations, by their own ids, and are here.
    ///
    /// # Errors
    /// The spool cannot be read.
    pub(crate) fn died_again(&self, sent: &HashMap<String, u32>) -> Result<Vec<DiedAgain>, Failure> {
        let mut all = Vec::new();
        for letter in &self.letters {
            let Some(generation) = sent.get(&letter.message_id) else { continue };
            // One that is not of a later generation was never away.
            let record = self.record(letter)?;
            if record.metadata.is_some_and(|metadata| metadata.generation() >= *generation) {
                let died = DiedAgain {
                    fingerprint: letter.fingerprint.clone(),
                    error_type: letter.error_type.clone(),
                    error_details: letter.error_details.clone(),
                    count: 1,
                    examples: vec![letter.sqs_message_id.clone()],
                };
                DiedAgain::add(&mut all, died);
            }
        }
        Ok(all)
    }

    /// The time at which SQS deletes a message, if the queue's retention is known.
    pub(crate) fn expires_at(&self, letter: &DeadLetter) -> Option<Timestamp> {
        self.retention?.ends_at(letter.sent_at)
    }

    /// A sentence about messages that SQS deletes soon; `None` if there are none.
    pub(crate) fn deleted_soon(&self) -> Option<String> {
        let retention = self.retention?;
        let ends = self.letters.iter().filter_map(|letter| self.expires_at(letter));
        let soon: Vec<_> = ends.filter(|ends_at| retention.ends_soon(*ends_at, self.taken_at)).collect();
        deleted_soon(soon.len() as u64, soon.iter().min().copied(), self.retention, self.taken_at)
    }

    /// Returns the selected dead letters, newest first. A body is read back from the disk only if the list alone does
    /// not rule the message out.
    ///
    /// # Errors
    /// A time or the filter is not understood, or the filter gives no answer.
    pub(crate) fn select(&self, selection: &Selection) -> Result<Selected<'_>, Failure> {
        let since = moment("since", &selection.since, self.taken_at)?;
        let until = moment("until", &selection.until, self.taken_at)?;
        let filter = Some(&selection.filter).filter(|text| !text.trim().is_empty());
        let filter = filter.map(|text| Filter::of_dead_letters(text)).transpose()?;
        let wanted = selection.q.trim().to_lowercase();
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let mut selected = Selected::default();
        for letter in &self.letters {
            let by_list = is(&selection.group, &letter.fingerprint)
                && is(&selection.error_type, &letter.error_type)
                && is(&selection.id, &letter.sqs_message_id)
                && since.is_none_or(|since| letter.sent_at >= since)
                && until.is_none_or(|until| letter.sent_at < until);
            if !by_list {
                continue;
            }
            if filter.is_some() || !wanted.is_empty() || !selection.tenant.is_empty() {
                let record = self.record(letter)?;
                match choice(&record, &wanted, &selection.tenant, filter.as_ref())? {
                    Choice::Picked => {}
                    Choice::NotPicked => continue,
                    Choice::NotJudged(why) => {
                        selected.not_judged.add(&record, why);
                        continue;
                    }
                }
            }
            selected.letters.push(letter);
        }
        Ok(selected)
    }
}

fn choice(
    record: &DeadLetterRecord,
    wanted: &str,
    tenant: &str,
    filter: Option<&Filter>,
) -> Result<Choice, Failure> {
    let texts =
        [record.message_id(), &record.message.sqs_message_id, &record.error_details, &record.message.body];
    if !wanted.is_empty() && !texts.iter().any(|text| text.to_lowercase().contains(wanted)) {
        return Ok(Choice::NotPicked);
    }
    if !tenant.is_empty() && !is_of_tenant(&record.message, tenant) {
        return Ok(Choice::NotPicked);
    }
    match filter {
        Some(filter) => Ok(filter.matches(&record.message.sqs_message_id, &record.document())?),
        None => Ok(Choice::Picked),
    }
}

/// The tenant is the message group, as for the circuit breaker, or an attribute or metadata member named `tenant`.
fn is_of_tenant(message: &ReceivedMessage, tenant: &str) -> bool {
    let by_attribute =
        || message.attributes.get("tenant").and_then(|attribute| attribute.text()) == Some(tenant);
    let by_metadata =
        || read_lossy(&message.body).is_ok_and(|body| body["metadata"]["tenant"].as_str() == Some(tenant));
    message.message_group_id.as_deref() == Some(tenant) || by_attribute() || by_metadata()
}

#[cfg(test)]
mod tests;
