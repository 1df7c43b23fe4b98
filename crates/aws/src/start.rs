//! Starts a function: settings → dependencies → run.

#[cfg(feature = "targets")]
mod target;

use std::process::ExitCode;
use std::sync::Arc;

pub use aws_config::SdkConfig;
use redeliver_core::ports::Function;

pub use crate::environment::sdk_config;
use crate::lambda::{Guest, run_function};
use crate::otlp::{Exporter, OtlpSettings};
use crate::settings::{Logging, Variables, check_started_by_lambda};
use crate::sqs::{SqsQueue, client_config};
use crate::stderr;
use crate::telemetry::{self, JsonLinesObserver};
#[cfg(feature = "targets")]
pub use target::{build_target, start_own_function};

/// An error that prevents a function from starting.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Creates a queue that is used only for sending.
#[must_use]
pub fn queue_sender(client: &aws_sdk_sqs::Client, url: String) -> SqsQueue {
    SqsQueue::new(client.clone(), url, "")
}

/// Creates the SQS client shared by all queues of a function. It has no request timeout, since functions only send.
#[must_use]
pub fn sqs_client(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::from_conf(client_config(config, None).build())
}

/// Creates the span exporter if OpenTelemetry's environment variables enable it. Outside Lambda, the default service
/// name is `redeliver-` followed by `default_name`.
///
/// # Errors
/// If the variables select an unsupported protocol. Functions only log a warning, since they also run without spans.
pub fn exporter_from_env(default_name: &str) -> Result<Option<Exporter>, String> {
    let settings = OtlpSettings::from_variables(&Variables::from_env(), default_name)?;
    Ok(settings.map(Exporter::new))
}

/// Runs the function returned by `prepare` until the process is stopped. Prints errors to standard error.
pub async fn run<F: Function>(
    name: &'static str,
    prepare: impl Future<Output = Result<F, StartError>>,
) -> ExitCode {
    run_with_guest(name, async { Ok((prepare.await?, Arc::new(()))) }).await
}

/// Like [`run`], for a function with a guest.
pub async fn run_with_guest<F: Function, G: Guest>(
    name: &'static str,
    prepare: impl Future<Output = Result<(F, Arc<G>), StartError>>,
) -> ExitCode {
    telemetry::init_telemetry();
    let outcome = async {
        let (function, guest) = prepare.await?;
        check_started_by_lambda()?;
        let exporter = exporter_from_env(name).unwrap_or_else(|error| {
            stderr::write_line(format_args!("warning: no spans are exported: {error}"));
            None
        });
        // This observer only logs unreadable records, which are logged regardless of the settings.
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
