//! Runs the loop in real time at an SQS-compatible endpoint, on temporary queues that are deleted at the end.

use std::io::Write;
use std::time::Duration;

use aws_sdk_sqs::config::Region;
use indicatif::ProgressBar;
use redeliver_aws::sqs::{POLL_TIMEOUT, SqsService};
use redeliver_aws::{NO_CONNECTION, SystemClock};
use redeliver_sim::{LoopError, Topology};
use uuid::Uuid;

use crate::LocalSetup;
use crate::report::RunReport;
use crate::run::{self, Backend};
use redeliver_operator::CommandFailure;
use redeliver_operator::queues::{RequestLog, emulator_credentials, is_local_endpoint};
use redeliver_operator::terminal::signals::stop_on_signal;

/// Runs the loop in real time on temporary queues at this endpoint.
pub(crate) async fn run_at_endpoint(
    setup: LocalSetup,
    url: &str,
    bar: &ProgressBar,
    output: &mut dyn Write,
) -> Result<RunReport, CommandFailure> {
    let sent = RequestLog::default();
    let mut loader = aws_config::from_env().endpoint_url(url);
    if is_local_endpoint(url)? {
        loader = loader.credentials_provider(emulator_credentials());
    }
    let config = loader.load().await;
    let region = config.region().cloned().unwrap_or(Region::from_static("us-east-1"));
    let config = redeliver_aws::sqs::client_config(&config, Some(POLL_TIMEOUT))
        .region(region)
        .interceptor(sent.clone())
        .build();
    let service = SqsService::new(aws_sdk_sqs::Client::from_conf(config));
    let requests = || sent.counts_by_action();
    let backend = Backend {
        // Unchanged, since emulators use their own format for sender ids.
        for_functions: Topology::clone,
        service: &service,
        clock: &SystemClock,
        is_virtual: false,
        hold: None,
        // Random: two runs with the same seed must not share queues.
        prefix: format!("redeliver-local-{:.8}", Uuid::new_v4().simple().to_string()),
        wait: Duration::from_secs(2),
        // The queues are not in our memory, so there is no need to wait until they drain.
        visible: &|_| 0,
        requests: &requests,
    };
    let stop = stop_on_signal("interrupted: deleting its queues; Ctrl-C again leaves them there")?;
    let no_connection =
        |error: &LoopError| matches!(error, LoopError::Sqs { error, .. } if error.code == NO_CONNECTION);
    run::run_loop(setup, backend, bar, output, &stop).await.map_err(|error| match error.downcast_ref() {
        Some(error) if no_connection(error) => {
            format!("{error}: no connection to {url}: is it running? check --endpoint-url").into()
        }
        _ => error,
    })
}
