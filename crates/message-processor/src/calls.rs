//! Calls to the target, with bounded concurrency, a circuit breaker, panic isolation, immediate retries after a blip,
//! and a cutoff before the deadline.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::{Either, pending};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};
use redeliver_core::accepted::{AcceptedMessage, FailedMessage};
use redeliver_core::decide::breaker::{HoldReason, PATIENCE, Patience};
use redeliver_core::decide::immediate_retries;
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::failure::{HandOff, NOT_STARTED, Stage};
use redeliver_core::handler::{CallLogs, FailureKind, Handler, HandlerError, Invocation};
use redeliver_core::message::attempt_logs::AttemptLogs;
use redeliver_core::message::{Confirmed, Timestamp};
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::SpanContext;

use crate::MessageProcessor;
use crate::breaker::{BreakerDecision, PermittedCall};
use crate::outcome::{AttemptOutcome, FinishedCall, summarize_held};
use crate::spans::{BatchSpans, InFlightCall, TracedAttempt};
use crate::turns::{Turn, Turns};

/// An immediate retry is abandoned this long before all calls are cut off.
const CUT_OFF: Duration = Duration::from_millis(100);
/// The interval between checks of the breaker while it makes a message wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The diagnostics of a call: its log lines and its span.
#[derive(Clone, Copy)]
struct CallDiagnostics<'a> {
    logs: &'a CallLogs,
    traced: Option<TracedAttempt<'a>>,
}

