//! Checks that no message is lost: after any sequence of requests, every message is where a naive model expects it.

use std::time::Duration;

use proptest::prelude::*;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{
    Clock, Depth, Queue, QueueDepth as _, QueueService, QueueSettings, ReceiveOptions, RedriveSettings,
    VisibilityControl as _,
};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, MessageChange};

use crate::support::{Totals, message, seconds, send, service};

const RETENTION: [u64; 2] = [60, 90];
const MAX_RECEIVE_COUNT: u32 = 2;
const VISIBILITY_SECONDS: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Send {
        queue: usize,
        delay_seconds: u64,
    },
    Receive {
        queue: usize,
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
        3 => (0..2_usize, 0..20_u64).prop_map(|(queue, delay_seconds)| Step::Send { queue, delay_seconds }),
        4 => (0..2_usize, 1..=10_u8, prop::option::of(0..15_u64))
            .prop_map(|(queue, max, visibility_seconds)| Step::Receive { queue, max, visibility_seconds }),
        2 => any::<prop::sample::Index>().prop_map(|nth| Step::Delete { nth }),
        1 => (any::<prop::sample::Index>(), 0..15_u64)
            .prop_map(|(nth, visibility_seconds)| Step::ChangeVisibility { nth, visibility_seconds }),
        3 => (0..25_u64).prop_map(|seconds| Step::Wait { seconds }),
    ];
    prop::collection::vec(step, 0..80)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InQueue,
    Deleted,
    Expired,
}

#[derive(Debug)]
struct ModelMessage {
    number: usize,
    queue: usize,
    state: State,
    sent_at: u64,
    visible_at: u64,
    receive_count: u32,
    /// The latest receive from its current queue.
    receive: Option<usize>,
}

#[derive(Default)]
struct Model {
    now: u64,
    messages: Vec<ModelMessage>,
    /// Queue, message and receipt handle of every receive.
    receives: Vec<(usize, usize, String)>,
    moved: u64,
}

impl Model {
    fn wait(&mut self, seconds: u64) {
        self.now += seconds;
        for message in self.messages.iter_mut().filter(|message| message.state == State::InQueue) {
            if message.sent_at + RETENTION[message.queue] <= self.now {
                message.state = State::Expired;
            }
        }
    }

    fn receive(&mut self, queue: usize, max: usize, visibility: u64) -> Vec<usize> {
        let mut visible: Vec<&mut ModelMessage> = (self.messages.iter_mut())
            .filter(|m| m.state == State::InQueue && m.queue == queue && m.visible_at <= self.now)
            .collect();
        visible.sort_by_key(|message| (message.visible_at, message.number));
        let mut received = Vec::new();
        for message in visible {
            if received.len() == max {
                break;
            }
            if queue == 0 && message.receive_count >= MAX_RECEIVE_COUNT {
                (message.queue, message.visible_at, message.receive) = (1, self.now, None);
                self.moved += 1;
                continue;
            }
            message.receive_count += 1;
            message.visible_at = self.now + visibility;
            message.receive = Some(self.receives.len() + received.len());
            received.push(message.number);
        }
        received
    }

    /// Returns the message that the n-th receive still refers to.
    fn leased_message(&mut self, nth: usize) -> Option<&mut ModelMessage> {
        let number = self.receives[nth].1;
        let message = &mut self.messages[number];
        (message.state == State::InQueue && message.receive == Some(nth)).then_some(message)
    }

    fn depth(&self, queue: usize) -> Depth {
        let mut depth = Depth::default();
        for message in self.messages.iter().filter(|m| m.state == State::InQueue && m.queue == queue) {
            match (message.visible_at > self.now, message.receive) {
                (false, _) => depth.visible += 1,
                (true, Some(_)) => depth.in_flight += 1,
                (true, None) => depth.delayed += 1,
            }
        }
        depth
    }

    fn count_in_state(&self, state: State) -> u64 {
        self.messages.iter().filter(|message| message.state == state).count() as u64
    }
}

