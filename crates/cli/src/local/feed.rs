//! The input on its way into the queues.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::ProgressBar;
use redeliver_core::ports::Clock;
use redeliver_core::turn::yield_now;
use redeliver_sim::Tracker;

use super::input::Portions;
use super::{Input, RefusedLine};
use crate::files::FileError;
use crate::locked::locked;
use crate::message_file::named;
use crate::tell;

/// The input, each portion of which is announced before the one before it is sent: the tracker must know of it, or all
/// would be settled in between.
pub(super) struct Feed<'a> {
    input: Portions,
    tracker: &'a Mutex<Tracker>,
    bar: &'a ProgressBar,
    /// Lines so far that are no messages.
    pub(super) refused: u64,
}

impl<'a> Feed<'a> {
    pub(super) fn new(input: Portions, tracker: &'a Mutex<Tracker>, bar: &'a ProgressBar) -> Self {
        let mut feed = Self { input, tracker, bar, refused: 0 };
        feed.announce_what_is_ahead();
        feed
    }

    /// The portion to be sent now; `None` when all is sent.
    pub(super) fn next(&mut self) -> Result<Option<Input>, FileError> {
        let portion = self.input.next()?;
        self.announce_what_is_ahead();
        Ok(portion)
    }

    fn announce_what_is_ahead(&mut self) {
        let Some(Input { messages, refused, dead_letter }) = self.input.ahead() else { return };
        let input = named(&self.input.path);
        let refusals = refused.iter().map(|RefusedLine { line, reason }| (line, reason));
        for (line, what) in refusals.chain(dead_letter.iter().map(|(line, hint)| (line, hint))) {
            tell::warning(format_args!("{}:{line}: {what}", input.display()));
        }
        self.refused += refused.len() as u64;
        locked(self.tracker).expect(messages.len() as u64);
        self.bar.inc_length(messages.len() as u64);
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
