//! The failed-message processor: validate → decide → re-send with a delay, hop, or give up → report.

mod on_aws;
mod pacer;

use futures_util::join;
use redeliver_core::attributes::{Arrived, arrived};
use redeliver_core::decision::{Decision, Failed, GiveUp, Resend, decide, hops_on};
use redeliver_core::delivery::{Outgoing, Reporter, until};
use redeliver_core::envelope::Envelope;
use redeliver_core::events::{ArrivedByRedrive, Event, GivenUp, Paced, ReceivedAgain, RetryScheduled};
use redeliver_core::failure::{Failure, Stage, of_received};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, ReceivedMessage, Timestamp, attributes_size};
use redeliver_core::metadata::rfc3339;
use redeliver_core::pacing::{Pace, Window};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{BatchResponse, Clock, Function, Observer, QueueDepth, QueueSender};
use redeliver_core::reason::DeadLetterReason;
use redeliver_core::schema::MessageSchema;

pub use on_aws::NAME;
pub use pacer::Pacer;

/// A message that failed once or twice here is nobody's concern.
const RECEIVES_UNTOLD: u32 = 3;

/// The failed-message processor and all that it needs of the world.
#[derive(Debug)]
pub struct FailedMessageProcessor<Q, C, O> {
    /// Where messages are sent again.
    pub source_queue: Q,
    /// Its own queue, where a message with a long delay waits in hops.
    pub intermediate_dlq: Q,
    /// Where verdicts go.
    pub annotation_queue: Q,
    /// The clock.
    pub clock: C,
    /// Logs and metrics.
    pub observer: O,
    /// Which bodies are messages: an invalid one is never sent again.
    pub schema: MessageSchema,
    /// When a message comes back, and when it is given up.
    pub policy: Policy,
    /// What it remembers for `max_redelivery_per_second`.
    pub pacer: Pacer,
}

impl<Q: QueueSender + QueueDepth, C: Clock, O: Observer> Function for FailedMessageProcessor<Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let reporter = Reporter::new(&self.clock, &self.observer, deadline);
        let pace = self.pace().await;
        let window = pace.map(|(window, _)| window);
        let now = self.clock.now();
        let mut paced = Vec::new();
        let mut rate_is_held = true;
        let mut resends = Vec::new();
        let mut hops = Vec::new();
        let mut verdicts = Vec::new();
        for record in records {
            match self.settle(record, window, now) {
                Settled::Resend { outgoing, pace } => {
                    if pace != Pace::Own {
                        paced.push(outgoing.record.clone());
                    }
                    rate_is_held &= pace != Pace::NotHeld;
                    resends.push(*outgoing);
                }
                Settled::Hop(outgoing) => hops.push(*outgoing),
                Settled::Verdict(outgoing) => verdicts.push(*outgoing),
            }
        }
        let (resends, hops, verdicts) = join!(
            reporter.send(&self.source_queue, "re-send", resends),
            reporter.hop(&self.intermediate_dlq, hops),
            reporter.send(&self.annotation_queue, "verdict", verdicts),
        );
        if let Some((_, waiting)) = pace {
            self.tell_paced(waiting, paced, &resends, rate_is_held);
        }
        BatchResponse { failed: [resends, hops, verdicts].concat() }
    }
}

/// Where a failed message goes.
enum Settled {
    Resend { outgoing: Box<Outgoing>, pace: Pace },
    Hop(Box<Outgoing>),
    Verdict(Box<Outgoing>),
}

impl<Q: QueueSender + QueueDepth, C: Clock, O: Observer> FailedMessageProcessor<Q, C, O> {
    async fn pace(&self) -> Option<(Window, u64)> {
        let rate = self.policy.max_redelivery_per_second?;
        // Boxed: the request's future is large, and most policies have no rate.
        Box::pin(self.pacer.window(rate, &self.source_queue, &self.clock, &self.observer)).await
    }

    /// Only what is confirmed has been paced.
    fn tell_paced(&self, waiting: u64, mut paced: Vec<String>, not_sent: &[String], rate_is_held: bool) {
        paced.retain(|record| !not_sent.contains(record));
        if !paced.is_empty() {
            let paced = u32::try_from(paced.len()).unwrap_or(u32::MAX);
            self.observer.observe(&Event::Paced(Paced { waiting, paced, rate_is_held }));
        }
    }

    fn tell_arrival(&self, record: &ReceivedMessage, now: Timestamp) {
        let sqs_message_id = record.sqs_message_id.clone();
        let receive_count = record.receive_count;
        if receive_count > RECEIVES_UNTOLD {
            let age_seconds = until(record.sent_at, now).as_secs_f64();
            let again = ReceivedAgain { sqs_message_id: sqs_message_id.clone(), receive_count, age_seconds };
            self.observer.observe(&Event::ReceivedAgain(again));
        }
        if record.redriven_from.is_some() {
            let arrived = ArrivedByRedrive { sqs_message_id, receive_count };
            self.observer.observe(&Event::ArrivedByRedrive(arrived));
        }
    }

