//! The message-processor in Lambda, with `TARGET` as its handler.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    redeliver_message_processor::run_with_target().await
}
