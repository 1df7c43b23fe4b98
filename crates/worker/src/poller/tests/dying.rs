//! The process dies at an arbitrary point while the three functions are running: no message is lost.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, join3};
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::ports::QueueDepth as _;
use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::{OnFailure, Strategy};
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::{MessageProcessor, SharedBreaker};

use super::*;
use redeliver_sim::{Batching, Topology};
use redeliver_testing::KilledFuture;
use redeliver_testing::altered::{AlteredQueue, SlowRequests};

/// Four messages: one succeeds, one succeeds after two failures, one fails permanently, and one is not valid.
const BODIES: [&str; 4] = [
    r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000000"},"data":{}}"#,
    r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":{}}"#,
    r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000002"},"data":{}}"#,
    "nonsense",
];

const FIXED: &str = r#"{"backoff":{"kind":"fixed","delay_seconds":5,"jitter":"none"}}"#;
const LONG: &str =
    r#"{"long_delays":true,"backoff":{"kind":"schedule","delays_seconds":[5,1000],"jitter":"none"}}"#;

struct Target<'a>(&'a Observations);

impl Handler for Target<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        match message.message_id.chars().last() {
            Some('1') if message.retry_attempt < 2 => Err(HandlerError::transient("Test.Transient", "")),
            Some('2') => Err(HandlerError::permanent("Test.Permanent", "")),
            last => {
                let success =
                    (message.message_id.to_owned(), message.redrive_generation, message.retry_attempt);
                self.0.successes.lock().unwrap().push(success);
                self.0.record_body(&last.unwrap_or_default().to_string());
                Ok(())
            }
        }
    }
}

/// Runs the functions of `redeliver work` on queues with request latency.
async fn run_functions(world: &World, topology: &Topology<EmbeddedQueue>, policy: &Policy, stop: &Stop) {
    let (clock, seen) = (&world.clock, &world.seen);
    let slow = |queue| AlteredQueue(SlowRequests { queue, clock });
    let message_processor = MessageProcessor {
        handler: Target(seen),
        on_failure: OnFailure::from_wiring(topology.retry_loop.strategy().unwrap(), topology)
            .unwrap()
            .map_queues(slow),
        breaker: SharedBreaker::from_policy(policy),
        policy: policy.clone(),
        annotation_queue: slow(&topology.annotation),
        clock,
        observer: seen,
        schema: MessageSchema::default(),
        resenders: topology.resenders.clone(),
        max_concurrency: std::num::NonZeroUsize::MIN,
    };
    let failed_message_processor =
        topology.intermediate.as_ref().map(|intermediate| FailedMessageProcessor {
            redelivery: Redelivery {
                source_queue: slow(&topology.source),
                intermediate_dlq: slow(intermediate),
            },
            annotation_queue: slow(&topology.annotation),
            clock,
            observer: seen,
            schema: MessageSchema::default(),
            policy: policy.clone(),
            resenders: topology.resenders.clone(),
        });
    let final_dlq_annotator = FinalDlqAnnotator::new(slow(&topology.final_dlq), clock, seen);
    let limits = PollerLimits {
        batch_size: 10,
        concurrency: NonZeroU16::new(2).unwrap(),
        wait: Duration::from_secs(20),
        invocation: Duration::from_secs(30),
    };
    let heartbeat = &world.health.pollers[0];
    macro_rules! poller {
        ($queue:expr, $function:expr) => {
            Poller {
                queue: slow($queue),
                function: $function,
                clock,
                observer: seen,
                limits,
                heartbeat: Arc::clone(heartbeat),
            }
        };
    }
    let processor = poller!(&topology.source, message_processor);
    let retrier = async {
        if let (Some(queue), Some(function)) = (&topology.intermediate, failed_message_processor) {
            poller!(queue, function).run_until_stop(stop).await;
        }
    };
    let annotator = poller!(&topology.annotation, final_dlq_annotator);
    join3(processor.run_until_stop(stop), retrier, annotator.run_until_stop(stop)).await;
}

/// The state of the messages after a second process has taken over.
struct EndState {
    processed: Vec<String>,
    dead: Vec<String>,
    /// See [`Observations`].
    successes: Vec<(String, u32, u32)>,
    /// True if the first process was killed before it finished.
    died: bool,
}

