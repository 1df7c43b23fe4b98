//! Yields to other tasks without depending on a runtime.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

/// Lets all other ready tasks run once. tokio's `yield_now` is unsuitable: it resumes the task only once the runtime is
/// idle, and by then virtual time would have advanced.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
