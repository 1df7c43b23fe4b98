//! Starts traces, and buffers ended spans until they are exported.

use std::mem;
use std::sync::Mutex;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest as _, Sha256};

use super::{Span, SpanContext, TraceContext, TraceLink};
use crate::lock;
use crate::message::{ReceivedMessage, Timestamp};

/// Maximum number of spans buffered until the next export. Further spans, for example from a batch of 10,000 messages,
/// are dropped and counted.
pub const SPANS_MAX: usize = 8192;

/// Records the spans of one process.
#[derive(Debug)]
pub struct Tracer {
    /// True if an attempt continues its producer's trace (`TRACE_CONTINUE`); otherwise it starts a new trace with
    /// links.
    continues: bool,
    seed: fn() -> [u8; 32],
    state: Mutex<TracerState>,
}

#[derive(Debug, Default)]
struct TracerState {
    /// Seeded no earlier than the first span: environments that Lambda restores from the same snapshot must not
    /// generate the same ids.
    random: Option<ChaCha8Rng>,
    ended: Vec<Span<'static>>,
    dropped: u64,
    /// The running batches.
    running: Vec<SpanContext>,
    /// The batches that have run since the last batch log line.
    batches_since_line: Vec<SpanContext>,
}

/// The spans that ended since the last export.
#[derive(Debug, Default, PartialEq)]
pub struct EndedSpans {
    pub spans: Vec<Span<'static>>,
    /// Number of dropped spans.
    pub dropped: u64,
}

/// The span of an unfinished attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptSpan {
    /// The attempt's span, with the rest of the producer's context.
    pub context: TraceContext,
    pub parent: Option<SpanContext>,
    producer: Option<SpanContext>,
    last: Option<SpanContext>,
}

impl AttemptSpan {
    /// Returns links to the producer's span and to the last attempt, leaving out the parent.
    #[must_use]
    pub fn links(&self) -> Vec<TraceLink> {
        let origins = [(self.producer, "producer"), (self.last, "last_attempt")];
        let link = |(to, role): (Option<SpanContext>, _)| Some(TraceLink { to: to?, role });
        origins.into_iter().filter_map(link).filter(|link| Some(link.to) != self.parent).collect()
    }
}

impl Tracer {
    /// Creates a tracer without spans. `seed` must return a random value, from which span ids are derived; it is called
    /// once, for the first span. `continues` is the setting `TRACE_CONTINUE`.
    #[must_use]
    pub fn new(seed: fn() -> [u8; 32], continues: bool) -> Self {
        Self { continues, seed, state: Mutex::default() }
    }

    fn random_words<const N: usize>(&self) -> [u64; N] {
        let mut state = lock(&self.state);
        let random = state.random.get_or_insert_with(|| ChaCha8Rng::from_seed((self.seed)()));
        std::array::from_fn(|_| random.next_u64())
    }

    /// Creates the first span of a new trace. The trace id starts with the time, as X-Ray requires.
    #[must_use]
    pub fn begin_trace(&self, now: Timestamp, is_sampled: bool) -> SpanContext {
        trace_from_words(now, self.random_words(), is_sampled)
    }

    /// Creates a span in the trace of `parent`.
    #[must_use]
    pub fn child_span(&self, parent: SpanContext) -> SpanContext {
        let [span_id] = self.random_words();
        SpanContext { span_id: span_id.max(1), ..parent }
    }

    /// Records the start of a batch. The next log line may belong to it.
    pub fn record_batch_start(&self, batch: SpanContext) {
        let mut state = lock(&self.state);
        state.running.push(batch);
        state.batches_since_line.push(batch);
    }

    /// Records the end of a batch. Call it before the batch's log line is written.
    pub fn record_batch_end(&self, batch: SpanContext) {
        lock(&self.state).running.retain(|running| *running != batch);
    }

    /// Returns the batch that the current log line belongs to; `None` if several batches ran since the last line,
    /// because the line then counts them together, or if the batch's trace is not sampled.
    #[must_use]
    pub fn batch_for_log_line(&self) -> Option<SpanContext> {
        let mut state = lock(&self.state);
        let running = state.running.clone();
        match std::mem::replace(&mut state.batches_since_line, running)[..] {
            [batch] if batch.is_sampled => Some(batch),
            _ => None,
        }
    }

    /// Starts an attempt, with links to the producer's span and to the last attempt, `last`. The attempt is sampled if
    /// the producer's span is.
    #[must_use]
    pub fn begin_attempt(
        &self,
        producer: Option<TraceContext>,
        last: Option<SpanContext>,
        now: Timestamp,
    ) -> AttemptSpan {
        let is_sampled = is_sampled(producer.as_ref(), last);
        let parent = self.parent_span(producer.as_ref(), last);
        let span = match parent {
            Some(parent) => SpanContext { is_sampled, ..self.child_span(parent) },
            None => self.begin_trace(now, is_sampled),
        };
        linked_attempt(span, parent, producer, last)
    }

