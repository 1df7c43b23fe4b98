//! The loop in real time, on queues of its own at an SQS-compatible endpoint; they are deleted at the end.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_sqs::config::{ConfigBag, Intercept, Region, RuntimeComponents};
use aws_sdk_sqs::error::BoxError;
use indicatif::ProgressBar;
use redeliver_aws::sqs::{POLL_TIMEOUT, SqsService};
use redeliver_aws::{NO_CONNECTION, SystemClock};
use redeliver_sim::{LoopError, Topology};
use uuid::Uuid;

use crate::Setup;
use crate::report::RunReport;
use crate::run::{self, Backend};
use redeliver_core::lock;
use redeliver_operator::Failure;
use redeliver_operator::queues::{emulator_credentials, is_on_this_machine};
use redeliver_operator::terminal::signals::interrupted;

/// Runs the loop in real time on queues of its own at this endpoint.
///
/// # Errors
/// As [`run_in_memory`](crate::run_in_memory), or if the endpoint refuses.
pub async fn run_at_endpoint(
    setup: Setup,
    url: &str,
    bar: &ProgressBar,
    output: &mut dyn Write,
) -> Result<RunReport, Failure> {
    let counter = RequestCounter::default();
    let mut loader = aws_config::from_env().endpoint_url(url);
    if is_on_this_machine(url)? {
        loader = loader.credentials_provider(emulator_credentials());
    }
    let config = loader.load().await;
    let region = config.region().cloned().unwrap_or(Region::from_static("us-east-1"));
    let config = redeliver_aws::sqs::client_config(&config, Some(POLL_TIMEOUT))
        .region(region)
        .interceptor(counter.clone())
        .build();
    let service = SqsService::new(aws_sdk_sqs::Client::from_conf(config));
    let requests = || counter.counts();
    let backend = Backend {
        // Emulators name senders in their own way.
        of_functions: Topology::clone,
        service: &service,
        clock: &SystemClock,
        is_virtual: false,
        hold: None,
        // At random: two runs with the same seed must not share queues.
        prefix: format!("redeliver-local-{:.8}", Uuid::new_v4().simple().to_string()),
        wait: Duration::from_secs(2),
        // The queues are not in our memory, so the whole input is sent at once.
        visible: &|_| 0,
        requests: &requests,
    };
    let stop = interrupted("interrupted: deleting its queues; Ctrl-C again leaves them there")?;
    let no_connection =
        |error: &LoopError| matches!(error, LoopError::Sqs { error, .. } if error.code == NO_CONNECTION);
    run::run(setup, backend, bar, output, stop.requested()).await.map_err(|error| {
        match error.downcast_ref() {
            Some(error) if no_connection(error) => {
                format!("{error}: no connection to {url}: is it running? check --endpoint-url").into()
            }
            _ => error,
        }
    })
}

/// Counts requests by action, including retries.
#[derive(Clone, Debug, Default)]
struct RequestCounter(Arc<Mutex<BTreeMap<String, u64>>>);

impl RequestCounter {
    fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.0).clone()
    }
}

impl Intercept for RequestCounter {
    fn name(&self) -> &'static str {
        "RequestCounter"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // "Making query API requests using AWS JSON protocol in Amazon SQS": `AmazonSQS.SendMessageBatch`.
        let action =
            context.request().headers().get("x-amz-target").and_then(|target| target.split('.').nth(1));
        if let Some(action) = action {
            *lock(&self.0).entry(action.to_owned()).or_default() += 1;
        }
        Ok(())
    }
}
