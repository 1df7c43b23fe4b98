//! The final-dlq-annotator: open → explain → archive, if there is one → send to the final DLQ → confirm → notify.

mod on_aws;

use std::collections::HashSet;
use std::time::Duration;

use redeliver_core::archive::{Archive, Death, FinalRecord, Kept};
use redeliver_core::arrival::Arrival;
use redeliver_core::deliver::{Outbox, keep_free, until};
use redeliver_core::events::Event;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, fingerprint};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{Case, LastError, Stage, Verdict, in_its_generation};
use redeliver_core::message::metadata::{Metadata, rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::readable_metadata;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::notices::{DeathNotice, NOTICES_MAX, NoNotifier, Notices, Notifier, own_name};
use redeliver_core::ports::{Clock, FlushOnDrop, Function, NoStore, ObjectStore, Observer, QueueSender};

use redeliver_core::trace::messaging::Process;
use redeliver_core::trace::{TraceContext, Tracer};

pub use on_aws::{NAME, run};

/// `ErrorDetails` of a message without a reason.
const MOVED_BY_SQS: &str =
    "SQS moved the message to the annotation queue: the function that received it could not handle it";
const WITHOUT_A_VERDICT: &str = "The message reached the annotation queue without a verdict";

/// Time at the end of an invocation that is reserved for the sends, so that a slow archive cannot use it up.
const SEND_RESERVE: Duration = Duration::from_secs(5);

/// The final-dlq-annotator with its dependencies.
#[derive(Debug)]
pub struct FinalDlqAnnotator<Q, C, O, S = NoStore, N = NoNotifier> {
    /// Receives final records.
    pub final_dlq: Q,
    /// Where final records are kept first.
    pub archive: Option<Archive<S>>,
    /// Notices of each cause, for people and machines.
    pub notices: Option<Notices<N>>,
    pub clock: C,
    pub observer: O,
}

impl<Q, C, O> FinalDlqAnnotator<Q, C, O> {
    /// A final-dlq-annotator without an archive and without notices.
    #[must_use]
    pub fn new(final_dlq: Q, clock: C, observer: O) -> Self {
        Self { final_dlq, archive: None, notices: None, clock, observer }
    }
}

impl<Q: QueueSender, C: Clock, O: Observer, S: ObjectStore, N: Notifier> Function
    for FinalDlqAnnotator<Q, C, O, S, N>
{
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flushed_at_the_end = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let (records, deaths): (Vec<_>, Vec<_>) =
            records.into_iter().map(|record| self.final_record(record, now)).unzip();
        let kept = self.keep(records, deadline).await;
        let outgoing = kept.into_iter().map(Kept::into_outgoing).collect();
        let confirmed = outbox.send(&self.final_dlq, "final record", outgoing).await;
        if let Some(notices) = &self.notices {
            let done: HashSet<_> = confirmed.iter().map(Confirmed::sqs_message_id).collect();
            let deaths: Vec<_> = deaths
                .into_iter()
                .filter(|(id, _)| done.contains(id.as_str()))
                .map(|(_, death)| death)
                .collect();
            let end = outbox.answer_by().min(self.clock.now() + NOTICES_MAX);
            notices.notify(&deaths, &self.clock, &self.observer, end).await;
        }
        confirmed
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.observer.tracer()
    }
}

impl<Q: QueueSender, C: Clock, O: Observer, S: ObjectStore, N: Notifier> FinalDlqAnnotator<Q, C, O, S, N> {
    async fn keep(&self, records: Vec<FinalRecord>, deadline: Timestamp) -> Vec<Kept> {
        match &self.archive {
            None => records.into_iter().map(Kept::without_archive).collect(),
            Some(archive) => {
                let end = keep_free(SEND_RESERVE, self.clock.now(), deadline);
                archive.keep(&self.clock, &self.observer, end, records).await
            }
        }
    }

