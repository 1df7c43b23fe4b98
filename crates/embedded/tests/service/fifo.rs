//! FIFO queues: the order within a group, compared with a naive model, and behavior that is visible only in virtual
//! time.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join;
use proptest::prelude::*;
use redeliver_core::message::{Content, OutgoingMessage, ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Clock, EntryError, Fault, Queue, QueueDepth as _, QueueService, QueueSettings, ReceiveOptions,
    RedriveSettings, VisibilityControl as _,
};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};

use crate::support::{elapsed, message, receive, seconds, send, service};

const VISIBILITY_SECONDS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Send {
        group: usize,
    },
    Receive {
        max: u8,
        visibility_seconds: Option<u64>,
    },
    /// Uses the n-th receipt handle ever issued, even if it is stale.
    Delete {
        nth: prop::sample::Index,
    },
    ChangeVisibility {
        nth: prop::sample::Index,
        visibility_seconds: u64,
    },
    Wait {
        seconds: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize).prop_map(|group| Step::Send { group }),
        4 => (1..=4_u8, prop::option::of(0..15_u64))
            .prop_map(|(max, visibility_seconds)| Step::Receive { max, visibility_seconds }),
        2 => any::<prop::sample::Index>().prop_map(|nth| Step::Delete { nth }),
        2 => (any::<prop::sample::Index>(), 0..15_u64)
            .prop_map(|(nth, visibility_seconds)| Step::ChangeVisibility { nth, visibility_seconds }),
        1 => (0..8_u64).prop_map(|seconds| Step::Wait { seconds }),
    ];
    prop::collection::vec(step, 0..80)
}

/// All undeleted messages, in send order.
#[derive(Debug, Default)]
struct Model {
    messages: Vec<ExpectedMessage>,
    /// The handle and the body of each received message, in receive order.
    handles: Vec<(String, String)>,
}

#[derive(Debug)]
struct ExpectedMessage {
    body: String,
    group: String,
    visible_at: Timestamp,
    /// The handle of the latest receive.
    handle: Option<String>,
}

impl Model {
    /// Returns the messages that a receive may return, by group: all in a group, or none while one is in flight.
    fn available_messages(&self, now: Timestamp) -> BTreeMap<&str, Vec<&str>> {
        let mut groups = BTreeMap::<&str, Vec<&str>>::new();
        for message in &self.messages {
            groups.entry(&message.group).or_default().push(&message.body);
        }
        for message in self.messages.iter().filter(|message| message.visible_at > now) {
            groups.remove(&*message.group);
        }
        groups
    }

    fn is_in_flight(&self, handle: &str, now: Timestamp) -> bool {
        let is_match =
            |message: &ExpectedMessage| message.handle.as_deref() == Some(handle) && message.visible_at > now;
        self.messages.iter().any(is_match)
    }

    fn receive(&mut self, received: &[ReceivedMessage], max: usize, until: Timestamp, now: Timestamp) {
        let available = self.available_messages(now);
        let total: usize = available.values().map(Vec::len).sum();
        assert_eq!(received.len(), total.min(max));
        let mut given = BTreeMap::<_, Vec<_>>::new();
        for message in received {
            given.entry(message.message_group_id.as_deref().unwrap()).or_default().push(&*message.body);
        }
        for (group, bodies) in given {
            assert!(available[group].starts_with(&bodies), "{bodies:?} of {available:?}");
        }
        for one in received {
            let message = self.messages.iter_mut().find(|message| message.body == one.body).unwrap();
            message.visible_at = until;
            message.handle = Some(one.receipt_handle.clone());
            self.handles.push((one.receipt_handle.clone(), one.body.clone()));
        }
    }
}

fn ordered_message(body: &str, group: &str) -> OutgoingMessage {
    deduplicated_message(body, group, body)
}

fn deduplicated_message(body: &str, group: &str, deduplication_id: &str) -> OutgoingMessage {
    OutgoingMessage::new(Content {
        body: body.to_owned(),
        message_group_id: Some(group.to_owned()),
        deduplication_id: Some(deduplication_id.to_owned()),
        ..Content::default()
    })
    .unwrap()
}

async fn create_fifo_queue(sqs: &EmbeddedSqs) -> EmbeddedQueue {
    let settings = QueueSettings { visibility: seconds(VISIBILITY_SECONDS), ..QueueSettings::default() };
    sqs.create_queue("q.fifo", &settings).await.unwrap()
}

fn bodies(messages: &[ReceivedMessage]) -> Vec<&str> {
    messages.iter().map(|message| &*message.body).collect()
}

