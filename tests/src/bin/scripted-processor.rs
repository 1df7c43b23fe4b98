//! A message-processor whose Rust handler follows `data.script`: one action for each attempt or crash, then `ok`.

use std::process::ExitCode;
use std::time::Duration;

use redeliver_message_processor::{Handler, HandlerError, Message, run};
use redeliver_tests::script::ScriptedCall;

struct ScriptedHandler;

impl Handler for ScriptedHandler {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let ScriptedCall { action, text } = ScriptedCall::begin_call(message.body);
        match action.as_str() {
            "ok" => Ok(()),
            "panic" => panic!("{text}"),
            "hang" => std::future::pending().await,
            "block" => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            "transient" => Err(HandlerError::transient("Scripted.Transient", text)),
            "permanent" => Err(HandlerError::permanent("Scripted.Permanent", text)),
            "snooze" => Err(HandlerError::snooze("Scripted.Snooze", "later", Duration::from_secs(1))),
            other => panic!("no such action: {other}"),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(ScriptedHandler).await
}
