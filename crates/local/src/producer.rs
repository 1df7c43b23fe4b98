//! Provides a run's input chunk by chunk, announces it to the tracker, and warns about rejected lines.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::ProgressBar;
use redeliver_core::ports::Clock;
use redeliver_core::yield_now;
use redeliver_sim::Tracker;

use crate::input::{Chunk, Chunks, RefusedLine};
use redeliver_core::lock;
use redeliver_operator::files::FileError;
use redeliver_operator::message_file::input_name;
use redeliver_operator::terminal::stderr;

/// The source of a run's messages. Each chunk is announced before the previous one is sent, so that the run cannot
/// settle between the two.
pub(crate) struct Producer<'a> {
    chunks: Chunks,
    tracker: &'a Mutex<Tracker>,
    bar: &'a ProgressBar,
    /// The number of rejected lines so far.
    pub(crate) refused: u64,
}

impl<'a> Producer<'a> {
    pub(crate) fn new(chunks: Chunks, tracker: &'a Mutex<Tracker>, bar: &'a ProgressBar) -> Self {
        let mut producer = Self { chunks, tracker, bar, refused: 0 };
        producer.announce_next();
        producer
    }

    /// Returns the chunk to send now, or `None` at the end of the input.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Chunk>, FileError> {
        let chunk = self.chunks.next_chunk()?;
        self.announce_next();
        Ok(chunk)
    }

    fn announce_next(&mut self) {
        let Some(Chunk { messages, refused, dead_letter }) = self.chunks.peek_chunk() else { return };
        let input = input_name(&self.chunks.path);
        let refusals = refused.iter().map(|RefusedLine { line, reason }| (line, reason));
        for (line, warning) in refusals.chain(dead_letter.iter().map(|(line, hint)| (line, hint))) {
            stderr::warning(format_args!("{}:{line}: {warning}", input.display()));
        }
        self.refused += refused.len() as u64;
        lock(self.tracker).expect_messages(messages.len() as u64);
        self.bar.inc_length(messages.len() as u64);
    }
}

/// Completes when no message is visible. While the number of visible messages falls, the functions are making progress
/// without waiting. If it does not fall, they are waiting for something external, so this function sleeps.
pub(crate) async fn wait_until_drained(visible: impl Fn() -> u64, clock: &impl Clock) {
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
