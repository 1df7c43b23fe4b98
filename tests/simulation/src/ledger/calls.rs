//! The ledger's checks of target calls and of the events that the functions report.

use redeliver_core::events::Event;
use redeliver_core::handler::Message;
use redeliver_core::message::{Attribute, Timestamp};

use super::body::RetryMembers;
use super::breaker::{CallId, EndedCall};
use super::{BrokenInvariant, Ledger, LedgerMessage, QueuePlace, hash_body};
use crate::messages::{ExpectedOutcome, ProducedMessage, message_number};

/// Strings that occur in each body (its marker), in attributes, and in the target's error details.
pub(super) const SECRETS: [&str; 3] = ["⟦", "acm", "simulated target"];

/// The target's response to a call.
#[derive(Clone, Debug)]
pub(crate) struct CallResponse {
    /// The calling invocation.
    pub(crate) invocation: Option<u64>,
    pub(crate) generation: u32,
    pub(crate) attempt: u32,
    /// The value of `Failure.kind`; empty while the call is running.
    pub(crate) kind: &'static str,
    /// The error type.
    pub(crate) error_type: &'static str,
    /// The delay that the target requests, in whole seconds.
    pub(crate) after: Option<u64>,
    /// True if the target reports that it is down.
    pub(crate) unavailable: bool,
    /// The calling environment, if it has a circuit breaker.
    pub(crate) environment: Option<u64>,
    pub(crate) is_cut_off: bool,
    /// The outcome of an ended call, if the environment has a circuit breaker.
    pub(crate) outcome: Option<EndedCall>,
}

impl Ledger {
    /// Records and checks the start of a call. Returns the message number and the index of the call among the message's
    /// calls.
    pub fn begin_call(&mut self, message: &Message<'_>, now: Timestamp) -> CallId {
        match self.check_call(message, now) {
            Ok(call) => call,
            Err(violation) => {
                self.report_violation(format!("a call to the target: {violation}"));
                (0, 0)
            }
        }
    }

    /// Records that a call has returned to its caller, whatever its outcome.
    pub fn record_call_return(&mut self, call: CallId, now: Timestamp) {
        let (n, _) = call;
        if let Some(work) = self.current_work(n) {
            work.record_return();
        }
        self.record_outcome(call, false, now);
    }

    /// Records that a call was abandoned.
    pub fn record_call_cut_off(&mut self, call: CallId, now: Timestamp) {
        self.record_outcome(call, true, now);
    }

    fn check_call(&mut self, message: &Message<'_>, now: Timestamp) -> Result<CallId, BrokenInvariant> {
        let n = message_number(message.body)
            .filter(|n| *n < self.subjects.len())
            .ok_or("no producer sent this body")?;
        if self.expected_outcome(n) != ExpectedOutcome::Handled {
            return Err(format!("message {n} is invalid, and the target must never receive it"));
        }
        let subject = &self.subjects[n];
        if !self.has_producer_attributes(n, message.attributes) {
            return Err(format!("message {n} does not have its producer's attributes"));
        }
        if subject.produced.plain && message.body != subject.produced.content.body {
            return Err(format!("message {n} does not have its producer's body"));
        }
        let hash = hash_body(message.body);
        let invocation = self.current_invocation.and_then(|id| self.invocations.get(&id));
        // The handler of a plain message cannot distinguish its copies.
        let candidates = match subject.produced.plain {
            true => invocation.map(|work| self.received_copies(work, n)).unwrap_or_default(),
            false => subject.copies_by_body.get(&hash).cloned().unwrap_or_default(),
        };
        let copies = &subject.copies[QueuePlace::Source as usize];
        let fits = |copy: &super::Copy| {
            let Some(retries) = copy.retries.as_ref() else {
                return false;
            };
            let next = || retries.for_next_generation(copy.recorded_generation);
            let retries = if copy.came_back { &next() } else { retries };
            let attempt_fits = if self.knobs.uses_visibility() {
                message.retry_attempt < copy.receives
            } else {
                message.retry_attempt == retries.attempt
            };
            attempt_fits && retries.generation.unwrap_or(0) == message.redrive_generation
        };
        let fitting = candidates.into_iter().map(|index| &copies[index]).filter(|copy| fits(copy));
        // A message that came back from the final DLQ starts afresh.
        let retries =
            |copy: &super::Copy| copy.retries.clone().filter(|_| !copy.came_back).unwrap_or_default();
        // Of several copies, assume the copy with the fewest failures: only a first failure can open a circuit.
        let Some(retries) = fitting.map(retries).min_by_key(RetryMembers::failed_calls) else {
            return Err(format!(
                "message {n}, attempt {}, generation {}: no such copy was in the source queue",
                message.retry_attempt, message.redrive_generation
            ));
        };
        // If the producer wrote a higher attempt number, that is the limit instead.
        let written = subject.body.as_ref().map_or(0, |body| body.retries.attempt);
        let most = self.max_attempts(n).0;
        let most = if self.knobs.uses_visibility() { most } else { most.max(written) };
        if message.retry_attempt > most {
            return Err(format!("message {n} is called with attempt {}", message.retry_attempt));
        }
        let at_once = self.knobs.policy.immediate.map_or(0, |(calls, _)| calls as usize);
        if let Some(work) = self.current_work(n) {
            work.record_call(1 + at_once).map_err(|why| format!("message {n}: {why}"))?;
        }
        let invocation = self.current_invocation;
        let call = (n, self.subjects[n].answers.len());
        let asked = self.check_permission(call, &retries, message.retry_attempt, now);
        let environment = asked.map_err(|why| format!("message {n}: {why}"))?;
        let subject = &mut self.subjects[n];
        let (generation, attempt) = (message.redrive_generation, message.retry_attempt);
        subject.answers.push(CallResponse {
            invocation,
            generation,
            attempt,
            kind: "",
            error_type: "",
            after: None,
            unavailable: false,
            environment,
            is_cut_off: false,
            outcome: None,
        });
        Ok(call)
    }

