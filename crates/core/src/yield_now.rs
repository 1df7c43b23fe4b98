//! A way to yield to other tasks, without a runtime.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

/// Lets all other ready tasks run once. Not tokio's `yield_now`: that wakes only when its runtime is idle, and virtual
/// time would jump before that.
pub async fn yield_now() {
    let mut had_its_turn = false;
    poll_fn(|context| {
        if mem::replace(&mut had_its_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
