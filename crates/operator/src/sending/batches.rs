//! Packs lines into batches by count and size, and paces the batches to the rate limit.

use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, FusedStream};
use futures_util::{FutureExt as _, Stream, StreamExt as _, select_biased};
use redeliver_core::message::OutgoingMessage;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::ports::Clock;

use super::confirmed::Digest;
use super::pace::SendPace;
use super::reader::NumberedMessage;

/// The maximum time that an incomplete batch waits for more lines from an input that is still being written.
const LINGER: Duration = Duration::from_millis(100);

/// The messages of one request.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    /// Line numbers and digests, in order.
    pub(super) lines: Vec<(usize, Digest)>,
    /// The messages, in the same order.
    pub(super) messages: Vec<OutgoingMessage>,
}

impl LineBatch {
    fn push(&mut self, line: NumberedMessage) {
        self.lines.push((line.number, line.digest));
        self.messages.push(line.message);
    }

    /// Removes and returns the longest prefix of messages that fits in one request.
    fn take_fitting(&mut self) -> Self {
        let fitting = pack_batches(&self.messages).first().map_or(0, |batch| batch.entries().len());
        Self {
            lines: self.lines.drain(..fitting).collect(),
            messages: self.messages.drain(..fitting).collect(),
        }
    }
}

/// Groups the lines into batches. Buffers at most ten lines.
pub(super) fn batch_lines(
    lines: impl FusedStream<Item = NumberedMessage>,
    clock: &impl Clock,
    pace: SendPace,
) -> impl Stream<Item = LineBatch> {
    let start = (Box::pin(lines), LineBatch::default(), pace);
    stream::unfold(start, async move |(mut lines, mut waiting, mut pace)| {
        if waiting.messages.is_empty() {
            waiting.push(lines.next().await?);
        }
        // One timer per batch, started by its first line, so that slowly arriving lines do not delay the first one.
        let mut linger = pin!(clock.sleep(LINGER).fuse());
        while waiting.messages.len() < pace.batch_size() {
            select_biased! {
                line = lines.next() => match line {
                    Some(line) => waiting.push(line),
                    None => break,
                },
                () = linger => break,
            }
        }
        // The lines might exceed 1 MiB together; the rest waits for the next batch.
        let batch = waiting.take_fitting();
        clock.sleep(pace.reserve(clock.now(), batch.lines.len())).await;
        Some((batch, (lines, waiting, pace)))
    })
}