    /// Like [`Self::begin_attempt`], for a message that remains on its queue. Such a message cannot carry its last
    /// attempt, so its spans are derived from SQS's message id and the receive count.
    #[must_use]
    pub fn begin_attempt_on_queue(
        &self,
        producer: Option<TraceContext>,
        last: Option<SpanContext>,
        record: &ReceivedMessage,
    ) -> AttemptSpan {
        let is_sampled = is_sampled(producer.as_ref(), last);
        let derived = |receive: u32| receive_span(record, receive, is_sampled);
        // A continued trace contains all receives. The first receive starts it if there is no earlier span.
        let continued = || self.parent_span(producer.as_ref(), last).unwrap_or_else(|| derived(1));
        let continued = self.continues.then(continued);
        let received = |receive: u32| match continued {
            Some(trace) => SpanContext { span_id: derived(receive).span_id, is_sampled, ..trace },
            None => derived(receive),
        };
        let before = record.receive_count.checked_sub(1).filter(|receive| *receive > 0);
        let last = before.map(received).or(last);
        linked_attempt(
            received(record.receive_count),
            self.parent_span(producer.as_ref(), last),
            producer,
            last,
        )
    }

    /// Returns the span that an attempt continues: its producer's, or else its last attempt's.
    fn parent_span(&self, producer: Option<&TraceContext>, last: Option<SpanContext>) -> Option<SpanContext> {
        producer.map(|context| context.span).or(last).filter(|_| self.continues)
    }

    /// Buffers an ended span if its trace is sampled. Beyond [`SPANS_MAX`], spans are dropped and counted.
    pub fn record_span(&self, span: Span<'_>) {
        if !span.context.is_sampled {
            return;
        }
        let mut state = lock(&self.state);
        if state.ended.len() == SPANS_MAX {
            state.dropped += 1;
        } else {
            state.ended.push(span.into_owned());
        }
    }

    /// Takes the spans that ended since the last call.
    #[must_use]
    pub fn take_ended(&self) -> EndedSpans {
        let mut state = lock(&self.state);
        EndedSpans { spans: mem::take(&mut state.ended), dropped: mem::take(&mut state.dropped) }
    }
}

/// Returns the producer's sampling decision, or else the last attempt's, or else true.
fn is_sampled(producer: Option<&TraceContext>, last: Option<SpanContext>) -> bool {
    let decided_span = producer.filter(|context| !context.is_undecided).map(|context| context.span);
    decided_span.or(last).is_none_or(|span| span.is_sampled)
}

/// Derives the span of a receive from SQS's message id.
fn receive_span(record: &ReceivedMessage, receive: u32, is_sampled: bool) -> SpanContext {
    let hash =
        Sha256::new().chain_update(&record.sqs_message_id).chain_update(receive.to_be_bytes()).finalize();
    let word =
        |place: usize| hash[place * 8..][..8].iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    trace_from_words(record.sent_at, [word(0), word(1), word(2)], is_sampled)
}

fn linked_attempt(
    span: SpanContext,
    parent: Option<SpanContext>,
    producer: Option<TraceContext>,
    last: Option<SpanContext>,
) -> AttemptSpan {
    let (producer, context) = match producer {
        Some(producer) => (Some(producer.span), producer.with_span(span)),
        None => (None, TraceContext::from_span(span)),
    };
    AttemptSpan { context, parent, producer, last }
}

