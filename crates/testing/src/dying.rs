//! Programs that die: their futures are dropped between two polls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that polls another one this many times, and then abandons it as if the program were killed.
pub struct KilledFuture<F> {
    pub future: Pin<Box<F>>,
    pub polls: u32,
}

impl<F: Future> Future for KilledFuture<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.future.as_mut().poll(context).map(Some)
    }
}
