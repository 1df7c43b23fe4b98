//! A message-processor with a Rust handler that does what `data.script` says: one action for each attempt or crash, `ok` after them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use redeliver_message_processor::{Handler, HandlerError, Message, run};
use redeliver_tests::settings::variable;
use serde_json::Value;

struct Script {
    journal: String,
}

impl Handler for Script {
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        let body: Value =
            serde_json::from_str(&message.body).expect("a handler is only called with a valid message");
        let redrives = body["metadata"]["redrive_count"].as_u64().and_then(|count| u32::try_from(count).ok());
        let action = action(&body, message.retry_attempt + redrives.unwrap_or(0));
        self.note(&body, message, &action);
        match action.as_str() {
            "ok" => Ok(()),
            "panic" => panic!("{}", body["data"]["text"]),
            "hang" => std::future::pending().await,
            "block" => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            "transient" => Err(HandlerError::transient("Scripted.Transient", &body["data"]["text"])),
            "permanent" => Err(HandlerError::permanent("Scripted.Permanent", &body["data"]["text"])),
            "snooze" => Err(HandlerError::snooze("Scripted.Snooze", "later", Duration::from_secs(1))),
            other => panic!("no such action: {other}"),
        }
    }
}

impl Script {
    /// One line for each call: message id, attempt, snoozes, action, and the last failure's name.
    fn note(&self, body: &Value, message: &Message, action: &str) {
        let metadata = &body["metadata"];
        let snoozes = metadata["snooze_count"].as_u64().unwrap_or(0);
        let history = metadata["retry_history"].as_array().and_then(|history| history.last());
        let last = history.and_then(|failure| failure["error_type"].as_str()).unwrap_or("-");
        let line = format!("{} {} {snoozes} {action} {last}\n", message.message_id, message.retry_attempt);
        let journal = OpenOptions::new().create(true).append(true).open(&self.journal);
        journal
            .and_then(|mut journal| journal.write_all(line.as_bytes()))
            .expect("the journal can be written");
    }
}

fn action(body: &Value, attempt: u32) -> String {
    let action = usize::try_from(attempt).ok().and_then(|attempt| body["data"]["script"][attempt].as_str());
    // A snooze spends no attempt: without this it would never end.
    let snoozed = action == Some("snooze") && body["metadata"]["snooze_count"].is_u64();
    action.filter(|_| !snoozed).unwrap_or("ok").to_owned()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Script { journal: variable("SCRIPT_JOURNAL").expect("the harness sets SCRIPT_JOURNAL") }).await
}
