//! One run, the same in virtual and in real time: plan → queues → feed → loop → report.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt as _, pin_mut, try_join};
use indicatif::{ProgressBar, ProgressStyle};
use redeliver_async_retry_handler::AsyncRetryHandler;
use redeliver_aws::targets::{
    DEFAULT_TIMEOUT, HeaderSource, Headers, HttpTarget, TargetAddress, TargetError,
};
use redeliver_core::async_retry::DEFAULT_POLICY;
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::message::Timestamp;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Queue, QueueService};
use redeliver_core::schema::MessageSchema;
use redeliver_embedded::VirtualClock;
use redeliver_loop::{
    Counts, Engine, FUNCTION_ARN, Failing, Functions, Layout, Ledger, LocalLambda, LoopError, Tally,
    Topology, check_payload, failed_message_processor, final_dlq_annotator, message_processor, payload_of,
};
use thiserror::Error;

use super::input::{Portion, Portions};
use super::{Arguments, Input, Recorded, RefusedLine, Report, StrategyName, Target, histogram};
use crate::files::{FileError, create_output, read_policy, read_schema};
use crate::tell;

/// All that a run needs, read and checked before it begins.
pub(super) struct Plan {
    input: Portions,
    pub(super) seed: u64,
    strategy: StrategyName,
    policy: Policy,
    schema: MessageSchema,
    target: Target,
    output: Box<dyn Write>,
}

impl Plan {
    pub(super) fn new(arguments: &Arguments) -> Result<Self, FileError> {
        let defaults = if arguments.strategy == StrategyName::AsyncRetry { DEFAULT_POLICY } else { "{}" };
        let policy = read_policy(arguments.policy.as_deref(), defaults)?;
        if let (Some(path), Some(_)) = (&arguments.policy, policy.max_redelivery_per_second)
            && arguments.strategy != StrategyName::DelayedResend
        {
            let reason = "has /max_redelivery_per_second, which is for --strategy delayed-resend: remove it";
            return Err(FileError::new(path, reason));
        }
        let schema = read_schema(arguments.data_schema.as_deref())?;
        let target = match &arguments.target {
            Some(url) => Target::Http(Box::new(http_target(url)?)),
            None => Target::Failing(Failing {
                rate: arguments.fail_rate,
                first: arguments.fail_first,
                permanently: arguments.fail_permanently,
                seed: arguments.seed,
            }),
        };
        let check =
            if arguments.strategy == StrategyName::AsyncRetry { check_payload } else { |_: &_| Ok(()) };
        // On an endpoint the first failures come back after real minutes: nothing waits for the end of the input then.
        let portion = if arguments.endpoint_url.is_some() { Portion::WHOLE } else { Portion::SMALL };
        let input = Portions::open(&arguments.file, check, portion)?;
        let output: Box<dyn Write> = match &arguments.final_dlq {
            Some(path) => {
                let file = create_output(path)
                    .map_err(|error| FileError::new(path, format_args!("cannot be written: {error}")))?;
                Box::new(BufWriter::new(file))
            }
            None => Box::new(std::io::sink()),
        };
        Ok(Self { input, seed: arguments.seed, strategy: arguments.strategy, policy, schema, target, output })
    }

