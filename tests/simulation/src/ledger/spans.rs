//! Checks spans: each attempt must be linked to the previous attempt. At each send, the attempt that the copy carries
//! is compared with its sender's attempts, which covers every path that a copy can take.

use std::collections::{HashMap, HashSet};
use std::hash::Hash as _;
use std::ops::AddAssign;

use redeliver_core::handler::Invocation;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::trace::{Span, SpanContext, SpanKind, SpanValue};

use super::body::RetryMembers;
use super::copies::{Copy, StatedFailure};
use super::oracle::NOT_CALLED;
use super::{Actor, BrokenInvariant, Ledger, QueuePlace};
use crate::knobs::TracingKnobs;
use crate::messages::{ExpectedOutcome, message_number};

/// The spans so far. A message has no spans if its producer's span is not sampled.
#[derive(Default)]
pub(super) struct SpanLedger {
    /// The message number of each attempt.
    attempts: HashMap<SpanContext, usize>,
    /// The spans of decisions and final records.
    decisions: HashSet<SpanContext>,
    /// Attempts by SQS message id and receive count, with the strategy `visibility`.
    attempt_by_receive: HashMap<(String, u32), SpanContext>,
    counts: SpanCounts,
}

/// Counts of recorded attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    pub attempts: u64,
    /// Number of attempts on messages that had been attempted before.
    pub after_another: u64,
    /// Number of those attempts that are linked to the previous attempt or are its children.
    pub linked: u64,
}

impl AddAssign for SpanCounts {
    fn add_assign(&mut self, other: Self) {
        self.attempts += other.attempts;
        self.after_another += other.after_another;
        self.linked += other.linked;
    }
}

/// A delivery to an invocation.
#[derive(Clone, Debug)]
pub(crate) struct TracedDelivery {
    id: String,
    subject: usize,
    place: QueuePlace,
    /// The copy's index among the message's copies in that queue.
    copy: usize,
    receive_count: u32,
    /// The last attempt before the delivery.
    last: Option<SpanContext>,
    /// The span contexts of its calls, as the target sees them.
    calls: Vec<SpanContext>,
    /// The parents of the calls' spans.
    parents: Vec<SpanContext>,
    attempts: Vec<SpanContext>,
    has_decision: bool,
}

/// Parses `traceparent` as the functions write it.
pub(super) fn span_context(text: &str) -> Option<SpanContext> {
    let parts: Vec<_> = text.split('-').collect();
    let [_, trace_id, span_id, flags] = parts[..] else { return None };
    Some(SpanContext {
        trace_id: u128::from_str_radix(trace_id, 16).ok()?,
        span_id: u64::from_str_radix(span_id, 16).ok()?,
        is_sampled: flags == "01",
    })
}

impl Ledger {
    /// Returns the counts of attempts with spans in this run.
    #[must_use]
    pub fn span_counts(&self) -> SpanCounts {
        self.spans.counts
    }

    /// Returns the deliveries to a new invocation.
    pub(super) fn invocation_deliveries(&self, records: &[ReceivedMessage]) -> Vec<TracedDelivery> {
        let delivered = |record: &ReceivedMessage| {
            let place = *self.queues.get(&record.queue_arn)?;
            let subject = message_number(&record.body).filter(|n| *n < self.subjects.len())?;
            let copies = &self.subjects[subject].copies[place as usize];
            let copy = copies.iter().rposition(|copy| copy.id == record.sqs_message_id)?;
            Some(TracedDelivery {
                id: record.sqs_message_id.clone(),
                subject,
                place,
                copy,
                receive_count: record.receive_count,
                last: copies[copy].last_attempt(place),
                calls: Vec::new(),
                parents: Vec::new(),
                attempts: Vec::new(),
                has_decision: false,
            })
        };
        match self.knobs.tracing {
            Some(_) => records.iter().filter_map(delivered).collect(),
            None => Vec::new(),
        }
    }

    /// Checks the trace context with which the target is called.
    pub fn check_call_context(&mut self, invocation: &Invocation<'_>) {
        let context = invocation.trace_context().map(|context| context.span);
        if let Some(TracingKnobs { continues }) = self.knobs.tracing
            && let Err(violation) = self.check_context(&invocation.record.sqs_message_id, context, continues)
        {
            self.report_violation(format!("a call to the target with the context {context:?}: {violation}"));
        }
    }