async fn assert_matches_model(
    model: &Model,
    sqs: &EmbeddedSqs,
    queues: &[EmbeddedQueue],
    changes: &mut Vec<MessageChange>,
) {
    for (number, queue) in queues.iter().enumerate() {
        assert_eq!(queue.depth().await, Ok(model.depth(number)));
    }
    changes.extend(sqs.take_changes());
    let totals: Vec<_> = queues.iter().map(|queue| Totals::from_changes(queue, changes)).collect();
    let sum = |part: fn(&Totals) -> u64| totals.iter().map(part).sum::<u64>();
    assert_eq!(sum(|t| t.sent), model.messages.len() as u64);
    assert_eq!(sum(|t| t.deleted), model.count_in_state(State::Deleted));
    assert_eq!(sum(|t| t.expired), model.count_in_state(State::Expired));
    assert_eq!((totals[0].moved_out, totals[1].moved_in), (model.moved, model.moved));
}

async fn create_queues(sqs: &EmbeddedSqs) -> [EmbeddedQueue; 2] {
    let settings = |retention| QueueSettings {
        visibility: seconds(VISIBILITY_SECONDS),
        retention: Duration::from_secs(retention),
        ..QueueSettings::default()
    };
    let dlq = sqs.create_queue("dlq", &settings(RETENTION[1])).await.unwrap();
    let max_receive_count = u16::try_from(MAX_RECEIVE_COUNT).unwrap();
    let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count });
    let source =
        sqs.create_queue("source", &QueueSettings { redrive, ..settings(RETENTION[0]) }).await.unwrap();
    [source, dlq]
}

proptest! {
    #[test]
    fn every_message_is_in_the_state_the_model_predicts(steps in steps()) {
        let (clock, sqs) = service();
        clock.block_on(async {
            let queues = create_queues(&sqs).await;
            let mut changes = sqs.take_changes();
            let mut model = Model::default();
            let second = |timestamp: Timestamp| u64::try_from(timestamp.timestamp() - 1_700_000_000).unwrap();
            for step in steps {
                match step {
                    Step::Send { queue, delay_seconds } => {
                        let number = model.messages.len();
                        send(&queues[queue], &[message(&number.to_string(), delay_seconds)]).await[0].clone().unwrap();
                        model.messages.push(ModelMessage {
                            number, queue, state: State::InQueue, sent_at: model.now,
                            visible_at: model.now + delay_seconds, receive_count: 0, receive: None,
                        });
                    }
                    Step::Receive { queue, max, visibility_seconds } => {
                        let visibility = visibility_seconds.map(seconds);
                        let request = ReceiveOptions { max_messages: max, wait: Duration::ZERO, visibility };
                        let received = queues[queue].receive(request).await.unwrap();
                        let hidden_seconds = visibility_seconds.unwrap_or(VISIBILITY_SECONDS);
                        let expected = model.receive(queue, usize::from(max), hidden_seconds);
                        let numbers: Vec<usize> = received.iter().map(|m| m.body.parse().unwrap()).collect();
                        assert_eq!(numbers, expected);
                        for message in received {
                            let number: usize = message.body.parse().unwrap();
                            assert_eq!(message.receive_count, model.messages[number].receive_count);
                            assert_eq!(second(message.sent_at), model.messages[number].sent_at);
                            model.receives.push((queue, number, message.receipt_handle));
                        }
                    }
                    Step::Delete { nth } if !model.receives.is_empty() => {
                        let nth = nth.index(model.receives.len());
                        let (queue, _, handle) = model.receives[nth].clone();
                        assert_eq!(queues[queue].delete_batch(&[handle]).await, [Ok(())]);
                        if let Some(message) = model.leased_message(nth) {
                            message.state = State::Deleted;
                        }
                    }
                    Step::ChangeVisibility { nth, visibility_seconds } if !model.receives.is_empty() => {
                        let nth = nth.index(model.receives.len());
                        let (queue, _, handle) = model.receives[nth].clone();
                        let entry = (handle, seconds(visibility_seconds));
                        let outcome = queues[queue].change_visibility_batch(&[entry]).await.remove(0);
                        let now = model.now;
                        let in_flight = model.leased_message(nth).filter(|message| message.visible_at > now);
                        assert_eq!(outcome.is_ok(), in_flight.is_some());
                        if let Some(message) = in_flight {
                            message.visible_at = now + visibility_seconds;
                        }
                    }
                    Step::Wait { seconds } => {
                        clock.sleep(Duration::from_secs(seconds)).await;
                        model.wait(seconds);
                    }
                    Step::Delete { .. } | Step::ChangeVisibility { .. } => {}
                }
                assert_matches_model(&model, &sqs, &queues, &mut changes).await;
            }
        });
    }
}
