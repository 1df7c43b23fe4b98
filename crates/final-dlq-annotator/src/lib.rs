//! The final-dlq-annotator: open → explain → archive, if configured → send to the final DLQ → confirm → notify.

mod on_aws;

use std::collections::HashSet;
use std::time::Duration;

use redeliver_core::archive::{Archive, Death, FinalRecord, ReleasedRecord};
use redeliver_core::arrival::Arrival;
use redeliver_core::deliver::{Outbox, stop_time, time_until};
use redeliver_core::events::Event;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, compute_fingerprint};
use redeliver_core::failure::reason::{DeadLetterReason, ReasonCode};
use redeliver_core::failure::{
    Delivery, Failure, LastError, Stage, Verdict, VerdictDetails, metadata_in_current_generation,
};
use redeliver_core::json::forward_compatible::OpenEnum;
use redeliver_core::message::metadata::{Metadata, format_rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::read_message_metadata;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::notices::{DeathNotice, NOTICES_TIME_MAX, NoNotifier, Notices, Notifier, own_error_name};
use redeliver_core::ports::{Clock, FlushOnDrop, Function, NoStore, ObjectStore, Observer, QueueSender};
use redeliver_core::trace::messaging::ProcessSpan;
use redeliver_core::trace::{SpanContext, TraceContext, Tracer};

pub use on_aws::{NAME, run};

/// `ErrorDetails` for a message that SQS moved to the annotation queue: no trusted verdict states its reason.
const MOVED_BY_SQS: &str =
    "SQS moved the message to the annotation queue: the function that received it could not handle it";
const WITHOUT_A_VERDICT: &str = "The message reached the annotation queue without a verdict";

/// Time reserved at the end of an invocation for the sends, so that a slow archive cannot use it up.
const SEND_RESERVE: Duration = Duration::from_secs(5);

/// The final-dlq-annotator with its dependencies.
#[derive(Debug)]
pub struct FinalDlqAnnotator<Q, C, O, S = NoStore, N = NoNotifier> {
    /// The final DLQ, to which final records are sent.
    pub final_dlq: Q,
    /// The archive, to which each final record is written before it is sent; `None` disables archiving.
    pub archive: Option<Archive<S>>,
    /// The notices about causes of dead letters; `None` disables them.
    pub notices: Option<Notices<N>>,
    pub clock: C,
    pub observer: O,
}

impl<Q, C, O> FinalDlqAnnotator<Q, C, O> {
    /// Creates a final-dlq-annotator without an archive or notices.
    #[must_use]
    pub fn new(final_dlq: Q, clock: C, observer: O) -> Self {
        Self { final_dlq, archive: None, notices: None, clock, observer }
    }
}

impl<Q: QueueSender, C: Clock, O: Observer, S: ObjectStore, N: Notifier> Function
    for FinalDlqAnnotator<Q, C, O, S, N>
{
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flush_guard = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let annotated = records.into_iter().map(|record| self.annotate_record(record, now));
        let (records, deaths): (Vec<_>, Vec<_>) =
            annotated.map(|AnnotatedRecord { record, death }| (record, death)).unzip();
        let kept = self.archive_records(records, deadline).await;
        let outgoing = kept.into_iter().map(ReleasedRecord::into_outgoing).collect();
        let confirmed = outbox.send(&self.final_dlq, "final record", outgoing).await;
        self.send_notices(deaths, &confirmed, outbox.response_deadline()).await;
        confirmed
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.observer.tracer()
    }
}

impl<Q: QueueSender, C: Clock, O: Observer, S: ObjectStore, N: Notifier> FinalDlqAnnotator<Q, C, O, S, N> {
    async fn archive_records(&self, records: Vec<FinalRecord>, deadline: Timestamp) -> Vec<ReleasedRecord> {
        match &self.archive {
            None => records.into_iter().map(ReleasedRecord::without_archive).collect(),
            Some(archive) => {
                let end = stop_time(SEND_RESERVE, self.clock.now(), deadline);
                archive.archive_records(&self.clock, &self.observer, end, records).await
            }
        }
    }

    /// Sends notices about deaths whose records have reached the final DLQ.
    async fn send_notices(
        &self,
        deaths: Vec<UnconfirmedDeath>,
        confirmed: &[Confirmed],
        answer_by: Timestamp,
    ) {
        let Some(notices) = &self.notices else { return };
        let confirmed: HashSet<_> = confirmed.iter().map(Confirmed::sqs_message_id).collect();
        let is_confirmed = |death: &UnconfirmedDeath| confirmed.contains(death.sqs_message_id.as_str());
        let deaths: Vec<_> = deaths.into_iter().filter(is_confirmed).map(|death| death.notice).collect();
        let end = answer_by.min(self.clock.now() + NOTICES_TIME_MAX);
        notices.notify(&deaths, &self.clock, &self.observer, end).await;
    }

