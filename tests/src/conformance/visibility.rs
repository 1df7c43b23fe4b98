//! Visibility timeouts.

use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::ports::{Clock, Fault, Queue, QueueService, ReceiveOptions, VisibilityControl as _};

use super::bench::{BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content, to_visibility};

pub(super) async fn the_visibility_timeout_hides_a_message_and_returns_it<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(3).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let first = bench.receive_one(&queue).await?;
    let received = bench.now();
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "the message came while it was in flight");
    let second = bench.receive_one(&queue).await?;
    bench.ensure_elapsed(received, Duration::from_secs(3), "the message came again")?;
    ensure_eq!(second.sqs_message_id, first.sqs_message_id, "the message id");
    ensure!(second.receipt_handle != first.receipt_handle, "both receives have one receipt handle");
    Ok(())
}

pub(super) async fn a_receive_sets_its_own_visibility_timeout<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(900).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let wait = Duration::from_secs(10);
    let own = ReceiveOptions { max_messages: 1, wait, visibility: Some(to_visibility(2)) };
    ensure_eq!(queue.receive(own).await?.len(), 1, "messages received");
    let received = bench.now();
    bench.receive_one(&queue).await?;
    bench.ensure_elapsed(received, Duration::from_secs(2), "the message came again")
}

pub(super) async fn visibility_zero_returns_a_message_immediately<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(900).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let handle = bench.receive_one(&queue).await?.receipt_handle;
    let outcomes = queue.change_visibility_batch(&[(handle, VisibilitySeconds::ZERO)]).await;
    ensure_eq!(outcomes, [Ok(())], "outcomes");
    let start = bench.now();
    ensure_eq!(bench.receive_one(&queue).await?.receive_count, 2, "ApproximateReceiveCount");
    bench.ensure_elapsed(start, Duration::ZERO, "the message came again")
}

pub(super) async fn a_longer_visibility_timeout_hides_a_message_for_longer<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(2).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let handle = bench.receive_one(&queue).await?.receipt_handle;
    let start = bench.now();
    ensure_eq!(queue.change_visibility_batch(&[(handle, to_visibility(6))]).await, [Ok(())], "outcomes");
    bench.sleep(Duration::from_secs(2)).await;
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "the message came at its first timeout");
    bench.receive_one(&queue).await?;
    bench.ensure_elapsed(start, Duration::from_secs(6), "the message came again")
}

/// "ChangeMessageVisibility", Amazon SQS API Reference: `MessageNotInflight`.
pub(super) async fn visibility_can_be_changed_only_while_in_flight<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(1).await?;
    bench.send_all(&queue, vec![plain_content("back")]).await?;
    let handle = bench.receive_one(&queue).await?.receipt_handle;
    bench.sleep(Duration::from_secs(3)).await;
    let outcomes = queue.change_visibility_batch(&[(handle, to_visibility(30))]).await;
    let faults: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.fault)).collect();
    ensure_eq!(faults, [Some(Fault::Sender)], "faults");
    Ok(())
}

pub(super) async fn receives_are_counted_and_the_first_is_remembered<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(1).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let first = bench.receive_one(&queue).await?;
    let second = bench.receive_one(&queue).await?;
    let third = bench.receive_one(&queue).await?;
    let counts = [first.receive_count, second.receive_count, third.receive_count];
    ensure_eq!(counts, [1, 2, 3], "ApproximateReceiveCount");
    let seen = (third.sent_at, third.first_received_at);
    ensure_eq!(seen, (first.sent_at, first.first_received_at), "timestamps");
    Ok(())
}
