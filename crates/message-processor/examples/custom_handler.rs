//! A message processor of your own: charges an order, and classifies each failure.
//!
//! Runs wherever Lambda's runtime does. To try it without Lambda, pass it a body:
//!
//! ```sh
//! cargo run --example custom_handler -- '{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{"order":"A-1","cents":1250}}'
//! ```
#![allow(clippy::print_stdout, reason = "without Lambda its answer is for a human")]

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
            // Will never work: straight to the final DLQ, explained.
            0 => Err(HandlerError::permanent("NothingToCharge", format_args!("order {order} costs nothing"))),
            // Down: retried by the policy's backoff, but not within two minutes.
            1..100 => {
                Err(HandlerError::transient("ProviderDown", "HTTP 503").retry_after(Duration::from_secs(120)))
            }
            // Not yet: spends no attempt.
            100_000.. => {
                Err(HandlerError::snooze("InReview", "a person looks at it", Duration::from_secs(600)))
            }
            // `message.message_id` is the idempotency key: the same message may come twice.
            _ => Ok(()),
        }
    }
}

#[expect(clippy::print_stdout, reason = "without Lambda the answer is for a human")]
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
