//! Passes each message in the queue through the filter to the tally, the `--save` file and the view.

use std::io::{self, Write};
use std::pin::pin;

use futures_util::future::{Either, select};
use redeliver_core::ports::{Clock, Queue};
use redeliver_dead_letters::{Choice, Coverage, DeadLetterReader, DeadLetterRecord, Pick};

use super::report::{AuditReport, AuditTally};
use super::save::SaveFile;
use super::view::View;
use crate::CommandFailure;
use crate::sentences::describe_missing_members;

/// The steps that each message in an audit passes through.
pub struct Auditor<'a> {
    pub pick: Pick,
    /// Maximum number of messages to read.
    pub max: u64,
    pub tally: AuditTally,
    pub save: Option<SaveFile>,
    pub view: Box<dyn View>,
    pub output: &'a mut dyn Write,
}

/// The result of an audit.
#[derive(Debug)]
pub struct AuditResult {
    pub report: AuditReport,
    /// Sentences about an ambiguous id and, if the queue was read completely, about requested ids and groups that were
    /// not found.
    pub missing: Vec<String>,
    /// True if the reader of the output closed it early, as `head` does.
    pub output_closed: bool,
    pub still_hidden: u64,
    /// Remarks about the selection.
    pub remarks: Vec<String>,
    /// With `--known-causes`: true if there is a new cause.
    pub has_new_causes: bool,
}

/// The progress of an audit.
pub enum AuditProgress {
    Read {
        seen: u64,
        approximate: u64,
    },
    /// All messages were read; only the report remains.
    Over,
}

/// The number of messages read, and the reason for stopping before the end of the queue, if any.
struct ReadOutcome {
    seen: u64,
    end: Option<AuditStopReason>,
}

/// The reason for stopping before the end of the queue.
enum AuditStopReason {
    Interrupted,
    /// `--max` messages were read.
    MaxReached,
    /// The reader of the output closed it.
    OutputClosed,
    Failed(CommandFailure),
}

impl Auditor<'_> {
    /// Reads the whole queue, unless `stop` completes first. Always makes the messages visible again, even after an
    /// error.
    ///
    /// # Errors
    /// If the queue, the filter, the `--save` file or the output fails. A closed pipe is not an error.
    pub async fn run_audit<Q: Queue, C: Clock>(
        mut self,
        queue: &Q,
        clock: &C,
        stop: impl Future<Output = ()>,
        progress: impl Fn(AuditProgress),
    ) -> Result<AuditResult, CommandFailure> {
        let mut reader = DeadLetterReader::new(queue, clock).await?;
        let ReadOutcome { seen, end } = self.read_messages(&mut reader, stop, &progress).await;
        // Whatever happened, release all messages and sync the file to disk before returning an error.
        let coverage = reader.finish().await;
        let saved = self.save.as_mut().map_or(Ok(()), SaveFile::sync);
        if let Some(AuditStopReason::Failed(error)) = end {
            return Err(error);
        }
        saved?;
        self.pick.check_filter()?;
        progress(AuditProgress::Over);
        // Messages received while `finish` waited for pending receives were not audited.
        let coverage = Coverage { seen, complete: coverage.complete && end.is_none(), ..coverage };
        let mut report = self.tally.into_report(coverage, matches!(end, Some(AuditStopReason::Interrupted)));
        report.max_reached = matches!(end, Some(AuditStopReason::MaxReached));
        if !coverage.complete {
            report.comparison = None; // the unread part may contradict it
        }
        let output_closed =
            match self.view.write_report(&report, self.output).and_then(|()| self.output.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    return Err(output_failure(&error));
                }
                Err(_) => true,
                Ok(()) => matches!(end, Some(AuditStopReason::OutputClosed)),
            };
        let missing = if coverage.complete { self.pick.describe_missing() } else { Vec::new() };
        let missing = missing.into_iter().chain(self.pick.describe_ambiguity()).collect();
        let still_queued = self.save.as_ref().and_then(SaveFile::duplicates_warning);
        let remarks = describe_missing_members(&self.pick).into_iter().chain(still_queued).collect();
        Ok(AuditResult {
            report,
            missing,
            output_closed,
            still_hidden: coverage.still_hidden,
            remarks,
            has_new_causes: false,
        })
    }

    /// Reads to the end of the queue, or until there is a reason to stop.
    async fn read_messages<Q: Queue, C: Clock>(
        &mut self,
        reader: &mut DeadLetterReader<'_, Q, C>,
        stop: impl Future<Output = ()>,
        progress: &impl Fn(AuditProgress),
    ) -> ReadOutcome {
        let begun = self.view.begin_output(self.output);
        let mut reading = ReadOutcome { seen: 0, end: begun.err().as_ref().map(classify_output_error) };
        if self.max == 0 {
            reading.end = Some(AuditStopReason::MaxReached);
        }
        let mut stop = pin!(stop);
        while reading.end.is_none() {
            let messages = match select(stop.as_mut(), pin!(reader.next_messages())).await {
                Either::Left(_) => return ReadOutcome { end: Some(AuditStopReason::Interrupted), ..reading },
                Either::Right((Ok(Some(messages)), _)) => messages,
                Either::Right((Ok(None), _)) => return reading,
                Either::Right((Err(error), _)) => {
                    return ReadOutcome { end: Some(AuditStopReason::Failed(error.into())), ..reading };
                }
            };
            reading.seen += messages.len() as u64;
            progress(AuditProgress::Read { seen: reading.seen, approximate: reader.approximate_count() });
            let mut records = messages.into_iter().map(DeadLetterRecord::new);
            reading.end = records.find_map(|record| self.process_record(&record).err());
        }
        reading
    }

    fn process_record(&mut self, record: &DeadLetterRecord) -> Result<(), AuditStopReason> {
        self.tally.compare_record(record);
        match self.pick.judge_record(record).map_err(|error| AuditStopReason::Failed(error.into()))? {
            Choice::Picked => {}
            Choice::NotPicked => return Ok(()),
            Choice::NotJudged(why) => {
                self.tally.add_not_judged(record, why);
                return Ok(());
            }
        }
        self.tally.add_record(record);
        if let Some(save) = &mut self.save {
            save.append_record(record).map_err(|error| AuditStopReason::Failed(error.into()))?;
        }
        self.view.write_record(record, self.output).map_err(|error| classify_output_error(&error))?;
        if self.tally.total() >= self.max { Err(AuditStopReason::MaxReached) } else { Ok(()) }
    }
}

fn classify_output_error(error: &io::Error) -> AuditStopReason {
    match error.kind() {
        io::ErrorKind::BrokenPipe => AuditStopReason::OutputClosed,
        _ => AuditStopReason::Failed(output_failure(error)),
    }
}

fn output_failure(error: &io::Error) -> CommandFailure {
    format!("cannot write the output: {error}").into()
}

#[cfg(test)]
mod tests;
