//! The harness's own test function. It follows the body of the first record.
//!
//! `answer` is returned as is; `error` fails the invocation; `exit` ends the process; `hang` never responds; `event`
//! returns the complete event.

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let event = event.payload;
    let body = event["Records"][0]["body"].as_str().unwrap_or_default();
    let instructions: Value = serde_json::from_str(body)?;
    eprintln!("probe: {}", instructions["do"]);
    match instructions["do"].as_str() {
        Some("answer") => Ok(instructions["answer"].clone()),
        Some("event") => Ok(event),
        Some("exit") => std::process::exit(1),
        Some("hang") => std::future::pending().await,
        _ => Err("as requested".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_runtime::run(service_fn(handle)).await
}
