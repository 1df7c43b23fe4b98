//! The start of a function: settings → dependencies → run.

#[cfg(feature = "targets")]
mod target;

use std::process::ExitCode;
use std::sync::Arc;

pub use aws_config::SdkConfig;
use redeliver_core::ports::Function;

pub use crate::environment::sdk_config;
use crate::lambda::{Guest, run_function};
use crate::otlp::{Exporter, OtlpSettings};
use crate::settings::{Logging, Variables, started_by_lambda};
use crate::sqs::{SqsQueue, client_config};
use crate::stderr;
use crate::telemetry::{self, JsonLinesObserver};
#[cfg(feature = "targets")]
pub use target::{build_target, start_own_function};

/// An error at the start of a function.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// A queue for sending.
#[must_use]
pub fn queue_sender(client: &aws_sdk_sqs::Client, url: String) -> SqsQueue {
    SqsQueue::new(client.clone(), url, "")
}

/// The client that all queues of a function share; functions only send.
#[must_use]
pub fn sqs_client(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::from_conf(client_config(config, None).build())
}

/// The exporter of spans, if OpenTelemetry's variables enable it. `default_name` is the service's name outside Lambda,
/// after `redeliver-`.
///
/// # Errors
/// If they select an unsupported protocol. Functions also run without spans, so this is only a warning.
pub fn exporter_from_env(default_name: &str) -> Result<Option<Exporter>, String> {
    let settings = OtlpSettings::from_variables(&Variables::from_env(), default_name)?;
    Ok(settings.map(Exporter::new))
}

/// Runs the function from `prepare` until the process is stopped, or prints the error of `prepare`.
pub async fn run<F: Function>(
    name: &'static str,
    prepare: impl Future<Output = Result<F, StartError>>,
) -> ExitCode {
    run_beside(name, async { Ok((prepare.await?, Arc::new(()))) }).await
}

/// [`run`] for a function with a guest.
pub async fn run_beside<F: Function, G: Guest>(
    name: &'static str,
    prepare: impl Future<Output = Result<(F, Arc<G>), StartError>>,
) -> ExitCode {
    telemetry::init_telemetry();
    let outcome = async {
        let (function, guest) = prepare.await?;
        started_by_lambda()?;
        let exporter = exporter_from_env(name).unwrap_or_else(|error| {
            stderr::write_line(format_args!("warning: no spans are exported: {error}"));
            None
        });
        // Used only for unreadable records, which are logged with any settings.
        run_function(function, JsonLinesObserver::for_stdout(name, Logging::default()), exporter, guest).await
    };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stderr::write_line(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
