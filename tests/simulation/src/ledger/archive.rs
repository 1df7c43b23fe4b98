//! Checks the archive and the notices against the documentation. Each death is archived as one object before the
//! annotator sends it to the final DLQ, and each process sends at most one notice per cause and hour.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use chrono::{DateTime, NaiveDateTime, SubsecRound as _, TimeDelta, Utc};
use flate2::read::GzDecoder;
use redeliver_core::archive::ArchivedMessage;
use redeliver_core::message::{Attributes, Content};
use redeliver_core::notices::Notice;

use super::arrivals::dead_letter;
use super::calls::SECRETS;
use super::copies::Copy;
use super::{BrokenInvariant, Ledger, QueuePlace, hash_body, time_delta, trace_header};
use crate::archive::PREFIX;
use crate::messages::message_number;

/// The longest time in seconds that an invocation spends on notices.
const NOTICES_SECONDS_MAX: i64 = 5;

/// The state of the archive and the notices.
#[derive(Default)]
pub(super) struct ArchiveLedger {
    objects: BTreeMap<String, ArchivedDeath>,
    /// The object key of each verdict, by the verdict's SQS message id.
    key_by_verdict: BTreeMap<String, String>,
    /// The time of the last notice, by process and cause.
    published_at: BTreeMap<(u64, String), DateTime<Utc>>,
}

/// An archived death.
struct ArchivedDeath {
    /// The message number.
    n: usize,
    death: DeathId,
    cause: String,
}

/// The time of the last failure, and the SQS message id of the delivery that failed.
type DeathId = (DateTime<Utc>, String);

/// An invocation's requests to publish notices: the start of the first one, and the number of pending ones.
#[derive(Debug, Default)]
pub(super) struct NoticeRequests {
    began_at: Option<DateTime<Utc>>,
    pending: u32,
}

impl Ledger {
    /// Records and checks the outcome of a conditional write. `is_done` is true if it created the object.
    pub fn check_write(&mut self, key: &str, content: &[u8], is_done: bool, now: DateTime<Utc>) {
        self.record_remark(
            now,
            &format!("archive: {key} {}", if is_done { "written" } else { "already exists" }),
        );
        if let Err(violation) = self.check_written_object(key, content, is_done) {
            self.report_violation(format!("the object {key}: {violation}"));
        }
    }

    /// Checks that the object has the key of its death, has the content of a received verdict, and is written only
    /// once.
    fn check_written_object(
        &mut self,
        key: &str,
        content: &[u8],
        is_done: bool,
    ) -> Result<(), BrokenInvariant> {
        let (death, cause) = self.parse_key(key)?;
        let line = unpack_object(content)?;
        let record = line.into_message().ok_or("it cannot be read")?;
        let n = message_number(&record.body)
            .filter(|n| *n < self.subjects.len())
            .ok_or("its body belongs to no message")?;
        let content = Content {
            body: record.body,
            attributes: record.attributes,
            message_group_id: record.message_group_id,
            trace_header: record.trace_header,
            ..Content::default()
        };
        if record.sent_at != death.0 {
            return Err(format!("its `sent_at` is {}, not the time of the death", record.sent_at));
        }
        let subject = &self.subjects[n];
        let attached = trace_header::attach_failure(&content);
        let content = &*subject.as_envelope(&attached);
        let body_hash = hash_body(&content.body);
        let verdict = record.sqs_message_id;
        let mut received =
            subject.copies[QueuePlace::Annotation as usize].iter().filter(|copy| copy.receives > 0);
        let copy = received.find(|copy| copy.id == verdict).ok_or("its verdict was never received")?;
        if copy.body_hash != body_hash || !possible_deaths(copy).contains(&death) {
            return Err(format!("it does not match the verdict {verdict} on message {n}"));
        }
        if failure_fingerprint(&content.attributes).is_some_and(|fingerprint| fingerprint != cause) {
            return Err("its record has another fingerprint".to_owned());
        }
        if !self.has_producer_attributes(
            n,
            &super::copies::producer_attributes(&content.attributes, "DeadLetter"),
        ) && !subject.is_oversize()
        {
            return Err("its attributes are not the producer's".to_owned());
        }
        let is_there = self.archive_ledger.objects.contains_key(key);
        if is_there == is_done {
            return Err("it was written twice, or never".to_owned());
        }
        let before = self.archive_ledger.key_by_verdict.insert(verdict, key.to_owned());
        if let Some(before) = before.filter(|before| before != key) {
            return Err(format!("the death already has another object: {before}"));
        }
        if is_done {
            self.archive_ledger.objects.insert(key.to_owned(), ArchivedDeath { n, death, cause });
        }
        Ok(())
    }

