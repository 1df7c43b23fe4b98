//! `redeliver work`: the functions as a long-running process that polls their queues itself, for containers instead of
//! Lambda.
//!
//! What runs is the functions' own code; [`redeliver_sim::event_source_mapping`] is the event source mapping that a container has
//! not. To stop means to receive no more and to finish what was received. A receive that is under way when the stop
//! comes is not broken off, since SQS may be handing out messages in that moment, and what it brings is handled, not
//! given back: a message's only receive on the source queue is spent (`maxReceiveCount` 1), so that SQS would move it
//! to the intermediate DLQ as if it had failed.

mod arguments;
mod guarded;
mod health;
mod log;
mod metrics;
mod poller;
mod prepared;
mod queue_name;
mod queues;
mod server;
mod settings;

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redeliver_aws::start::StartError;
use redeliver_aws::{Stop, SystemClock, telemetry};
use redeliver_core::ports::Clock as _;
use serde_json::json;

pub use arguments::{Arguments, FunctionName};

use crate::signals::Signals;
use crate::tell;
use prepared::{Prepared, prepare};
use server::{HealthServer, Shown};

/// Polls until a signal comes, and ends with what was received handled.
pub fn main(arguments: &Arguments) -> ExitCode {
    telemetry::init();
    // Standard error has JSON lines.
    tell::hush();
    match run(arguments) {
        Ok(Ended::Finished) => ExitCode::SUCCESS,
        Ok(Ended::BrokenOff) => ExitCode::from(1),
        Err(error) => {
            log::error("not_started", &error.to_string());
            ExitCode::from(2)
        }
    }
}

/// How the process came to its end.
enum Ended {
    /// Everything that was received is handled.
    Finished,
    /// Some batches were not: their messages come back.
    BrokenOff,
}

fn run(arguments: &Arguments) -> Result<Ended, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(start(arguments));
    // A name that is still being looked up must not hold the process.
    runtime.shutdown_background();
    ended
}

async fn start(arguments: &Arguments) -> Result<Ended, StartError> {
    // From here on, so that no signal finds a process that has received something and knows nothing of signals.
    let mut signals = Signals::listen()?;
    let stop = Stop::default();
    let server = match arguments.health {
        Some(address) => Some(HealthServer::bind(address).await?),
        None => None,
    };
    let prepared = match select(pin!(prepare(arguments, &stop)), pin!(signals.next())).await {
        Either::Left((prepared, _)) => prepared?,
        Either::Right(_) => return Ok(Ended::Finished),
    };
    log::info(
        "started",
        json!({
            "functions": arguments.functions().iter().map(|name| name.as_str()).collect::<Vec<_>>(),
            "health": server.as_ref().map(HealthServer::address),
        }),
    );
    let Prepared { workers, health, metrics, own_function, .. } = prepared;
    let shown = Shown { health, metrics };
    let serving = server.map(|server| tokio::spawn(server.serve(shown, SystemClock)));
    let ended = work(join_all(workers), &mut signals, &stop, arguments.shutdown()).await;
    if let Some(function) = own_function {
        function.runtime.end().await;
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    Ok(ended)
}

/// Works until the first signal, then until all is handled, a second signal or the end of the patience.
async fn work(workers: impl Future, signals: &mut Signals, stop: &Stop, patience: Duration) -> Ended {
    let mut workers = pin!(workers);
    match select(workers.as_mut(), pin!(signals.next())).await {
        Either::Left(_) => return Ended::Finished,
        Either::Right((name, _)) => log::info("stopping", json!({ "signal": name })),
    }
    // From here on nobody receives. The workers end by themselves: each when its receive is answered and its batch is
    // handled and deleted.
    stop.request();
    let impatient = async {
        match select(pin!(signals.next()), pin!(SystemClock.sleep(patience))).await {
            Either::Left((name, _)) => name,
            Either::Right(_) => "--shutdown",
        }
    };
    match select(workers, pin!(impatient)).await {
        Either::Left(_) => {
            log::info("stopped", json!({}));
            Ended::Finished
        }
        // Dropped in the middle of their work. Nothing is lost: what is not deleted becomes visible again, and SQS
        // counts that receive.
        Either::Right((reason, _)) => {
            log::info(
                "broken_off",
                json!({ "by": reason, "remark": "what was not handled comes back when its visibility timeout ends" }),
            );
            Ended::BrokenOff
        }
    }
}
