//! The final-dlq-annotator: open → explain → send to the final DLQ → confirm.

mod on_aws;

use redeliver_core::arrival::Arrival;
use redeliver_core::deliver::{Outbox, Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, fingerprint};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{Case, LastError, Stage, Verdict, in_its_generation};
use redeliver_core::message::metadata::{Metadata, rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::readable_metadata;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, FlushOnDrop, Function, Observer, QueueSender};

pub use on_aws::{NAME, run};

/// `ErrorDetails` of a message without a reason.
const MOVED_BY_SQS: &str =
    "SQS moved the message to the annotation queue: the function that received it could not handle it";
const WITHOUT_A_VERDICT: &str = "The message reached the annotation queue without a verdict";

/// The final-dlq-annotator with its dependencies.
#[derive(Debug)]
pub struct FinalDlqAnnotator<Q, C, O> {
    /// Receives final records.
    pub final_dlq: Q,
    pub clock: C,
    pub observer: O,
}

impl<Q: QueueSender, C: Clock, O: Observer> Function for FinalDlqAnnotator<Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flushed_at_the_end = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let outgoing = records.into_iter().map(|record| self.final_record(record, now)).collect();
        outbox.send(&self.final_dlq, "final record", outgoing).await
    }
}

impl<Q: QueueSender, C: Clock, O: Observer> FinalDlqAnnotator<Q, C, O> {
    fn final_record(&self, record: ReceivedMessage, now: Timestamp) -> Outgoing {
        let mut arrival = Arrival::open(record, now);
        let came_back = arrival.came_back_before_it_failed();
        // Even an invalid body gets its record, without what cannot be read.
        let metadata = readable_metadata(&arrival.record.body, &arrival.record.attributes);
        let metadata = metadata.map(|metadata| in_its_generation(metadata, came_back));
        let verdict = arrival.take_verdict();
        let kept_verdict = verdict.clone();
        let kept_verdict =
            kept_verdict.unwrap_or_else(|_| Verdict::bare(DeadLetterReason::OrchestrationFailed));
        let (annotation, first_sent) = explain(&arrival.record, verdict, metadata.as_ref(), now);
        let dead_lettered = Event::DeadLettered {
            message_id: metadata.map(|metadata| metadata.message_id_text),
            sqs_message_id: annotation.record.sqs_message_id.clone(),
            error_type: annotation.reason.loggable(),
            retry_attempt: annotation.record.attempts.unwrap_or(0),
            age_seconds: until(first_sent, now).as_secs_f64(),
        };
        arrival.annotated(&annotation, &kept_verdict, dead_lettered)
    }
}

/// The annotation of a message that is given up, and the time of its first send.
fn explain(
    received: &ReceivedMessage,
    verdict: Result<Verdict, Option<LastError>>,
    metadata: Option<&Metadata>,
    now: Timestamp,
) -> (Annotation, Timestamp) {
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
        source_queue_arn: source_queue_arn.or_else(|| received.redriven_from.clone()),
        sqs_message_id: source_message_id.unwrap_or_else(|| received.sqs_message_id.clone()),
        fingerprint: fingerprint(code.as_str(), &error_type, &message),
        folded_attributes: Default::default(),
        cause: Cause { error_type, message, function, unverified },
    };
    (Annotation { reason: code, details, record }, first_sent)
}

#[cfg(test)]
mod tests;
