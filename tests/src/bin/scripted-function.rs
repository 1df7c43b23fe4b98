//! A user's own function for an OS-only runtime, unaware of redeliver. It follows `data.script`.

use std::io::{self, Write as _};
use std::time::Duration;
use std::{process, thread};

use lambda_runtime::{Diagnostic, Error, LambdaEvent, service_fn};
use redeliver_tests::script::{ScriptedCall, write_journal};
use redeliver_tests::settings::env_variable;
use serde_json::{Value, json};

async fn handle(event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
    let Some(body) = event.payload["Records"][0]["body"].as_str() else {
        return handle_other_event(&event.payload);
    };
    let ScriptedCall { action, text } = ScriptedCall::begin_call(body);
    match action.as_str() {
        "ok" => Ok(Value::Null),
        "panic" => panic!("{text}"),
        "hang" => std::future::pending().await,
        "block" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "exit" => process::exit(3),
        "signal" => process::abort(),
        "loud" => {
            let line = "x".repeat(999) + "\n";
            io::stdout().write_all(line.repeat(10_000).as_bytes()).expect("the output is read");
            Ok(Value::Null)
        }
        "transient" => Err(transient_error(&text)),
        "permanent" => Ok(json!({
            "redeliver": { "outcome": "permanent", "type": "Scripted.Permanent", "details": text }
        })),
        "snooze" => Ok(json!({
            "redeliver": { "outcome": "snooze", "delay_seconds": 1, "type": "Scripted.Snooze", "details": "later" }
        })),
        other => panic!("no such action: {other}"),
    }
}

/// Handles an event that is not from SQS.
fn handle_other_event(event: &Value) -> Result<Value, Diagnostic> {
    match event["error"].as_str() {
        Some(error) => Err(transient_error(error)),
        None => Ok(json!({ "event": event, "other_wrapper": env_variable("OTHER_WRAPPER") })),
    }
}

fn transient_error(text: &str) -> Diagnostic {
    Diagnostic { error_type: "Scripted.Transient".to_owned(), error_message: text.to_owned() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    write_journal(&format!("process {}", process::id()));
    lambda_runtime::run(service_fn(handle)).await
}
