//! Starts a user's own function, specified with the `--exec` option of `local` and `work`.

use std::pin::pin;
use std::time::Duration;

use redeliver_aws::targets::OwnFunction;
use tokio::time::timeout;

use crate::terminal::stderr;

/// The time without an invocation request after which a warning suggests that the command might not be a Lambda
/// runtime.
const START_WARNING_DELAY: Duration = Duration::from_secs(10);

/// Waits until the function specified with `--exec` requests its first invocation. After 10 s without a request, prints
/// a warning and continues to wait.
///
/// # Errors
/// If the function cannot be started, or exits before its first request.
pub async fn start_own_function(function: &OwnFunction) -> Result<(), String> {
    let mut starting = pin!(function.runtime.start_first_process());
    let started = match timeout(START_WARNING_DELAY, &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            stderr::warning(
                "--exec has not requested an invocation for 10 s: its command must start a Lambda runtime, such as \
                 `python3 -m awslambdaric app.handler`",
            );
            starting.await
        }
    };
    let ended = started
        .map_err(|error| format!("--exec cannot be run: {}: {error}", function.runtime.program_name()))?;
    ended.map_err(|ended| format!("--exec exited during startup: {}", ended.describe_exit()))
}
