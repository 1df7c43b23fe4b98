//! The spans of a batch: one for the batch, one per attempt, and one per call.

use std::borrow::Cow;

use redeliver_core::accepted::AcceptedMessage;
use redeliver_core::decide::breaker::HoldReason;
use redeliver_core::deliver::time_until;
use redeliver_core::failure::Classification;
use redeliver_core::handler::{Handler, HandlerError};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::messaging::{self, ProcessSpan};
use redeliver_core::trace::{
    AttemptSpan, CallSpan, Span, SpanContext, SpanEvent, TraceContext, TraceLink, Tracer,
};

use crate::MessageProcessor;
use crate::outcome::{AttemptOutcome, FinishedCall, summarize_held};

/// The spans of a batch, if spans are written.
pub(super) struct BatchSpans<'a> {
    tracer: &'a Tracer,
    batch: SpanContext,
    start: Timestamp,
    /// One per accepted message. Only attempts with a call are recorded.
    attempts: Vec<AttemptSpan>,
}

/// An attempt whose calls are traced.
#[derive(Clone, Copy)]
pub(super) struct TracedAttempt<'a> {
    tracer: &'a Tracer,
    attempt: &'a AttemptSpan,
}

impl Drop for BatchSpans<'_> {
    fn drop(&mut self) {
        self.tracer.record_batch_end(self.batch);
    }
}

impl<'a> BatchSpans<'a> {
    pub(super) fn begin_batch<H, Q, C, O: Observer>(
        processor: &'a MessageProcessor<H, Q, C, O>,
        accepted: &[AcceptedMessage],
        now: Timestamp,
    ) -> Option<Self> {
        let tracer = processor.observer.tracer()?;
        let attempt = |accepted: &AcceptedMessage| {
            let record = accepted.record();
            let producer = TraceContext::from_message(&accepted.message(0), record);
            let last = accepted.metadata().last_attempt;
            if processor.on_failure.stays_on_queue() {
                tracer.begin_attempt_on_queue(producer, last, record)
            } else {
                tracer.begin_attempt(producer, last, now)
            }
        };
        let attempts: Vec<_> = accepted.iter().map(attempt).collect();
        // A batch without any sampled message is not recorded.
        let is_sampled = attempts.iter().any(|attempt| attempt.context.span.is_sampled);
        let batch = tracer.begin_trace(now, is_sampled);
        tracer.record_batch_start(batch);
        Some(Self { tracer, batch, start: now, attempts })
    }

    pub(super) fn for_message(&self, index: usize) -> TracedAttempt<'_> {
        TracedAttempt { tracer: self.tracer, attempt: &self.attempts[index] }
    }

    /// Returns the span of a message's attempt, if a call was made.
    pub(super) fn attempt_span(&self, index: usize, call: &FinishedCall) -> Option<SpanContext> {
        call.started.map(|_| self.attempts[index].context.span)
    }

    /// Records the spans of the batch and of the attempts that were made.
    pub(super) fn end_batch<H, Q, C, O>(
        &self,
        processor: &MessageProcessor<H, Q, C, O>,
        accepted: &[AcceptedMessage],
        calls: &[FinishedCall],
        now: Timestamp,
    ) {
        let Some(first) = accepted.first() else { return };
        for ((accepted, call), attempt) in accepted.iter().zip(calls).zip(&self.attempts) {
            if let Some(start) = call.started {
                let mut links = attempt.links();
                links.push(TraceLink { to: self.batch, role: "receive" });
                let process = ProcessSpan {
                    record: accepted.record(),
                    message_id: Some(&accepted.metadata().message_id_text),
                    parent: attempt.parent,
                    links,
                    start,
                    end: start + call.duration(),
                };
                let mut span = process.into_span(attempt.context.span);
                describe_attempt(&mut span, accepted, call, processor.on_failure.retries_made(accepted));
                self.tracer.record_span(span);
            }
        }
        let messages = u32::try_from(accepted.len()).unwrap_or(u32::MAX);
        let mut span =
            messaging::receive_span(self.batch, &first.record().queue_arn, messages, self.start, now);
        span.events = held_span_events(calls, now);
        self.tracer.record_span(span);
    }
}

