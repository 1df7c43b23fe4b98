//! The spans of a batch: one for the batch, one for each attempt, one for each call.

use std::borrow::Cow;

use redeliver_core::accepted::Accepted;
use redeliver_core::decide::breaker::HoldReason;
use redeliver_core::deliver::until;
use redeliver_core::failure::Answer;
use redeliver_core::handler::{Handler, HandlerError};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::messaging::{self, Process};
use redeliver_core::trace::{Attempt, CallSpan, Link, Span, SpanContext, SpanEvent, TraceContext, Tracer};

use super::MessageProcessor;
use super::calls::{Call, Outcome};

/// The spans of a batch, if spans are written.
pub(super) struct Spans<'a> {
    tracer: &'a Tracer,
    batch: SpanContext,
    start: Timestamp,
    /// One for each accepted message. Only those of messages that are called are recorded.
    attempts: Vec<Attempt>,
}

/// An attempt whose calls are traced.
#[derive(Clone, Copy)]
pub(super) struct Traced<'a> {
    tracer: &'a Tracer,
    attempt: &'a Attempt,
}

impl Drop for Spans<'_> {
    fn drop(&mut self) {
        self.tracer.batch_ended(self.batch);
    }
}

impl<'a> Spans<'a> {
    pub(super) fn begin<H, Q, C, O: Observer>(
        processor: &'a MessageProcessor<H, Q, C, O>,
        accepted: &[Accepted],
        now: Timestamp,
    ) -> Option<Self> {
        let tracer = processor.observer.tracer()?;
        let attempt = |accepted: &Accepted| {
            let record = accepted.record();
            let producer = TraceContext::of_message(&accepted.message(0), record);
            let last = accepted.metadata().last_attempt;
            if processor.stays_on_queue() {
                tracer.attempt_on_queue(producer, last, record)
            } else {
                tracer.attempt(producer, last, now)
            }
        };
        let attempts: Vec<_> = accepted.iter().map(attempt).collect();
        // A batch without a message that anybody records is not recorded either.
        let is_sampled = attempts.iter().any(|attempt| attempt.context.span.is_sampled);
        let batch = tracer.begin(now, is_sampled);
        tracer.batch_began(batch);
        Some(Self { tracer, batch, start: now, attempts })
    }

    pub(super) fn of(&self, index: usize) -> Traced<'_> {
        Traced { tracer: self.tracer, attempt: &self.attempts[index] }
    }

    /// The attempt of a message, if it was called.
    pub(super) fn attempt(&self, index: usize, call: &Call) -> Option<SpanContext> {
        call.started.map(|_| self.attempts[index].context.span)
    }

    /// Records the batch, and the attempts that were made.
    pub(super) fn end<H, Q, C, O>(
        &self,
        processor: &MessageProcessor<H, Q, C, O>,
        accepted: &[Accepted],
        calls: &[Call],
        now: Timestamp,
    ) {
        let Some(first) = accepted.first() else { return };
        for ((accepted, call), attempt) in accepted.iter().zip(calls).zip(&self.attempts) {
            if let Some(start) = call.started {
                let retry_attempt = processor.retries_made(accepted);
                self.tracer.record(self.attempt_span(accepted, call, attempt, retry_attempt, start));
            }
        }
        let messages = u32::try_from(accepted.len()).unwrap_or(u32::MAX);
        let mut span = messaging::receive(self.batch, &first.record().queue_arn, messages, self.start, now);
        span.events = held(calls, now);
        self.tracer.record(span);
    }

    fn attempt_span(
        &self,
        accepted: &Accepted,
        call: &Call,
        attempt: &Attempt,
        retry_attempt: u32,
        start: Timestamp,
    ) -> Span {
        let metadata = accepted.metadata();
        let received = Link { to: self.batch, role: "receive" };
        let process = Process {
            record: accepted.record(),
            message_id: Some(&metadata.message_id_text),
            parent: attempt.parent,
            links: attempt.links.iter().copied().chain([received]).collect(),
            start,
            end: start + call.duration(),
        };
        let mut span = process.span(attempt.context.span);
        span.attributes.push(("redeliver.retry_attempt", retry_attempt.into()));
        span.attributes.push(("redeliver.generation", metadata.generation().into()));
        let held_seconds = accepted.held_seconds();
        if held_seconds > 0 {
            span.attributes.push(("redeliver.held_seconds", held_seconds.into()));
        }
        let (verdict, error) = match &call.outcome {
            Outcome::Success => ("processed", None),
            Outcome::Failure(error) | Outcome::Outage(error) => {
                (Answer::of(error.kind).kind().as_str(), Some(error))
            }
            Outcome::Held { error, .. } => ("held", error.as_ref()),
            Outcome::NotStarted => ("not_started", None),
        };
        span.attributes.push(("redeliver.verdict", verdict.into()));
        span.error = error.map(error_type);
        span
    }
}

