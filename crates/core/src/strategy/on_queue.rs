//! The common parts of `visibility` and `ordered`. The message-processor makes the decision, since a failed message
//! remains on its queue, from which no other function receives.

use super::on_failure::{GivenUpMessage, StrategyRules, UnsentMessages};
use crate::accepted::FailedMessage;
use crate::deliver::{VisibilityChange, time_until};
use crate::events::Event;
use crate::failure::{FailureClass, HandOff};
use crate::limits::{RetryDelay, VisibilitySeconds};
use crate::message::reason::GiveUp;
use crate::message::{ReceiveTimes, Timestamp};
use crate::policy::Policy;

/// A strategy whose failed messages remain on their queue.
pub(super) trait OnQueueRules: StrategyRules {
    /// Returns the message's next visibility timeout, or the reason for giving up on it.
    fn decide_visibility(
        &self,
        policy: &Policy,
        message: &FailedMessage,
        now: Timestamp,
    ) -> Result<VisibilitySeconds, GiveUp>;

    /// True if the failure counts as an attempt.
    fn spends_attempt(&self, _hand_off: &HandOff) -> bool {
        true
    }
}

/// The messages to hide and those to give up on, from one batch.
#[derive(Debug)]
pub(super) struct QueueDecisions {
    pub(super) hidings: Vec<VisibilityChange>,
    pub(super) given_up: Vec<GivenUpMessage>,
}

/// Decides what happens to each failed message.
pub(super) fn make_queue_decisions(
    strategy: &impl OnQueueRules,
    policy: &Policy,
    UnsentMessages { failed, given_up }: UnsentMessages,
    now: Timestamp,
) -> QueueDecisions {
    let mut decisions = QueueDecisions { hidings: Vec::with_capacity(failed.len()), given_up };
    for message in failed {
        let retries_made = strategy.retries_made(&message.accepted);
        match strategy.decide_visibility(policy, &message, now) {
            Ok(visibility) => {
                let spends_attempt = strategy.spends_attempt(&message.hand_off);
                decisions.hidings.push(hide_message(message, visibility, retries_made, spends_attempt, now));
            }
            Err(give_up) => {
                let received = ReceiveTimes::new(message.accepted.record(), now);
                let verdict = message.give_up(Some(retries_made), give_up);
                decisions.given_up.push(GivenUpMessage { verdict, received });
            }
        }
    }
    decisions
}

fn hide_message(
    message: FailedMessage,
    visibility: VisibilitySeconds,
    retries_made: u32,
    spends_attempt: bool,
    now: Timestamp,
) -> VisibilityChange {
    let FailedMessage { accepted, hand_off, error_type, .. } = message;
    let request_id = hand_off.delivery.request_id().filter(|_| error_type.is_some());
    // A message whose call did not start has no event, since nothing has happened to it.
    let is_retry = spends_attempt || hand_off.classification.known_class() == FailureClass::Held;
    let confirmed = is_retry.then(|| Event::RetryScheduled {
        message_id: accepted.metadata().message_id_text.clone(),
        retry_attempt: retries_made + u32::from(spends_attempt),
        spends_attempt,
        delay_seconds: RetryDelay::saturating(visibility.get().into()),
        age_seconds: time_until(accepted.first_sent(), now).as_secs_f64(),
        error_type,
        request_id,
    });
    VisibilityChange { receipt: accepted.into_receipt(), visibility, confirmed }
}
