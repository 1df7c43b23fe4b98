//! The failed-message-processor in Lambda.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    redeliver_failed_message_processor::run().await
}
