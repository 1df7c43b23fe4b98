//! The failed-message processor: validate → decide → re-send with a delay, hop, or give up → report.

mod on_aws;
mod pacer;

use futures_util::join;
use redeliver_core::arrival::Arrival;
use redeliver_core::decision::{Decision, Failed, GiveUp, Resend, Spends, decide, hops_on};
use redeliver_core::delivery::{Outbox, Outgoing, until};
use redeliver_core::events::{ArrivedByRedrive, Event, Paced, ReceivedAgain, RetryScheduled};
use redeliver_core::failure::{Failure, Hop, Stage};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{ReceivedMessage, Timestamp, attributes_size};
use redeliver_core::pacing::{Pace, Window};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{BatchResponse, Clock, Function, Observer, QueueDepth, QueueSender};
use redeliver_core::reason::DeadLetterReason;
use redeliver_core::schema::MessageSchema;

pub use on_aws::{NAME, run};
pub use pacer::Pacer;

/// Receives that say nothing yet. A message that SQS moved brings the one of the source queue along (a redrive does not
/// reset the count), and a throttle or a slow start makes one or two more here; from the fourth on something keeps
/// failing.
const RECEIVES_EXPECTED: u32 = 3;

/// The failed-message processor and all that it needs of the world.
#[derive(Debug)]
pub struct FailedMessageProcessor<Q, C, O> {
    /// Where messages are sent again.
    pub source_queue: Q,
    /// Its own queue, where a message with a long delay waits in hops.
    pub intermediate_dlq: Q,
    pub annotation_queue: Q,
    pub clock: C,
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
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let pace = self.pace().await;
        let window = pace.map(|(window, _)| window);
        // After the count, which may have taken two seconds: delays are counted from here.
        let now = self.clock.now();
        let mut paced = Vec::new();
        let mut rate_is_held = true;
        let mut resends = Vec::new();
        let mut hops = Vec::new();
        let mut verdicts = Vec::new();
        for record in records {
            match self.route(record, window, now) {
                Route::Resend { outgoing, pace } => {
                    if pace != Pace::Own {
                        paced.push(outgoing.record.clone());
                    }
                    rate_is_held &= pace != Pace::NotHeld;
                    resends.push(*outgoing);
                }
                Route::Hop(outgoing) => hops.push(*outgoing),
                Route::Verdict(outgoing) => verdicts.push(*outgoing),
            }
        }
        let (resends, hops, verdicts) = join!(
            outbox.send(&self.source_queue, "re-send", resends),
            outbox.hop(&self.intermediate_dlq, hops),
            outbox.send(&self.annotation_queue, "verdict", verdicts),
        );
        if let Some((_, waiting)) = pace {
            self.report_paced(waiting, paced, &resends, rate_is_held);
        }
        BatchResponse { failed: [resends, hops, verdicts].concat() }
    }
}

/// Where a failed message goes.
enum Route {
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
    fn report_paced(&self, waiting: u64, mut paced: Vec<String>, not_sent: &[String], rate_is_held: bool) {
        paced.retain(|record| !not_sent.contains(record));
        if !paced.is_empty() {
            let paced = u32::try_from(paced.len()).unwrap_or(u32::MAX);
            self.observer.observe(&Event::Paced(Paced { waiting, paced, rate_is_held }));
        }
    }

    fn report_arrival(&self, record: &ReceivedMessage, now: Timestamp) {
        let sqs_message_id = record.sqs_message_id.clone();
        let receive_count = record.receive_count;
        if receive_count > RECEIVES_EXPECTED {
            let age_seconds = until(record.sent_at, now).as_secs_f64();
            let again = ReceivedAgain { sqs_message_id: sqs_message_id.clone(), receive_count, age_seconds };
            self.observer.observe(&Event::ReceivedAgain(again));
        }
        if record.redriven_from.is_some() {
            let arrived = ArrivedByRedrive { sqs_message_id, receive_count };
            self.observer.observe(&Event::ArrivedByRedrive(arrived));
        }
    }

    fn route(&self, record: ReceivedMessage, window: Option<Window>, now: Timestamp) -> Route {
        let mut arrival = Arrival::open(record, now);
        self.report_arrival(&arrival.record, now);
        let (hand_off, due_at) = arrival.take_hand_off(now);
        // Before the body is looked at: it was valid when it hopped first, and a message hops up to 48 times.
        if let Some(due_at) = hops_on(&self.policy, &hand_off, due_at, now) {
            return hop(arrival, None, Hop { hand_off, due_at });
        }
        let envelope = match self.schema.parse(&arrival.record.body) {
            Ok(envelope) => envelope,
            Err(invalid) => {
                let failure = Failure::from(hand_off).found_invalid(invalid.reason(), &invalid);
                return give_up(arrival, None, failure, invalid.reason().into());
            }
        };
        // Without `Failure`, which a re-send leaves behind.
        let attributes_bytes = attributes_size(&arrival.record.attributes);
        let failed = Failed { envelope: &envelope, hand_off: &hand_off, due_at, attributes_bytes };
        let decision = decide(&self.policy, failed, window, now);
        let message_id = envelope.metadata.message_id_text;
        match decision {
            Decision::Resend(retry) => resend(arrival, message_id, retry, now),
            Decision::Hop(due_at) => hop(arrival, Some(message_id), Hop { hand_off, due_at }),
            Decision::GiveUp(given_up) => give_up(arrival, Some(message_id), hand_off.into(), given_up),
        }
    }
}

fn resend(arrival: Arrival, message_id: String, retry: Resend, now: Timestamp) -> Route {
    // A message may be held a hundred times, and the message-processor has told of it.
    let scheduled = (retry.spends != Spends::Hold).then(|| {
        Event::RetryScheduled(RetryScheduled {
            message_id,
            retry_attempt: retry.retry_attempt,
            spends_attempt: retry.spends == Spends::Attempt,
            delay_seconds: retry.waited,
            age_seconds: until(retry.first_sent, now).as_secs_f64(),
            error_type: None,
        })
    });
    let outgoing = arrival.with_body(retry.body).pass_on(retry.delay, scheduled);
    Route::Resend { outgoing: Box::new(outgoing), pace: retry.pace }
}

/// The message as it is, on its own queue for as long as `DelaySeconds` can say. Its due time must travel with it: if
/// that finds no place, it could hop for ever.
fn hop(arrival: Arrival, message_id: Option<String>, hop: Hop) -> Route {
    let ReceivedMessage { attributes: producer, body, .. } = &arrival.record;
    let Some(attributes) = hop.attached_or_folded(producer, body.len()) else {
        let explanation = "It has no room for the due time of a delay above 900 seconds".to_owned();
        let given_up = GiveUp { reason: DeadLetterReason::MessageTooLarge, explanation };
        return give_up(arrival, message_id, hop.hand_off.into(), given_up);
    };
    let outgoing = arrival.with_attributes(attributes).pass_on(DelaySeconds::MAX, None);
    Route::Hop(Box::new(outgoing))
}

fn give_up(arrival: Arrival, message_id: Option<String>, failure: Failure, given_up: GiveUp) -> Route {
    Route::Verdict(Box::new(arrival.give_up(message_id, Stage::FailedMessageProcessor, failure, given_up)))
}

#[cfg(test)]
mod tests;
