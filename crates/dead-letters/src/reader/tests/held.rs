//! Tests of held messages: the in-flight limit, receipt handles, and expired visibility timeouts.

use crate::reader::patience::TRIES_MAX;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use redeliver_testing::altered::{Alteration, AlteredQueue, FullQueue};

#[test]
fn messages_read_before_the_in_flight_limit_are_counted_and_released() {
    for code in ["OverLimit", "AWS.SimpleQueueService.OverLimit"] {
        let world = world(50);
        let full = AlteredQueue(FullQueue {
            queue: &world.queue,
            in_flight_max: 20,
            code,
            receives: AtomicU32::new(0),
        });
        let (bodies, coverage) = world.clock.block_on(read(&full, &world.clock)).unwrap();
        assert_eq!(bodies.len(), 20);
        assert_eq!(
            coverage,
            Coverage {
                seen: 20,
                approximate: 50,
                complete: false,
                still_hidden: 0,
                unreadable: 0,
                reappeared: 0,
                full_groups: 0
            }
        );
        assert_eq!(world.depth(), (50, 0));
        // There are six receivers; two of them received messages and sent another request. Each of the six rejected
        // requests is tried five times.
        assert_eq!(full.0.receives.load(Ordering::Relaxed), 2 + 6 * TRIES_MAX);
        assert_eq!(
            world.clock.now(),
            Timestamp::UNIX_EPOCH + Duration::from_secs(3),
            "0.2 + 0.4 + 0.8 + 1.6"
        );
    }
}

#[test]
fn messages_from_a_receive_pending_at_the_end_are_released() {
    let world = world(160);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let first = reader.next_messages().await.unwrap().unwrap();
        assert!(first.len() <= 10);
        assert_eq!(reader.finish().await.still_hidden, 0);
    });
    assert_eq!(world.depth(), (160, 0));
}

#[test]
fn a_message_received_again_is_released_by_its_newest_handle() {
    let world = world(10);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        assert_eq!(reader.next_messages().await.unwrap().unwrap().len(), 10);
        world.clock.sleep(INITIAL_VISIBILITY_TIMEOUT + Duration::from_secs(1)).await;
        assert_eq!(
            reader.next_messages().await.unwrap().map(|messages| messages.len()),
            None,
            "none are new"
        );
        let coverage = reader.finish().await;
        assert_eq!(
            coverage,
            Coverage {
                seen: 10,
                approximate: 10,
                complete: true,
                still_hidden: 0,
                unreadable: 0,
                reappeared: 10,
                full_groups: 0
            }
        );
    });
    assert_eq!(world.depth(), (10, 0));
}

#[test]
fn a_message_received_again_is_deleted_by_its_newest_handle() {
    let world = world(10);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let messages = reader.next_messages().await.unwrap().unwrap();
        world.clock.sleep(INITIAL_VISIBILITY_TIMEOUT + Duration::from_secs(1)).await;
        assert_eq!(reader.next_messages().await.unwrap().map(|messages| messages.len()), None);
        // SQS reports success for an older handle, without deleting the message.
        assert_eq!(
            reader.delete_messages(&messages.iter().collect::<Vec<_>>()).await,
            [const { Ok(()) }; 10]
        );
        reader.finish().await;
    });
    assert_eq!(world.depth(), (0, 0));
}

#[test]
fn unreadable_messages_received_at_the_end_are_counted_and_released() {
    let world = world_with_bodies((0..160).map(|n| if n < 150 { GARBLED.to_owned() } else { n.to_string() }));
    let queue = GarbledBodies::wrap_queue(&world.queue);
    world.clock.block_on(async {
        let reader = DeadLetterReader::new(&queue, &world.clock).await.unwrap();
        let coverage = reader.finish().await;
        assert_eq!((coverage.seen, coverage.unreadable, coverage.still_hidden), (10, 150, 0));
    });
    assert_eq!(world.depth(), (160, 0));
}

