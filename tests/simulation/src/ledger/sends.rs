//! Checks of sends: content, sender and destination.

use chrono::{DateTime, Utc};
use redeliver_core::message::{Attributes, Content};
use redeliver_core::strategy::Strategy;
use serde_json::Value;

use super::arrivals::dead_letter;
use super::body::{LedgerBody, RetryMembers};
use super::breaker::{HeldMessage, HoldReport};
use super::calls::CallResponse;
use super::copies::{Copy, StatedFailure, bytes_before_folding, producer_attributes};
use super::invocations::HandOffReason;
use super::oracle::{NOT_CALLED, RetryCase, RetryKey};
use super::{Actor, BrokenInvariant, DeliverySender, Ledger, QueuePlace};
use crate::messages::ExpectedOutcome;

/// A send that is being checked.
#[derive(Clone, Copy)]
pub(super) struct Send<'a> {
    pub(super) n: usize,
    pub(super) content: &'a Content,
    pub(super) body: Option<&'a LedgerBody>,
    pub(super) hash: u64,
    pub(super) at: DateTime<Utc>,
}

/// The cases that can explain a re-send.
pub(super) struct ResendExplanation {
    /// The indexes of the matching cases.
    pub(super) cases: Vec<usize>,
    attempt: u32,
    /// The delays of all matching cases.
    waits: Vec<(RetryKey, Option<u64>)>,
}

impl Ledger {
    #[expect(clippy::too_many_arguments, reason = "one send and its sender")]
    pub(super) fn check_send(
        &mut self,
        actor: Actor,
        place: QueuePlace,
        n: usize,
        content: &Content,
        body: Option<&LedgerBody>,
        hash: u64,
        at: DateTime<Utc>,
    ) -> Result<(), BrokenInvariant> {
        let send = Send { n, content, body, hash, at };
        let checked = match (actor, place) {
            (Actor::Producer, QueuePlace::Source) => return Ok(()),
            (Actor::Lambda, QueuePlace::Source) => return self.check_record(send),
            (Actor::AsyncRetryHandler, QueuePlace::Source) => self.check_record_hop(send),
            (Actor::AsyncRetryHandler, QueuePlace::Annotation) => self.check_record_verdict(send),
            (Actor::Console, QueuePlace::Source) => Ok(()),
            (Actor::Redrive, QueuePlace::Source) => self.check_redrive(send),
            (Actor::MessageProcessor, place) => self.check_processor_send(place, send),
            (Actor::FailedMessageProcessor, QueuePlace::Source) => self.check_resend(send),
            (Actor::FailedMessageProcessor, QueuePlace::Intermediate) => self.check_hop(send),
            (Actor::FailedMessageProcessor, QueuePlace::Annotation) => self.check_verdict(send),
            (Actor::Annotator, QueuePlace::Final) => self.check_final_record(send),
            _ => return Err("no send is expected there".to_owned()),
        };
        match self.current_work(n) {
            Some(work) => work.record_accepted_send()?,
            None => self.subjects[n].credit += 1,
        }
        checked?;
        let subject = &self.subjects[n];
        let kept = (&subject.produced.content.message_group_id, &subject.trace_header());
        if (&content.message_group_id, &content.trace_header) != kept {
            return Err("the message group or the trace header is not the producer's".to_owned());
        }
        Ok(())
    }

    fn check_processor_send(&mut self, place: QueuePlace, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let is_valid = self.expected_outcome(send.n) == ExpectedOutcome::Handled;
        match (self.knobs.retry_loop.strategy(), place) {
            (Some(Strategy::DelayedResend), QueuePlace::Intermediate) => self.check_hand_off(send),
            (Some(Strategy::DirectResend), QueuePlace::Intermediate) => self.check_direct_hop(send),
            (Some(Strategy::DelayedResend | Strategy::DirectResend), QueuePlace::Source) => {
                self.check_direct_resend(send)
            }
            (Some(Strategy::DelayedResend | Strategy::DirectResend), QueuePlace::Annotation) if is_valid => {
                self.check_direct_verdict(send)
            }
            (Some(Strategy::Visibility), QueuePlace::Annotation) if is_valid => self.check_own_verdict(send),
            (_, QueuePlace::Annotation) => self.check_refusal(send),
            _ => Err("no send is expected there".to_owned()),
        }
    }

