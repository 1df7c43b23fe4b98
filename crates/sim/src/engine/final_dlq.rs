//! The end of the loop: final records are read from the final DLQ, written to the output and deleted.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;

use redeliver_core::arrival::trace_header_and_verdict;
use redeliver_core::deliver::deletion::delete_by_receipt_handle;
use redeliver_core::failure::annotation::ERROR_TYPE;
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::message::{Attribute, ReceivedMessage};
use redeliver_core::polling::receive_records;
use redeliver_core::ports::{Clock, Queue};
use serde::Serialize;

use super::Engine;
use crate::error::LoopError;

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Reads the final DLQ. A record is deleted only after it is written, tracked and flushed. If the write fails, the
    /// record remains in the queue.
    pub(super) async fn read_final_dlq(
        &self,
        output: &mut dyn Write,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        let queue = &self.topology.final_dlq;
        self.repeat_step(done, async || {
            let records = receive_records(queue, 10, self.wait)
                .await
                .map_err(LoopError::while_doing("reading the final DLQ"))?;
            for record in &records {
                let (_, verdict) = trace_header_and_verdict(record);
                let virtual_now = self.is_virtual.then(|| format_rfc3339(self.clock.now()));
                writeln!(
                    output,
                    "{}",
                    format_final_record(record, verdict.is_some(), virtual_now.as_deref())
                )?;
                let code = verdict.as_ref().map(|verdict| verdict.code.as_str());
                let error_type = record.attributes.get(ERROR_TYPE).and_then(Attribute::text).or(code);
                let now = self.clock.now();
                let body = (self.original_body)(&record.body);
                self.lock_tracker().record_dead_letter(body, error_type.unwrap_or("UNANNOTATED"), now);
            }
            output.flush()?;
            let handles: Vec<_> = records.into_iter().map(|record| record.receipt_handle).collect();
            // A record that could not be deleted is received again and counts as a copy.
            delete_by_receipt_handle(queue, self.clock, &handles).await;
            Ok(ControlFlow::Continue(()))
        })
        .await
    }
}

/// Formats one output line: the unchanged body, the attributes as plain values, and the trace header if it contains the
/// verdict. In virtual time, the line also has a timestamp, from which its reader computes the record's age.
fn format_final_record(
    record: &ReceivedMessage,
    has_verdict_in_trace_header: bool,
    virtual_now: Option<&str>,
) -> String {
    #[derive(Serialize)]
    struct FinalRecordLine<'a> {
        body: &'a str,
        attributes: BTreeMap<&'a str, Option<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trace_header: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        virtual_now: Option<&'a str>,
    }
    let attributes =
        record.attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.text())).collect();
    let trace_header = record.trace_header.as_deref().filter(|_| has_verdict_in_trace_header);
    serde_json::to_string(&FinalRecordLine { body: &record.body, attributes, trace_header, virtual_now })
        .expect("strings always serialize")
}