    fn check_context(
        &mut self,
        id: &str,
        context: Option<SpanContext>,
        continues: bool,
    ) -> Result<(), BrokenInvariant> {
        let context = context.ok_or("there is none")?;
        let delivered = self.current_delivery(id)?;
        delivered.calls.push(context);
        let n = delivered.subject;
        let producer = self.subjects[n].produced.trace;
        // The handler sees the producer's sampling decision.
        let is_right = context.is_sampled == self.subjects[n].produced.is_sampled.unwrap_or(true)
            && producer.is_none_or(|producer| (producer.trace_id == context.trace_id) == continues);
        if is_right { Ok(()) } else { Err(format!("the producer of message {n} has {producer:?}")) }
    }

    /// Records and checks spans of the current invocation.
    pub fn record_spans(&mut self, spans: &[Span], dropped: u64) {
        if dropped > 0 {
            self.report_violation(format!("{dropped} spans were dropped for lack of room"));
        }
        for span in spans {
            span.context.hash(&mut self.digest);
            if let Err(violation) = self.check_span(span) {
                self.report_violation(format!("{violation}: {span:?}"));
            }
        }
    }

    fn check_span(&mut self, span: &Span) -> Result<(), BrokenInvariant> {
        if !span.context.is_sampled {
            return Err("a span of a trace that is not sampled".to_owned());
        }
        if span.parent.is_some_and(|parent| parent.trace_id != span.context.trace_id) {
            return Err("a span with its parent in another trace".to_owned());
        }
        let is_attempt = span.attributes.iter().any(|(name, _)| *name == "redeliver.retry_attempt");
        let is_send = span.attributes.iter().any(|(name, _)| *name == "redeliver.send");
        match span.kind {
            SpanKind::Client if !is_send => Ok(()),
            SpanKind::Internal => self.check_call_span(span),
            SpanKind::Consumer if is_attempt => self.check_attempt_span(span),
            SpanKind::Consumer => self.check_decision_span(span),
            SpanKind::Client => match span.parent {
                Some(of) if self.spans.attempts.contains_key(&of) || self.spans.decisions.contains(&of) => {
                    Ok(())
                }
                _ => Err("a send outside of any attempt or decision".to_owned()),
            },
        }
    }

    /// Returns a delivery of the current invocation.
    fn current_delivery(&mut self, id: &str) -> Result<&mut TracedDelivery, BrokenInvariant> {
        let invocation = self.current_invocation.and_then(|id| self.invocations.get_mut(&id));
        let delivered = invocation.into_iter().flat_map(|invocation| &mut invocation.delivered);
        let mut delivered = delivered.filter(|delivered| delivered.id == id);
        delivered.next().ok_or_else(|| format!("{id} was not delivered to this invocation"))
    }

    fn check_call_span(&mut self, span: &Span) -> Result<(), BrokenInvariant> {
        let invocation = self.current_invocation.and_then(|id| self.invocations.get_mut(&id));
        let mut delivered = invocation.into_iter().flat_map(|invocation| &mut invocation.delivered);
        let of_call = delivered.find(|delivered| delivered.calls.contains(&span.context));
        let of_call = of_call.ok_or("the target has not seen this span of its call")?;
        of_call.parents.push(span.parent.ok_or("a call outside of any attempt")?);
        Ok(())
    }

    fn check_attempt_span(&mut self, span: &Span) -> Result<(), BrokenInvariant> {
        let delivered = self.current_delivery(message_id(span))?;
        delivered.attempts.push(span.context);
        let TracedDelivery { id, subject: n, copy, receive_count, last, calls, parents, .. } =
            delivered.clone();
        let is_own = calls.iter().all(|call| call.trace_id == span.context.trace_id);
        if calls.is_empty() || !is_own || parents.iter().any(|parent| *parent != span.context) {
            return Err(format!(
                "it is not the attempt of its calls {calls:?}, whose parents are {parents:?}"
            ));
        }
        let by_receives = self.knobs.uses_visibility();
        // Absent if the message was held on the previous receive, or its process died.
        let of_receive = self.spans.attempt_by_receive.get(&(id.clone(), receive_count.saturating_sub(1)));
        let last = match of_receive {
            Some(of_receive) => Some(*of_receive),
            None if by_receives && receive_count > 1 => linked_context(span, "last_attempt").or(span.parent),
            None => last,
        };
        let is_known = last.is_some_and(|last| self.spans.attempts.get(&last) == Some(&n));
        if last.is_some() && !is_known && !by_receives {
            return Err(format!("the previous attempt, {last:?}, does not belong to message {n}"));
        }
        self.check_origins(span, n, last)?;
        let copy = &self.subjects[n].copies[QueuePlace::Source as usize][copy];
        if last.is_none() && !by_receives && self.was_attempted(n, copy) {
            return Err(format!("message {n} was attempted before, but does not name that attempt"));
        }
        let is_new = self.spans.attempts.insert(span.context, n).is_none();
        if !is_new && !by_receives {
            return Err("two attempts have the same id".to_owned());
        }
        if by_receives {
            self.spans.attempt_by_receive.insert((id, receive_count), span.context);
        }
        self.spans.counts += SpanCounts {
            attempts: 1,
            after_another: u64::from(is_known),
            linked: u64::from(is_known && is_linked(span, "last_attempt", last)),
        };
        Ok(())
    }

