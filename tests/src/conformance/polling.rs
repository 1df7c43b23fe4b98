//! Receiving: waits and counts.

use std::time::Duration;

use futures_util::future::try_join;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::Content;
use redeliver_core::ports::{Clock, Depth, Queue, QueueDepth as _, QueueService, ReceiveOptions};

use super::bench::{BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content};

pub(super) async fn a_poll_of_an_empty_queue_returns_after_its_wait<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let start = bench.now();
    ensure!(bench.poll_once(&queue, 0).await?.is_empty(), "a message in a new queue");
    bench.ensure_elapsed(start, Duration::ZERO, "an empty poll without a wait returned")?;
    let start = bench.now();
    ensure!(bench.poll_once(&queue, 2).await?.is_empty(), "a message in a new queue");
    bench.ensure_elapsed(start, Duration::from_secs(2), "an empty poll of 2 s returned")
}

pub(super) async fn a_long_poll_returns_when_a_message_arrives<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let start = bench.now();
    let poll = bench.poll_once(&queue, 20);
    let send = async {
        bench.sleep(Duration::from_secs(1)).await;
        bench.send_all(&queue, vec![plain_content("arrives")]).await
    };
    let (received, _) = try_join(poll, send).await?;
    ensure_eq!(received.len(), 1, "messages received");
    bench.ensure_elapsed(start, Duration::from_secs(1), "a long poll returned")
}

pub(super) async fn a_receive_returns_at_most_the_requested_number<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    bench.send_all(&queue, (0..15).map(|number| plain_content(number.to_string())).collect()).await?;
    let three = ReceiveOptions { max_messages: 3, wait: Duration::from_secs(5), visibility: None };
    let first = queue.receive(three).await?;
    ensure!((1..=3).contains(&first.len()), "{} messages instead of up to 3", first.len());
    let second = bench.poll_once(&queue, 5).await?;
    ensure!((1..=10).contains(&second.len()), "{} messages instead of up to 10", second.len());
    bench.receive_at_least(&queue, 15 - first.len() - second.len()).await?;
    Ok(())
}

/// SQS calls these counts approximate: "eventually consistent within about one minute" of the last change.
pub(super) async fn queue_depth_counts_visible_in_flight_and_delayed_messages<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(900).await?;
    let delayed = Content { delay: DelaySeconds::MAX, ..plain_content("delayed") };
    bench.send_all(&queue, vec![plain_content("in flight"), delayed]).await?;
    bench.receive_one(&queue).await?;
    bench.send_all(&queue, vec![plain_content("visible"), plain_content("visible too")]).await?;
    let expected = Depth { visible: 2, in_flight: 1, delayed: 1 };
    let give_up = bench.now() + Duration::from_secs(120);
    loop {
        let depth = queue.depth().await?;
        if depth == expected {
            return Ok(());
        }
        ensure!(bench.now() < give_up, "{depth:?} instead of {expected:?}");
        bench.sleep(Duration::from_secs(1)).await;
    }
}