fn sender_fault(code: &str) -> EntryError {
    EntryError::new(Fault::Sender, code)
}

async fn check_steps(clock: &VirtualClock, sqs: &EmbeddedSqs, steps: Vec<Step>) {
    let queue = create_fifo_queue(sqs).await;
    let mut model = Model::default();
    for (number, step) in steps.into_iter().enumerate() {
        let now = clock.now();
        match step {
            Step::Send { group } => {
                let (body, group) = (number.to_string(), format!("group-{group}"));
                send(&queue, &[ordered_message(&body, &group)]).await[0].as_ref().unwrap();
                model.messages.push(ExpectedMessage { body, group, visible_at: now, handle: None });
            }
            Step::Receive { max, visibility_seconds } => {
                let visibility = visibility_seconds.map(seconds);
                let request = ReceiveOptions { max_messages: max, wait: Duration::ZERO, visibility };
                let received = queue.receive(request).await.unwrap();
                let hidden = Duration::from_secs(visibility_seconds.unwrap_or(VISIBILITY_SECONDS));
                model.receive(&received, max.into(), now + hidden, now);
            }
            Step::Delete { nth } if !model.handles.is_empty() => {
                let (handle, body) = nth.get(&model.handles).clone();
                let exists = model.messages.iter().any(|message| message.body == body);
                let is_in_flight = model.is_in_flight(&handle, now);
                let outcome = queue.delete_batch(&[handle]).await.remove(0);
                assert_eq!(outcome.is_ok(), is_in_flight || !exists, "an expired handle deletes nothing");
                if is_in_flight {
                    model.messages.retain(|message| message.body != body);
                }
            }
            Step::ChangeVisibility { nth, visibility_seconds } if !model.handles.is_empty() => {
                let (handle, body) = nth.get(&model.handles).clone();
                let is_in_flight = model.is_in_flight(&handle, now);
                let entry = [(handle, seconds(visibility_seconds))];
                let outcome = queue.change_visibility_batch(&entry).await.remove(0);
                assert_eq!(outcome.is_ok(), is_in_flight);
                if is_in_flight {
                    let message = model.messages.iter_mut().find(|message| message.body == body).unwrap();
                    message.visible_at = now + Duration::from_secs(visibility_seconds);
                }
            }
            Step::Delete { .. } | Step::ChangeVisibility { .. } => {}
            Step::Wait { seconds } => clock.sleep(Duration::from_secs(seconds)).await,
        }
        assert_eq!(queue.depth().await.unwrap().total(), model.messages.len() as u64, "no message is lost");
    }
}

proptest! {
    #[test]
    fn each_group_is_received_in_order_and_by_one_receive_at_a_time(steps in steps()) {
        let (clock, sqs) = service();
        clock.block_on(check_steps(&clock, &sqs, steps));
    }
}

#[test]
fn a_receive_returns_as_many_messages_of_one_group_as_possible() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        let sent = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a")];
        send(&queue, &sent.map(|(body, group)| ordered_message(body, group))).await;
        let request = ReceiveOptions { max_messages: 4, wait: Duration::ZERO, visibility: None };
        let received = queue.receive(request).await.unwrap();
        assert_eq!(bodies(&received), ["a1", "a2", "a3", "b1"]);
        assert!(receive(&queue, 0).await.is_empty(), "both groups are in flight");
    });
}

#[test]
fn a_long_poll_wakes_when_the_message_in_flight_is_deleted() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        send(&queue, &[ordered_message("a1", "a")]).await;
        let handle = receive(&queue, 0).await[0].receipt_handle.clone();
        send(&queue, &[ordered_message("a2", "a")]).await;
        assert!(receive(&queue, 2).await.is_empty());
        assert_eq!(elapsed(&clock), 2);
        let delete = async {
            clock.sleep(Duration::from_secs(1)).await;
            queue.delete_batch(&[handle]).await
        };
        let (received, deleted) = join(receive(&queue, 20), delete).await;
        assert_eq!((bodies(&received), deleted, elapsed(&clock)), (vec!["a2"], vec![Ok(())], 3));
        assert_eq!(bodies(&receive(&queue, 20).await), ["a2"], "the visibility timeout is over");
        assert_eq!(elapsed(&clock), 8);
    });
}