    /// The final record; and its SQS message id, with what a notice says about it.
    fn final_record(&self, record: ReceivedMessage, now: Timestamp) -> (FinalRecord, (String, DeathNotice)) {
        let received = record.without_content();
        let mut arrival = Arrival::open(record, now);
        let came_back = arrival.came_back_before_it_failed();
        // Even an invalid body gets its record, without what cannot be read.
        let metadata = readable_metadata(&arrival.record.body, &arrival.record.attributes);
        let metadata = metadata.map(|metadata| in_its_generation(metadata, came_back));
        let verdict = arrival.take_verdict();
        let kept_verdict = verdict.clone();
        let kept_verdict =
            kept_verdict.unwrap_or_else(|_| Verdict::bare(DeadLetterReason::OrchestrationFailed));
        let Explained { annotation, first_sent, died_at } =
            explain(&arrival.record, verdict, metadata.as_ref(), now);
        let DeadLetter { cause, fingerprint, sqs_message_id, attempts, .. } = &annotation.record;
        let notice = DeathNotice {
            death: Death::new(died_at, fingerprint, sqs_message_id),
            error_type: annotation.reason.loggable().to_owned(),
            last_error: own_name(&cause.error_type).map(str::to_owned),
        };
        let last_attempt = annotation.record.last_attempt();
        let producers = || producers_context(&arrival.record);
        let span = self.observer.tracer().map(|tracer| {
            let (context, parent, links) = match last_attempt {
                Some(attempt) => (tracer.child(attempt), Some(attempt), Vec::new()),
                None => {
                    let first = tracer.attempt(producers(), None, now);
                    (first.context.span, first.parent, first.links())
                }
            };
            let message_id = metadata.as_ref().map(|metadata| metadata.message_id_text.as_str());
            let process =
                Process { record: &arrival.record, message_id, parent, links, start: now, end: now };
            let mut span = process.span(context);
            span.attributes.push(("redeliver.dead_letter", annotation.reason.loggable().into()));
            tracer.record(span);
            context
        });
        let trace = last_attempt.or_else(|| producers().map(|context| context.span));
        let dead_lettered = Event::DeadLettered {
            trace_id: trace.map(|trace| trace.trace_id()),
            message_id: metadata.map(|metadata| metadata.message_id_text),
            sqs_message_id: sqs_message_id.clone(),
            error_type: annotation.reason.loggable(),
            retry_attempt: attempts.unwrap_or(0),
            age_seconds: until(first_sent, now).as_secs_f64(),
        };
        let outgoing = arrival.annotated(&annotation, &kept_verdict, dead_lettered).within(span);
        let id = received.sqs_message_id.clone();
        (FinalRecord { outgoing, death: notice.death.clone(), received }, (id, notice))
    }
}

fn producers_context(record: &ReceivedMessage) -> Option<TraceContext> {
    TraceContext::of(&record.attributes, &record.body, record.trace_header.as_deref())
}

/// The annotation of a message that is given up, with the times of its first send and of its last failure.
struct Explained {
    annotation: Annotation,
    first_sent: Timestamp,
    died_at: Timestamp,
}

fn explain(
    received: &ReceivedMessage,
    verdict: Result<Verdict, Option<LastError>>,
    metadata: Option<&Metadata>,
    now: Timestamp,
) -> Explained {
    let is_redriven = received.redriven_from.is_some();
    let (code, case, error, details) = match verdict {
        Ok(verdict) => {
            let details = verdict.explained();
            let Verdict { code, case } = verdict;
            let error = case.as_ref().map(|case| case.failure.error.clone()).unwrap_or_default();
            (code, Some(case), error, details)
        }
        Err(error) => {
            let details = if is_redriven { MOVED_BY_SQS } else { WITHOUT_A_VERDICT };
            let error = error.unwrap_or_default();
            (DeadLetterReason::OrchestrationFailed.into(), None, error, details.to_owned())
        }
    };
    // The error of an untrusted document is shown all the same, marked as such: it may be right, and a human judges.
    let unverified = case.is_none();
    let (stage, failure) = case.flatten().map(|Case { stage, failure, .. }| (stage, failure)).unzip();
    let (delivery, attempts) = failure.map(|failure| (failure.delivery, failure.attempts)).unzip();
    let origin = delivery.as_ref().map_or(Origin::Unknown, |delivery| delivery.origin);
    let sent_at = delivery.as_ref().map_or(received.sent_at, |delivery| delivery.sent_at);
    // Every receive of this record must give the same time: it identifies the death.
    let died_at = delivery.as_ref().map_or(received.sent_at, |delivery| delivery.failed_at);
    let last_attempt = delivery.as_ref().and_then(|delivery| delivery.last_attempt);
    let last_attempt = last_attempt.or_else(|| metadata.and_then(|metadata| metadata.last_attempt));
    let first_sent = metadata.map_or(sent_at, |metadata| metadata.first_sent(sent_at));
    let (source_message_id, source_queue_arn) =
        delivery.map(|delivery| (delivery.source_message_id, delivery.source_queue_arn)).unzip();
    let LastError { error_type, details: message, function } = error;
    let record = DeadLetter {
        stage: stage.flatten().unwrap_or(Stage::FinalDlqAnnotator.into()),
        attempts: attempts.flatten().or_else(|| {
            // A message that stays on its queue has no retries in its body; and it is unknown from where SQS moved this
            // one.
            let made = metadata.map(|metadata| metadata.retry_attempt);
            made.filter(|attempts| !is_redriven || *attempts > 0)
        }),
        redrive_generation: metadata.and_then(|metadata| metadata.redrive_generation),
        held_seconds: metadata.map(|metadata| metadata.holds.seconds(origin)).filter(|seconds| *seconds > 0),
        redrive_count: metadata.map(|metadata| metadata.redrive_count).filter(|count| *count > 0),
        first_sent_time: Some(rfc3339(first_sent)),
        dead_lettered_at: rfc3339(now),
        died_at: Some(rfc3339(died_at)),
        source_queue_arn: source_queue_arn.or_else(|| received.redriven_from.clone()),
        sqs_message_id: source_message_id.unwrap_or_else(|| received.sqs_message_id.clone()),
        last_attempt_traceparent: last_attempt.map(|span| span.traceparent()),
        fingerprint: fingerprint(code.as_str(), &error_type, &message),
        folded_attributes: Default::default(),
        cause: Cause { error_type, message, function, unverified },
    };
    Explained { annotation: Annotation { reason: code, details, record }, first_sent, died_at }
}

#[cfg(test)]
mod tests;
