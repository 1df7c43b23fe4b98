//! The input on its way into the queues.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use indicatif::ProgressBar;
use redeliver_core::ports::Clock;
use redeliver_loop::Ledger;

use super::input::Portions;
use super::{Input, RefusedLine};
use crate::files::FileError;
use crate::tell;

/// The next portion is read before one is sent, so that the ledger knows of it: until
/// the last one is sent nothing is settled.
pub(super) struct Feed<'a> {
    pub(super) input: Portions,
    pub(super) ledger: &'a Mutex<Ledger>,
    pub(super) bar: &'a ProgressBar,
    pub(super) refused: u64,
    pub(super) next: Option<Input>,
}

impl Feed<'_> {
    /// The portion to be sent now; `None` when all is sent.
    pub(super) fn next(&mut self) -> Result<Option<Input>, FileError> {
        let portion = self.next.take();
        if portion.is_some() {
            self.read()?;
        }
        Ok(portion)
    }

    pub(super) fn read(&mut self) -> Result<(), FileError> {
        let Some(portion) = self.input.next()? else {
            return Ok(());
        };
        for RefusedLine { line, reason } in &portion.refused {
            tell::warning(format_args!("line {line}: refused: {reason}"));
        }
        self.refused += portion.refused.len() as u64;
        let messages = portion.messages.len() as u64;
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).expect(messages);
        self.bar.inc_length(messages);
        self.next = Some(portion);
        Ok(())
    }
}

/// Completes when no message can be received any more. As long as they become fewer the functions are at work, at this
/// very moment; if they wait for something real, time passes.
pub(super) async fn drained(visible: impl Fn() -> u64, clock: &impl Clock) {
    let mut before = u64::MAX;
    loop {
        yield_now().await;
        let visible = visible();
        if visible == 0 {
            return;
        }
        if visible >= before {
            clock.sleep(Duration::from_millis(1)).await;
        }
        before = visible;
    }
}

/// Lets everything else that is ready run once.
async fn yield_now() {
    let mut had_its_turn = false;
    poll_fn(|context| {
        if std::mem::replace(&mut had_its_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
