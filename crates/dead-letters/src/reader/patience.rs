//! Requests that are retried on failure.

use std::cell::Cell;
use std::time::Duration;

use futures_util::stream::StreamExt as _;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::ports::{Clock, EntryError, Queue};

use super::{MESSAGES_PER_REQUEST, REQUESTS_MAX, is_denied};

/// The number of attempts per request; each pause between them is twice as long as the previous one.
pub(super) const TRIES_MAX: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Makes messages visible again immediately. Returns the number of messages that remain hidden.
pub(super) async fn make_visible<Q: Queue, C: Clock>(queue: &Q, clock: &C, handles: Vec<String>) -> u64 {
    let now = VisibilitySeconds::new(0).expect("zero is within the limits");
    let mut waiting: Vec<_> = handles.into_iter().map(|handle| (handle, now)).collect();
    let mut pause = FIRST_PAUSE;
    let denied_count = Cell::new(0);
    for _ in 0..TRIES_MAX {
        let denied_count = &denied_count;
        let batches: Vec<_> = waiting.chunks(MESSAGES_PER_REQUEST.into()).map(<[_]>::to_vec).collect();
        let answers = futures_util::stream::iter(batches).map(|batch| async move {
            let outcomes = queue.change_visibility_batch(&batch).await;
            let denied = outcomes.iter().filter(|outcome| matches!(outcome, Err(error) if is_denied(error)));
            denied_count.set(denied_count.get() + denied.count() as u64);
            let failed = batch.into_iter().zip(outcomes);
            failed
                .filter(|(_, outcome)| matches!(outcome, Err(error) if error.fault.is_retryable()))
                .map(|(entry, _)| entry)
                .collect::<Vec<_>>()
        });
        waiting = answers.buffer_unordered(REQUESTS_MAX).concat().await;
        if waiting.is_empty() {
            break;
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
    waiting.len() as u64 + denied_count.get()
}

/// Sends a request, and retries it on retryable errors, up to [`TRIES_MAX`] attempts in all.
pub(super) async fn retry_request<T, C: Clock, F: Future<Output = Result<T, EntryError>>>(
    clock: &C,
    send_request: impl Fn() -> F,
) -> Result<T, EntryError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES_MAX {
        match send_request().await {
            Err(error) if error.fault.is_retryable() => clock.sleep(pause).await,
            answer => return answer,
        }
        pause *= 2;
    }
    send_request().await
}