    fn annotate_record(&self, record: ReceivedMessage, now: Timestamp) -> AnnotatedRecord {
        let received = record.without_content();
        let mut arrival = Arrival::from_record(record, now);
        let came_back = arrival.dlq_return_before_failure();
        // A message with an invalid body also gets a final record, without the unreadable parts.
        let metadata = read_message_metadata(&arrival.record.body, &arrival.record.attributes);
        let metadata = metadata.map(|metadata| metadata_in_current_generation(metadata, came_back));
        let verdict = arrival.take_verdict();
        let kept_verdict = verdict.clone();
        let kept_verdict =
            kept_verdict.unwrap_or_else(|_| Verdict::from_code(DeadLetterReason::OrchestrationFailed));
        let explained = explain_death(&arrival.record, verdict, metadata.as_ref(), now);
        let notice = explained.death_notice();
        let span = self.record_span(&arrival.record, metadata.as_ref(), &explained.annotation, now);
        let dead_lettered = explained.dead_lettered_event(&arrival.record, metadata, now);
        let outgoing =
            arrival.into_final_record(&explained.annotation, &kept_verdict, dead_lettered).with_span(span);
        let sqs_message_id = received.sqs_message_id.clone();
        AnnotatedRecord {
            record: FinalRecord { outgoing, death: notice.death.clone(), received },
            death: UnconfirmedDeath { sqs_message_id, notice },
        }
    }

    /// Records the span of the annotation: a child of the last attempt or, if there is none, the first span of a new
    /// attempt.
    fn record_span(
        &self,
        record: &ReceivedMessage,
        metadata: Option<&Metadata>,
        annotation: &Annotation,
        now: Timestamp,
    ) -> Option<SpanContext> {
        let tracer = self.observer.tracer()?;
        let (context, parent, links) = match annotation.record.last_attempt() {
            Some(attempt) => (tracer.child_span(attempt), Some(attempt), Vec::new()),
            None => {
                let first = tracer.begin_attempt(producer_context(record), None, now);
                (first.context.span, first.parent, first.links())
            }
        };
        let message_id = metadata.map(|metadata| metadata.message_id_text.as_str());
        let process = ProcessSpan { record, message_id, parent, links, start: now, end: now };
        let mut span = process.into_span(context);
        span.attributes.push(("redeliver.dead_letter", annotation.reason.log_label().into()));
        tracer.record_span(span);
        Some(context)
    }
}

fn producer_context(record: &ReceivedMessage) -> Option<TraceContext> {
    TraceContext::from_parts(&record.attributes, &record.body, record.trace_header.as_deref())
}

/// A final record, and the death that it documents.
struct AnnotatedRecord {
    record: FinalRecord,
    death: UnconfirmedDeath,
}

/// A death whose final record has not been sent yet.
struct UnconfirmedDeath {
    /// The record's SQS message id in the annotation queue.
    sqs_message_id: String,
    notice: DeathNotice,
}

/// The annotation of a given-up message, and the times of its first send and last failure.
struct Explanation {
    annotation: Annotation,
    first_sent: Timestamp,
    died_at: Timestamp,
}

impl Explanation {
    fn death_notice(&self) -> DeathNotice {
        let Annotation { reason, record: DeadLetter { cause, fingerprint, sqs_message_id, .. }, .. } =
            &self.annotation;
        DeathNotice {
            death: Death::new(self.died_at, fingerprint, sqs_message_id),
            error_type: reason.log_label().to_owned(),
            last_error: own_error_name(&cause.error_type).map(str::to_owned),
        }
    }

    fn dead_lettered_event(
        &self,
        received: &ReceivedMessage,
        metadata: Option<Metadata>,
        now: Timestamp,
    ) -> Event {
        let Annotation { reason, record, .. } = &self.annotation;
        let producers = || producer_context(received).map(|context| context.span);
        Event::DeadLettered {
            trace_id: record.last_attempt().or_else(producers).map(|trace| trace.trace_id()),
            message_id: metadata.map(|metadata| metadata.message_id_text),
            sqs_message_id: record.sqs_message_id.clone(),
            error_type: reason.log_label(),
            retry_attempt: record.attempts.unwrap_or(0),
            age_seconds: time_until(self.first_sent, now).as_secs_f64(),
            logs: record.last_attempt_logs.as_ref().map(|logs| logs.location().clone()).unwrap_or_default(),
        }
    }
}

