//! One run, the same in virtual and in real time: setup → queues → feed → loop → report.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt as _, try_join};
use indicatif::ProgressBar;
use redeliver_core::ports::{Clock, Queue, QueueService};
use redeliver_core::strategy::Strategy;
use redeliver_embedded::VirtualClock;
use redeliver_message_processor::MessageProcessor;
use redeliver_sim::functions::{
    async_retry_handler, failed_message_processor, final_dlq_annotator, message_processor,
};
use redeliver_sim::{Engine, EventCounter, Functions, LocalLambda, LoopError, Topology, Tracker, payload_of};

use super::feed::{Feed, drained};
use super::setup::Setup;
use super::{Recorded, Report, histogram};
use crate::{Failure, tell};

/// What differs between virtual and real time.
pub(super) struct World<'a, S: QueueService, C> {
    pub(super) service: &'a S,
    /// The queues as the functions have them.
    pub(super) of_functions: fn(&Topology<S::Queue>) -> Topology<S::Queue>,
    pub(super) clock: &'a C,
    /// Whether its time is.
    pub(super) is_virtual: bool,
    /// Stands still during real calls, if time is virtual.
    pub(super) hold: Option<VirtualClock>,
    /// The names of the queues begin with it.
    pub(super) prefix: String,
    /// Longest long poll.
    pub(super) wait: Duration,
    /// Messages of the queue with this ARN that can be received now, exactly.
    pub(super) visible: &'a dyn Fn(&str) -> u64,
    /// Requests so far, by action.
    pub(super) requests: &'a dyn Fn() -> BTreeMap<String, u64>,
}

/// Runs the loop and deletes its queues, whatever happens.
pub(super) async fn run<S: QueueService, C: Clock>(
    setup: Setup,
    world: World<'_, S, C>,
    output: &mut dyn Write,
    stop: impl Future<Output = ()>,
) -> Result<Report, Failure> {
    let topology = Topology::create(world.service, &world.prefix, setup.strategy, setup.policy.max_attempts)
        .await
        .map_err(LoopError::sqs("creating the queues"))?;
    let outcome = run_on(&topology, setup, &world, output, stop).await;
    let deleted = topology.delete(world.service).await.map_err(LoopError::sqs("deleting the queues"));
    outcome.and_then(|report| Ok(deleted.map(|()| report)?))
}

async fn run_on<S: QueueService, C: Clock>(
    topology: &Topology<S::Queue>,
    setup: Setup,
    world: &World<'_, S, C>,
    output: &mut dyn Write,
    stop: impl Future<Output = ()>,
) -> Result<Report, Failure> {
    let interrupted_at = stop.map(|()| world.clock.now()).shared();
    let stop = || interrupted_at.clone().map(drop);
    let Setup { input, seed, strategy, policy, schema, target } = setup;
    let bar = progress_bar(0);
    let tracker = Mutex::new(Tracker::default());
    let mut feed = Feed::new(input, &tracker, &bar);
    let tally = EventCounter::default();
    let started = world.clock.now();
    let last_failure = Mutex::default();
    let hold = world.hold.clone();
    let handler = Recorded {
        target: &target,
        tracker: &tracker,
        last_failure: &last_failure,
        clock: world.clock,
        hold,
    };
    let queues = &(world.of_functions)(topology);
    let final_dlq_annotator = final_dlq_annotator(queues, world.clock, &tally);
    let progress = |settled| bar.set_position(settled);
    let engine = Engine {
        topology,
        clock: world.clock,
        tracker: &tracker,
        progress: &progress,
        wait: world.wait,
        batching_window: Duration::ZERO,
        concurrency: 1,
        original_body: if strategy == Strategy::AsyncRetry { payload_of } else { |body| body },
    };
    let failed_message_processor =
        failed_message_processor(queues, world.clock, &tally, schema.clone(), policy.clone());
    if strategy == Strategy::AsyncRetry {
        let invoker = LocalLambda::new(handler, &topology.source, world.clock, seed);
        while let Some(portion) = feed.next()? {
            engine.invoke(portion.messages, &invoker, stop()).await?;
        }
        let async_retry_handler = async_retry_handler(queues, &invoker, world.clock, &tally, policy);
        let functions =
            Functions { on_source: async_retry_handler, failed_message_processor, final_dlq_annotator };
        engine.run(&functions, output, stop()).await?;
    } else {
        let message_processor = MessageProcessor {
            max_concurrency: target.concurrency(),
            ..message_processor(queues, handler, world.clock, &tally, schema, policy)
        };
        if let Some(portion) = feed.next()? {
            engine.send(portion.messages, stop()).await?;
        }
        let functions =
            Functions { on_source: message_processor, failed_message_processor, final_dlq_annotator };
        let others = async {
            // The next portion only when the source queue is empty, so that memory does not grow with the input.
            while let Some(portion) = feed.next()? {
                let drained = drained(|| (world.visible)(topology.source.arn()), world.clock);
                if let Either::Left(_) = select(stop(), pin!(drained)).await {
                    break;
                }
                engine.send(portion.messages, std::future::pending()).await?;
            }
            Ok::<_, Failure>(())
        };
        let running = async { Ok(engine.run(&functions, output, stop()).await?) };
        try_join!(others, running)?;
    }
    let refused = feed.refused;
    bar.finish_and_clear();
    let tracker = tracker.into_inner().unwrap_or_else(PoisonError::into_inner);
    let missing = tracker.total_sent() - tracker.settled();
    // What has come out is not waiting, even if a copy of it is in a queue, or SQS's count lags behind.
    let waiting = match missing {
        0 => 0,
        missing => topology.waiting().await.map_err(LoopError::sqs("counting what waits"))?.min(missing),
    };
    let mut requests = (world.requests)();
    // Looking at the queues and making them is this program's own business, not the loop's.
    requests.retain(|action, _| action.contains("Message"));
    let counts = tally.counts();
    let interrupted_at = interrupted_at.peek().copied().filter(|_| !tracker.is_settled());
    let end = interrupted_at.or_else(|| tracker.last_settled_at());
    Ok(Report {
        sent: tracker.total_sent(),
        refused,
        processed: tracker.total_processed(),
        retries: counts.delays.iter().sum(),
        hops: counts.hops,
        paced: counts.paced,
        immediate_retries: counts.immediate_retries,
        holds: counts.holds,
        probes: counts.probes,
        dead_lettered: tracker.dead_letters().clone(),
        waiting,
        copies: tracker.copies(),
        interrupted: interrupted_at.is_some(),
        all_sent: !tracker.expects_more(),
        last_failure: last_failure.into_inner().unwrap_or_else(PoisonError::into_inner),
        unaccounted: missing - waiting,
        seconds: (end.unwrap_or(started) - started).as_seconds_f64(),
        is_virtual: world.is_virtual,
        requests,
        delays: histogram(&counts.delays),
    })
}

pub(crate) fn progress_bar(messages: u64) -> ProgressBar {
    tell::progress(ProgressBar::new(messages), "{bar:40} {human_pos}/{human_len} messages settled, {elapsed}")
}
