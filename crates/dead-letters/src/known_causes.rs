//! The causes that have already been reported; any other cause is new.
//!
//! They are stored as JSON Lines. The first line contains the queue's ARN and the timestamp of the last report that SQS
//! will delete messages soon; each further line contains one cause. The file is written after new causes are reported,
//! so if the process is killed in between, they are reported twice rather than never.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use chrono::TimeDelta;
use redeliver_core::function_arn::parse_version;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use serde::{Deserialize, Serialize};

use crate::files::{FileError, check_new_file, read_own_file, replace_file};
use crate::groups::{DeadLetterGroup, OTHER, format_timestamp};

/// The maximum number of causes in the file; beyond it, the most recently seen causes are kept.
const CAUSES_MAX: usize = 100_000;

/// The causes that have already been reported for a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCauses {
    /// The DLQ's ARN.
    queue: String,
    /// The causes, by fingerprint.
    causes: BTreeMap<String, KnownCause>,
    /// The timestamp of the last report that SQS will delete messages soon.
    deleted_soon_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownCause {
    fingerprint: String,
    error_type: String,
    /// The timestamp at which the cause's first known message was sent to the queue; RFC 3339.
    first: String,
    /// The timestamp of the last audit that found the cause; RFC 3339.
    seen_at: String,
    /// An operator's note on the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<CauseNote>,
    /// Set while the cause is resolved, until it recurs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved: Option<Resolution>,
    /// The timestamp of the newest message in the last report that the cause recurred; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    came_back_at: Option<Timestamp>,
    /// Members written by a later version.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// A cause's resolution: when and how it was fixed. A later message in the DLQ shows that the cause recurred, unless
/// the message failed in a version before the fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The timestamp of the fix: messages sent to the DLQ until then do not count.
    pub at: Timestamp,
    /// The fix, as free text. If it is a function version, `NAME:VERSION`, earlier versions do not have the fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Resolution {
    /// Returns the timestamp of the last message that shows that a group's cause recurred; `None` if there is no such
    /// message.
    #[must_use]
    pub fn came_back_at(&self, group: &DeadLetterGroup) -> Option<Timestamp> {
        let later = group.last_by_function.iter().filter(|(function, _)| !self.function_lacks_fix(function));
        later.map(|(_, last)| *last).filter(|last| *last > self.at).max()
    }

    fn cause_recurred(&self, group: Option<&DeadLetterGroup>) -> bool {
        group.is_some_and(|group| self.came_back_at(group).is_some())
    }

    /// Returns true for a version published before the one with the fix: its failures are expected. A message without a
    /// version can come from any version.
    fn function_lacks_fix(&self, function: &str) -> bool {
        let fix = self.by.as_deref().and_then(parse_version);
        fix.zip(parse_version(function))
            .is_some_and(|((fixed, from), (name, version))| fixed == name && version < from)
    }
}

/// The state of a known cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CauseState {
    /// Not marked as resolved.
    #[default]
    Open,
    Resolved(Resolution),
    /// Newer messages show that the cause recurred. Once an audit has reported this, the resolution is no longer
    /// stored.
    CameBack(Option<Resolution>),
}

/// An operator's note on a cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CauseNote {
    /// The timestamp of the note.
    pub at: Timestamp,
    /// The text; may be empty.
    pub text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct KnownCausesHeader {
    /// Identifies the file format, so that no other file is overwritten.
    known_causes_of: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_soon_reported_at: Option<Timestamp>,
}

impl KnownCause {
    /// Returns true if the cause was resolved before the newest message of the last reported recurrence.
    fn has_recurred(&self, came_back_at: Option<Timestamp>) -> bool {
        self.resolved.as_ref().is_some_and(|resolved| came_back_at.is_some_and(|last| last > resolved.at))
    }

    fn reopen(&mut self) {
        self.resolved = None;
        self.came_back_at = None;
    }
}

impl KnownCauses {
    /// Creates an empty set of known causes.
    #[must_use]
    pub fn without_causes(queue_arn: &str) -> Self {
        Self { queue: queue_arn.to_owned(), causes: BTreeMap::new(), deleted_soon_at: None }
    }

