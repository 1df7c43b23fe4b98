//! `--known-causes`: the file of causes already reported.

use std::path::{Path, PathBuf};

use redeliver_core::message::Timestamp;
use redeliver_dead_letters::KnownCauses;

use super::AuditReport;
use crate::files::FileError;

/// The causes already reported, and their file.
pub struct KnownCausesFile {
    path: PathBuf,
    pub known: KnownCauses,
}

impl KnownCausesFile {
    pub(super) fn read(path: &Path, queue_arn: &str) -> Result<Self, FileError> {
        Ok(Self { path: path.to_owned(), known: KnownCauses::read_file(path, queue_arn)? })
    }

    /// Adds the causes in a printed report to the file. If the report warns about messages that SQS deletes soon, also
    /// records the time of the warning, which is due again a day later.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn remember_report(mut self, report: &AuditReport, now: Timestamp) -> Result<(), FileError> {
        let audited_at = report.context.now;
        let has_warned =
            self.known.is_deletion_report_due(audited_at) && report.describe_expiring_messages().is_some();
        self.known.remember_groups(&report.groups, now);
        self.known.remember_recurrences(&report.groups);
        if has_warned {
            self.known.remember_deletion_report(audited_at);
        }
        self.known.merge_into_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{at_seconds, record, report_with_retention, with_sent_time};

    /// If the warning were not remembered, a cron job would repeat it on every run.
    #[test]
    fn a_warning_about_deletion_is_remembered_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("causes.jsonl");
        let mut report = report_with_retention(&[with_sent_time(record("NON_RETRYABLE_ERROR", "x", 1), 0)]);
        let read = || KnownCausesFile::read(&path, "arn").unwrap();
        read().remember_report(&report, at_seconds(9)).unwrap();
        let first = report.context.now;
        assert!(
            read().known.groups_with_new_cause(&report.groups).is_empty()
                && !read().known.is_deletion_report_due(first)
        );
        report.context.now = first + chrono::TimeDelta::hours(1);
        read().remember_report(&report, at_seconds(9)).unwrap();
        assert!(
            read().known.is_deletion_report_due(first + chrono::TimeDelta::days(1)),
            "counted from the first"
        );
    }
}
