mod extended;
mod groups;
mod held;
mod slow;

use std::collections::BTreeSet;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
use redeliver_core::ports::QueueDepth as _;
use redeliver_core::ports::{Fault, QueueSender as _, QueueService as _, QueueSettings};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use super::*;
use redeliver_testing::altered::{AlteredQueue, GARBLED, GarbledBodies, SlowRequests};

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    queue: EmbeddedQueue,
}

/// Creates a queue with `count` messages.
fn world(count: usize) -> World {
    world_with_bodies((0..count).map(|n| n.to_string()))
}

/// Creates a queue of messages with these bodies.
fn world_with_bodies(bodies: impl IntoIterator<Item = String>) -> World {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 7);
    let queue = clock.block_on(async {
        let queue = sqs.create_queue("dlq", &QueueSettings::default()).await.unwrap();
        let messages: Vec<_> = bodies
            .into_iter()
            .map(|body| OutgoingMessage::new(Content { body, ..Content::default() }).unwrap())
            .collect();
        for batch in pack_batches(&messages) {
            assert!(queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
        queue
    });
    World { clock, sqs, queue }
}

async fn read(queue: &impl Queue, clock: &VirtualClock) -> Result<(Vec<usize>, Coverage), ReaderError> {
    let mut reader = DeadLetterReader::new(queue, clock).await?;
    let mut bodies = Vec::new();
    let outcome = loop {
        match reader.next_messages().await {
            Ok(Some(messages)) => {
                bodies.extend(messages.iter().map(|message| message.body.parse::<usize>().unwrap()))
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    let coverage = reader.finish().await;
    bodies.sort_unstable();
    outcome.map(|()| (bodies, coverage))
}

impl World {
    /// Reads the whole queue, and returns the bodies in order and the coverage.
    fn read(&self) -> Result<(Vec<usize>, Coverage), ReaderError> {
        self.clock.block_on(read(&self.queue, &self.clock))
    }

    fn depth(&self) -> (u64, u64) {
        let depth = self.clock.block_on(self.queue.depth()).unwrap();
        (depth.visible, depth.in_flight)
    }

    fn inject_fault(&self, action: SqsAction, when: FaultTrigger, injection: Injection) {
        let rule = FaultRule { action, queue: None, scope: FaultScope::Request, when, injection };
        self.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    }
}

#[test]
fn every_message_is_seen_once_and_becomes_visible_again() {
    let world = world(1234);
    let (bodies, coverage) = world.read().unwrap();
    assert_eq!(bodies, (0..1234).collect::<Vec<_>>());
    assert_eq!(
        coverage,
        Coverage {
            seen: 1234,
            approximate: 1234,
            unreadable: 0,
            complete: true,
            still_hidden: 0,
            reappeared: 0,
            full_groups: 0
        }
    );
    assert_eq!(world.depth(), (1234, 0));
    assert_eq!(world.read().unwrap().0.len(), 1234, "the messages can be read again immediately");
}

#[test]
fn an_empty_queue_is_read_completely() {
    let world = world(0);
    assert_eq!(
        world.read().unwrap().1,
        Coverage {
            seen: 0,
            approximate: 0,
            unreadable: 0,
            complete: true,
            still_hidden: 0,
            reappeared: 0,
            full_groups: 0
        }
    );
}

#[test]
fn messages_in_flight_elsewhere_make_the_coverage_incomplete() {
    let world = world(20);
    let request =
        ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: VisibilitySeconds::new(3600) };
    let elsewhere = world.clock.block_on(world.queue.receive(request)).unwrap().len() as u64;
    let coverage = world.read().unwrap().1;
    let expected = Coverage {
        seen: 20 - elsewhere,
        approximate: 20,
        unreadable: 0,
        complete: false,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    assert_eq!(coverage, expected);
    assert_eq!(world.depth(), (20 - elsewhere, elsewhere));
}

#[test]
fn throttled_requests_are_retried_and_no_message_stays_hidden() {
    for action in [SqsAction::ReceiveMessage, SqsAction::ChangeMessageVisibilityBatch] {
        let world = world(300);
        world.inject_fault(action, FaultTrigger::Chance(0.3), Injection::Throttled);
        let (bodies, coverage) = world.read().unwrap();
        assert_eq!(bodies.into_iter().collect::<BTreeSet<_>>().len(), 300, "{action:?}");
        assert!(coverage.complete, "{action:?}: {coverage:?}");
        assert_eq!(world.depth(), (300, 0), "{action:?}");
    }
}

#[test]
fn a_rejected_receive_is_an_error_and_no_message_stays_hidden() {
    let world = world(50);
    world.inject_fault(SqsAction::ReceiveMessage, FaultTrigger::Chance(1.0), Injection::Sender);
    let error = world.read().unwrap_err();
    assert_eq!(error.error.fault, Fault::Sender);
    assert_eq!(world.depth(), (50, 0));
}

#[test]
fn a_deleted_message_is_not_released() {
    let world = world(3);
    world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&world.queue, &world.clock).await.unwrap();
        while let Some(messages) = reader.next_messages().await.unwrap() {
            for message in messages {
                if message.body == "1" {
                    assert_eq!(reader.delete_messages(&[&message]).await, [Ok(())]);
                }
            }
        }
        let coverage = reader.finish().await;
        assert_eq!((coverage.seen, coverage.still_hidden, coverage.complete), (3, 0, true));
    });
    assert_eq!(world.depth(), (2, 0));
}

#[test]
fn unreadable_messages_are_counted_and_released() {
    // The receiver continues after responses that contain only unreadable messages.
    let world = world_with_bodies((0..100).map(|n| if n < 90 { GARBLED.to_owned() } else { n.to_string() }));
    let queue = GarbledBodies::wrap_queue(&world.queue);
    let (seen, coverage) = world.clock.block_on(async {
        let mut reader = DeadLetterReader::new(&queue, &world.clock).await.unwrap();
        let mut seen = 0;
        while let Some(messages) = reader.next_messages().await.unwrap() {
            seen += messages.len();
        }
        (seen, reader.finish().await)
    });
    assert_eq!(seen, 10);
    let expected = Coverage {
        seen: 10,
        approximate: 100,
        unreadable: 90,
        complete: false,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    assert_eq!(coverage, expected);
    assert_eq!(world.depth(), (100, 0));
}
