//! The message-processor in Lambda: calls `TARGET` or, as a layer, runs the function whose command line is passed as
//! arguments.

use std::env;
use std::process::ExitCode;

use redeliver_message_processor::{RuntimeCommand, run_with_own_function, run_with_target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match RuntimeCommand::new(env::args_os().skip(1)) {
        None => run_with_target().await,
        Some(command) => run_with_own_function(command).await,
    }
}
