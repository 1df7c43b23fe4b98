//! A pause for everything else that is ready.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

/// Lets everything else that is ready run once. Not tokio's `yield_now`: it wakes only when its runtime is idle, and
/// virtual time would jump before that.
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
