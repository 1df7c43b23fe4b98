//! Starts the message-processor's target.

use std::num::NonZeroU16;
use std::process;
use std::sync::Arc;

use aws_config::SdkConfig;
use redeliver_core::ports::Observer;
use redeliver_platform::signals::Signals;

use super::StartError;
use crate::SystemClock;
use crate::settings::{
    CalledTarget, EndpointSetting, HttpSettings, OwnFunctionSettings, TargetSettings, aws_variable,
    check_started_by_lambda,
};
use crate::stderr;
use crate::targets::{
    DEFAULT_TIMEOUT, Endpoint, EndpointSettings, EndpointSource, HttpTarget, LambdaTarget, OwnFunction,
    Processes, RuntimeCommand, SecretEndpoint, SigV4Signer, Target,
};

/// Builds the message-processor's target and reads the secret of an HTTP target. `observer` receives an event if a
/// later refresh of the secret fails, and for each response whose `Retry-After` cannot be parsed.
///
/// # Errors
/// If the secret is unusable, `TARGET_SIGV4` does not match the URL, or the HTTP client cannot be built.
pub async fn build_target(
    config: &SdkConfig,
    settings: TargetSettings,
    observer: Arc<dyn Observer>,
) -> Result<Target, StartError> {
    let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
    Ok(match settings.called {
        CalledTarget::Http(HttpSettings { endpoint, sigv4, proxy, error_excerpt }) => {
            let sigv4 = sigv4.map(|setting| SigV4Signer::new(setting, config));
            let endpoint = match endpoint {
                EndpointSetting::Url(url) => EndpointSource::Fixed(match &sigv4 {
                    Some(signer) => {
                        Endpoint::with_role(url, signer).map_err(|error| format!("TARGET_SIGV4 {error}"))?
                    }
                    None => Endpoint::without_auth(url),
                }),
                EndpointSetting::Secret { arn, url } => EndpointSource::Secret(
                    SecretEndpoint::read_secret(
                        config,
                        &arn,
                        EndpointSettings { url, sigv4 },
                        SystemClock,
                        Arc::clone(&observer),
                    )
                    .await?,
                ),
            };
            let target = HttpTarget::new(endpoint, proxy.as_ref(), timeout)?;
            Target::Http(Box::new(target.with_observer(observer).with_error_excerpt(error_excerpt)))
        }
        CalledTarget::Lambda { arn, modes } => {
            Target::Lambda(LambdaTarget::new(config, arn, timeout).with_modes(modes))
        }
    })
}

/// Starts the user's own function in Lambda with `command`, and waits until it is ready. If it exits during startup,
/// this process exits with the same code (or 1 if there is none), as the function would without redeliver. `observer`
/// receives the function's events.
///
/// # Errors
/// If the process was not started by Lambda, the command cannot be run, or signals cannot be received.
pub async fn start_own_function(
    command: RuntimeCommand,
    settings: OwnFunctionSettings,
    observer: Arc<dyn Observer>,
) -> Result<Arc<OwnFunction>, StartError> {
    // Outside Lambda, the command might not be a Lambda runtime: it would never request an invocation, and
    // `start_first_process` would wait forever.
    check_started_by_lambda()?;
    let command = command.with_wrapper(settings.next_wrapper);
    let program = command.program.display().to_string();
    let runtime_api = aws_variable("AWS_LAMBDA_RUNTIME_API");
    let processes = Processes::new(command, NonZeroU16::MIN).with_runtime_api(runtime_api.as_deref());
    let function = OwnFunction::new(processes, settings.handler_event).with_observer(observer);
    let function = Arc::new(function.with_source_queue(settings.source_queue_url.as_deref()));
    let began = function
        .runtime
        .start_first_process()
        .await
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if let Err(ended) = began {
        stderr::write_line(format_args!("error: {program} exited during startup: {}", ended.describe_exit()));
        process::exit(ended.status.and_then(|status| status.code()).unwrap_or(1));
    }
    // If an extension is registered, Lambda sends SIGTERM, which must be forwarded to the child processes.
    let mut signals = Signals::listen()?;
    let ended = Arc::clone(&function);
    tokio::spawn(async move {
        signals.next().await;
        ended.runtime.stop_all().await;
        process::exit(0);
    });
    Ok(function)
}