    /// Records that the target has processed the message.
    pub fn record_processed(&mut self, (n, _): CallId, body: &str, now: Timestamp) {
        let subject = &mut self.subjects[n];
        subject.processed += 1;
        self.tracker.record_processed(body, now);
        if let Some(work) = self.current_work(n) {
            work.earn_credit();
        }
    }

    /// Records that the target failed.
    pub fn record_failure(
        &mut self,
        (n, call): CallId,
        kind: &'static str,
        error_type: &'static str,
        after: Option<u64>,
        unavailable: bool,
    ) {
        let subject = &mut self.subjects[n];
        subject.has_requested_delay |= after.is_some();
        if let Some(answer) = subject.answers.get_mut(call) {
            (answer.kind, answer.error_type) = (kind, error_type);
            (answer.after, answer.unavailable) = (after, unavailable);
        }
    }

    /// Checks an event that a function reports: it must be true, and must not contain any of the message's content.
    pub fn check_event(&mut self, event: &Event, now: Timestamp) {
        let text = format!("{event:?}");
        if SECRETS.iter().any(|secret| text.contains(secret)) {
            self.report_violation(format!(
                "an event holds a payload, an attribute or a target's text: {text}"
            ));
        }
        if let Err(why) = self.check_circuit(event, now) {
            self.report_violation(format!("a function reports a false event: {text}: {why}"));
        }
        let message_id = match event {
            Event::Processed { message_id, .. } | Event::HandedOff { message_id, .. } => message_id,
            // For an asynchronous invocation, `message_id` is the request id.
            Event::RetryScheduled { message_id, .. } if !self.knobs.uses_async_retry() => message_id,
            Event::DeadLettered { message_id: Some(message_id), .. } => message_id,
            _ => return,
        };
        // If only the data of a message is invalid, its id is still readable.
        let invalid = || {
            let is_it = |subject: &&LedgerMessage| {
                let ProducedMessage { content, message_id: of_valid, .. } = &subject.produced;
                let texts = content.attributes.values().filter_map(Attribute::text);
                of_valid.is_none()
                    && texts.chain([content.body.as_str()]).any(|text| text.contains(message_id))
            };
            self.subjects.iter().find(is_it)
        };
        let subject = self.by_message_id.get(message_id).map(|n| &self.subjects[*n]).or_else(invalid);
        let is_so = subject.is_some_and(|subject| match event {
            Event::Processed { .. } => subject.processed > 0,
            Event::HandedOff { .. } => {
                subject.copies[QueuePlace::Intermediate as usize].iter().any(|copy| !copy.redriven)
            }
            Event::RetryScheduled { retry_attempt, .. } => subject.resent.contains(retry_attempt),
            _ => subject.final_records > 0,
        });
        if !is_so {
            self.report_violation(format!("a function reports a false event: {text}"));
        }
    }
}
