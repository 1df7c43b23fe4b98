//! Sending: batches and delays.

use std::time::Duration;

use redeliver_core::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, DelaySeconds};
use redeliver_core::message::{Attribute, Content};
use redeliver_core::ports::{Clock, Queue, QueueService};

use super::bench::{BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content, queue_settings};

pub(super) async fn batch_outcomes_are_in_entry_order<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let ids =
        bench.send_all(&queue, vec![plain_content("a"), plain_content("b"), plain_content("c")]).await?;
    let received = bench.receive_at_least(&queue, 3).await?;
    let seen: Vec<_> = received.iter().map(|message| (&message.sqs_message_id, &*message.body)).collect();
    ensure_eq!(seen, [(&ids[0], "a"), (&ids[1], "b"), (&ids[2], "c")], "messages by id");
    Ok(())
}

pub(super) async fn a_full_batch_of_ten_is_accepted<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    bench
        .send_all(&queue, (0..BATCH_ENTRIES_MAX).map(|number| plain_content(number.to_string())).collect())
        .await?;
    let received = bench.receive_at_least(&queue, BATCH_ENTRIES_MAX).await?;
    let bodies: Vec<_> = received.iter().map(|message| &*message.body).collect();
    ensure_eq!(bodies, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "bodies");
    Ok(())
}

pub(super) async fn a_batch_of_exactly_one_mebibyte_is_accepted<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let attribute = ("kind".to_owned(), Attribute::string("half"));
    let attribute_size = attribute.1.size(&attribute.0);
    let half = |letter: &str| Content {
        body: letter.repeat(BATCH_BYTES_MAX / 2 - attribute_size),
        attributes: [attribute.clone()].into(),
        ..Content::default()
    };
    bench.send_all(&queue, vec![half("a"), half("b")]).await?;
    let received = bench.receive_at_least(&queue, 2).await?;
    ensure!(
        received.iter().map(|message| &message.body).eq([&half("a").body, &half("b").body]),
        "other bodies than those sent"
    );
    Ok(())
}

pub(super) async fn a_delayed_message_arrives_after_its_delay_but_not_much_later<
    S: QueueService,
    C: Clock,
>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let delay = DelaySeconds::saturating(3);
    let start = bench.now();
    bench
        .send_all(&queue, vec![Content { delay, ..plain_content("delayed") }, plain_content("at once")])
        .await?;
    ensure_eq!(bench.receive_one(&queue).await?.body, "at once", "the first message");
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "the delayed message came early");
    ensure_eq!(bench.receive_one(&queue).await?.body, "delayed", "the second message");
    bench.ensure_elapsed(start, delay.duration(), "the delayed message came")
}

pub(super) async fn creating_an_existing_queue_returns_it<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(7).await?;
    let name = queue.arn().rsplit(':').next().unwrap_or_default();
    let again = bench.service().create_queue(name, &queue_settings(7)).await?;
    ensure_eq!((again.arn(), again.url()), (queue.arn(), queue.url()), "ARN and URL");
    bench.sleep(Duration::from_secs(1)).await;
    bench.send_all(&queue, vec![plain_content("one queue")]).await?;
    ensure_eq!(bench.receive_one(&again).await?.body, "one queue", "the body");
    Ok(())
}