/// The messages of a batch that were held without a call, one event for each reason.
fn held(calls: &[Call], now: Timestamp) -> Vec<SpanEvent> {
    let event = |name, reason| {
        let since = calls.iter().filter_map(|call| match &call.outcome {
            Outcome::Held { hold, error: None } if hold.reason == reason => Some(hold.since),
            _ => None,
        });
        let messages = u32::try_from(since.clone().count()).unwrap_or(u32::MAX);
        let seconds = u32::try_from(until(since.min()?, now).as_secs()).unwrap_or(u32::MAX);
        let attributes =
            vec![("redeliver.messages", messages.into()), ("redeliver.trouble_seconds", seconds.into())];
        Some(SpanEvent { name, at: now, attributes })
    };
    let down = event("redeliver.held", HoldReason::Down);
    down.into_iter().chain(event("redeliver.rate_limited", HoldReason::RateLimited)).collect()
}

fn error_type(error: &HandlerError) -> Cow<'static, str> {
    Cow::Owned(error.error_type.loggable().into_owned())
}

/// A call under way. If it is dropped before its answer, the end of the invocation has cut it off.
pub(super) struct CallUnderWay<'a, C: Clock> {
    traced: Traced<'a>,
    clock: &'a C,
    pub(super) context: TraceContext,
    start: Timestamp,
    span: CallSpan,
    events: Vec<SpanEvent>,
    error: Option<Cow<'static, str>>,
}

impl<'a> Traced<'a> {
    pub(super) fn call<H: Handler, C: Clock>(
        self,
        handler: &H,
        clock: &'a C,
        is_probe: bool,
    ) -> CallUnderWay<'a, C> {
        let start = clock.now();
        let probe = || SpanEvent { name: "redeliver.probe", at: start, attributes: Vec::new() };
        CallUnderWay {
            traced: self,
            clock,
            context: self.attempt.context.with_span(self.tracer.child(self.attempt.context.span)),
            start,
            span: handler.call_span(),
            events: is_probe.then(probe).into_iter().collect(),
            error: Some("Timeout".into()),
        }
    }
}

impl<C: Clock> CallUnderWay<'_, C> {
    pub(super) fn answered(mut self, met: &Result<(), HandlerError>) {
        self.error = met.as_ref().err().map(error_type);
    }

    /// The call was not made.
    pub(super) fn not_made(mut self) {
        self.context.span.is_sampled = false;
    }
}

impl<C: Clock> Drop for CallUnderWay<'_, C> {
    fn drop(&mut self) {
        let CallSpan { name, kind, attributes } = std::mem::take(&mut self.span);
        let mut attributes = attributes;
        let mut error = self.error.take();
        let is_http = attributes.iter().any(|(name, _)| *name == "http.request.method");
        let status = error.as_deref().and_then(|error| error.strip_prefix("HttpStatus."));
        let status = status.filter(|_| is_http);
        if let Some(status) = status.and_then(|status| status.parse::<u32>().ok()) {
            attributes.push(("http.response.status_code", status.into()));
            // Named so by the conventions for HTTP.
            error = Some(status.to_string().into());
        }
        self.traced.tracer.record(Span {
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
