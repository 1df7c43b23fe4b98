//! Starts a user's own function, given by `--exec` of `local` and `work`.

use std::pin::pin;
use std::time::Duration;

use redeliver_aws::targets::OwnFunction;
use tokio::time::timeout;

use crate::terminal::stderr;

/// After this time without a request for an invocation, a warning suggests that the command may not be a Lambda
/// runtime.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the function of `--exec` has requested its first invocation. After 10 s without one it prints a warning
/// and continues to wait.
///
/// # Errors
/// The reason why it cannot start.
pub async fn start_own_function(function: &OwnFunction) -> Result<(), String> {
    let mut starting = pin!(function.runtime.start_first());
    let started = match timeout(START_PATIENCE, &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            stderr::warning(
                "--exec has not asked for an invocation for 10 s: its command must start a Lambda runtime, such as \
                 `python3 -m awslambdaric app.handler`",
            );
            starting.await
        }
    };
    let ended = started
        .map_err(|error| format!("--exec cannot be run: {}: {error}", function.runtime.program_name()))?;
    ended.map_err(|ended| format!("--exec ended at its start: {}", ended.describe_exit()))
}