fn end_state_after_kill(strategy: Strategy, policy: &Policy, polls: u32) -> EndState {
    let world = World::new();
    let topology = world
        .clock
        .block_on(Topology::create_queues(
            &world.sqs,
            "work",
            strategy,
            policy.max_attempts,
            Batching::default(),
        ))
        .unwrap();
    let on_source = World { queue: topology.source.clone(), ..world };
    let run = |polls: u32, minutes: u64| {
        let (world, topology) = (&on_source, &topology);
        let stop = Stop::default();
        let run_until_stopped = async move {
            let stopped = async {
                world.sleep_seconds(60 * minutes).await;
                stop.request();
            };
            join(run_functions(world, topology, policy, &stop), stopped).await;
        };
        world.clock.block_on(KilledFuture { future: Box::pin(run_until_stopped), polls })
    };
    on_source.clock.block_on(on_source.send(&BODIES));
    let died = run(polls, 2).is_none();
    // Long enough for the visibility timeout and the retries after it.
    run(u32::MAX, 60);
    let mut processed: Vec<_> = on_source.seen.bodies().into_iter().map(|(_, body)| body).collect();
    let request =
        redeliver_core::ports::ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
    let mut dead = Vec::new();
    while let records @ [_, ..] = &on_source.clock.block_on(topology.final_dlq.receive(request)).unwrap()[..]
    {
        dead.extend(records.iter().map(|record| {
            let error_type = record.attributes["ErrorType"].text().unwrap_or_default().to_owned();
            let name = if record.body.starts_with('{') { "2" } else { record.body.as_str() };
            format!("{name} {error_type}")
        }));
    }
    processed.sort();
    processed.dedup();
    dead.sort();
    dead.dedup();
    for queue in [Some(&topology.source), topology.intermediate.as_ref(), Some(&topology.annotation)] {
        let Some(queue) = queue else { continue };
        assert_eq!(on_source.clock.block_on(queue.depth()).unwrap().total(), 0, "{}", queue.url());
    }
    let successes = on_source.seen.successes.lock().unwrap().clone();
    EndState { processed, dead, successes, died }
}

/// Checks that no message is lost, wherever the process is killed. Returns, by message id, the generation and attempt
/// of each success in every run in which the message succeeded more than once.
fn check_no_loss(strategy: Strategy, policy: &str) -> BTreeMap<String, BTreeSet<Vec<(u32, u32)>>> {
    let policy = Policy::from_json(policy).unwrap();
    let mut copies: BTreeMap<String, BTreeSet<_>> = BTreeMap::new();
    let mut deaths = 0;
    for polls in 0.. {
        let EndState { processed, dead, successes, died } = end_state_after_kill(strategy, &policy, polls);
        let mut by_message: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (message_id, generation, attempt) in successes {
            by_message.entry(message_id).or_default().push((generation, attempt));
        }
        for (message_id, mut successes) in by_message.into_iter().filter(|(_, all)| all.len() > 1) {
            successes.sort_unstable();
            copies.entry(message_id).or_default().insert(successes);
        }
        assert_eq!(processed, ["0", "1"], "killed after {polls} polls");
        assert_eq!(
            dead,
            ["2 NON_RETRYABLE_ERROR", "nonsense INVALID_MESSAGE_FORMAT"],
            "killed after {polls} polls"
        );
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 50, "{deaths}");
    copies
}

#[test]
fn a_killed_poller_loses_no_message() {
    check_no_loss(Strategy::DelayedResend, FIXED);
}

/// Only its id shows that the message has already succeeded.
#[test]
fn a_message_processed_twice_keeps_its_id_and_a_crash_spends_no_attempt() {
    let copies = check_no_loss(Strategy::DelayedResend, FIXED);
    let copies_of = |number: u32| copies.get(&format!("0191f3a2-7b1c-7d3e-8f00-{number:012}"));
    // The target's success was not acknowledged: SQS's redrive does not use an attempt.
    assert_eq!(copies_of(0), Some(&BTreeSet::from([vec![(0, 0), (0, 0)]])));
    // The same applies to a retry, and to a re-send that was not acknowledged and is repeated.
    assert_eq!(copies_of(1), Some(&BTreeSet::from([vec![(0, 2), (0, 2)]])));
    assert_eq!(copies.len(), 2);
}

#[test]
fn a_killed_poller_loses_no_hopping_message() {
    check_no_loss(Strategy::DelayedResend, LONG);
}

#[test]
fn a_killed_poller_loses_no_direct_resend() {
    check_no_loss(Strategy::DirectResend, FIXED);
    check_no_loss(Strategy::DirectResend, LONG);
}

#[test]
fn a_killed_poller_loses_no_message_hidden_on_its_queue() {
    check_no_loss(Strategy::Visibility, FIXED);
}
