//! A Lambda function that reads its retry number.
//!
//! Configure its asynchronous invocations without built-in retries (`MaximumRetryAttempts` 0), and with the retry queue
//! as their on-failure destination. `cargo lambda watch --example orders` runs it locally.

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use redeliver_core::async_retry::read_payload;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The payload that producers send.
#[derive(Debug, Deserialize)]
struct Order {
    id: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    run(service_fn(async |event: LambdaEvent<Box<RawValue>>| handle(event.payload.get()).await)).await
}

async fn handle(payload: &str) -> Result<(), Error> {
    let (retry, original) = read_payload(payload);
    let order: Order = serde_json::from_str(original)?;
    let attempt = retry.map_or(0, |retry| retry.attempt);
    fulfill(&order, attempt).await
}

/// Fulfills an order. An error fails the invocation, and Lambda sends a record of the failure to the retry queue.
async fn fulfill(order: &Order, attempt: u32) -> Result<(), Error> {
    match attempt {
        0 => Err(format!("order {} is locked", order.id).into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_first_invocation_and_a_retry_carry_the_same_order() {
        assert_eq!(handle(r#"{"id":"7"}"#).await.unwrap_err().to_string(), "order 7 is locked");
        let retry = r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1643667670},"_original_payload":{"id":"7"}}"#;
        assert!(handle(retry).await.is_ok());
    }
}