    /// Checks a hand-off: it contains the message as received, and the reason.
    fn check_hand_off(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let subject = &self.subjects[send.n];
        if subject.produced.expected != ExpectedOutcome::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        check_no_delay(send)?;
        self.check_attributes_kept(send, "Failure")?;
        let failure = StatedFailure::from_attributes(&send.content.attributes).ok_or("without a reason")?;
        failure.check_size(subject.is_oversize())?;
        if failure.text_member("kind") == "held" && NOT_CALLED.contains(&failure.text_member("type")) {
            return Err("it was not called, and must be re-sent directly to the source queue".to_owned());
        }
        self.check_call_failure(send, &failure)
    }

    /// Checks that the failure comes from a call in this invocation, including calls that were cut off or not started.
    pub(super) fn check_call_failure(
        &mut self,
        send: Send<'_>,
        failure: &StatedFailure,
    ) -> Result<(), BrokenInvariant> {
        let is_oversize = self.subjects[send.n].is_oversize();
        let delivery = &*self.source_delivery(send, failure);
        let origin = self.origins.get(delivery).filter(|origin| origin.subject == send.n);
        let origin = origin.ok_or("the reason names another message")?;
        if origin.body_hash != send.hash {
            return Err("its body is not the received one".to_owned());
        }
        let generation = (failure.starts_new_generation(), failure.generation_before());
        let first_sent = failure.first_sent_time().or(Some(origin.sent_at).filter(|_| is_oversize));
        if first_sent != Some(origin.sent_at)
            || generation != (origin.came_back, origin.recorded_generation)
            || failure.is_from_producer() != (origin.sender == DeliverySender::Producer)
        {
            return Err("the reason does not name its delivery".to_owned());
        }
        let copy = &self.subjects[send.n].copies[QueuePlace::Source as usize][origin.copy];
        let retries = copy.retries.as_ref().ok_or("its body cannot be read")?;
        let next = || retries.for_next_generation(origin.recorded_generation);
        let retries = if origin.came_back { &next() } else { retries };
        let attempt = failure.attempt_count().unwrap_or(retries.attempt);
        let is_counted_by_the_queue = self.knobs.uses_visibility();
        if failure.attempt_count().is_some() != is_counted_by_the_queue
            || (is_counted_by_the_queue && attempt >= origin.receives)
        {
            return Err(format!("attempt {attempt} is not the attempt of the delivery: {failure:?}"));
        }
        let subject = &self.subjects[send.n];
        let which = (self.current_invocation, retries.generation.unwrap_or(0), attempt);
        let (kind, error_type) = (failure.text_member("kind"), failure.text_member("type"));
        let of_this_call =
            |answer: &&CallResponse| (answer.invocation, answer.generation, answer.attempt) == which;
        let calls = || subject.answers.iter().filter(of_this_call);
        let mut reason = None;
        if kind == "held" {
            let held = |call| {
                let (seconds, outage) = (failure.retry_after(), failure.reported_outage());
                // A message that is given up need not report the outage.
                let is_whole =
                    !is_oversize && failure.text_member("verdict").is_empty() && !is_counted_by_the_queue;
                let report = Some(HoldReport { seconds, outage, is_whole });
                self.check_hold(
                    &HeldMessage { n: send.n, retries, attempt, error_type, call, report },
                    send.at,
                )
            };
            let was_called = !NOT_CALLED.contains(&error_type);
            let reasons = calls().filter_map(|answer| {
                let call = answer.outcome.as_ref().filter(|_| was_called)?;
                let is_cut_off = error_type == "Timeout" && answer.is_cut_off;
                let reason = match answer.error_type == error_type {
                    true => HandOffReason::Answered,
                    false if is_cut_off => HandOffReason::CutOff(delivery.to_owned()),
                    false => return None,
                };
                Some(held(Some(call)).map(|()| reason))
            });
            let mut reasons: Vec<_> = reasons.collect();
            reasons.sort_by_key(Result::is_err);
            reason = match reasons.into_iter().next() {
                _ if !was_called => Some(held(None).map(|()| HandOffReason::NotCalled(delivery.to_owned()))?),
                Some(reason) => Some(reason?),
                None => None,
            };
        } else {
            let said = |answer: &&CallResponse| {
                (answer.error_type, answer.kind, answer.after) == (error_type, kind, failure.retry_after())
            };
            if calls().any(|answer| said(&answer) && !self.means_not_now(answer)) {
                reason = Some(HandOffReason::Answered);
                self.check_attempt_spent(send.n)?;
            } else if calls().any(|answer| said(&answer)) {
                return Err(format!("{error_type} means \"not now\", but it spends an attempt"));
            }
        }
        let reason = match (kind, error_type) {
            _ if let Some(reason) = reason => reason,
            ("transient", "Timeout") if !self.cut_off_means_not_now() => {
                self.check_attempt_spent(send.n)?;
                HandOffReason::CutOff(delivery.to_owned())
            }
            ("not_started", "NotStarted") => {
                self.check_not_started()?;
                HandOffReason::NotCalled(delivery.to_owned())
            }
            _ => {
                let after = failure.retry_after();
                let said = &self.subjects[send.n].answers;
                return Err(format!(
                    "the target never returned {kind} {error_type} after {after:?} to {which:?}: {said:?}"
                ));
            }
        };
        self.current_work(send.n).ok_or("outside of an invocation")?.record_hand_off(&[reason])
    }