    fn settle(&self, mut record: ReceivedMessage, window: Option<Window>, now: Timestamp) -> Settled {
        self.tell_arrival(&record, now);
        let Arrived { producer, failure, came_back, generation_told: told } =
            arrived(std::mem::take(&mut record.attributes));
        let failure = of_received(&record, failure, came_back, now).after_generation(told);
        let body = std::mem::take(&mut record.body);
        if let Some(due) = hops_on(&self.policy, &failure, now) {
            return hop(record, body, &producer, None, failure, due);
        }
        let envelope = match self.schema.parse(&body) {
            Ok(envelope) => envelope,
            Err(invalid) => {
                let code = invalid.reason().as_str().to_owned();
                let failure = Failure { error_type: code, details: invalid.to_string(), ..failure };
                let give_up = GiveUp { reason: invalid.reason(), explanation: String::new() };
                return Settled::Verdict(verdict(record, body, &producer, None, failure, give_up));
            }
        };
        let sent_at = failure.sent_at().unwrap_or(record.sent_at);
        let attributes_bytes = attributes_size(&producer);
        let failed = Failed { envelope: &envelope, failure: &failure, sent_at, attributes_bytes };
        match decide(&self.policy, failed, window, now) {
            Decision::Resend(retry) => Settled::Resend {
                pace: retry.pace,
                outgoing: resend(record, producer, &envelope, retry, now),
            },
            Decision::Hop(due) => {
                let message_id = Some(envelope.metadata.message_id_text);
                hop(record, body, &producer, message_id, failure, due)
            }
            Decision::GiveUp(give_up) => {
                let message_id = Some(envelope.metadata.message_id_text);
                Settled::Verdict(verdict(record, body, &producer, message_id, failure, give_up))
            }
        }
    }
}

fn resend(
    record: ReceivedMessage,
    producer: Attributes,
    envelope: &Envelope<'_>,
    retry: Resend,
    now: Timestamp,
) -> Box<Outgoing> {
    let scheduled = Event::RetryScheduled(RetryScheduled {
        message_id: envelope.metadata.message_id_text.clone(),
        retry_attempt: retry.retry_attempt,
        spends_attempt: retry.spends_attempt,
        delay_seconds: retry.waited,
        age_seconds: until(retry.first_sent, now).as_secs_f64(),
        error_type: None,
    });
    let content = Content {
        body: retry.body,
        attributes: producer,
        message_group_id: record.message_group_id,
        trace_header: record.trace_header,
        delay: retry.delay,
    };
    Box::new(Outgoing::new(record.sqs_message_id, content, scheduled))
}

/// The message as it is, on its own queue for as long as `DelaySeconds` can say. Its due time must travel with it: where that
/// finds no place, it could hop for ever.
fn hop(
    record: ReceivedMessage,
    body: String,
    producer: &Attributes,
    message_id: Option<String>,
    failure: Failure,
    due: Timestamp,
) -> Settled {
    let failure = Failure { due_at: Some(rfc3339(due)), ..failure };
    let Some(attributes) = failure.beside_folded(producer, body.len()) else {
        let explanation = "It has no room for the due time of a delay above 900 seconds".to_owned();
        let give_up = GiveUp { reason: DeadLetterReason::MessageTooLarge, explanation };
        return Settled::Verdict(verdict(record, body, producer, message_id, failure, give_up));
    };
    let content = Content {
        body,
        attributes,
        message_group_id: record.message_group_id,
        trace_header: record.trace_header,
        delay: DelaySeconds::MAX,
    };
    Settled::Hop(Box::new(Outgoing::new(record.sqs_message_id, content, None)))
}

fn verdict(
    record: ReceivedMessage,
    body: String,
    producer: &Attributes,
    message_id: Option<String>,
    failure: Failure,
    GiveUp { reason, explanation }: GiveUp,
) -> Box<Outgoing> {
    let given_up = Event::GivenUp(GivenUp {
        message_id,
        sqs_message_id: record.sqs_message_id.clone(),
        error_type: reason.as_str(),
    });
    let failure = Failure {
        verdict: Some(reason),
        stage: Some(Stage::FailedMessageProcessor),
        explanation,
        due_at: None,
        ..failure
    };
    let content = Content {
        attributes: failure.beside_folding(producer, body.len()),
        body,
        message_group_id: record.message_group_id,
        trace_header: record.trace_header,
        delay: DelaySeconds::ZERO,
    };
    Box::new(Outgoing::new(record.sqs_message_id, content, given_up))
}

#[cfg(test)]
mod tests;
