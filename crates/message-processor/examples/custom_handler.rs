//! A custom message-processor: charges for an order and classifies each failure.
//!
//! It runs wherever Lambda's runtime runs. To try it without Lambda, pass a message body as an argument:
//!
//! ```sh
//! cargo run --example custom_handler -- '{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{"order":"A-1","cents":1250}}'
//! ```
#![allow(clippy::print_stdout, reason = "without Lambda, the output is for a human")]

use std::process::ExitCode;
use std::time::Duration;

use redeliver_message_processor::{BodyForm, Handler, HandlerError, Message, run};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    order: String,
    cents: u32,
}

struct Charge;

impl Handler for Charge {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let Order { order, cents } = message.data()?;
        match cents {
            // Can never succeed: sent straight to the final DLQ, with the reason.
            0 => Err(HandlerError::permanent("NothingToCharge", format_args!("order {order} costs nothing"))),
            // Provider down: retried with the policy's backoff, but no sooner than two minutes from now.
            1..100 => {
                Err(HandlerError::transient("ProviderDown", "HTTP 503").retry_after(Duration::from_secs(120)))
            }
            // Not ready yet: retried in ten minutes without spending an attempt.
            100_000.. => {
                Err(HandlerError::snooze("InReview", "awaiting manual review", Duration::from_secs(600)))
            }
            // `message.message_id` is the idempotency key: a message can be delivered more than once.
            _ => Ok(()),
        }
    }
}

#[expect(clippy::print_stdout, reason = "without Lambda, the output is for a human")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(body) = std::env::args().nth(1) else {
        return run(Charge).await;
    };
    let message = Message {
        body: &body,
        message_id: "0191f3a2-7b1c-7d3e-8f00-0123456789ab",
        form: &BodyForm::Envelope,
        retry_attempt: 0,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &std::collections::BTreeMap::new(),
    };
    println!("{:?}", Charge.handle(&message).await);
    ExitCode::SUCCESS
}