    /// Checks the parent and the links of an attempt, or of a decision without an attempt.
    fn check_origins(&self, span: &Span, n: usize, last: Option<SpanContext>) -> Result<(), BrokenInvariant> {
        let producer = self.subjects[n].produced.trace;
        let continues = self.knobs.tracing.is_some_and(|tracing| tracing.continues);
        let parent = producer.or(last).filter(|_| continues);
        if span.parent != parent {
            return Err(format!("message {n}: its parent should be {parent:?}"));
        }
        for (role, to) in [("producer", producer), ("last_attempt", last)] {
            if !is_linked(span, role, to) {
                return Err(format!("message {n}: its link `{role}` should be {to:?}"));
            }
        }
        Ok(())
    }

    /// Returns true if the newest failure in the copy's history comes from a call and was not forged by the producer.
    fn was_attempted(&self, n: usize, copy: &Copy) -> bool {
        let subject = &self.subjects[n];
        let (Some(now), Some(body)) = (&copy.retries, &subject.body) else { return false };
        let newest = |retries: &RetryMembers| Some(retries.history.last()?.error_type.clone());
        let newest = newest(now).filter(|error_type| newest(&body.retries).as_ref() != Some(error_type));
        let is_call = |error_type: String| {
            !["Redrive", "NotStarted"].into_iter().chain(NOT_CALLED).any(|other| other == error_type)
        };
        !subject.is_oversize() && newest.is_some_and(is_call)
    }

    /// Records and checks the span of a decision on a failed message, or of its final record.
    fn check_decision_span(&mut self, span: &Span) -> Result<(), BrokenInvariant> {
        let delivered = self.current_delivery(message_id(span))?;
        delivered.has_decision = true;
        let TracedDelivery { subject: n, place, copy, last, .. } = *delivered;
        self.spans.decisions.insert(span.context);
        let copy = &self.subjects[n].copies[place as usize][copy];
        let is_part = match place {
            QueuePlace::Annotation => last.is_some(),
            _ => !copy.redriven,
        };
        match (is_part, last) {
            (true, Some(last)) if span.parent == Some(last) && self.spans.attempts.get(&last) == Some(&n) => {
                Ok(())
            }
            (true, _) => Err(format!("message {n}: it is not part of the attempt {last:?}")),
            (false, last) => self.check_origins(span, n, last),
        }
    }

    /// Checks that a copy carries the last attempt before it: its sender's own attempt, or the attempt that the
    /// sender's delivery carried.
    pub(super) fn check_last_attempt(
        &self,
        actor: Actor,
        place: QueuePlace,
        n: usize,
        copy: &Copy,
    ) -> Result<(), BrokenInvariant> {
        let subject = &self.subjects[n];
        // A document for which there is too little room keeps only its essential members.
        if self.knobs.tracing.is_none()
            || self.expected_outcome(n) != ExpectedOutcome::Handled
            || subject.is_oversize()
        {
            return Ok(());
        }
        let carried = match place {
            QueuePlace::Final if copy.came_back => copy.recorded_attempt,
            _ => copy.last_attempt(place),
        };
        let invocation = self.current_invocation.and_then(|id| self.invocations.get(&id));
        let delivered = invocation.into_iter().flat_map(|invocation| &invocation.delivered);
        let mut delivered = delivered.filter(|delivered| delivered.subject == n);
        let of_one = copy.trusted_failure().map_or("", |failure| failure.text_member("source_message_id"));
        let is_right = match actor {
            Actor::Redrive => {
                let records = &subject.copies[QueuePlace::Final as usize];
                records.iter().any(|record| record.last_attempt(QueuePlace::Final) == carried)
            }
            Actor::MessageProcessor => delivered
                .any(|from| (of_one.is_empty() || from.id == of_one) && self.can_result_in(from, carried)),
            Actor::FailedMessageProcessor | Actor::Annotator => {
                delivered.any(|from| from.last == carried && self.has_required_decision_span(from))
            }
            Actor::Producer | Actor::Console | Actor::Lambda | Actor::AsyncRetryHandler => true,
        };
        if is_right { Ok(()) } else { Err(format!("the previous attempt is not {carried:?}")) }
    }