    /// Checks that this invocation's call may spend an attempt, if the call is unambiguous.
    pub(super) fn check_attempt_spent(&self, n: usize) -> Result<(), BrokenInvariant> {
        let is_one = self.received_single_copy(n);
        let mut calls =
            self.subjects[n].answers.iter().filter(|answer| answer.invocation == self.current_invocation);
        match (calls.next().and_then(|answer| answer.outcome.as_ref()), calls.next()) {
            (Some(call), None) if is_one => self.check_may_spend_attempt(call),
            _ => Ok(()),
        }
    }

    /// Returns the delivery that failed. If there was no room for its id, returns a matching delivery of this
    /// invocation.
    pub(super) fn source_delivery(&self, send: Send<'_>, failure: &StatedFailure) -> String {
        let subject = &self.subjects[send.n];
        let written = failure.text_member("source_message_id");
        if !written.is_empty() || !subject.is_oversize() {
            return written.to_owned();
        }
        let copies = &subject.copies[QueuePlace::Source as usize];
        let invocation = self.current_invocation.and_then(|id| self.invocations.get(&id));
        let given = invocation.map(|work| self.received_copies(work, send.n)).unwrap_or_default();
        let mut given = given.into_iter().map(|index| &copies[index]);
        let sent_at = failure.first_sent_time();
        let fits = |copy: &&Copy| copy.body_hash == send.hash && sent_at.is_none_or(|at| at == copy.sent_at);
        given.find(fits).map(|copy| copy.id.clone()).unwrap_or_default()
    }

    /// Checks the verdict on an invalid message, which must be sent as received.
    fn check_refusal(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        self.check_unchanged(send)?;
        self.check_attributes_kept(send, "Failure")?;
        let ExpectedOutcome::Invalid(code) = self.expected_outcome(send.n) else {
            return Err("it is valid".to_owned());
        };
        let failure = StatedFailure::from_attributes(&send.content.attributes);
        let verdict = failure.as_ref().map(|failure| failure.text_member("verdict"));
        if verdict == Some(code) { Ok(()) } else { Err(format!("the verdict is {verdict:?}, not {code}")) }
    }

    fn check_resend(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let follows = self.explain_resend(send, || self.cases_newest_first(send.n))?;
        self.record_resend_and_check_delay(send, &follows)
    }

    /// Returns the cases that explain a re-send.
    pub(super) fn explain_resend<'a, C: Iterator<Item = &'a RetryCase>>(
        &self,
        send: Send<'_>,
        cases: impl Fn() -> C,
    ) -> Result<ResendExplanation, BrokenInvariant> {
        let body = send.body.ok_or("its body cannot be read")?;
        if self.expected_outcome(send.n) != ExpectedOutcome::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        if !self.subjects[send.n].body.as_ref().is_some_and(|sent| body.keeps_content_of(sent)) {
            return Err("the producer's bytes were changed".to_owned());
        }
        self.check_producer_attributes(send.n, &send.content.attributes)?;
        let waited = |case: &RetryCase| self.exact_wait(case, body, send);
        let (numbers, mut waits): (Vec<_>, Vec<_>) = cases()
            .enumerate()
            .filter(|(_, case)| {
                case.matches_first_sent_time(body) && self.check_resend_from_case(case, body, send).is_ok()
            })
            .map(|(number, case)| (number, (case.retry_key(), waited(case))))
            .unzip();
        if numbers.is_empty() {
            let refusals: Vec<_> = cases()
                .filter_map(|case| Some(self.check_resend_from_case(case, body, send).err()?()))
                .collect();
            let delay = send.content.delay;
            return Err(format!(
                "a re-send with {:?} after {delay} does not follow: {refusals:?}",
                body.retries
            ));
        }
        waits.dedup();
        Ok(ResendExplanation { cases: numbers, attempt: body.retries.attempt, waits })
    }