/// Adds the attributes and the outcome of an attempt to its span.
fn describe_attempt<'a>(
    span: &mut Span<'a>,
    accepted: &AcceptedMessage,
    call: &'a FinishedCall,
    retry_attempt: u32,
) {
    span.attributes.push(("redeliver.retry_attempt", retry_attempt.into()));
    span.attributes.push(("redeliver.generation", accepted.metadata().generation().into()));
    let held_seconds = accepted.held_seconds();
    if held_seconds > 0 {
        span.attributes.push(("redeliver.held_seconds", held_seconds.into()));
    }
    let (verdict, error) = match &call.outcome {
        AttemptOutcome::Success => ("processed", None),
        AttemptOutcome::Failure(error) | AttemptOutcome::Trouble(error) => {
            (Classification::from_failure_kind(error.kind).known_class().as_str(), Some(error))
        }
        AttemptOutcome::Held { error, .. } => ("held", error.as_ref()),
        AttemptOutcome::NotStarted => ("not_started", None),
    };
    span.attributes.push(("redeliver.verdict", verdict.into()));
    span.error = error.map(|error| error.error_type.loggable_name());
}

/// Returns the span events for messages held without a call, one per reason.
fn held_span_events(calls: &[FinishedCall], now: Timestamp) -> Vec<SpanEvent> {
    let is_without_call =
        |outcome: &&AttemptOutcome| matches!(outcome, AttemptOutcome::Held { error: None, .. });
    let event = |name, reason| {
        let held = summarize_held(reason, calls.iter().map(|call| &call.outcome).filter(is_without_call))?;
        let seconds = u32::try_from(time_until(held.since, now).as_secs()).unwrap_or(u32::MAX);
        let attributes =
            vec![("redeliver.messages", held.count.into()), ("redeliver.trouble_seconds", seconds.into())];
        Some(SpanEvent { name, at: now, attributes })
    };
    let down = event("redeliver.held", HoldReason::Down);
    down.into_iter().chain(event("redeliver.rate_limited", HoldReason::RateLimited)).collect()
}

/// A call in progress. Dropping it without an outcome means that the end of the invocation cut it off.
pub(super) struct InFlightCall<'a, H: Handler, C: Clock> {
    traced: TracedAttempt<'a>,
    handler: &'a H,
    clock: &'a C,
    pub(super) context: TraceContext,
    start: Timestamp,
    /// True once the span is recorded, or if the call was not made.
    is_over: bool,
    events: Vec<SpanEvent>,
}

impl<'a> TracedAttempt<'a> {
    pub(super) fn begin_call<H: Handler, C: Clock>(
        self,
        handler: &'a H,
        clock: &'a C,
        is_probe: bool,
    ) -> InFlightCall<'a, H, C> {
        let start = clock.now();
        let probe = || SpanEvent { name: "redeliver.probe", at: start, attributes: Vec::new() };
        InFlightCall {
            traced: self,
            handler,
            clock,
            context: self.attempt.context.with_span(self.tracer.child_span(self.attempt.context.span)),
            start,
            is_over: false,
            events: is_probe.then(probe).into_iter().collect(),
        }
    }
}

impl<H: Handler, C: Clock> InFlightCall<'_, H, C> {
    pub(super) fn end_call(mut self, result: &Result<(), HandlerError>) {
        let error = result.as_ref().err().map(|error| error.error_type.loggable_name());
        self.record_span(error.as_deref());
    }

    /// Discards the span of a call that was not made.
    pub(super) fn discard_span(mut self) {
        self.is_over = true;
    }

    fn record_span(&mut self, error: Option<&str>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let CallSpan { name, kind, mut attributes } = self.handler.call_span();
        let is_http = attributes.iter().any(|(name, _)| *name == "http.request.method");
        let status = error.filter(|_| is_http).and_then(|error| error.strip_prefix("HttpStatus."));
        let code = status.and_then(|status| status.parse::<u32>().ok());
        attributes.extend(code.map(|code| ("http.response.status_code", code.into())));
        // Required by the semantic conventions for HTTP.
        let error = status.filter(|_| code.is_some()).or(error).map(Cow::Borrowed);
        self.traced.tracer.record_span(Span {
            context: self.context.span,
            parent: Some(self.traced.attempt.context.span),
            links: Vec::new(),
            name,
            kind,
            start: self.start,
            end: self.clock.now(),
            attributes,
            events: std::mem::take(&mut self.events),
            error,
        });
    }
}

impl<H: Handler, C: Clock> Drop for InFlightCall<'_, H, C> {
    fn drop(&mut self) {
        self.record_span(Some("Timeout"));
    }
}
