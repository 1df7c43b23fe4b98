//! The number of delayed messages on the source queue, by which re-sends are paced.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::decide::pacing::Window;
use crate::deliver::until;
use crate::events::Event;
use crate::lock;
use crate::message::Timestamp;
use crate::policy::RedeliveryRate;
use crate::ports::{Clock, Observer, QueueDepth};
use futures_util::future::{Either, select};
use futures_util::pin_mut;

/// A count older than this is refreshed. SQS's own may be a minute old ("GetQueueAttributes", Amazon SQS API
/// Reference), so asking more often would gain little.
const FRESH: Duration = Duration::from_secs(5);
/// A count older than this is useless: every message counted has come back (900 s at most).
const STALE: Duration = Duration::from_secs(900);
/// The longest wait for a count, which the batch can do without. If time is short, a quarter of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last count of delayed messages, kept from batch to batch.
#[derive(Debug, Default)]
pub struct DelayedCount(Mutex<Option<Counted>>);

#[derive(Clone, Copy, Debug)]
struct Counted {
    asked_at: Timestamp,
    /// The last answer and its time; `None` if SQS has never answered.
    waiting: Option<(Timestamp, u64)>,
}

impl DelayedCount {
    /// The window for this rate, and the number of waiting messages. Makes at most one request. If SQS does not answer,
    /// the last count is used for up to a quarter of an hour: an old one paces better than none.
    pub(crate) async fn window(
        &self,
        rate: RedeliveryRate,
        queue: &impl QueueDepth,
        clock: &impl Clock,
        observer: &impl Observer,
        deadline: Timestamp,
    ) -> Option<(Window, u64)> {
        let now = clock.now();
        // Copied, since no lock may be held while SQS answers. Two concurrent batches may both ask, which costs one
        // request more.
        let last = *self.last();
        let counted = match last {
            Some(counted) if until(counted.asked_at, now) < FRESH => counted,
            _ => {
                let waiting = match count(queue, clock, PATIENCE.min(until(now, deadline) / 4)).await {
                    Ok(waiting) => Some((now, waiting)),
                    Err(code) => {
                        observer.observe(&Event::NotCounted { code });
                        // The old count keeps the time of its own answer, so that it still expires.
                        let known = last.and_then(|counted| counted.waiting);
                        known.filter(|(at, _)| until(*at, now) < STALE)
                    }
                };
                *self.last().insert(Counted { asked_at: now, waiting })
            }
        };
        counted.waiting.map(|(_, waiting)| (Window::of(waiting, rate), waiting))
    }

    fn last(&self) -> MutexGuard<'_, Option<Counted>> {
        lock(&self.0)
    }
}

/// `ApproximateNumberOfMessagesDelayed`, or SQS's error code.
async fn count(queue: &impl QueueDepth, clock: &impl Clock, patience: Duration) -> Result<u64, String> {
    let (answer, patience) = (queue.depth(), clock.sleep(patience));
    pin_mut!(answer, patience);
    match select(answer, patience).await {
        Either::Left((answer, _)) => answer.map(|depth| depth.delayed).map_err(|error| error.code),
        Either::Right(_) => Err("Timeout".to_owned()),
    }
}
