//! The audit itself: passes each message of the queue through the filter to the tally, the file of `--save` and the view.

use std::io::{self, Write};
use std::pin::pin;

use futures_util::future::{Either, select};
use redeliver_core::ports::{Clock, Queue};
use redeliver_dead_letters::{Choice, Coverage, DeadLetterRecord, Pick, Reader};

use super::report::{AuditReport, Tally};
use super::save::Save;
use super::view::View;
use crate::Failure;
use crate::sentences::picked_without_members;

/// Receives the messages of an audit.
pub struct Auditor<'a> {
    pub pick: Pick,
    /// Maximum number of messages to read.
    pub max: u64,
    pub tally: Tally,
    pub save: Option<Save>,
    pub view: Box<dyn View>,
    pub output: &'a mut dyn Write,
}

/// The result of an audit.
#[derive(Debug)]
pub struct Audited {
    pub report: AuditReport,
    /// Sentences about ids and groups that were named and not found. Empty if the queue was not read to its end.
    pub missing: Vec<String>,
    /// True if the reader of the output closed it early, as `head` does.
    pub output_closed: bool,
    pub still_hidden: u64,
    /// Sentences about what was picked.
    pub remarks: Vec<String>,
    /// With `--known-causes`: true if there is a new cause.
    pub has_new_causes: bool,
}

/// The progress of an audit.
pub enum Progress {
    Read {
        seen: u64,
        approximate: u64,
    },
    /// All messages are read; only the report follows.
    Over,
}

/// The messages that were read, and the reason to stop before the end of the queue.
struct Reading {
    seen: u64,
    end: Option<End>,
}

/// Reasons to stop reading before the end of the queue.
enum End {
    Interrupted,
    /// `--max` messages were read.
    MaxReached,
    /// The reader of our output has closed it.
    OutputClosed,
    Failed(Failure),
}

impl Auditor<'_> {
    /// Reads the queue to its end or until `stop`. Always makes the messages visible again, even after an error.
    ///
    /// # Errors
    /// If the queue, the filter, the file of `--save` or the output fails. A closed pipe is not an error.
    pub async fn audit<Q: Queue, C: Clock>(
        mut self,
        queue: &Q,
        clock: &C,
        stop: impl Future<Output = ()>,
        progress: impl Fn(Progress),
    ) -> Result<Audited, Failure> {
        let mut reader = Reader::new(queue, clock).await?;
        let Reading { seen, end } = self.read(&mut reader, stop, &progress).await;
        // Whatever happened, give all messages back and put the file on disk before an error is returned.
        let coverage = reader.finish().await;
        let saved = self.save.as_mut().map_or(Ok(()), Save::sync);
        if let Some(End::Failed(error)) = end {
            return Err(error);
        }
        saved?;
        self.pick.check_filter()?;
        progress(Progress::Over);
        // Messages that arrived after the last one were not audited.
        let coverage = Coverage { seen, complete: coverage.complete && end.is_none(), ..coverage };
        let mut report = self.tally.into_report(coverage, matches!(end, Some(End::Interrupted)));
        report.max_reached = matches!(end, Some(End::MaxReached));
        if !coverage.complete {
            report.comparison = None; // what was not read may say otherwise
        }
        let output_closed = match self.view.end(&report, self.output).and_then(|()| self.output.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(not_written(&error)),
            Err(_) => true,
            Ok(()) => matches!(end, Some(End::OutputClosed)),
        };
        let missing = if coverage.complete { self.pick.missing() } else { Vec::new() };
        let missing = missing.into_iter().chain(self.pick.ambiguous()).collect();
        let still_queued = self.save.as_ref().and_then(Save::warning);
        let remarks = picked_without_members(&self.pick).into_iter().chain(still_queued).collect();
        Ok(Audited {
            report,
            missing,
            output_closed,
            still_hidden: coverage.still_hidden,
            remarks,
            has_new_causes: false,
        })
    }

    /// Reads until there is a reason to stop, or to the end of the queue.
    async fn read<Q: Queue, C: Clock>(
        &mut self,
        reader: &mut Reader<'_, Q, C>,
        stop: impl Future<Output = ()>,
        progress: &impl Fn(Progress),
    ) -> Reading {
        let begun = self.view.begin(self.output);
        let mut reading = Reading { seen: 0, end: begun.err().as_ref().map(end_of_output) };
        if self.max == 0 {
            reading.end = Some(End::MaxReached);
        }
        let mut stop = pin!(stop);
        while reading.end.is_none() {
            let messages = match select(stop.as_mut(), pin!(reader.next())).await {
                Either::Left(_) => return Reading { end: Some(End::Interrupted), ..reading },
                Either::Right((Ok(Some(messages)), _)) => messages,
                Either::Right((Ok(None), _)) => return reading,
                Either::Right((Err(error), _)) => {
                    return Reading { end: Some(End::Failed(error.into())), ..reading };
                }
            };
            reading.seen += messages.len() as u64;
            progress(Progress::Read { seen: reading.seen, approximate: reader.approximate() });
            let mut records = messages.into_iter().map(DeadLetterRecord::new);
            reading.end = records.find_map(|record| self.take(&record).err());
        }
        reading
    }

    fn take(&mut self, record: &DeadLetterRecord) -> Result<(), End> {
        self.tally.observe(record);
        match self.pick.picks(record).map_err(|error| End::Failed(error.into()))? {
            Choice::Picked => {}
            Choice::NotPicked => return Ok(()),
            Choice::NotJudged(why) => {
                self.tally.add_not_judged(record, why);
                return Ok(());
            }
        }
        self.tally.add(record);
        if let Some(save) = &mut self.save {
            save.append(record).map_err(|error| End::Failed(error.into()))?;
        }
        self.view.add(record, self.output).map_err(|error| end_of_output(&error))?;
        if self.tally.total() >= self.max { Err(End::MaxReached) } else { Ok(()) }
    }
}

fn end_of_output(error: &io::Error) -> End {
    match error.kind() {
        io::ErrorKind::BrokenPipe => End::OutputClosed,
        _ => End::Failed(not_written(error)),
    }
}

fn not_written(error: &io::Error) -> Failure {
    format!("cannot write the output: {error}").into()
}

#[cfg(test)]
mod tests;