    /// Whether the policy paces re-sends.
    pub(super) fn paces(&self) -> bool {
        self.policy.max_redelivery_per_second.is_some()
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// The output file, for as long as the run lasts; afterwards it is gone.
    pub(super) fn take_output(&mut self) -> Box<dyn Write> {
        std::mem::replace(&mut self.output, Box::new(std::io::sink()))
    }
}

fn http_target(url: &str) -> Result<HttpTarget, FileError> {
    let refused = |reason: &dyn std::fmt::Display| FileError::new(Path::new("--target"), reason);
    let address = TargetAddress::parse(url, false).map_err(|error| match error {
        // The settings of the functions are not read here.
        TargetError::PlainHttp => {
            refused(&"is http:// to another machine; use https://, or http:// to this machine")
        }
        TargetError::Neither => refused(&"is no https:// URL, and no http:// URL of this machine"),
        error => refused(&error),
    })?;
    match address {
        TargetAddress::Url(url) => {
            HttpTarget::new(url, HeaderSource::Fixed(Headers::default()), DEFAULT_TIMEOUT)
                .map_err(|error| refused(&error))
        }
        TargetAddress::LambdaArn(_) => {
            Err(refused(&"is a Lambda function's ARN; only endpoints can be called from here"))
        }
    }
}

/// Why a run has no outcome.
#[derive(Debug, Error)]
pub(super) enum RunError {
    /// The loop cannot go on.
    #[error(transparent)]
    Loop(#[from] LoopError),
    /// The input cannot be read on.
    #[error(transparent)]
    Input(#[from] FileError),
}

/// What differs between virtual and real time.
pub(super) struct World<'a, S, C> {
    pub(super) service: &'a S,
    pub(super) clock: &'a C,
    /// Whether its time is.
    pub(super) is_virtual: bool,
    /// Stands still during real calls, where time is virtual.
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
    plan: Plan,
    world: World<'_, S, C>,
    output: &mut dyn Write,
    stop: impl Future<Output = ()>,
) -> Result<Report, RunError> {
    let layout = match plan.strategy {
        StrategyName::DelayedResend => Layout::DelayedResend,
        StrategyName::AsyncRetry => Layout::AsyncRetry,
        StrategyName::Visibility => Layout::Visibility { max_attempts: plan.policy.max_attempts },
    };
    let topology = Topology::create(world.service, &world.prefix, layout)
        .await
        .map_err(LoopError::sqs("creating the queues"))?;
    let outcome = run_on(&topology, plan, &world, output, stop).await;
    let deleted = topology.delete(world.service).await.map_err(LoopError::sqs("deleting the queues"));
    outcome.and_then(|report| Ok(deleted.map(|()| report)?))
}

async fn run_on<S: QueueService, C: Clock>(
    topology: &Topology<S::Queue>,
    plan: Plan,
    world: &World<'_, S, C>,
    output: &mut dyn Write,
    stop: impl Future<Output = ()>,
) -> Result<Report, RunError> {
    let stop = stop.shared();
    let Plan { input, seed, strategy, policy, schema, target, .. } = plan;
    let bar = progress_bar(0);
    let ledger = Mutex::new(Ledger::default());
    let mut feed = Feed { input, ledger: &ledger, bar: &bar, refused: 0, next: None };
    feed.read()?;
    let tally = Tally::default();
    let started = world.clock.now();
    let handler = Recorded { target: &target, ledger: &ledger, clock: world.clock, hold: world.hold.clone() };
    let final_dlq_annotator = final_dlq_annotator(topology, world.clock, &tally, schema.clone());
    let progress = |settled| bar.set_position(settled);
    let engine = Engine {
        topology,
        clock: world.clock,
        ledger: &ledger,
        progress: &progress,
        wait: world.wait,
        pollers: 1,
        what_went_in: if strategy == StrategyName::AsyncRetry { payload_of } else { |body| body },
    };
    let failed_message_processor =
        failed_message_processor(topology, world.clock, &tally, schema.clone(), policy.clone());
    if strategy == StrategyName::AsyncRetry {
        let invoker = LocalLambda::new(handler, &topology.source, world.clock, seed);
        while let Some(portion) = feed.next()? {
            engine.invoke(portion.messages, &invoker, stop.clone()).await?;
        }
        let async_retry_handler = AsyncRetryHandler {
            invoker: &invoker,
            retry_queue: topology.source.clone(),
            annotation_queue: topology.annotation.clone(),
            clock: world.clock,
            observer: &tally,
            policy,
            functions: FunctionArns::parse(FUNCTION_ARN).expect("it is one: a test runs it"),
        };
        let functions =
            Functions { on_source: async_retry_handler, failed_message_processor, final_dlq_annotator };
        engine.run(&functions, output, stop.clone()).await?;
    } else {
        let message_processor = message_processor(topology, handler, world.clock, &tally, schema, policy);
        if let Some(portion) = feed.next()? {
            engine.feed(portion.messages, stop.clone()).await?;
        }
        let functions =
            Functions { on_source: message_processor, failed_message_processor, final_dlq_annotator };
        let others = async {
            while let Some(portion) = feed.next()? {
                let drained = drained(|| (world.visible)(topology.source.arn()), world.clock);
                pin_mut!(drained);
                if let Either::Left(_) = select(stop.clone(), drained).await {
                    break;
                }
                engine.feed(portion.messages, std::future::pending()).await?;
            }
            Ok::<_, RunError>(())
        };
        let running = async { Ok(engine.run(&functions, output, stop.clone()).await?) };
        try_join!(others, running)?;
    }
    let refused = feed.refused;
    bar.finish_and_clear();
    let ledger = ledger.into_inner().unwrap_or_else(PoisonError::into_inner);
    // What has come out is not waiting, even if a copy of it is in a queue, or SQS's count lags behind.
    let waiting = match ledger.total_sent() - ledger.settled() {
        0 => 0,
        missing => topology.waiting().await.map_err(LoopError::sqs("counting what waits"))?.min(missing),
    };
    let report = report(&ledger, &tally.counts(), waiting, started, (world.requests)(), world.is_virtual);
    Ok(Report { refused, interrupted: stop.peek().is_some() && !ledger.is_settled(), ..report })
}

/// The input on its way into the queues. The next portion is read before one is sent, so that the ledger knows of it: until
/// the last one is sent nothing is settled.
struct Feed<'a> {
    input: Portions,
    ledger: &'a Mutex<Ledger>,
    bar: &'a ProgressBar,
    refused: u64,
    next: Option<Input>,
}

impl Feed<'_> {
    /// The portion to be sent now; `None` when all is sent.
    fn next(&mut self) -> Result<Option<Input>, FileError> {
        let portion = self.next.take();
        if portion.is_some() {
            self.read()?;
        }
        Ok(portion)
    }

