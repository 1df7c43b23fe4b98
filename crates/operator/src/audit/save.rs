//! `--save`: writes the selected dead letters to a file that can be sent.

use std::path::Path;

use chrono::{SecondsFormat, SubsecRound as _, TimeDelta};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::{ArchiveFile, DeadLetterRecord};

use crate::files::FileError;
use crate::terminal::units::format_count;

/// The retention of the final DLQ: the SQS maximum.
const FINAL_DLQ_RETENTION: TimeDelta = TimeDelta::days(14);

/// A newly created file of dead letters.
#[derive(Debug)]
pub struct SaveFile {
    file: ArchiveFile,
    /// Archived dead letters from this time on are also in the final DLQ, unless they were purged or redriven.
    still_queued_since: Option<Timestamp>,
    still_queued: u64,
}

impl SaveFile {
    /// Creates the file. `archive_read_at` is the time at which an archive was read. `virtual_now` is the end of the
    /// dead letters' virtual time, if any.
    pub fn create(
        path: &Path,
        archive_read_at: Option<Timestamp>,
        virtual_now: Option<Timestamp>,
    ) -> Result<Self, FileError> {
        // Whole seconds, so that --until with this timestamp selects exactly the dead letters that are not counted.
        let still_queued_since = archive_read_at.map(|now| now.trunc_subsecs(0) - FINAL_DLQ_RETENTION);
        let file = ArchiveFile::create(path)?.in_virtual_time(virtual_now);
        Ok(Self { file, still_queued_since, still_queued: 0 })
    }

    pub(super) fn append_record(&mut self, record: &DeadLetterRecord) -> Result<(), FileError> {
        let is_still_queued = self.still_queued_since.is_some_and(|since| since <= record.death().at);
        self.still_queued += u64::from(is_still_queued);
        self.file.append_message(&record.message)
    }

    pub(super) fn sync(&mut self) -> Result<(), FileError> {
        self.file.sync()
    }

    /// Warns about dead letters that would be duplicated if the file were sent.
    pub(super) fn duplicates_warning(&self) -> Option<String> {
        let since = self.still_queued_since.filter(|_| self.still_queued > 0)?;
        Some(format!(
            "{} of the last 14 days saved: unless it was purged or redriven, each is in the final DLQ, too, and would exist \
             twice once the file is sent. Redrive those from there, and save the others with --until {}",
            format_count(self.still_queued, "dead letter"),
            since.to_rfc3339_opts(SecondsFormat::Secs, true)
        ))
    }
}

#[cfg(test)]
mod tests {
    use redeliver_core::message::metadata::parse_rfc3339;

    use super::*;
    use crate::audit::examples::{record, with_sent_time};

    #[test]
    fn a_warning_counts_letters_that_may_still_be_in_the_final_dlq() {
        let folder = tempfile::tempdir().unwrap();
        let read_at = parse_rfc3339("2026-11-29T12:00:00.250Z").unwrap();
        let seconds_of = |text| parse_rfc3339(text).unwrap().timestamp();
        let warning = |name: &str, archive_read_at| {
            let mut save = SaveFile::create(&folder.path().join(name), archive_read_at, None).unwrap();
            for (n, died_at) in
                [(1, "2026-11-15T11:59:59Z"), (2, "2026-11-15T12:00:00Z"), (3, "2026-11-28T00:00:00Z")]
            {
                let record = record("NON_RETRYABLE_ERROR", "x", n);
                save.append_record(&with_sent_time(record, seconds_of(died_at))).unwrap();
            }
            save.duplicates_warning()
        };
        let warned = warning("archive.jsonl", Some(read_at)).unwrap();
        assert!(warned.starts_with("2 dead letters of the last 14 days saved: "), "{warned}");
        assert!(warned.ends_with("save the others with --until 2026-11-15T12:00:00Z"), "{warned}");
        assert_eq!(warning("queue.jsonl", None), None);
    }
}
