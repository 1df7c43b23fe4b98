//! Messages stay hidden while the caller works: each visibility timeout is extended repeatedly.

use redeliver_core::limits::VisibilitySeconds;

use super::*;

/// Receives as another program would. Returns the number of visible messages received.
fn receive_elsewhere(world: &World) -> usize {
    let request =
        ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: VisibilitySeconds::new(30) };
    world.clock.block_on(world.queue.receive(request)).unwrap().len()
}

async fn read_first_messages(
    reader: &mut DeadLetterReader<'_, EmbeddedQueue, VirtualClock>,
) -> Vec<ReceivedMessage> {
    reader.next_messages().await.unwrap().unwrap()
}

#[test]
fn held_messages_stay_hidden_while_there_is_work() {
    let world = world(40);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let messages = read_first_messages(&mut reader).await;
        for _ in 0..60 {
            reader.hold_messages_during(world.clock.sleep(Duration::from_secs(60))).await;
            let visible = world.queue.depth().await.unwrap().visible;
            assert_eq!((visible, messages.iter().all(|message| reader.is_hidden(message))), (0, true));
        }
        assert!(reader.delete_messages(&messages.iter().collect::<Vec<_>>()).await.iter().all(Result::is_ok));
        let mut seen = messages.len();
        while let Some(messages) = reader.next_messages().await.unwrap() {
            seen += messages.len();
        }
        let coverage = reader.finish().await;
        assert_eq!((seen, coverage.seen, coverage.complete, coverage.still_hidden), (40, 40, true, 0));
    });
    assert_eq!(world.depth(), (30, 0));
}

#[test]
fn prefetched_messages_are_held_and_no_more_are_requested() {
    let world = world(1000);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        read_first_messages(&mut reader).await;
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(3600))).await;
        let depth = world.queue.depth().await.unwrap();
        assert_eq!(
            (depth.visible, depth.in_flight),
            (830, 170),
            "sixteen pending requests, plus the one already returned"
        );
        reader.finish().await;
    });
    assert_eq!(world.depth(), (1000, 0));
}

#[test]
fn an_extension_is_retried_only_for_entries_that_failed_temporarily() {
    let world = world(10);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let messages = read_first_messages(&mut reader).await;
        // In the first request, one entry is rejected permanently, and two fail temporarily.
        let rule = |numbers: &[u64], injection| FaultRule {
            action: SqsAction::ChangeMessageVisibilityBatch,
            queue: None,
            scope: FaultScope::Entry,
            when: FaultTrigger::Numbers(numbers.to_vec()),
            injection,
        };
        let faults = FaultPlan::new(1).with_rule(rule(&[3], Injection::Sender));
        let faults = faults
            .with_rule(rule(&[5, 6, 11], Injection::Throttled))
            .with_rule(rule(&[12], Injection::LostRequest));
        world.sqs.set_faults(faults);
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(119))).await;
        assert_eq!(messages.iter().filter(|message| reader.is_hidden(message)).count(), 9);
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(600))).await;
        let visible = world.queue.depth().await.unwrap().visible;
        assert_eq!((visible, messages.iter().filter(|message| reader.is_hidden(message)).count()), (1, 9));
        reader.finish().await;
    });
    assert_eq!(world.depth(), (10, 0));
}

#[test]
fn a_message_held_for_twelve_hours_is_received_again() {
    let world = world(10);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let messages = read_first_messages(&mut reader).await;
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(43_200 - 300))).await;
        assert!(messages.iter().all(|message| reader.is_hidden(message)));
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(301))).await;
        assert!(
            !messages.iter().any(|message| reader.is_hidden(message)),
            "SQS hides a message for at most 12 hours"
        );
        assert_eq!(world.queue.depth().await.unwrap().visible, 10);
        reader.finish().await;
    });
}

#[test]
fn messages_held_by_a_killed_reader_are_visible_again_within_two_minutes() {
    let world = world(20);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        read_first_messages(&mut reader).await;
        reader.hold_messages_during(world.clock.sleep(Duration::from_secs(5000))).await;
        drop(reader);
        world.clock.sleep(Duration::from_secs(120)).await;
    });
    assert_eq!(world.depth(), (20, 0));
    assert_eq!(receive_elsewhere(&world), 10);
}

#[test]
fn a_late_extension_does_not_hide_a_released_message() {
    let world = world(10);
    let slow = AlteredQueue(SlowRequests { queue: &world.queue, clock: &world.clock });
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&slow, &world.clock).await.unwrap();
        while reader.next_messages().await.unwrap().is_some() {}
        // The extension was requested at 60 s, and has not completed yet.
        let started = Timestamp::UNIX_EPOCH + Duration::from_millis(60_012);
        reader.hold_messages_during(world.clock.sleep_until(started)).await;
        assert_eq!(reader.finish().await.still_hidden, 0);
    });
    assert_eq!(world.depth(), (10, 0));
}
