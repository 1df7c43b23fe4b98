//! Deleting by receipt handle.

use std::time::Duration;

use redeliver_core::ports::{Clock, Fault, Queue, QueueService};

use super::bench::{BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content};

pub(super) async fn deleting_removes_a_message<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(2).await?;
    bench.send_all(&queue, vec![plain_content("deleted"), plain_content("kept")]).await?;
    let received = bench.receive_at_least(&queue, 2).await?;
    let outcomes = queue.delete_batch(&[received[0].receipt_handle.clone()]).await;
    ensure_eq!(outcomes, [Ok(())], "outcomes");
    ensure_eq!(bench.receive_one(&queue).await?.body, "kept", "the message that came again");
    bench.sleep(Duration::from_secs(2)).await;
    let bodies: Vec<_> = bench.poll_once(&queue, 1).await?.into_iter().map(|message| message.body).collect();
    ensure_eq!(bodies, ["kept"], "messages that came again");
    Ok(())
}

/// "DeleteMessage", Amazon SQS API Reference: a repeated delete succeeds.
pub(super) async fn deleting_twice_is_ok<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    bench.send_all(&queue, vec![plain_content("deleted")]).await?;
    let handle = [bench.receive_one(&queue).await?.receipt_handle];
    ensure_eq!(queue.delete_batch(&handle).await, [Ok(())], "outcomes of the first delete");
    ensure_eq!(queue.delete_batch(&handle).await, [Ok(())], "outcomes of the second delete");
    Ok(())
}

/// "DeleteMessage", Amazon SQS API Reference: with an old handle "the request succeeds, but the message will not be
/// deleted". The rule does not check that the message is kept: AWS promises only that the newest handle deletes it.
pub(super) async fn an_old_receipt_handle_is_accepted<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(1).await?;
    bench.send_all(&queue, vec![plain_content("again")]).await?;
    let old = bench.receive_one(&queue).await?.receipt_handle;
    bench.receive_one(&queue).await?;
    ensure_eq!(queue.delete_batch(&[old]).await, [Ok(())], "outcomes");
    Ok(())
}

pub(super) async fn a_wrong_receipt_handle_fails_only_its_own_entry<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(2).await?;
    bench.send_all(&queue, vec![plain_content("deleted")]).await?;
    let right = bench.receive_one(&queue).await?.receipt_handle;
    let outcomes = queue.delete_batch(&["wrong".to_owned(), right]).await;
    let faults: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.fault)).collect();
    ensure_eq!(faults, [Some(Fault::Sender), None], "faults");
    ensure!(bench.poll_once(&queue, 4).await?.is_empty(), "the message came again");
    Ok(())
}
