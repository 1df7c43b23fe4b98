//! The async-retry-handler in Lambda.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    redeliver_async_retry_handler::run().await
}
