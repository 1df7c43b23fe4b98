//! The audit itself: each message of the queue through the filter, into the tally, the archive and the view.

use std::io::{self, Write};

use futures_util::future::{Either, select};
use redeliver_core::ports::{Clock, Queue};

use super::error::AuditError;
use super::report::{Report, Tally};
use super::show::is_meant;
use super::view::View;
use crate::dead_letters::{Archive, Coverage, DeadLetterRecord, Filter, Reader};

/// Which messages are asked for.
#[derive(Debug)]
pub(super) enum Wanted {
    All,
    Matching(Filter),
    One(String),
}

/// All that an audit does with a message.
pub(super) struct Auditor<'a> {
    pub(super) wanted: Wanted,
    pub(super) tally: Tally,
    pub(super) archive: Option<Archive>,
    pub(super) view: Box<dyn View>,
    pub(super) output: &'a mut dyn Write,
}

/// What an audit came to.
#[derive(Debug)]
pub(super) struct Audited {
    pub(super) report: Report,
    /// See [`Coverage::still_hidden`].
    pub(super) still_hidden: u64,
    /// See [`Filter::remark`].
    pub(super) remark: Option<String>,
}

/// Why reading ends before the queue does.
enum End {
    Interrupted,
    /// Whoever reads our output has seen enough.
    OutputClosed,
    Failed(AuditError),
}

impl Auditor<'_> {
    /// Reads the queue, to its end or until `stop`, and gives back what it has read, whatever happens.
    pub(super) async fn audit<Q: Queue, C: Clock>(
        mut self,
        queue: &Q,
        clock: &C,
        stop: impl Future<Output = ()>,
        progress: impl Fn(u64, u64),
    ) -> Result<Audited, AuditError> {
        let mut reader = Reader::new(queue, clock).await?;
        let begun = self.view.begin(self.output);
        let (mut seen, mut end) = (0, begun.err().map(of_output));
        let mut stop = Box::pin(stop);
        while end.is_none() {
            let messages = match select(stop.as_mut(), Box::pin(reader.next())).await {
                Either::Left(_) => {
                    end = Some(End::Interrupted);
                    break;
                }
                Either::Right((Ok(Some(messages)), _)) => messages,
                Either::Right((Ok(None), _)) => break,
                Either::Right((Err(error), _)) => {
                    end = Some(End::Failed(error.into()));
                    break;
                }
            };
            seen += messages.len() as u64;
            progress(seen, reader.approximate());
            end = messages.into_iter().find_map(|message| self.take(&DeadLetterRecord::new(message)).err());
        }
        let coverage = reader.finish().await;
        let archived = self.archive.as_mut().map_or(Ok(()), Archive::sync);
        let interrupted = match end {
            Some(End::Failed(error)) => return Err(error),
            Some(End::Interrupted | End::OutputClosed) => true,
            None => false,
        };
        archived?;
        let remark = match &self.wanted {
            Wanted::Matching(filter) => filter.remark(),
            Wanted::All | Wanted::One(_) => None,
        };
        // What came out of the queue after an interrupt was seen by nobody.
        let coverage = Coverage { seen, complete: coverage.complete && !interrupted, ..coverage };
        let report = self.tally.into_report(coverage, interrupted);
        match self.view.end(&report, self.output).and_then(|()| self.output.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(AuditError::Output(error)),
            _ => Ok(Audited { report, still_hidden: coverage.still_hidden, remark }),
        }
    }

    fn take(&mut self, record: &DeadLetterRecord) -> Result<(), End> {
        let is_wanted = match &self.wanted {
            Wanted::All => true,
            Wanted::Matching(filter) => filter
                .matches(&record.message.sqs_message_id, record.document())
                .map_err(|error| End::Failed(error.into()))?,
            Wanted::One(id) => is_meant(record, id),
        };
        if !is_wanted {
            return Ok(());
        }
        self.tally.add(record);
        if let Some(archive) = &mut self.archive {
            archive.append(&record.message).map_err(|error| End::Failed(error.into()))?;
        }
        self.view.add(record, self.output).map_err(of_output)
    }
}

fn of_output(error: io::Error) -> End {
    match error.kind() {
        io::ErrorKind::BrokenPipe => End::OutputClosed,
        _ => End::Failed(AuditError::Output(error)),
    }
}

#[cfg(test)]
mod tests;
