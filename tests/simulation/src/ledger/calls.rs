//! The target's side of the ledger, and the functions' reports.

use redeliver_core::events::Event;
use redeliver_core::handler::Message;
use redeliver_core::message::{Attribute, Timestamp};

use super::body::RetryMembers;
use super::breaker::{CallId, EndedCall};
use super::{BrokenInvariant, Ledger, LedgerMessage, QueuePlace, hash_body};
use crate::messages::{ExpectedEnd, Produced, message_number};

/// Text that occurs in each body (its marker), in attributes, and in the target's answers.
pub(super) const SECRETS: [&str; 3] = ["⟦", "acm", "simulated target"];

/// The target's answer to a call.
#[derive(Clone, Debug)]
pub(crate) struct CallAnswer {
    /// The calling invocation.
    pub(crate) invocation: Option<u64>,
    pub(crate) generation: u32,
    pub(crate) attempt: u32,
    /// As in `Failure.kind`; empty while the call runs.
    pub(crate) kind: &'static str,
    /// The error type.
    pub(crate) error_type: &'static str,
    /// The delay that it asks for, in whole seconds.
    pub(crate) after: Option<u64>,
    /// It reports that it is down.
    pub(crate) unavailable: bool,
    /// The calling environment, if it has a circuit breaker.
    pub(crate) environment: Option<u64>,
    pub(crate) is_cut_off: bool,
    /// Set at its end, if the environment has one.
    pub(crate) outcome: Option<EndedCall>,
}

impl Ledger {
    /// The target is called. Returns the message's number, and the call's number among the message's calls.
    pub fn begin_call(&mut self, message: &Message<'_>, now: Timestamp) -> CallId {
        match self.check_call(message, now) {
            Ok(call) => call,
            Err(violation) => {
                self.report_violation(format!("a call of the target: {violation}"));
                (0, 0)
            }
        }
    }

    /// A call returns to its caller, with any answer.
    pub fn return_call(&mut self, call: CallId, now: Timestamp) {
        let (n, _) = call;
        if let Some(work) = self.current_work(n) {
            work.record_return();
        }
        self.record_outcome(call, false, now);
    }

    /// A call is abandoned.
    pub fn cut_off(&mut self, call: CallId, now: Timestamp) {
        self.record_outcome(call, true, now);
    }

    fn check_call(&mut self, message: &Message<'_>, now: Timestamp) -> Result<CallId, BrokenInvariant> {
        let n = message_number(message.body)
            .filter(|n| *n < self.subjects.len())
            .ok_or("no producer sent this body")?;
        if self.expected_end(n) != ExpectedEnd::Handled {
            return Err(format!("message {n} is invalid and must never get there"));
        }
        let subject = &self.subjects[n];
        if !self.has_attributes_of(n, message.attributes) {
            return Err(format!("message {n} has other attributes than its producer gave it"));
        }
        if subject.produced.plain && message.body != subject.produced.content.body {
            return Err(format!("message {n} has another body than its producer gave it"));
        }
        let hash = hash_body(message.body);
        let invocation = self.turn.and_then(|turn| self.invocations.get(&turn));
        // The handler of a plain message cannot distinguish its copies.
        let candidates = match subject.produced.plain {
            true => invocation.map(|work| self.received_copies(work, n)).unwrap_or_default(),
            false => subject.of_body.get(&hash).cloned().unwrap_or_default(),
        };
        let copies = &subject.copies[QueuePlace::Source as usize];
        let fits = |copy: &super::Copy| {
            let Some(retries) = copy.retries.as_ref() else {
                return false;
            };
            let next = || retries.for_next_generation(copy.recorded_generation);
            let retries = if copy.came_back { &next() } else { retries };
            let attempt_fits = if self.knobs.is_visibility() {
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
        // Of several copies the one that has failed the least: only its failure may open a circuit.
        let Some(retries) = fitting.map(retries).min_by_key(RetryMembers::failed_calls) else {
            return Err(format!(
                "message {n}, attempt {}, generation {}: no such copy was in the source queue",
                message.retry_attempt, message.redrive_generation
            ));
        };
        // A number that the producer wrote itself may be greater.
        let written = subject.body.as_ref().map_or(0, |body| body.retries.attempt);
        let most = self.max_attempts(n).0;
        let most = if self.knobs.is_visibility() { most } else { most.max(written) };
        if message.retry_attempt > most {
            return Err(format!("message {n} is called with attempt {}", message.retry_attempt));
        }
        let at_once = self.knobs.policy.immediate.map_or(0, |(calls, _)| calls as usize);
        if let Some(work) = self.current_work(n) {
            work.record_call(1 + at_once).map_err(|why| format!("message {n}: {why}"))?;
        }
        let invocation = self.turn;
        let call = (n, self.subjects[n].answers.len());
        let asked = self.check_permission(call, &retries, message.retry_attempt, now);
        let environment = asked.map_err(|why| format!("message {n}: {why}"))?;
        let subject = &mut self.subjects[n];
        let (generation, attempt) = (message.redrive_generation, message.retry_attempt);
        subject.answers.push(CallAnswer {
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

    /// The target has processed the message.
    pub fn record_processed(&mut self, (n, _): CallId, body: &str, now: Timestamp) {
        let subject = &mut self.subjects[n];
        subject.processed += 1;
        self.local.record_processed(body, now);
        if let Some(work) = self.current_work(n) {
            work.earn_credit();
        }
    }

    /// The target failed.
    pub fn record_failure(
        &mut self,
        (n, call): CallId,
        kind: &'static str,
        error_type: &'static str,
        after: Option<u64>,
        unavailable: bool,
    ) {
        let subject = &mut self.subjects[n];
        subject.has_asked |= after.is_some();
        if let Some(answer) = subject.answers.get_mut(call) {
            (answer.kind, answer.error_type) = (kind, error_type);
            (answer.after, answer.unavailable) = (after, unavailable);
        }
    }

    /// A function reports an event: it must be true, and contain nothing of the message.
    pub fn check_event(&mut self, event: &Event, now: Timestamp) {
        let text = format!("{event:?}");
        if SECRETS.iter().any(|secret| text.contains(secret)) {
            self.report_violation(format!(
                "an event holds a payload, an attribute or a target's text: {text}"
            ));
        }
        if let Err(why) = self.check_circuit(event, now) {
            self.report_violation(format!("a function says what is not so: {text}: {why}"));
        }
        let message_id = match event {
            Event::Processed { message_id, .. } | Event::HandedOff { message_id, .. } => message_id,
            // For an asynchronous invocation it is the request's id.
            Event::RetryScheduled { message_id, .. } if !self.knobs.is_async_retry() => message_id,
            Event::DeadLettered { message_id: Some(message_id), .. } => message_id,
            _ => return,
        };
        // The id of a message can be read if only its data is invalid.
        let invalid = || {
            let is_it = |subject: &&LedgerMessage| {
                let Produced { content, message_id: of_valid, .. } = &subject.produced;
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
            self.report_violation(format!("a function says what is not so: {text}"));
        }
    }
}