#[test]
fn a_message_that_others_may_have_received_does_not_count_as_deleted() {
    let world = world(10);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        let messages = reader.next_messages().await.unwrap().unwrap();
        world.clock.sleep(INITIAL_VISIBILITY_TIMEOUT + Duration::from_secs(1)).await;
        let request = ReceiveOptions { max_messages: 4, wait: Duration::ZERO, visibility: None };
        assert_eq!(world.queue.receive(request).await.unwrap().len(), 4);
        // SQS reports success for all ten, but four of them still exist.
        let deleted = reader.delete_messages(&messages.iter().collect::<Vec<_>>()).await;
        assert_eq!(deleted, [const { Err(DeletionError::VisibleToOthers) }; 10]);
        reader.finish().await;
    });
    assert_eq!(world.depth(), (0, 4));
}

/// A queue on which requests take effect immediately, but responses arrive half a minute later.
struct LateResponses<'a> {
    world: &'a World,
    moment: Timestamp,
}

impl Alteration for LateResponses<'_> {
    fn inner_queue(&self) -> &EmbeddedQueue {
        &self.world.queue
    }

    async fn run_request<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        let is_late = self.world.clock.now() == self.moment;
        let answer = request.await;
        if is_late {
            self.world.clock.sleep(Duration::from_secs(30)).await;
        }
        answer
    }
}

#[test]
fn a_deletion_counts_even_if_a_later_extension_is_rejected() {
    let world = world(10);
    let deleting = Timestamp::UNIX_EPOCH + Duration::from_secs(59);
    let late = AlteredQueue(LateResponses { world: &world, moment: deleting });
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&late, &world.clock).await.unwrap();
        let messages = reader.next_messages().await.unwrap().unwrap();
        // The deletion starts a second before the extension is due. SQS rejects extensions of deleted messages.
        world.clock.sleep(deleting.signed_duration_since(world.clock.now()).to_std().unwrap()).await;
        world.inject_fault(
            SqsAction::ChangeMessageVisibilityBatch,
            FaultTrigger::Chance(1.0),
            Injection::Sender,
        );
        assert_eq!(
            reader.delete_messages(&messages.iter().collect::<Vec<_>>()).await,
            [const { Ok(()) }; 10]
        );
        assert!(messages.iter().all(|message| !reader.is_hidden(message)), "they are not held any more");
        assert!(reader.finish().await.complete);
    });
    assert_eq!(world.depth(), (0, 0));
}

/// SQS hides a message from the time that it receives the request. If the timeout were counted from the response,
/// messages that another program holds would be deleted.
#[test]
fn an_extension_counts_from_its_request_not_its_response() {
    let world = world(10);
    let extending = Timestamp::UNIX_EPOCH + Duration::from_secs(60);
    let late = AlteredQueue(LateResponses { world: &world, moment: extending });
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&late, &world.clock).await.unwrap();
        let messages = reader.next_messages().await.unwrap().unwrap();
        // The extension is requested at second 60 and takes effect immediately; its response arrives at second 90. All
        // later extensions fail.
        let sleep_until =
            |second| world.clock.sleep_until(Timestamp::UNIX_EPOCH + Duration::from_secs(second));
        reader.hold_messages_during(sleep_until(100)).await;
        world.inject_fault(
            SqsAction::ChangeMessageVisibilityBatch,
            FaultTrigger::Chance(1.0),
            Injection::Throttled,
        );
        reader.hold_messages_during(sleep_until(179)).await;
        assert!(messages.iter().all(|message| reader.is_hidden(message)));
        assert_eq!(world.queue.depth().await.unwrap().visible, 0);
        reader.hold_messages_during(sleep_until(181)).await;
        assert!(!messages.iter().any(|message| reader.is_hidden(message)), "it ended at second 180");
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        assert_eq!(world.queue.receive(request).await.unwrap().len(), 10, "another program has them");
        let deleted = reader.delete_messages(&messages.iter().collect::<Vec<_>>()).await;
        assert_eq!(deleted, [const { Err(DeletionError::VisibleToOthers) }; 10]);
        reader.finish().await;
    });
    assert_eq!(world.depth(), (0, 10));
}