    pub(super) fn record_resend_and_check_delay(
        &mut self,
        send: Send<'_>,
        follows: &ResendExplanation,
    ) -> Result<(), BrokenInvariant> {
        let subject = &mut self.subjects[send.n];
        subject.resent.insert(follows.attempt);
        // If the target never requested a delay and the retry is unambiguous, all copies have the same delay.
        match follows.waits[..] {
            [(key, Some(seconds))]
                if !subject.has_requested_delay
                    && *subject.delays.entry(key).or_insert(seconds) != seconds =>
            {
                Err(format!("a copy of it waits {seconds} s, but another copy did not"))
            }
            _ => Ok(()),
        }
    }

    fn check_verdict(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        self.check_attributes_kept(send, "Failure")?;
        let failure = StatedFailure::from_attributes(&send.content.attributes).ok_or("without a verdict")?;
        failure.check_size(self.subjects[send.n].is_oversize())?;
        let code = failure.text_member("verdict");
        if let ExpectedOutcome::Invalid(expected) = self.expected_outcome(send.n) {
            self.check_unchanged(send)?;
            return if code == expected {
                Ok(())
            } else {
                Err(format!("the verdict is {code}, not {expected}"))
            };
        }
        let same = || self.cases_newest_first(send.n).filter(|case| case.body_hash == send.hash);
        if same().any(|case| self.may_give_up(case, code, &failure, send)) {
            return Ok(());
        }
        Err(format!("the verdict {code} does not follow from any of {:?}", same().collect::<Vec<_>>()))
    }

    fn check_final_record(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        self.check_archived(send.n, send.content, send.hash)?;
        let subject = &self.subjects[send.n];
        let Some((record, _)) = dead_letter(&send.content.attributes) else {
            return self.check_trace_header_annotation(send);
        };
        self.check_attributes_kept(send, "DeadLetter")?;
        let text = |name: &str| {
            send.content.attributes.get(name).and_then(|attribute| attribute.text()).unwrap_or("")
        };
        let (error_type, details) = (text("ErrorType"), text("ErrorDetails"));
        if details.is_empty() || details.len() > 1024 || bytes_before_folding(&record) > 4096 {
            return Err(format!("ErrorDetails has {} bytes", details.len()));
        }
        let copies = &subject.copies[QueuePlace::Annotation as usize];
        let mut candidates = copies.iter().filter(|copy| copy.receives > 0 && copy.body_hash == send.hash);
        let whole = !subject.is_oversize();
        if candidates.any(|copy| follows_from_copy(copy, error_type, details, &record, whole)) {
            Ok(())
        } else {
            Err(format!("{error_type}, {details:?} and {record} do not follow"))
        }
    }

    /// Checks a final record without room for its annotation: it must still have its code and the last error.
    fn check_trace_header_annotation(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let subject = &self.subjects[send.n];
        if !subject.is_oversize() {
            return Err("it has no annotation though there is room".to_owned());
        }
        let reason = StatedFailure::from_attributes(&send.content.attributes)
            .ok_or("a final record without a reason")?;
        let copies = &subject.copies[QueuePlace::Annotation as usize];
        let mut candidates = copies.iter().filter(|copy| copy.receives > 0 && copy.body_hash == send.hash);
        let matches_reason = |copy: &Copy| match copy.trusted_failure() {
            Some(failure) => {
                ["verdict", "type"].iter().all(|name| reason.text_member(name) == failure.text_member(name))
            }
            None => reason.text_member("verdict") == "ORCHESTRATION_FAILED",
        };
        if candidates.any(matches_reason) { Ok(()) } else { Err(format!("{reason:?} does not follow")) }
    }