impl<H: Handler, Q: Send + Sync, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Returns the location of each call's log lines: this invocation's, unless the handler sets a different one.
    pub(super) fn call_logs(&self, calls: usize) -> Vec<CallLogs> {
        let own = self.observer.log_location();
        (0..calls).map(|_| CallLogs::new(own.clone())).collect()
    }

    /// Calls the handler for every message that the circuit breaker permits, at most `max_concurrency` at a time. A
    /// failing, panicking or hanging call does not affect the others. At `end`, running calls are cut off as `Timeout`
    /// and no more are started. A handler that blocks its thread cannot be cut off, but must not use up the time
    /// reserved for the hand-offs.
    pub(super) async fn call_all(
        &self,
        end: Timestamp,
        accepted: &[AcceptedMessage],
        logs: &[CallLogs],
        spans: Option<&BatchSpans<'_>>,
    ) -> Vec<FinishedCall> {
        // A hand-written loop, since `buffer_unordered` does not report which calls had started when time ran out.
        let clock = &self.clock;
        let start = |Turn { index, permitted }| async move {
            let started = clock.now();
            let traced = spans.map(|spans| spans.for_message(index));
            let diagnostics = CallDiagnostics { logs: &logs[index], traced };
            let outcome = self.call_with_retries(&accepted[index], permitted, end, diagnostics).await;
            let seconds = time_until(started, clock.now()).as_secs_f64();
            let was_called = !matches!(outcome, AttemptOutcome::NotStarted);
            (index, FinishedCall { outcome, started: was_called.then_some(started), seconds })
        };
        let mut turns = Turns::new(self, accepted);
        let mut running = FuturesUnordered::new();
        let began = clock.now();
        let time_is_up = clock.sleep(time_until(began, end)).fuse();
        pin_mut!(time_is_up);
        loop {
            // Starts calls up to the concurrency limit; each completed call frees a slot for the next.
            let mut pass = turns.begin_pass();
            while running.len() < self.max_concurrency.get() {
                let patience = if !running.is_empty() {
                    Patience::OthersRun
                } else if time_until(began, clock.now()) < PATIENCE {
                    Patience::NewBatch
                } else {
                    Patience::Over
                };
                let Some(turn) = turns.next_turn(&mut pass, patience) else { break };
                running.push(start(turn));
            }
            if running.is_empty() && turns.none_waiting() {
                break;
            }
            // Another batch's call may settle the breaker's state, but its end does not wake this loop.
            let checks_again = if pass.is_kept_waiting() {
                Either::Right(clock.sleep(CHECK_INTERVAL))
            } else {
                Either::Left(pending())
            };
            let checks_again = checks_again.fuse();
            pin_mut!(checks_again);
            // A call that completes just in time still counts: results are polled before the timer.
            select_biased! {
                (index, call) = running.select_next_some() => turns.record_finished_call(index, call),
                () = time_is_up => break,
                () = checks_again => {}
            }
        }
        // Stops all handlers, since their outcomes are no longer awaited.
        drop(running);
        turns.into_calls()
    }

    /// Returns the events for held messages, one per reason: an outage, a "not now" response, or the rate limit.
    pub(super) fn held_events(
        &self,
        accepted: &[AcceptedMessage],
        calls: &[FinishedCall],
    ) -> impl Iterator<Item = Event> {
        let now = self.clock.now();
        let event = move |reason| {
            let held = summarize_held(reason, calls.iter().map(|call| &call.outcome))?;
            let is_held = |call: &FinishedCall| matches!(&call.outcome, AttemptOutcome::Held { hold, .. } if hold.reason == reason);
            let held_for_reason = accepted.iter().zip(calls).filter(|(_, call)| is_held(call));
            let held_seconds = held_for_reason.map(|(message, _)| self.on_failure.held_seconds(message, now));
            let longest_hold_seconds = held_seconds.max().unwrap_or(0);
            let messages = held.count;
            let seconds = time_until(held.since, now).as_secs_f64();
            Some(match reason {
                HoldReason::Down => Event::Held { messages, open_seconds: seconds, longest_hold_seconds },
                HoldReason::NotNow => {
                    Event::NotNow { messages, error_type: held.error_type, longest_hold_seconds }
                }
                HoldReason::RateLimited => {
                    Event::RateLimited { messages, limited_seconds: seconds, longest_hold_seconds }
                }
            })
        };
        [HoldReason::Down, HoldReason::NotNow, HoldReason::RateLimited].into_iter().filter_map(event)
    }

    /// Settles a call: confirms the record if the call succeeded, and otherwise returns the failed message.
    pub(super) fn settle_call(
        &self,
        accepted: AcceptedMessage,
        call: &FinishedCall,
        logs: &CallLogs,
        span: Option<SpanContext>,
        now: Timestamp,
    ) -> Result<(Confirmed, Event), Box<FailedMessage>> {
        let delivery = || accepted.failed_delivery(now);
        let (mut hand_off, error_type) = match &call.outcome {
            AttemptOutcome::Success => {
                self.on_failure.forget_attempts(&accepted.record().sqs_message_id);
                let processed = Event::Processed {
                    message_id: accepted.metadata().message_id_text.clone(),
                    retry_attempt: self.on_failure.retries_made(&accepted),
                    age_seconds: time_until(accepted.first_sent(), now).as_secs_f64(),
                    target_seconds: call.seconds,
                };
                return Ok((accepted.into_receipt().confirm(), processed));
            }
            AttemptOutcome::Failure(error) | AttemptOutcome::Trouble(error) => (
                HandOff::from_handler_error(error, delivery()),
                error.error_type.loggable_name().into_owned(),
            ),
            AttemptOutcome::Held { hold, error: None } => {
                let hand_off = HandOff::for_hold(*hold, delivery());
                let error_type = hand_off.error.error_type.clone();
                (hand_off, error_type)
            }
            AttemptOutcome::Held { hold, error: Some(error) } => (
                HandOff::for_hold_after_call(error, *hold, delivery()),
                error.error_type.loggable_name().into_owned(),
            ),
            AttemptOutcome::NotStarted => (HandOff::for_unstarted_call(delivery()), NOT_STARTED.to_owned()),
        };
        if let AttemptOutcome::Failure(_)
        | AttemptOutcome::Trouble(_)
        | AttemptOutcome::Held { error: Some(_), .. } = call.outcome
        {
            hand_off.error = hand_off.error.with_function(self.handler.function_version());
            let ended = |started| AttemptLogs::new(logs.location(), started, started + call.duration());
            hand_off.delivery.last_attempt_logs = call.started.and_then(ended);
        }
        hand_off.delivery.last_attempt = span.or(hand_off.delivery.last_attempt);
        let (stage, error_type) = (Stage::MessageProcessor, Some(error_type));
        Err(Box::new(FailedMessage { accepted, hand_off, due_at: None, stage, error_type, span }))
    }

    /// Calls the target until it succeeds, the policy's immediate retries are used up, or no time remains. An immediate
    /// retry that is cut off does not count, since its `Timeout` would replace the known error.
    async fn call_with_retries(
        &self,
        accepted: &AcceptedMessage,
        permitted: PermittedCall<'_, H, Q, C, O>,
        end: Timestamp,
        diagnostics: CallDiagnostics<'_>,
    ) -> AttemptOutcome {
        let end = end - CUT_OFF;
        // A call started too late would be cut off immediately and waste an attempt.
        if self.clock.now() >= end {
            permitted.give_back();
            return AttemptOutcome::NotStarted;
        }
        let own_logs = diagnostics.logs.location();
        let mut outcome = self.call_once(accepted, permitted, end, diagnostics).await;
        // Counted for this delivery only: an immediate retry is not recorded in the message and spends no attempt.
        let mut made = 0;
        loop {
            let (AttemptOutcome::Failure(error) | AttemptOutcome::Trouble(error)) = &outcome else {
                return outcome;
            };
            // Checked after every call: the latest error may not be a blip.
            let again = immediate_retries(&self.policy, error).filter(|again| made < again.max_attempts);
            let Some(again) = again.filter(|again| self.clock.now() + again.delay < end) else {
                return outcome;
            };
            self.clock.sleep(again.delay).await;
            // The target has since gone down or reached its rate limit: report the known error instead of waiting.
            let BreakerDecision::Call(permitted) = self.ask_breaker(accepted, Patience::OthersRun) else {
                return outcome;
            };
            self.observer.observe(&Event::RetriedImmediately {
                message_id: accepted.metadata().message_id_text.clone(),
                retry_attempt: self.on_failure.retries_made(accepted),
                error_type: error.error_type.loggable_name().into_owned(),
            });
            made += 1;
            let logs = diagnostics.logs.location();
            // If the retry reaches no function, the only log lines are this invocation's.
            diagnostics.logs.set_location(own_logs.clone());
            let time_is_up = self.clock.sleep(time_until(self.clock.now(), end)).fuse();
            let call = self.call_once(accepted, permitted, end, diagnostics).fuse();
            pin_mut!(time_is_up, call);
            let newer = select_biased! {
                newer = call => newer,
                () = time_is_up => AttemptOutcome::NotStarted,
            };
            if matches!(newer, AttemptOutcome::NotStarted) {
                diagnostics.logs.set_location(logs);
                return outcome;
            }
            outcome = newer;
        }
    }

    /// Makes one call and records its outcome in the breaker. A panic fails only this call. The panic message is not
    /// read, since it may contain payload data.
    async fn call_once(
        &self,
        accepted: &AcceptedMessage,
        permitted: PermittedCall<'_, H, Q, C, O>,
        end: Timestamp,
        CallDiagnostics { logs, traced }: CallDiagnostics<'_>,
    ) -> AttemptOutcome {
        let span = traced.map(|traced| traced.begin_call(&self.handler, &self.clock, permitted.is_probe()));
        let message = accepted.message(self.on_failure.retries_made(accepted));
        let trace = span.as_ref().map(|span| &span.context);
        let invocation =
            Invocation { message: &message, record: accepted.record(), end, trace, logs: Some(logs) };
        let call = AssertUnwindSafe(async { self.handler.invoke(invocation).await });
        let result = call.catch_unwind().await;
        let result = result.unwrap_or_else(|_| Err(HandlerError::transient("Panic", "the handler panicked")));
        if result.as_ref().is_err_and(|error| error.kind == FailureKind::NotStarted) {
            // The target was not called, so there is no outcome for the breaker.
            permitted.give_back();
            span.into_iter().for_each(InFlightCall::discard_span);
            return AttemptOutcome::NotStarted;
        }
        if let Some(span) = span {
            span.end_call(&result);
        }
        permitted.record_call(result)
    }
}