fn trace_from_words(began: Timestamp, [first, second, third]: [u64; 3], is_sampled: bool) -> SpanContext {
    let seconds = u32::try_from(began.timestamp()).unwrap_or_default();
    let random = u128::from(first) << 32 | u128::from(second >> 32);
    SpanContext { trace_id: u128::from(seconds) << 96 | random, span_id: third.max(1), is_sampled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, received_message};
    use crate::trace::messaging::receive_span;

    fn tracer() -> Tracer {
        Tracer::new(|| [1; 32], false)
    }

    #[test]
    fn spans_beyond_the_limit_are_dropped_and_counted() {
        let tracer = tracer();
        for _ in 0..SPANS_MAX + 3 {
            tracer.record_span(receive_span(tracer.begin_trace(at(0), true), "", 1, at(0), at(1)));
        }
        tracer.record_span(receive_span(tracer.begin_trace(at(0), false), "", 1, at(0), at(1)));
        let EndedSpans { spans, dropped } = tracer.take_ended();
        assert_eq!((spans.len(), dropped), (SPANS_MAX, 3));
        assert_eq!(tracer.take_ended(), EndedSpans::default());
    }

    #[test]
    fn an_attempt_is_sampled_like_its_producer_or_else_like_the_last_attempt() {
        let tracer = tracer();
        let span = |is_sampled| SpanContext { trace_id: 1, span_id: 2, is_sampled };
        let producer = |is_sampled| Some(TraceContext::from_span(span(is_sampled)));
        for (producer, last, expected) in [
            (None, None, true),
            (producer(false), None, false),
            (producer(true), Some(span(false)), true),
            (producer(false), Some(span(true)), false),
            (None, Some(span(false)), false),
        ] {
            for continues in [false, true] {
                let tracer = Tracer::new(tracer.seed, continues);
                let attempt = tracer.begin_attempt(producer.clone(), last, at(0));
                assert_eq!(attempt.context.span.is_sampled, expected, "{producer:?} {last:?}");
                let on_queue = tracer.begin_attempt_on_queue(producer.clone(), last, &received_message(None));
                assert_eq!(on_queue.context.span.is_sampled, expected, "{producer:?} {last:?}");
            }
        }
    }

    /// A function with tracing disabled, the default, sends a header with `Sampled=0`.
    #[test]
    fn an_unsampled_x_ray_header_leaves_sampling_undecided() {
        let header = |sampled| {
            let header = format!("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8{sampled}");
            TraceContext::from_parts(&crate::message::Attributes::new(), "", Some(&header))
        };
        let tracer = tracer();
        for sampled in [";Sampled=0", ";Sampled=1", ";Sampled=?", ""] {
            let attempt = tracer.begin_attempt(header(sampled), None, at(0));
            assert!(attempt.context.span.is_sampled, "{sampled}");
            assert_eq!(attempt.links()[0].role, "producer");
        }
        let last = SpanContext { trace_id: 1, span_id: 2, is_sampled: false };
        assert!(!tracer.begin_attempt(header(";Sampled=0"), Some(last), at(0)).context.span.is_sampled);
        assert!(tracer.begin_attempt(header(";Sampled=1"), Some(last), at(0)).context.span.is_sampled);
    }

    #[test]
    fn a_log_line_belongs_to_a_batch_only_if_it_counts_no_other() {
        let tracer = tracer();
        let [first, second, unsampled] =
            [true, true, false].map(|sampled| tracer.begin_trace(at(0), sampled));
        assert_eq!(tracer.batch_for_log_line(), None);
        tracer.record_batch_start(first);
        tracer.record_batch_end(first);
        assert_eq!(tracer.batch_for_log_line(), Some(first));
        assert_eq!(tracer.batch_for_log_line(), None, "once");
        tracer.record_batch_start(first);
        tracer.record_batch_start(second);
        tracer.record_batch_end(first);
        assert_eq!(tracer.batch_for_log_line(), None, "the line counts both batches");
        tracer.record_batch_end(second);
        assert_eq!(tracer.batch_for_log_line(), Some(second), "the line counts only the second batch");
        tracer.record_batch_start(unsampled);
        tracer.record_batch_end(unsampled);
        assert_eq!(tracer.batch_for_log_line(), None);
    }

    /// A snapshot is taken before the first span.
    #[test]
    fn the_first_span_seeds_the_id_generator() {
        let tracer = Tracer::new(|| panic!("seeded"), false);
        assert!(std::panic::catch_unwind(|| tracer.begin_trace(at(0), true)).is_err());
    }

    #[test]
    fn receive_spans_differ_by_message_and_link_to_the_last_attempt() {
        let tracer = tracer();
        let last = SpanContext { trace_id: 1, span_id: 2, is_sampled: true };
        let attempt = |id: &str| {
            let record =
                ReceivedMessage { sqs_message_id: id.to_owned(), sent_at: at(7), ..received_message(None) };
            tracer.begin_attempt_on_queue(None, Some(last), &record)
        };
        let [first, second] = ["a", "b"].map(attempt);
        assert_eq!(first.links(), [TraceLink { to: last, role: "last_attempt" }]);
        let [first, second] = [first, second].map(|attempt| attempt.context.span);
        assert!(first.trace_id != second.trace_id && first.span_id != second.span_id, "{first:?}");
        assert_eq!(first.trace_id >> 96, u128::try_from(at(7).timestamp()).unwrap());
    }

    #[test]
    fn ids_differ_and_are_never_zero() {
        let tracer = tracer();
        let spans: Vec<_> = (0..1000).map(|_| tracer.begin_trace(at(0), true)).collect();
        let children: Vec<_> = spans.iter().map(|span| tracer.child_span(*span)).collect();
        let ids: std::collections::HashSet<_> =
            spans.iter().chain(&children).map(|span| span.span_id).collect();
        assert_eq!((ids.len(), ids.contains(&0)), (2000, false));
        assert!(spans.iter().zip(&children).all(|(span, child)| span.trace_id == child.trace_id));
    }
}
