//! The dead letters of one look: what a list needs of each in memory, the rest in the spool; and which of them are
//! meant.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_dead_letters::groups::{Group, GroupTable};
use redeliver_dead_letters::{Choice, Coverage, DeadLetterRecord, Filter, NotJudged, read_lossy};
use serde::{Deserialize, Serialize};

use super::frame::encoded;
use super::spool::{BYTES_MAX, Place, Spool};
use redeliver_operator::Failure;
use redeliver_operator::terminal::escape::shortened;

/// Letters of a message's error that a list shows.
const DETAILS_MAX: usize = 200;
/// As many of an id that is not ours.
const ID_MAX: usize = 128;
/// Messages of one look at most; an entry takes less than a kibibyte.
pub(super) const LETTERS_MAX: usize = 120_000;

/// What one look has found.
#[derive(Debug)]
pub(super) struct Letters {
    pub(super) letters: Vec<Letter>,
    pub(super) groups: Vec<Group>,
    pub(super) coverage: Coverage,
    pub(super) taken_at: Timestamp,
    /// How long the queue keeps a message, if that is known.
    pub(super) retention: Option<TimeDelta>,
    /// Fingerprints of groups that no earlier look has seen.
    pub(super) new_causes: BTreeSet<String>,
    /// What is not known, in a sentence.
    pub(super) remark: Option<String>,
    spool: Spool,
}

/// What a list needs of a dead letter.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// SQS's id in this queue: what names it in addresses and plans.
    pub(super) sqs_message_id: String,
    pub(super) message_id: String,
    pub(super) sent_at: Timestamp,
    pub(super) error_type: String,
    pub(super) error_details: String,
    pub(super) fingerprint: String,
    pub(super) attempts: Option<u32>,
    place: Place,
}

/// Takes messages, one after the other.
#[derive(Debug)]
pub(super) struct Collecting {
    letters: Vec<Letter>,
    groups: GroupTable,
    spool: Spool,
}

impl Collecting {
    pub(super) fn new(spool: Spool) -> Self {
        Self { letters: Vec::new(), groups: GroupTable::default(), spool }
    }

    pub(super) fn is_full(&self) -> bool {
        self.letters.len() >= LETTERS_MAX || self.spool.bytes() >= BYTES_MAX
    }

    pub(super) fn add(&mut self, record: &DeadLetterRecord) -> Result<(), Failure> {
        let place = self.spool.add(&record.message)?;
        self.groups.add(record);
        self.letters.push(Letter {
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

    pub(super) fn into_letters(
        self,
        coverage: Coverage,
        taken_at: Timestamp,
        retention: Option<TimeDelta>,
    ) -> Letters {
        let Self { mut letters, groups, spool } = self;
        // The newest first; by id if the time is the same, so that a page is the same each time.
        letters.sort_by(|one, other| {
            other.sent_at.cmp(&one.sent_at).then_with(|| one.sqs_message_id.cmp(&other.sqs_message_id))
        });
        Letters {
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

/// Which dead letters are meant, as an address has it: empty is any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Selection {
    /// A fingerprint.
    pub(super) group: String,
    /// An `ErrorType`.
    #[serde(rename = "type")]
    pub(super) error_type: String,
    /// What its ids, its error or its body has in it, in whatever case.
    pub(super) q: String,
    /// A message group, or what an attribute or a member of the metadata called `tenant` has.
    pub(super) tenant: String,
    /// Not older than this span, such as `2h`, or this moment.
    pub(super) since: String,
    /// Older than that.
    pub(super) until: String,
    /// A jq filter.
    #[serde(rename = "where")]
    pub(super) filter: String,
    /// One message, by SQS's id.
    pub(super) id: String,
}

impl Selection {
    pub(super) fn of_group(fingerprint: &str) -> Self {
        Self { group: fingerprint.to_owned(), ..Self::default() }
    }

    /// One message, by SQS's id.
    pub(super) fn of_message(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// What is given, by the names that addresses and forms have for it.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { group, error_type, q, tenant, since, until, filter, id } = self;
        let parts = [
            ("group", group),
            ("type", error_type),
            ("q", q),
            ("tenant", tenant),
            ("since", since),
            ("until", until),
            ("where", filter),
            ("id", id),
        ];
        parts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.as_str()))
    }

    /// A selection in words, for a plan that has no filter any more.
    pub(super) fn words(&self) -> String {
        let words = self.given().map(|(name, value)| {
            let name = match name {
                "q" => "text",
                "id" => "message",
                name => name,
            };
            format!("{name} {}", shortened(value, DETAILS_MAX))
        });
        let words: Vec<_> = words.collect();
        if words.is_empty() { "all".to_owned() } else { words.join(", ") }
    }

    /// The address of a page with it, to be shared.
    pub(super) fn address(&self, page: &str) -> String {
        let query: Vec<_> = self.given().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        if query.is_empty() { page.to_owned() } else { format!("{page}?{}", query.join("&")) }
    }
}

/// What a selection means, newest first.
#[derive(Debug, Default)]
pub(super) struct Selected<'l> {
    pub(super) letters: Vec<&'l Letter>,
    /// By the jq filter; none of them is selected.
    pub(super) not_judged: NotJudged,
}

impl Letters {
    pub(super) fn record(&self, letter: &Letter) -> Result<DeadLetterRecord, Failure> {
        Ok(DeadLetterRecord::new(self.spool.get(letter.place)?))
    }

    /// One of them, by SQS's id.
    pub(super) fn find(&self, sqs_message_id: &str) -> Option<&Letter> {
        self.letters.iter().find(|letter| letter.sqs_message_id == sqs_message_id)
    }

    /// When SQS deletes a letter, if the queue's retention is known.
    pub(super) fn expires_at(&self, letter: &Letter) -> Option<Timestamp> {
        letter.sent_at.checked_add_signed(self.retention?)
    }

    /// Those that are meant, newest first. What can be told from the list alone is told first: a body is read back only
    /// if nothing else rules it out.
    ///
    /// # Errors
    /// If a moment or the filter is not understood, or the filter gives no answer; in words.
    pub(super) fn select(&self, selection: &Selection) -> Result<Selected<'_>, Failure> {
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

/// By what the circuit breaker takes for the tenant, the message group, or by an attribute or a member of the metadata
/// that producers call so.
fn is_of_tenant(message: &ReceivedMessage, tenant: &str) -> bool {
    let by_attribute =
        || message.attributes.get("tenant").and_then(|attribute| attribute.text()) == Some(tenant);
    let by_metadata =
        || read_lossy(&message.body).is_ok_and(|body| body["metadata"]["tenant"].as_str() == Some(tenant));
    message.message_group_id.as_deref() == Some(tenant) || by_attribute() || by_metadata()
}

/// A span before `now`, or a moment.
fn moment(name: &str, text: &str, now: Timestamp) -> Result<Option<Timestamp>, Failure> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let span = humantime::parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    // Also as a form's field has it, which is UTC like all times of the page.
    let found = span
        .and_then(|span| now.checked_sub_signed(span))
        .or_else(|| parse_rfc3339(text))
        .or_else(|| parse_rfc3339(&format!("{text}Z")))
        .or_else(|| parse_rfc3339(&format!("{text}:00Z")));
    let wrong =
        || format!("{name}: write a span such as 2h or 7d, or a moment such as 2026-01-31T08:30Z").into();
    found.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