    fn parse_key(&self, key: &str) -> Result<(DeathId, String), BrokenInvariant> {
        let read = || {
            let folder = format!("{PREFIX}dead-letters/deployment=final-dlq/");
            let (date, rest) = key.strip_prefix(&folder)?.strip_prefix("date=")?.split_once("/cause=")?;
            let (cause, rest) = rest.split_once('/')?;
            let (time, id) = rest.strip_suffix(".jsonl.gz")?.split_once("Z-")?;
            let at = NaiveDateTime::parse_from_str(&format!("{date} {time}"), "%Y-%m-%d %H%M%S%.f").ok()?;
            Some(((at.and_utc(), id.to_owned()), cause.to_owned()))
        };
        read().ok_or_else(|| "its key does not identify a death".to_owned())
    }

    /// Checks that a final record is sent only after its death has been archived.
    pub(super) fn check_archived(
        &self,
        n: usize,
        content: &Content,
        body_hash: u64,
    ) -> Result<(), BrokenInvariant> {
        if !self.knobs.archiving.as_ref().is_some_and(|archiving| archiving.has_bucket) {
            return Ok(());
        }
        let fingerprint = failure_fingerprint(&content.attributes);
        let copies = self.subjects[n].copies[QueuePlace::Annotation as usize].iter();
        let received = copies.filter(|copy| copy.receives > 0 && copy.body_hash == body_hash);
        let deaths: BTreeSet<_> = received.flat_map(possible_deaths).collect();
        let is_this = |object: &ArchivedDeath| {
            object.n == n
                && deaths.contains(&object.death)
                && fingerprint.as_ref().is_none_or(|fingerprint| *fingerprint == object.cause)
        };
        if self.archive_ledger.objects.values().any(is_this) {
            return Ok(());
        }
        Err(format!("its death is not in the archive: one of {deaths:?} with {fingerprint:?}"))
    }

    /// Returns the number of the message's archived deaths, after checking that each also has a final record.
    pub(super) fn count_archived_deaths(&self, n: usize) -> Result<u32, BrokenInvariant> {
        let objects = self.archive_ledger.objects.values().filter(|object| object.n == n);
        let archived = u32::try_from(objects.count()).unwrap_or(u32::MAX);
        let records = self.subjects[n].final_records;
        if archived > records {
            return Err(format!("message {n}: {archived} deaths in the archive, {records} final records"));
        }
        Ok(archived)
    }

    /// Records and checks a notice that this process is about to publish.
    pub fn begin_notice(&mut self, process: u64, notice: &Notice, now: DateTime<Utc>) {
        self.record_remark(now, &format!("notice: process {process}, {}", notice.fingerprint));
        if let Err(violation) = self.check_notice(process, notice, now) {
            self.report_violation(format!("the notice of {}: {violation}", notice.fingerprint));
        }
    }

    /// Records that the process received the confirmation of a published notice.
    pub fn record_published_notice(&mut self, process: u64, cause: &str, now: DateTime<Utc>) {
        self.archive_ledger.published_at.insert((process, cause.to_owned()), now);
    }