    /// Reads a file. A missing file means that there are no known causes yet.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, may have been written by another user, or belongs to another queue, or
    /// if its directory does not exist. Nothing is changed.
    pub fn read_file(path: &Path, queue_arn: &str) -> Result<Self, FileError> {
        let text = match read_own_file(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return check_new_file(path).map(|()| Self::without_causes(queue_arn));
            }
            Err(error) => return Err(FileError::new(path, format_args!("cannot be read: {error}"))),
        };
        let mut lines = text.lines();
        let header = lines.next().and_then(|line| serde_json::from_str::<KnownCausesHeader>(line).ok());
        let Some(KnownCausesHeader { known_causes_of, deleted_soon_reported_at }) = header else {
            return Err(FileError::new(path, "is not a file of known causes; name another one"));
        };
        if known_causes_of != queue_arn {
            let why = format!("has the causes of {known_causes_of}, not of {queue_arn}; name another file");
            return Err(FileError::new(path, why));
        }
        let mut known = Self { deleted_soon_at: deleted_soon_reported_at, ..Self::without_causes(queue_arn) };
        for (line, number) in lines.zip(2_u64..) {
            let cause: KnownCause = serde_json::from_str(line).map_err(|error| {
                let why = format!("line {number} is not a known cause ({error}): remove the line, and its cause is reported once more");
                FileError::new(path, why)
            })?;
            known.causes.insert(cause.fingerprint.clone(), cause);
        }
        Ok(known)
    }

    /// Returns the groups with a new cause. Messages that did not fit into the table of groups are ignored: their
    /// causes are unknown.
    #[must_use]
    pub fn groups_with_new_cause<'g>(&self, groups: &'g [DeadLetterGroup]) -> Vec<&'g DeadLetterGroup> {
        let is_new = |group: &&DeadLetterGroup| {
            group.fingerprint != OTHER && !self.causes.contains_key(&group.fingerprint)
        };
        groups.iter().filter(is_new).collect()
    }

    /// Returns the groups whose resolved cause recurred: they have messages that are newer than the resolution and not
    /// from a version before the fix.
    #[must_use]
    pub fn groups_with_recurred_cause<'g>(
        &self,
        groups: &'g [DeadLetterGroup],
    ) -> Vec<(&'g DeadLetterGroup, &Resolution)> {
        let came_back = |group: &'g DeadLetterGroup| {
            let resolved = self.causes.get(&group.fingerprint)?.resolved.as_ref()?;
            resolved.came_back_at(group).map(|_| (group, resolved))
        };
        groups.iter().filter_map(came_back).collect()
    }

    /// Remembers that these groups were reported as recurring: each is reported once, until it is resolved again.
    pub fn remember_recurrences(&mut self, groups: &[DeadLetterGroup]) {
        for group in groups {
            let Some(cause) = self.causes.get_mut(&group.fingerprint) else { continue };
            let came_back_at = cause.resolved.as_ref().and_then(|resolved| resolved.came_back_at(group));
            if came_back_at.is_some() {
                cause.came_back_at = came_back_at;
                cause.resolved = None;
            }
        }
    }

    /// Returns the state of a cause. `group` is the group of its messages; `None` if there are no messages.
    #[must_use]
    pub fn cause_state(&self, fingerprint: &str, group: Option<&DeadLetterGroup>) -> CauseState {
        let Some(cause) = self.causes.get(fingerprint) else { return CauseState::Open };
        match &cause.resolved {
            Some(resolved) if resolved.cause_recurred(group) => CauseState::CameBack(Some(resolved.clone())),
            Some(resolved) => CauseState::Resolved(resolved.clone()),
            None if cause.came_back_at.is_some() => CauseState::CameBack(None),
            None => CauseState::Open,
        }
    }

    /// Marks a known cause as resolved in the file. Returns the file's causes.
    ///
    /// # Errors
    /// Same as [`KnownCauses::write_note`].
    pub fn mark_resolved(
        path: &Path,
        queue_arn: &str,
        fingerprint: &str,
        resolved: Resolution,
    ) -> Result<Self, FileError> {
        Self::change_cause(path, queue_arn, fingerprint, |cause| cause.resolved = Some(resolved))
    }

    /// Marks a known cause as not resolved in the file. Returns the file's causes.
    ///
    /// # Errors
    /// Same as [`KnownCauses::write_note`].
    pub fn mark_unresolved(path: &Path, queue_arn: &str, fingerprint: &str) -> Result<Self, FileError> {
        Self::change_cause(path, queue_arn, fingerprint, KnownCause::reopen)
    }

    fn change_cause(
        path: &Path,
        queue_arn: &str,
        fingerprint: &str,
        change: impl FnOnce(&mut KnownCause),
    ) -> Result<Self, FileError> {
        let mut all = Self::read_file(path, queue_arn)?;
        let cause = all.causes.get_mut(fingerprint);
        change(
            cause
                .ok_or_else(|| FileError::new(path, "does not contain this cause: reload the list first"))?,
        );
        replace_file(path, all.serialize_lines().as_bytes())?;
        Ok(all)
    }

    /// Returns the number of dead letters that did not fit into the table of groups. Their causes may be new.
    #[must_use]
    pub fn count_unknown_causes(groups: &[DeadLetterGroup]) -> u64 {
        groups.iter().filter(|group| group.fingerprint == OTHER).map(|group| group.count).sum()
    }

    /// Returns the fingerprints of all known causes.
    pub fn fingerprints(&self) -> impl Iterator<Item = &str> {
        self.causes.keys().map(String::as_str)
    }

    /// Returns the timestamp at which the first known message of a cause was sent to the queue.
    #[must_use]
    pub fn first_sent_at(&self, fingerprint: &str) -> Option<Timestamp> {
        parse_rfc3339(&self.causes.get(fingerprint)?.first)
    }

    /// Returns the timestamp of the last audit.
    #[must_use]
    pub fn last_audit_at(&self) -> Option<Timestamp> {
        parse_rfc3339(self.causes.values().map(|cause| cause.seen_at.as_str()).max()?)
    }

    /// Returns the note on a cause, if it has one.
    #[must_use]
    pub fn find_note(&self, fingerprint: &str) -> Option<&CauseNote> {
        self.causes.get(fingerprint)?.note.as_ref()
    }

    /// Returns the error type of a cause.
    #[must_use]
    pub fn error_type(&self, fingerprint: &str) -> Option<&str> {
        Some(&self.causes.get(fingerprint)?.error_type)
    }

    /// Adds or removes the note on a known cause, and writes the file. If the cause's messages show that it recurred,
    /// adding a note reopens it. Returns the file's causes.
    ///
    /// # Errors
    /// If the file cannot be read or written, or does not contain the cause. Nothing is changed in that case.
    pub fn write_note(
        path: &Path,
        queue_arn: &str,
        fingerprint: &str,
        note: Option<CauseNote>,
        group: Option<&DeadLetterGroup>,
    ) -> Result<Self, FileError> {
        Self::change_cause(path, queue_arn, fingerprint, |cause| {
            let is_resolved = cause.resolved.as_ref().is_some_and(|resolved| !resolved.cause_recurred(group));
            if note.is_some() && !is_resolved {
                cause.reopen();
            }
            cause.note = note;
        })
    }

    /// Remembers the causes of these groups.
    pub fn remember_groups(&mut self, groups: &[DeadLetterGroup], now: Timestamp) {
        for group in groups.iter().filter(|group| group.fingerprint != OTHER) {
            let first = format_timestamp(group.first);
            let cause = self.causes.entry(group.fingerprint.clone()).or_insert_with(|| KnownCause {
                fingerprint: group.fingerprint.clone(),
                error_type: group.error_type.clone(),
                first: first.clone(),
                seen_at: String::new(),
                note: None,
                resolved: None,
                came_back_at: None,
                more: serde_json::Map::new(),
            });
            // All timestamps have the same format, so as text they sort chronologically.
            cause.first = first.min(std::mem::take(&mut cause.first));
            cause.seen_at = format_timestamp(now).max(std::mem::take(&mut cause.seen_at));
        }
        self.forget_oldest(CAUSES_MAX);
    }

    /// Returns true unless it was reported within the last day that SQS will delete messages soon.
    #[must_use]
    pub fn is_deletion_report_due(&self, now: Timestamp) -> bool {
        self.deleted_soon_at.is_none_or(|at| now - at >= TimeDelta::days(1))
    }

    /// Remembers the report that SQS will delete messages soon.
    pub const fn remember_deletion_report(&mut self, now: Timestamp) {
        self.deleted_soon_at = Some(now);
    }

    fn forget_oldest(&mut self, most: usize) {
        if self.causes.len() <= most {
            return;
        }
        let mut seen: Vec<_> =
            self.causes.values().map(|cause| (cause.seen_at.clone(), cause.fingerprint.clone())).collect();
        seen.sort_unstable();
        for (_, fingerprint) in seen.iter().take(self.causes.len() - most) {
            self.causes.remove(fingerprint);
        }
    }

    /// Writes the file atomically, and includes causes that another run has added in the meantime.
    ///
    /// # Errors
    /// If the file cannot be written, or was damaged in the meantime.
    pub fn merge_into_file(&self, path: &Path) -> Result<(), FileError> {
        let mut all = Self::read_file(path, &self.queue)?;
        for (fingerprint, cause) in &self.causes {
            // Notes and resolutions are written to the file immediately, so those in the file are up to date. Another
            // run may have seen the cause earlier or later.
            let in_file = all.causes.get(fingerprint).unwrap_or(cause);
            let mut merged = KnownCause {
                first: in_file.first.as_str().min(&cause.first).to_owned(),
                seen_at: in_file.seen_at.as_str().max(&cause.seen_at).to_owned(),
                ..in_file.clone()
            };
            if in_file.has_recurred(cause.came_back_at) {
                merged.resolved = None;
                merged.came_back_at = cause.came_back_at;
            }
            all.causes.insert(fingerprint.clone(), merged);
        }
        all.deleted_soon_at = all.deleted_soon_at.max(self.deleted_soon_at);
        all.forget_oldest(CAUSES_MAX);
        replace_file(path, all.serialize_lines().as_bytes())
    }

    fn serialize_lines(&self) -> String {
        let header = KnownCausesHeader {
            known_causes_of: self.queue.clone(),
            deleted_soon_reported_at: self.deleted_soon_at,
        };
        let mut lines = serde_json::to_string(&header).expect("strings and times always serialize") + "\n";
        for cause in self.causes.values() {
            lines += &serde_json::to_string(cause).expect("strings always serialize");
            lines.push('\n');
        }
        lines
    }
}

#[cfg(test)]
mod tests;
