//! Failed messages sent again: decide → re-send with a delay, hop, or give up → report. By the failed-message-processor,
//! and with the strategy `direct-resend` by the message-processor itself.

mod pacer;

use futures_util::join;

use crate::arrival::Arrival;
use crate::decide::pacing::{Pace, Window};
use crate::decide::{Decision, Failed, GiveUp, Resend, Spends, decide};
use crate::deliver::{Outbox, Outgoing, until};
use crate::events::Event;
use crate::failure::{Failure, HandOff, Hop, Stage};
use crate::limits::DelaySeconds;
use crate::message::schema::{MessageSchema, Parsed};
use crate::message::{ReceivedMessage, Timestamp, attributes_size};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueDepth, QueueSender};
pub use pacer::Pacer;

/// Where failed messages go again, and how many wait there.
#[derive(Debug)]
pub struct Redelivery<Q> {
    /// Where messages are sent again.
    pub source_queue: Q,
    /// Where a message with a long delay waits in hops.
    pub intermediate_dlq: Q,
    /// What is remembered for `max_redelivery_per_second`.
    pub pacer: Pacer,
}

impl<Q> Redelivery<Q> {
    /// Between these queues, with nothing to remember.
    #[must_use]
    pub fn new(source_queue: Q, intermediate_dlq: Q) -> Self {
        Self { source_queue, intermediate_dlq, pacer: Pacer::default() }
    }
}

impl<Q: QueueSender + QueueDepth> Redelivery<Q> {
    /// The routes of a batch: none yet. If the policy has a rate, this asks how many messages wait, which may take
    /// two seconds, and a quarter of what is left until `deadline`: delays are counted from later.
    pub async fn begin(
        &self,
        policy: &Policy,
        clock: &impl Clock,
        observer: &impl Observer,
        deadline: Timestamp,
    ) -> Routes {
        let pace = match policy.max_redelivery_per_second {
            // Boxed: the request's future is large, and most policies have no rate.
            Some(rate) => {
                Box::pin(self.pacer.window(rate, &self.source_queue, clock, observer, deadline)).await
            }
            None => None,
        };
        Routes { pace, ..Routes::default() }
    }

    /// Sends what is to be sent again, and answers with the ids of the records whose send is not confirmed. The
    /// verdicts have been taken out.
    pub async fn send<C: Clock, O: Observer>(
        &self,
        outbox: &Outbox<'_, C, O>,
        routes: Routes,
    ) -> Vec<String> {
        let Routes { pace, resends, hops, paced, exceeds_rate, .. } = routes;
        let (resends, hops) = join!(
            outbox.send(&self.source_queue, "re-send", resends),
            outbox.hop(&self.intermediate_dlq, hops),
        );
        if let Some((_, waiting)) = pace {
            // Only what is confirmed has been paced.
            let paced = paced.iter().filter(|record| !resends.contains(record)).count();
            if paced > 0 {
                let paced = u32::try_from(paced).unwrap_or(u32::MAX);
                outbox.report(&Event::Paced { waiting, paced, rate_is_held: !exceeds_rate });
            }
        }
        [resends, hops].concat()
    }
}

/// Where the failed messages of a batch go.
#[derive(Debug, Default)]
pub struct Routes {
    pace: Option<(Window, u64)>,
    resends: Vec<Outgoing>,
    hops: Vec<Outgoing>,
    /// For the annotation queue.
    pub verdicts: Vec<Outgoing>,
    /// Records of the re-sends that are stretched.
    paced: Vec<String>,
    exceeds_rate: bool,
}

/// A message that failed: what is decided on, and what its events say.
#[derive(Debug)]
pub struct FailedMessage {
    pub arrival: Arrival,
    pub hand_off: HandOff,
    /// If it has hopped: when its retry is due.
    pub due_at: Option<Timestamp>,
    /// Who decides.
    pub stage: Stage,
    /// Our name of the error, or `FromTarget`, if nobody has told of it before.
    pub error_type: Option<String>,
}

impl Routes {
    /// Decides on one message.
    pub fn add(&mut self, policy: &Policy, schema: &MessageSchema, failed: FailedMessage, now: Timestamp) {
        let ReceivedMessage { body, attributes, .. } = &failed.arrival.record;
        let message = match schema.read(body, attributes, &failed.hand_off.delivery.source_message_id) {
            Ok(message) => message,
            Err(invalid) => {
                let FailedMessage { arrival, hand_off, stage, .. } = failed;
                let failure = Failure::from(hand_off).found_invalid(invalid.reason(), &invalid);
                return self.verdicts.push(arrival.give_up(None, stage, failure, invalid.reason().into()));
            }
        };
        let decision = decide(
            policy,
            Failed {
                message: &message,
                hand_off: &failed.hand_off,
                due_at: failed.due_at,
                body_bytes: body.len(),
                // Without `Failure`, which a re-send leaves behind.
                attributes_bytes: attributes_size(attributes),
            },
            self.pace.map(|(window, _)| window),
            now,
        );
        let named = if let Parsed::Plain(plain) = &message { plain.named_at_any_price() } else { None };
        let message_id = message.into_metadata().message_id_text;
        match decision {
            Decision::Resend(retry) => self.resend(failed, message_id, retry, now),
            Decision::Hop(due_at) => self.hop(failed, due_at),
            Decision::GiveUp(given_up) => {
                let arrival = failed.arrival.named(named);
                self.give_up(FailedMessage { arrival, ..failed }, Some(message_id), given_up);
            }
        }
    }

    fn resend(&mut self, failed: FailedMessage, message_id: String, retry: Resend, now: Timestamp) {
        let FailedMessage { arrival, error_type, .. } = failed;
        // A message may be held a hundred times, and the message-processor has told of it.
        let scheduled = (retry.spends != Spends::Hold).then(|| Event::RetryScheduled {
            message_id,
            retry_attempt: retry.retry_attempt,
            spends_attempt: retry.spends == Spends::Attempt,
            delay_seconds: retry.waited,
            age_seconds: until(retry.first_sent, now).as_secs_f64(),
            error_type,
        });
        if retry.pace != Pace::Own {
            self.paced.push(arrival.record.sqs_message_id.clone());
        }
        self.exceeds_rate |= retry.pace == Pace::NotHeld;
        self.resends.push(arrival.rewritten(retry.rewritten).pass_on(retry.delay, scheduled));
    }

    /// The message as it is, on the intermediate DLQ for as long as `DelaySeconds` can say.
    pub fn hop(&mut self, FailedMessage { arrival, hand_off, .. }: FailedMessage, due_at: Timestamp) {
        let hop = Hop { hand_off, due_at };
        self.hops.push(arrival.hopping(&hop).pass_on(DelaySeconds::MAX, None));
    }

    fn give_up(&mut self, failed: FailedMessage, message_id: Option<String>, given_up: GiveUp) {
        let FailedMessage { arrival, hand_off, stage, .. } = failed;
        self.verdicts.push(arrival.give_up(message_id, stage, hand_off.into(), given_up));
    }
}
