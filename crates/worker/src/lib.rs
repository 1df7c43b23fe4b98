//! `redeliver work`: runs the functions in a long-running process that polls their queues itself, for containers
//! instead of Lambda.
//!
//! [`run`] prepares everything before the first receive. Each function then gets a poller, which does the work of an
//! event source mapping. After a stop request, the poller receives no more messages, and finishes those in flight. A
//! pending receive is not cancelled, since SQS may already have returned messages. Those messages are handled as well:
//! their only receive on the source queue is used up (`maxReceiveCount` 1), so SQS would move them to the intermediate
//! DLQ as if they had failed.

mod functions;
mod health;
mod log;
mod metrics;
mod options;
mod otlp;
mod poller;
mod prepared;
mod queue_name;
mod queues;
mod server;
mod settings;

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redeliver_aws::start::StartError;
use redeliver_aws::{Stop, SystemClock, telemetry};
use redeliver_core::ports::Clock as _;
use redeliver_operator::terminal::signals::{Signal, Signals};
use redeliver_operator::terminal::stderr;
use serde_json::json;

pub use functions::{FunctionName, WorkerFunctions};
pub use options::WorkerOptions;
pub use poller::PollerLimits;

use otlp::SpanExport;
use prepared::{PreparedWorker, prepare_worker};
use server::{HealthServer, ServedState};

/// The way a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerOutcome {
    /// All received messages were handled.
    Finished,
    /// All received messages were handled, after Ctrl-C.
    Interrupted,
    /// Some batches were cancelled; their messages will be received again.
    Cancelled,
    /// Nothing was received; the log states the reason.
    NotStarted,
}

impl WorkerOutcome {
    /// Returns the outcome of a process that handled everything after this signal.
    const fn after_signal(signal: Signal) -> Self {
        if signal.is_interrupt { Self::Interrupted } else { Self::Finished }
    }
}

/// Polls until a signal arrives, then handles the messages already received. All errors are logged to standard error.
#[must_use]
pub fn run(options: &WorkerOptions) -> WorkerOutcome {
    telemetry::init_telemetry();
    // Standard error is reserved for JSON lines.
    stderr::be_quiet();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return log_not_started(&error),
    };
    let ended = runtime.block_on(run_functions(options));
    // A DNS lookup must not delay the exit.
    runtime.shutdown_background();
    ended.unwrap_or_else(|error| log_not_started(&error))
}

fn log_not_started(error: &impl ToString) -> WorkerOutcome {
    log::error("not_started", &error.to_string());
    WorkerOutcome::NotStarted
}

async fn run_functions(options: &WorkerOptions) -> Result<WorkerOutcome, StartError> {
    let export = SpanExport::from_environment(&options.functions.service_name());
    // Installed before the first receive: a signal must not kill a process that has received a message.
    let mut signals = Signals::listen()?;
    let stop = Stop::default();
    let server = match options.health {
        Some(address) => Some(HealthServer::bind(address).await?),
        None => None,
    };
    let prepared = match select(pin!(prepare_worker(options, &stop)), pin!(signals.next())).await {
        Either::Left((prepared, _)) => prepared?,
        Either::Right((signal, _)) => return Ok(WorkerOutcome::after_signal(signal)),
    };
    log::info(
        "started",
        json!({
            "functions": options.functions.iter().map(FunctionName::as_str).collect::<Vec<_>>(),
            "health": server.as_ref().map(HealthServer::address),
        }),
    );
    let PreparedWorker { pollers, health, metrics, traced, own_function } = prepared;
    let export = export.map(|export| export.start_export(traced));
    let served = ServedState { health, metrics };
    let serving = server.map(|server| tokio::spawn(server.serve_forever(served, SystemClock)));
    let ending = poll_until_signal(join_all(pollers), &mut signals, &stop, options.shutdown).await;
    if let Some(function) = own_function {
        function.runtime.stop_all().await;
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    // A cancelled process exits immediately.
    if let (WorkerOutcome::Finished | WorkerOutcome::Interrupted, Some(export)) = (ending, export) {
        export.finish_export(&SystemClock).await;
    }
    Ok(ending)
}

/// Polls until the first signal, then drains until everything is handled, a second signal arrives, or time runs out.
async fn poll_until_signal(
    pollers: impl Future,
    signals: &mut Signals,
    stop: &Stop,
    shutdown: Duration,
) -> WorkerOutcome {
    let mut pollers = pin!(pollers);
    let signal = match select(pollers.as_mut(), pin!(signals.next())).await {
        Either::Left(_) => return WorkerOutcome::Finished,
        Either::Right((signal, _)) => signal,
    };
    log::info("stopping", json!({ "signal": signal.name }));
    // From here on no new receive starts. A poller ends once its pending receive has returned and its batch is handled
    // and deleted.
    stop.request();
    let cancelled = async {
        match select(pin!(signals.next()), pin!(SystemClock.sleep(shutdown))).await {
            Either::Left((signal, _)) => signal.name,
            Either::Right(_) => "--shutdown",
        }
    };
    match select(pollers, pin!(cancelled)).await {
        Either::Left(_) => {
            log::info("stopped", json!({}));
            WorkerOutcome::after_signal(signal)
        }
        // The pollers are dropped. No message is lost: undeleted messages become visible again, and SQS counts the
        // receive.
        Either::Right((reason, _)) => {
            log::info(
                "broken_off",
                json!({ "by": reason, "remark": "messages that were not handled come back when their visibility timeout ends" }),
            );
            WorkerOutcome::Cancelled
        }
    }
}