    fn read(&mut self) -> Result<(), FileError> {
        let Some(portion) = self.input.next()? else {
            return Ok(());
        };
        for RefusedLine { line, reason } in &portion.refused {
            tell::warning(format_args!("line {line}: refused: {reason}"));
        }
        self.refused += portion.refused.len() as u64;
        let messages = portion.messages.len() as u64;
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).expect(messages);
        self.bar.inc_length(messages);
        self.next = Some(portion);
        Ok(())
    }
}

/// Completes when no message can be received any more. As long as they become fewer the functions are at work, at this very
/// moment; where they wait for something real, time passes.
async fn drained(visible: impl Fn() -> u64, clock: &impl Clock) {
    let mut before = u64::MAX;
    loop {
        yield_now().await;
        let visible = visible();
        if visible == 0 {
            return;
        }
        if visible >= before {
            clock.sleep(Duration::from_millis(1)).await;
        }
        before = visible;
    }
}

/// Lets everything else that is ready run once.
async fn yield_now() {
    let mut had_its_turn = false;
    poll_fn(|context| {
        if std::mem::replace(&mut had_its_turn, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn report(
    ledger: &Ledger,
    counts: &Counts,
    waiting: u64,
    started: Timestamp,
    mut requests: BTreeMap<String, u64>,
    is_virtual: bool,
) -> Report {
    // Looking at the queues and making them is this program's own business, not the loop's.
    requests.retain(|action, _| action.contains("Message"));
    let missing = ledger.total_sent() - ledger.settled();
    let end = ledger.last_settled_at().unwrap_or(started);
    Report {
        sent: ledger.total_sent(),
        refused: 0,
        processed: ledger.total_processed(),
        retries: counts.delays.iter().sum(),
        hops: counts.hops,
        paced: counts.paced,
        immediate_retries: counts.immediate_retries,
        dead_lettered: ledger.dead_letters().clone(),
        waiting,
        copies: ledger.copies(),
        interrupted: false,
        unaccounted: missing - waiting,
        seconds: (end - started).as_seconds_f64(),
        is_virtual,
        requests,
        delays: histogram(&counts.delays),
    }
}

/// On standard error, and only where that is a terminal.
pub(crate) fn progress_bar(messages: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} messages settled, {elapsed}");
    let bar = ProgressBar::new(messages);
    tell::progress(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
}
