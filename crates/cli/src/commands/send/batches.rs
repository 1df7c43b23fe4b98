//! Batches as they leave: by count and bytes, and not faster than the rate.

use std::pin::pin;
use std::time::Duration;

use futures_util::stream::{self, FusedStream};
use futures_util::{FutureExt as _, Stream, StreamExt as _, select_biased};
use redeliver_core::message::OutgoingMessage;
use redeliver_core::message::packing::pack;
use redeliver_core::ports::Clock;

use super::confirmed::Digest;
use super::pace::Pace;
use super::reader::Numbered;

/// An incomplete batch waits so long for more lines: an input that is still being written should not be kept back.
const LINGER: Duration = Duration::from_millis(100);

/// The messages of one request.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Numbers and digests, in order.
    pub(super) lines: Vec<(usize, Digest)>,
    /// The messages, in the same order.
    pub(super) messages: Vec<OutgoingMessage>,
}

impl Batch {
    fn push(&mut self, line: Numbered) {
        self.lines.push((line.number, line.digest));
        self.messages.push(line.message);
    }

    /// As many of the first messages as fit in one request.
    fn cut(&mut self) -> Self {
        let fitting = pack(&self.messages).first().map_or(0, |batch| batch.entries().len());
        Self {
            lines: self.lines.drain(..fitting).collect(),
            messages: self.messages.drain(..fitting).collect(),
        }
    }
}

/// The batches of all lines. At most one batch's count of lines is held back.
pub(super) fn batches(
    lines: impl FusedStream<Item = Numbered>,
    clock: &impl Clock,
    pace: Pace,
) -> impl Stream<Item = Batch> {
    let start = (Box::pin(lines), Batch::default(), pace);
    stream::unfold(start, async move |(mut lines, mut waiting, mut pace)| {
        if waiting.messages.is_empty() {
            waiting.push(lines.next().await?);
        }
        // One clock for the whole batch, from its first line on: a slow trickle of lines does not hold the first one
        // back.
        let mut enough = pin!(clock.sleep(LINGER).fuse());
        while waiting.messages.len() < pace.batch() {
            select_biased! {
                line = lines.next() => match line {
                    Some(line) => waiting.push(line),
                    None => break,
                },
                () = enough => break,
            }
        }
        // By bytes fewer may fit than there are: the rest waits for the next batch.
        let batch = waiting.cut();
        clock.sleep(pace.reserve(clock.now(), batch.lines.len())).await;
        Some((batch, (lines, waiting, pace)))
    })
}