fn explain_death(
    received: &ReceivedMessage,
    verdict: Result<Verdict, Option<LastError>>,
    metadata: Option<&Metadata>,
    now: Timestamp,
) -> Explanation {
    let is_redriven = received.redriven_from.is_some();
    let GiveUpReason { code, details, error, unverified, stage, attempts, delivery } = match verdict {
        Ok(verdict) => GiveUpReason::from_verdict(verdict),
        Err(error) => GiveUpReason::without_verdict(error, is_redriven),
    };
    let LastError { error_type, details: message, function } = error;
    let source_queue_arn = match &delivery {
        Some(delivery) => Some(delivery.source_queue_arn.clone()),
        None => received.redriven_from.clone(),
    };
    // The time must be the same for every receive of this record, since it identifies the death.
    let own_delivery = || Delivery::from_record(received, None, Origin::Unknown, received.sent_at);
    let delivery = delivery.unwrap_or_else(own_delivery);
    let last_attempt = delivery.last_attempt.or_else(|| metadata.and_then(|metadata| metadata.last_attempt));
    let first_sent = metadata.map_or(delivery.sent_at, |metadata| metadata.first_sent(delivery.sent_at));
    let held_seconds = metadata.map(|metadata| metadata.holds.trusted_seconds(delivery.origin));
    let record = DeadLetter {
        stage: stage.unwrap_or(Stage::FinalDlqAnnotator.into()),
        attempts: attempts.or_else(|| {
            // A message that stays on its queue has no retry count in its body, and SQS may have moved this message
            // from such a queue.
            let made = metadata.map(|metadata| metadata.retry_attempt);
            made.filter(|attempts| !is_redriven || *attempts > 0)
        }),
        redrive_generation: metadata.and_then(|metadata| metadata.redrive_generation),
        held_seconds: held_seconds.filter(|seconds| *seconds > 0),
        redrive_count: metadata.map(|metadata| metadata.redrive_count).filter(|count| *count > 0),
        first_sent_time: Some(format_rfc3339(first_sent)),
        dead_lettered_at: format_rfc3339(now),
        died_at: Some(format_rfc3339(delivery.failed_at)),
        source_queue_arn,
        sqs_message_id: delivery.source_message_id,
        last_attempt_traceparent: last_attempt.map(|span| span.traceparent()),
        last_attempt_logs: delivery.last_attempt_logs,
        fingerprint: compute_fingerprint(code.as_str(), &error_type, &message),
        folded_attributes: Default::default(),
        cause: Cause { error_type, message, function, unverified },
    };
    let died_at = delivery.failed_at;
    Explanation { annotation: Annotation { reason: code, details, record }, first_sent, died_at }
}

/// The reason for giving up on a message, as far as it is known.
struct GiveUpReason {
    code: ReasonCode,
    details: String,
    error: LastError,
    /// True if the error's author is unverified.
    unverified: bool,
    stage: Option<OpenEnum<Stage>>,
    attempts: Option<u32>,
    delivery: Option<Delivery>,
}

impl GiveUpReason {
    fn from_verdict(verdict: Verdict) -> Self {
        let details = verdict.full_explanation();
        let Verdict { code, case } = verdict;
        let reason = Self::new(code, details);
        let Some(VerdictDetails { stage, failure: Failure { error, attempts, delivery, .. }, .. }) = case
        else {
            return reason;
        };
        Self { error, stage, attempts, delivery: Some(delivery), ..reason }
    }

    /// Returns the reason for a message without a trusted verdict. The error of an untrusted document is still shown,
    /// marked as unverified, since it may be correct and a person can judge it.
    fn without_verdict(error: Option<LastError>, is_redriven: bool) -> Self {
        let details = if is_redriven { MOVED_BY_SQS } else { WITHOUT_A_VERDICT };
        let reason = Self::new(DeadLetterReason::OrchestrationFailed.into(), details.to_owned());
        Self { error: error.unwrap_or_default(), unverified: true, ..reason }
    }

    fn new(code: ReasonCode, details: String) -> Self {
        let error = LastError::default();
        Self { code, details, error, unverified: false, stage: None, attempts: None, delivery: None }
    }
}

#[cfg(test)]
mod tests;