    /// Returns true if a failed delivery can result in a message with this last attempt.
    fn can_result_in(&self, from: &TracedDelivery, carried: Option<SpanContext>) -> bool {
        let TracedDelivery { last, calls, parents, attempts, .. } = from;
        if !attempts.is_empty() {
            return carried.is_some_and(|carried| attempts.contains(&carried));
        }
        // An attempt that is not sampled has no span. Only the context of its calls is known.
        let Some(call) = calls.iter().find(|call| !call.is_sampled) else {
            return parents.is_empty() && carried == *last;
        };
        let is_of_call = carried.is_some_and(|carried| {
            carried.trace_id == call.trace_id && !carried.is_sampled && carried.span_id != call.span_id
        });
        // A user's own function might not have been ready, so the call might not have been made.
        let was_made = self.knobs.own_function.is_none();
        (is_of_call && carried != *last) || (!was_made && carried == *last)
    }

    /// Returns true if the decision has a span or needs none. A decision after a failed call needs a span, and so does
    /// a final record.
    fn has_required_decision_span(&self, from: &TracedDelivery) -> bool {
        let TracedDelivery { subject: n, place, copy, last, has_decision, .. } = from;
        let is_recorded = match last {
            Some(last) => last.is_sampled,
            None => self.subjects[*n].produced.is_sampled.unwrap_or(true),
        };
        let failure = self.subjects[*n].copies[*place as usize][*copy].trusted_failure();
        let has_hopped = || failure.is_some_and(|failure| failure.time_member("due_at").is_some());
        let was_called = |failure: &StatedFailure| {
            failure.text_member("kind") != "not_started" && !NOT_CALLED.contains(&failure.text_member("type"))
        };
        let must_be = match place {
            QueuePlace::Annotation => true,
            _ => !has_hopped() && failure.is_some_and(was_called),
        };
        *has_decision || !must_be || !is_recorded
    }
}

/// Returns the SQS message id in the span's attributes.
fn message_id<'a>(span: &'a Span<'_>) -> &'a str {
    let mut attributes = span.attributes.iter();
    match attributes.find(|(name, _)| *name == "messaging.message.id") {
        Some((_, SpanValue::Text(id))) => id,
        _ => "",
    }
}

fn linked_context(span: &Span, role: &str) -> Option<SpanContext> {
    span.links.iter().find(|link| link.role == role).map(|link| link.to)
}

/// Returns true if `to` is the span's only link with this role. The span's parent needs no link.
fn is_linked(span: &Span, role: &str, to: Option<SpanContext>) -> bool {
    let links = span.links.iter().filter(|link| link.role == role).count();
    match linked_context(span, role) {
        Some(link) => links == 1 && Some(link) == to,
        None => to.is_none() || span.parent == to,
    }
}

#[cfg(test)]
mod tests {
    use super::SpanCounts;
    use crate::knobs::{SimulationKnobs, TracingKnobs};
    use crate::run::{Schemas, run_simulation};

    /// Every execution must produce the same ids and counts, because otherwise a replay would not reproduce a failure.
    #[test]
    fn each_later_attempt_is_linked_to_the_previous_attempt() {
        let tracing = Some(TracingKnobs { continues: false });
        let passed = || {
            run_simulation(
                SimulationKnobs { messages: 20, tracing, ..SimulationKnobs::from_seed(4) },
                &Schemas::default(),
            )
            .unwrap()
        };
        let (one, other) = (passed(), passed());
        assert_eq!(one.spans, SpanCounts { attempts: 207, after_another: 191, linked: 191 });
        assert_eq!((one.digest, one.spans), (other.digest, other.spans));
    }
}
