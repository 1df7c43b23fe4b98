//! The start of a function: settings → dependencies → run.

use std::process::ExitCode;
use std::sync::Arc;

pub use aws_config::SdkConfig;
use redeliver_core::ports::{Function, Observer};

use crate::SystemClock;
pub use crate::environment::sdk_config;
use crate::lambda::run_function;
use crate::settings::{Logging, TargetSettings, started_by_lambda};
use crate::sqs::{SqsQueue, client_config};
use crate::targets::{
    DEFAULT_TIMEOUT, HeaderSource, Headers, HttpTarget, LambdaTarget, SecretHeaders, Target, TargetAddress,
};
use crate::telemetry::{self, JsonLines};

/// Why a function cannot start.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// A queue to send to.
#[must_use]
pub fn queue(client: &aws_sdk_sqs::Client, url: String) -> SqsQueue {
    SqsQueue::new(client.clone(), url, "")
}

/// The client that all queues of a function share; functions only send.
#[must_use]
pub fn sqs_client(config: &SdkConfig) -> aws_sdk_sqs::Client {
    aws_sdk_sqs::Client::from_conf(client_config(config, None).build())
}

/// The message-processor's target; a URL's headers are read from their secret. `observer` learns it if they cannot be
/// read again later.
///
/// # Errors
/// If the secret cannot be used.
pub async fn target(
    config: &SdkConfig,
    settings: TargetSettings,
    observer: Arc<dyn Observer>,
) -> Result<Target, StartError> {
    let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
    Ok(match settings.address {
        TargetAddress::Url(url) => {
            let headers = match &settings.headers_secret_arn {
                Some(arn) => {
                    HeaderSource::Secret(SecretHeaders::read(config, arn, SystemClock, observer).await?)
                }
                None => HeaderSource::Fixed(Headers::default()),
            };
            Target::Http(HttpTarget::new(url, headers, timeout)?)
        }
        TargetAddress::LambdaArn(arn) => Target::Lambda(LambdaTarget::new(config, arn, timeout)),
    })
}

/// Runs the function that `prepare` makes until the process is stopped. If it cannot be made, the reason is printed and
/// nothing runs.
pub async fn run<F: Function>(
    name: &'static str,
    prepare: impl Future<Output = Result<F, StartError>>,
) -> ExitCode {
    telemetry::init();
    let outcome = async {
        let function = prepare.await?;
        started_by_lambda()?;
        // What it tells is told at once, whatever the settings.
        run_function(function, JsonLines::stdout(name, Logging::default())).await
    };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
