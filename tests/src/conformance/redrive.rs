//! Redrive to a dead-letter queue.

use std::time::Duration;

use redeliver_core::message::{Attribute, Content, ReceivedMessage};
use redeliver_core::ports::{Clock, Queue, QueueService, QueueSettings, RedriveSettings};

use super::bench::{BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content, queue_settings};

/// Creates a queue with a visibility timeout of 1 s, and its dead-letter queue.
async fn create_queue_pair<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    max_receive_count: u16,
) -> Result<(S::Queue, S::Queue), BrokenRule> {
    let dlq = bench.create_queue(30).await?;
    let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count });
    let source = bench.create_queue_with_settings(&QueueSettings { redrive, ..queue_settings(1) }).await?;
    Ok((source, dlq))
}

/// Receives from the source, which must be empty, until the message is in the dead-letter queue.
async fn await_redrive<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    source: &S::Queue,
    dlq: &S::Queue,
) -> Result<ReceivedMessage, BrokenRule> {
    let give_up = bench.now() + Duration::from_secs(60);
    while bench.now() < give_up {
        ensure!(bench.poll_once(source, 1).await?.is_empty(), "delivered once more instead of moved");
        if let Some(message) = bench.poll_once(dlq, 1).await?.pop() {
            return Ok(message);
        }
    }
    Err(BrokenRule::new("the message was not moved within 60 s"))
}

pub(super) async fn a_redrive_happens_on_the_receive_after_the_maximum_count<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let (source, dlq) = create_queue_pair(bench, 2).await?;
    bench.send_all(&source, vec![plain_content("fails")]).await?;
    ensure_eq!(bench.receive_one(&source).await?.receive_count, 1, "ApproximateReceiveCount");
    ensure_eq!(bench.receive_one(&source).await?.receive_count, 2, "ApproximateReceiveCount");
    bench.sleep(Duration::from_secs(2)).await;
    ensure!(bench.poll_once(&dlq, 1).await?.is_empty(), "moved without a receive");
    await_redrive(bench, &source, &dlq).await?;
    Ok(())
}

pub(super) async fn a_redrive_keeps_the_message_and_names_its_source<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let (source, dlq) = create_queue_pair(bench, 1).await?;
    let content = Content {
        attributes: [("kind".to_owned(), Attribute::string("order"))].into(),
        message_group_id: Some("tenant-1".to_owned()),
        ..plain_content("fails")
    };
    bench.send_all(&source, vec![content]).await?;
    let before = bench.receive_one(&source).await?;
    let after = await_redrive(bench, &source, &dlq).await?;
    let expected = ReceivedMessage {
        receipt_handle: after.receipt_handle.clone(),
        receive_count: 2,
        redriven_from: Some(source.arn().to_owned()),
        queue_arn: dlq.arn().to_owned(),
        ..before
    };
    ensure_eq!(after, expected, "the redriven message");
    Ok(())
}