    /// Checks a re-send by `redeliver redrive`: the message must start afresh.
    fn check_redrive(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let body = send.body.ok_or("its body cannot be read")?;
        if !self.subjects[send.n].body.as_ref().is_some_and(|sent| body.keeps_content_of(sent)) {
            return Err("the producer's bytes were changed".to_owned());
        }
        self.check_producer_attributes(send.n, &send.content.attributes)?;
        let records = &self.subjects[send.n].copies[QueuePlace::Final as usize];
        let follows = |copy: &Copy| {
            let fresh =
                copy.retries.as_ref().map(|retries| retries.for_next_generation(copy.recorded_generation));
            fresh.is_some_and(|fresh| fresh == body.retries)
        };
        if records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("it does not start afresh: {:?}", body.retries))
        }
    }

    fn check_unchanged(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        let produced = &self.subjects[send.n].produced.content.body;
        if *produced == send.content.body { Ok(()) } else { Err("its body was changed".to_owned()) }
    }

    pub(super) fn check_attributes_kept(
        &self,
        send: Send<'_>,
        document: &str,
    ) -> Result<(), BrokenInvariant> {
        self.check_producer_attributes(send.n, &producer_attributes(&send.content.attributes, document))
    }

    fn check_producer_attributes(&self, n: usize, attributes: &Attributes) -> Result<(), BrokenInvariant> {
        if self.has_producer_attributes(n, attributes) {
            return Ok(());
        }
        let names = |attributes: &Attributes| attributes.keys().cloned().collect::<Vec<_>>();
        let expected = names(&self.subjects[n].attributes);
        Err(format!("the producer's attributes {expected:?} are {:?} now", names(attributes)))
    }
}

/// Returns true if the final record follows from this copy. `whole` is true if nothing was omitted for lack of room.
fn follows_from_copy(copy: &Copy, error_type: &str, details: &str, record: &Value, whole: bool) -> bool {
    let failure = copy.trusted_failure().filter(|failure| !failure.text_member("verdict").is_empty());
    let came_back = failure.is_some_and(StatedFailure::starts_new_generation);
    let before = failure.and_then(StatedFailure::generation_before);
    let of_its_time = |retries: &RetryMembers| match failure {
        _ if came_back => retries.for_next_generation(before),
        Some(failure) if failure.is_from_producer() => retries.clone().for_producer(),
        _ => retries.clone(),
    };
    let retries = copy.retries.as_ref().map(of_its_time);
    // The metadata of an invalid message is readable only if its data alone violates a schema.
    let is_invalid = error_type.starts_with("INVALID");
    [retries.as_ref(), None].into_iter().take(if is_invalid { 2 } else { 1 }).any(|retries| {
        let sent_at = failure.and_then(StatedFailure::first_sent_time).unwrap_or(copy.sent_at);
        let first_sent = retries.map_or(sent_at, |retries| retries.first_sent(sent_at));
        let text = |name: &str| record[name].as_str().unwrap_or("");
        let Some(failure) = failure else {
            return error_type == "ORCHESTRATION_FAILED";
        };
        let parts =
            [failure.text_member("explanation"), failure.text_member("type"), failure.text_member("details")];
        // If the verdict had no room for a fact, the record takes it from the copy that carries the verdict.
        let delivery = [
            ("source_message_id", copy.id.as_str()),
            ("source_queue_arn", ""),
            ("stage", "final-dlq-annotator"),
        ];
        let delivery = delivery.map(|(name, otherwise)| match failure.text_member(name) {
            "" if !whole => otherwise,
            text => text,
        });
        let first_sent_time = DateTime::parse_from_rfc3339(text("first_sent_time")).ok();
        error_type == failure.text_member("verdict")
            && first_sent_time.is_some_and(|time| time == first_sent)
            && record["redrive_generation"].as_u64()
                == retries.and_then(|retries| retries.generation).map(u64::from)
            && record["held_seconds"].as_u64()
                == retries.map(|retries| retries.held_seconds).filter(|seconds| *seconds > 0)
            && record["redrive_count"].as_u64()
                == retries.map(|retries| retries.redrives.into()).filter(|count| *count > 0)
            && record["attempts"].as_u64()
                == failure.attempt_count().or(retries.map(|retries| retries.attempt)).map(u64::from)
            && [text("sqs_message_id"), text("source_queue_arn"), text("stage")] == delivery
            && !text("fingerprint").is_empty()
            && (!whole
                || (parts.iter().all(|part| *part == error_type || details.contains(part))
                    && record["cause"]["type"] == failure.text_member("type")
                    && record["cause"]["message"] == failure.text_member("details")))
    })
}

pub(super) fn check_no_delay(send: Send<'_>) -> Result<(), BrokenInvariant> {
    if send.content.delay.get() == 0 { Ok(()) } else { Err("with a delay".to_owned()) }
}
