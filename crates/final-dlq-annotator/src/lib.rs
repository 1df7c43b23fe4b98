//! The final-DLQ annotator: explain → send to the final DLQ → report.

mod on_aws;

use redeliver_core::annotation::{Annotation, Cause, DeadLetter, annotate, fingerprint};
use redeliver_core::attributes::{Arrived, arrived};
use redeliver_core::delivery::{Outgoing, Reporter, until};
use redeliver_core::events::{DeadLettered, Event};
use redeliver_core::failure::{Failure, Stage};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Content, ReceivedMessage, Timestamp};
use redeliver_core::metadata::{Metadata, rfc3339};
use redeliver_core::ports::{BatchResponse, Clock, Function, Observer, QueueSender};
use redeliver_core::reason::DeadLetterReason;
use redeliver_core::schema::MessageSchema;

pub use on_aws::NAME;

/// The final-DLQ annotator and all that it needs of the world.
#[derive(Debug)]
pub struct FinalDlqAnnotator<Q, C, O> {
    /// Where final records go.
    pub final_dlq: Q,
    /// The clock.
    pub clock: C,
    /// Logs and metrics.
    pub observer: O,
    /// Reads the attempts from the body.
    pub schema: MessageSchema,
}

impl<Q: QueueSender, C: Clock, O: Observer> Function for FinalDlqAnnotator<Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let now = self.clock.now();
        let reporter = Reporter::new(&self.clock, &self.observer, deadline);
        let outgoing = records.into_iter().map(|record| self.final_record(record, now)).collect();
        BatchResponse { failed: reporter.send(&self.final_dlq, "final record", outgoing).await }
    }
}

impl<Q: QueueSender, C: Clock, O: Observer> FinalDlqAnnotator<Q, C, O> {
    fn final_record(&self, mut record: ReceivedMessage, now: Timestamp) -> Outgoing {
        let Arrived { producer, failure, came_back, generation_told: told } =
            arrived(std::mem::take(&mut record.attributes));
        let failure = failure.unwrap_or_default();
        // The body as last received still tells of the generation before. What SQS moved here says itself that it came back.
        let (came_back, told) = match record.redriven_from {
            None => (failure.new_generation || came_back, failure.generation_before.max(told)),
            Some(_) => (came_back, told),
        };
        let metadata = self.schema.parse(&record.body).ok().map(|envelope| {
            if came_back { envelope.metadata.into_next_generation(told) } else { envelope.metadata }
        });
        let (annotation, first_sent) = explain(&record, failure, metadata.as_ref(), now);
        let dead_lettered = Event::DeadLettered(DeadLettered {
            message_id: metadata.as_ref().map(|metadata| metadata.message_id_text.clone()),
            sqs_message_id: annotation.record.sqs_message_id.clone(),
            error_type: annotation.reason.as_str(),
            retry_attempt: annotation.record.attempts.unwrap_or(0),
            age_seconds: until(first_sent, now).as_secs_f64(),
        });
        let content = Content {
            attributes: annotate(&producer, record.body.len(), &annotation),
            body: record.body,
            message_group_id: record.message_group_id,
            trace_header: record.trace_header,
            delay: DelaySeconds::ZERO,
        };
        Outgoing::new(record.sqs_message_id, content, dead_lettered)
    }
}

/// What is known of a message that is given up, and when it was first sent.
///
/// A verdict is believed only on a message that did not come by redrive; the attributes of one that did may be anybody's.
fn explain(
    record: &ReceivedMessage,
    failure: Failure,
    metadata: Option<&Metadata>,
    now: Timestamp,
) -> (Annotation, Timestamp) {
    let verdict = failure.verdict.filter(|_| record.redriven_from.is_none());
    let reason = verdict.unwrap_or(DeadLetterReason::OrchestrationFailed);
    let sent_at = verdict.and(failure.sent_at()).unwrap_or(record.sent_at);
    let first_sent = metadata.map_or(sent_at, |metadata| metadata.first_sent(sent_at));
    let details = match (verdict, &record.redriven_from) {
        (Some(_), _) => explanation(&failure, reason),
        (None, Some(_)) => {
            "SQS moved the message to the annotation queue: the function that received it could not handle it"
                .to_owned()
        }
        (None, None) => "The message reached the annotation queue without a verdict".to_owned(),
    };
    let cause =
        Cause { error_type: failure.error_type, message: failure.details, unverified: verdict.is_none() };
    let source_message_id = failure.source_message_id.filter(|_| verdict.is_some());
    let source_queue_arn =
        failure.source_queue_arn.filter(|_| verdict.is_some()).or(record.redriven_from.clone());
    let dead_letter = DeadLetter {
        stage: verdict.and(failure.stage).unwrap_or(Stage::FinalDlqAnnotator),
        attempts: verdict.and(failure.attempts).or_else(|| {
            // Where a message stays on its queue, its body says nothing of retries; and SQS moved this one from who knows where.
            let told = metadata.map(|metadata| metadata.retry_attempt);
            told.filter(|attempts| record.redriven_from.is_none() || *attempts > 0)
        }),
        redrive_generation: metadata.and_then(|metadata| metadata.redrive_generation),
        first_sent_time: Some(rfc3339(first_sent)),
        dead_lettered_at: rfc3339(now),
        source_queue_arn,
        sqs_message_id: source_message_id.unwrap_or_else(|| record.sqs_message_id.clone()),
        fingerprint: fingerprint(reason.as_str(), &cause.error_type, &cause.message),
        folded_attributes: Default::default(),
        cause,
    };
    (Annotation { reason, details, record: dead_letter }, first_sent)
}

/// `Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503`, or the parts of it that are there.
fn explanation(failure: &Failure, reason: DeadLetterReason) -> String {
    let error = match (failure.error_type.as_str(), failure.details.as_str()) {
        (code, details) if code == reason.as_str() => details.to_owned(),
        (error_type, "") => error_type.to_owned(),
        (error_type, details) => format!("{error_type}: {details}"),
    };
    match (failure.explanation.as_str(), error.as_str()) {
        ("", _) => error,
        (explanation, "") => explanation.to_owned(),
        (explanation, _) => format!("{explanation}; last error {error}"),
    }
}

#[cfg(test)]
mod tests;
