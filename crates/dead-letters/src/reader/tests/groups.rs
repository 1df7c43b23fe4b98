//! FIFO queues: no more than ten messages from a group are received until those are deleted.

use super::*;

/// Creates a FIFO queue with 35 messages in one group and 3 in another.
fn fifo_queue() -> (VirtualClock, EmbeddedQueue) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 7);
    let message = |n: usize| {
        let group = if n < 35 { "one" } else { "two" };
        let content = Content {
            body: n.to_string(),
            message_group_id: Some(group.to_owned()),
            deduplication_id: Some(n.to_string()),
            ..Content::default()
        };
        OutgoingMessage::new(content).unwrap()
    };
    let queue = clock.block_on(async {
        let queue = sqs.create_queue("dlq.fifo", &QueueSettings::default()).await.unwrap();
        for batch in pack_batches(&(0..38).map(message).collect::<Vec<_>>()) {
            assert!(queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
        queue
    });
    (clock, queue)
}

/// Without the number of full groups, the advice would be to run the command again, which shows the same ten messages.
#[test]
fn a_message_group_with_ten_held_messages_is_counted() {
    let (clock, queue) = fifo_queue();
    let (bodies, coverage) = clock.block_on(read(&queue, &clock)).unwrap();
    assert_eq!(bodies, (0..10).chain(35..38).collect::<Vec<_>>());
    assert_eq!((coverage.seen, coverage.approximate, coverage.complete), (13, 38, false));
    assert_eq!(coverage.full_groups, 1);
}

/// The caller may have read until `None` before it deletes any message.
#[test]
fn a_reader_that_returned_none_continues_after_deletions() {
    let (clock, queue) = fifo_queue();
    let bodies = clock.block_on(async {
        let mut reader = DeadLetterReader::new(&queue, &clock).await.unwrap();
        let mut first = Vec::new();
        while let Some(messages) = reader.next_messages().await.unwrap() {
            first.extend(messages);
        }
        assert_eq!(first.len(), 13);
        assert!(reader.delete_messages(&first.iter().collect::<Vec<_>>()).await.iter().all(Result::is_ok));
        let more = reader.next_messages().await.unwrap().unwrap_or_default();
        more.into_iter().map(|message| message.body).collect::<Vec<_>>()
    });
    assert_eq!(bodies, (10..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn messages_behind_deleted_ones_are_read_in_the_same_pass() {
    let (clock, queue) = fifo_queue();
    let (deleted, coverage) = clock.block_on(async {
        let mut reader = DeadLetterReader::new(&queue, &clock).await.unwrap();
        let mut deleted = Vec::new();
        while let Some(messages) = reader.next_messages().await.unwrap() {
            let all: Vec<_> = messages.iter().collect();
            assert!(reader.delete_messages(&all).await.iter().all(Result::is_ok));
            deleted.extend(messages.iter().map(|message| message.body.parse::<usize>().unwrap()));
        }
        (deleted, reader.finish().await)
    });
    let of_one: Vec<_> = deleted.iter().copied().filter(|n| *n < 35).collect();
    assert_eq!(of_one, (0..35).collect::<Vec<_>>(), "in order");
    assert_eq!((deleted.len(), coverage.complete, coverage.full_groups), (38, true, 0));
}