    fn check_notice(&self, process: u64, notice: &Notice, now: DateTime<Utc>) -> Result<(), BrokenInvariant> {
        let texts = [notice.subject(), notice.text(), notice.to_json()];
        if SECRETS.iter().any(|secret| texts.iter().any(|text| text.contains(secret))) {
            return Err(format!("it holds a payload, an attribute or a target's text: {texts:?}"));
        }
        // Covers the errors of two clocks, and the time between reading a clock and publishing.
        let tolerance = self.clock_skew() + self.clock_skew() + time_delta(self.knobs.invocation_seconds);
        let cause = &notice.fingerprint;
        let last = self.archive_ledger.published_at.get(&(process, cause.clone()));
        if last.is_some_and(|last| now - *last + tolerance < TimeDelta::hours(1)) {
            return Err(format!("the last one was at {last:?}"));
        }
        let of_cause = self.archive_ledger.objects.values().filter(|object| object.cause == *cause);
        let subjects: BTreeSet<_> = of_cause.map(|object| object.n).collect();
        let sent: u64 = subjects.iter().map(|n| u64::from(self.subjects[*n].final_records)).sum();
        let has_bucket = self.knobs.archiving.as_ref().is_some_and(|archiving| archiving.has_bucket);
        if notice.count == 0 || (has_bucket && notice.count > sent) {
            return Err(format!("it counts {} deaths, but {sent} final records were sent", notice.count));
        }
        Ok(())
    }

    /// Records the start of a request to publish a notice, and returns the current invocation.
    pub fn begin_notice_request(&mut self, now: DateTime<Utc>) -> Option<u64> {
        let invocation = self.invocations.get_mut(&self.current_invocation?)?;
        invocation.notices.began_at.get_or_insert(now);
        invocation.notices.pending += 1;
        self.current_invocation
    }

    /// Records that a request to publish a notice was answered or abandoned, and checks the total time that the
    /// invocation spent on notices.
    pub fn end_notice_request(&mut self, invocation: u64, now: DateTime<Utc>) {
        let Some(invocation) = self.invocations.get_mut(&invocation) else { return };
        invocation.notices.pending -= 1;
        let began_at = invocation.notices.began_at;
        let took = began_at.map_or(TimeDelta::zero(), |began_at| now - began_at);
        if took > TimeDelta::seconds(NOTICES_SECONDS_MAX) {
            self.report_violation(format!("the notices of one invocation took {took}"));
        }
    }

    /// Checks that an invocation that timed out was not still publishing a notice.
    pub fn check_timed_out_invocation(&mut self, invocation: u64) {
        let invocation = self.invocations.get(&invocation);
        if invocation.is_some_and(|invocation| invocation.notices.pending > 0) {
            self.report_violation("a notice delayed the response of its invocation".to_owned());
        }
    }
}

/// Returns the deaths that an object for this copy can describe: one, unless there was no room for the failure time.
fn possible_deaths(copy: &Copy) -> Vec<DeathId> {
    let failure = copy.trusted_failure().filter(|failure| !failure.text_member("verdict").is_empty());
    let id = failure.map(|failure| failure.text_member("source_message_id")).filter(|id| !id.is_empty());
    let id = id.unwrap_or(&copy.id).to_owned();
    let times = match failure {
        None => vec![copy.sent_at],
        Some(failure) => match failure.time_member("failed_at") {
            Some(failed_at) => vec![failed_at],
            None => copy.first_received.into_iter().chain([copy.sent_at]).collect(),
        },
    };
    times.into_iter().map(|at| (at.trunc_subsecs(6), id.clone())).collect()
}

fn failure_fingerprint(attributes: &Attributes) -> Option<String> {
    let (record, _) = dead_letter(attributes)?;
    record["fingerprint"].as_str().map(str::to_owned)
}

/// Decompresses and parses the single line of an object.
fn unpack_object(content: &[u8]) -> Result<ArchivedMessage, BrokenInvariant> {
    let mut text = String::new();
    GzDecoder::new(content).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let line = text.strip_suffix('\n').filter(|line| !line.contains('\n')).ok_or("it is not one line")?;
    serde_json::from_str(line).map_err(|error| error.to_string())
}
