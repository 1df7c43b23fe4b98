//! The final-dlq-annotator in Lambda.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    redeliver_final_dlq_annotator::run().await
}
