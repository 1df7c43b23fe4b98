//! redeliver's delays, observed from outside: the decisions on a message that always fails, retry by retry.

use redeliver_core::decide::{Decision, Resend, decide};
use redeliver_core::failure::reason::{DeadLetterReason, GiveUp};
use redeliver_core::failure::{Delivery, HandOff};
use redeliver_core::handler::HandlerError;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::origin::Origin;
use redeliver_core::policy::Policy;
use redeliver_testing::functions::{failed_message, resent_body};

/// The time of every event.
const NOW: &str = "2026-07-25T17:20:00Z";

/// Returns message number `n`. Its delays depend only on its id.
pub(crate) fn test_message(n: usize) -> String {
    format!(r#"{{"metadata":{{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-{n:012x}"}},"data":{{}}}}"#)
}

/// Returns the delay before each retry of message `n` in seconds, until its attempts are exhausted.
pub(crate) fn redeliver_delays(policy: &Policy, n: usize) -> Vec<u32> {
    let error = HandlerError::transient("Down", "down");
    let mut body = test_message(n);
    let mut delays = Vec::new();
    loop {
        match decide_retry(policy, &body, &error) {
            Ok(resend) => {
                delays.push(resend.total_delay.get().into());
                body = resent_body(resend);
            }
            Err(given_up) => {
                assert_eq!(given_up.reason, DeadLetterReason::RetryAttemptExceeded);
                return delays;
            }
        }
    }
}

/// Returns the decision on a message that failed with this error, after its hops, if any.
pub(crate) fn decide_retry(policy: &Policy, body: &str, error: &HandlerError) -> Result<Resend, GiveUp> {
    let now = parse_rfc3339(NOW).unwrap();
    let hand_off = HandOff::from_handler_error(error, test_delivery());
    let decide = |due_at, now| decide(policy, &failed_message(body, &hand_off, due_at), now);
    let mut decision = decide(None, now);
    if let Decision::Hop(due) = decision {
        decision = decide(Some(due), due);
    }
    match decision {
        Decision::Resend(resend) => Ok(resend),
        Decision::GiveUp(given_up) => Err(given_up),
        Decision::Hop(_) => panic!("the message is due"),
    }
}

fn test_delivery() -> Delivery {
    Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: parse_rfc3339(NOW).unwrap(),
        source_message_id: "m".to_owned(),
        source_queue_arn: "arn:aws:sqs:eu-central-1:000000000000:source".to_owned(),
        sent_at: parse_rfc3339(NOW).unwrap(),
        came_back: None,
        origin: Origin::Unknown,
    }
}