#[test]
fn a_repeated_send_within_five_minutes_is_confirmed_but_not_added() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        let first = send(&queue, &[deduplicated_message("first", "a", "id")]).await;
        let handle = receive(&queue, 0).await[0].receipt_handle.clone();
        assert_eq!(queue.delete_batch(&[handle]).await, [Ok(())]);
        clock.sleep(Duration::from_millis(299_999)).await;
        assert_eq!(send(&queue, &[deduplicated_message("again", "b", "id")]).await, first);
        assert_eq!(queue.depth().await.unwrap().total(), 0);
        clock.sleep(Duration::from_millis(1)).await;
        assert_ne!(send(&queue, &[deduplicated_message("later", "b", "id")]).await, first);
        assert_eq!(bodies(&receive(&queue, 0).await), ["later"]);
    });
}

#[test]
fn a_redrive_keeps_the_group_and_restarts_the_retention_period() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let dlq = sqs.create_queue("dlq.fifo", &QueueSettings::default()).await.unwrap();
        let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count: 1 });
        let settings = QueueSettings { visibility: seconds(1), redrive, ..QueueSettings::default() };
        let source = sqs.create_queue("q.fifo", &settings).await.unwrap();
        send(&source, &[ordered_message("a1", "a"), ordered_message("a2", "a")]).await;
        clock.sleep(settings.retention - Duration::from_secs(10)).await;
        receive(&source, 0).await;
        send(&source, &[ordered_message("a3", "a")]).await;
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(bodies(&receive(&source, 0).await), ["a3"], "the others are moved");
        clock.sleep(settings.retention - Duration::from_secs(1)).await;
        let moved = receive(&dlq, 0).await;
        assert_eq!(bodies(&moved), ["a1", "a2"]);
        assert!(moved.iter().all(|message| message.message_group_id.as_deref() == Some("a")));
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(dlq.depth().await.unwrap().total(), 0);
    });
}

#[test]
fn a_dead_letter_queue_must_be_of_the_same_type_as_its_source_queue() {
    let (clock, sqs) = service();
    clock.block_on(async {
        for (name, dlq) in [("a.fifo", "x"), ("a", "x.fifo")] {
            let dlq = sqs.create_queue(dlq, &QueueSettings::default()).await.unwrap();
            let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count: 1 });
            let settings = QueueSettings { redrive, ..QueueSettings::default() };
            let refused = sqs.create_queue(name, &settings).await.unwrap_err();
            assert_eq!(refused, sender_fault("InvalidParameterValue"), "{name}");
        }
    });
}

#[test]
fn a_standard_queue_refuses_a_deduplication_id_that_a_fifo_queue_needs() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        let outcomes = send(&queue, &[message("no group", 0), ordered_message("right", "a")]).await;
        assert_eq!(outcomes[0], Err(sender_fault("MissingParameter")));
        assert!(outcomes[1].is_ok(), "alone");
        let standard = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        let refused = Err(sender_fault("InvalidParameterValue"));
        assert_eq!(send(&standard, &[ordered_message("m", "a")]).await, [refused]);
    });
}

/// See "Avoid large message backlogs with the same message group ID in Amazon SQS".
#[test]
fn a_group_backlog_hides_groups_behind_its_first_120_000_messages() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        let backlog: Vec<_> = (0..120_000).map(|number| ordered_message(&number.to_string(), "a")).collect();
        send(&queue, &backlog).await;
        send(&queue, &[ordered_message("behind", "b")]).await;
        let one = ReceiveOptions { max_messages: 1, wait: Duration::ZERO, visibility: None };
        let first = queue.receive(one).await.unwrap();
        assert_eq!(bodies(&first), ["0"]);
        assert!(
            queue.receive(ReceiveOptions { wait: Duration::from_secs(2), ..one }).await.unwrap().is_empty()
        );
        queue.delete_batch(&[first[0].receipt_handle.clone()]).await;
        assert_eq!(bodies(&queue.receive(one).await.unwrap()), ["1"]);
        assert_eq!(bodies(&queue.receive(one).await.unwrap()), ["behind"]);
    });
}

/// "If this limit is reached, Amazon SQS does not return an error" ("Amazon SQS FIFO queue quotas").
#[test]
fn with_120_000_messages_in_flight_a_receive_is_empty() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = create_fifo_queue(&sqs).await;
        let messages: Vec<_> =
            (0..120_001).map(|number| ordered_message(&number.to_string(), &number.to_string())).collect();
        send(&queue, &messages).await;
        for _ in 0..12_000 {
            assert_eq!(receive(&queue, 0).await.len(), 10);
        }
        assert!(receive(&queue, 3).await.is_empty());
        assert_eq!(receive(&queue, 20).await.len(), 10);
        assert_eq!(elapsed(&clock), 5, "the visibility timeout");
    });
}
