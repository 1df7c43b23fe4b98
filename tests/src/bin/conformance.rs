//! Runs the conformance suite against a real SQS: an AWS account, or any endpoint.
//!
//! It creates queues whose names start with `redeliver-conformance-`, tagged `redeliver=conformance`, and deletes them
//! at the end, even after a failure or an interrupt. It sends some 200 requests and a few MiB, and takes about a
//! minute.

use std::process::ExitCode;

use aws_config::{BehaviorVersion, Region};
use clap::Parser;
use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsService;
use redeliver_tests::conformance::{ConformanceBench, run_all};
use redeliver_tests::{settings, skips};

/// Check that an SQS service follows the rules that redeliver relies on.
///
/// Exit status: 0 if every rule holds; 1 if a rule is broken or a queue is left behind.
#[derive(Parser)]
#[command(name = "conformance")]
struct Arguments {
    /// A profile from the AWS configuration files; if it uses single sign-on, export its credentials first (`aws
    /// configure export-credentials --format env`).
    #[arg(long)]
    profile: Option<String>,
    /// The AWS region; by default the profile's.
    #[arg(long)]
    region: Option<String>,
    /// An endpoint other than AWS's, e.g. an emulator's.
    #[arg(long)]
    endpoint_url: Option<String>,
    /// Expect the departures that `tests/known-skips.toml` lists for this implementation, e.g. `ministack`.
    #[arg(long)]
    known_as: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let service = SqsService::new(sqs_client(&arguments).await);
    let prefix = format!("redeliver-conformance-{:x}-{:x}", settings::epoch_millis(), std::process::id());
    let bench = ConformanceBench::new(&service, &SystemClock, &prefix);
    let known = skips::known_names();
    let departs = |rule: &str| {
        let name = |implementation| format!("conformance on {implementation}: {rule}");
        arguments.known_as.as_ref().is_some_and(|implementation| known.contains(&name(implementation)))
    };
    eprintln!("queues: {prefix}-*");
    let report = tokio::select! {
        report = run_all(&bench, departs) => Some(report),
        _ = tokio::signal::ctrl_c() => None,
    };
    let Some(report) = report else {
        let left_behind = bench.clean_up().await;
        eprintln!("interrupted; queues left behind: {left_behind:?}");
        return ExitCode::FAILURE;
    };
    eprint!("{report}");
    if report.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn sqs_client(arguments: &Arguments) -> aws_sdk_sqs::Client {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    if let Some(profile) = &arguments.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &arguments.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(endpoint_url) = &arguments.endpoint_url {
        loader = loader.endpoint_url(endpoint_url);
    }
    aws_sdk_sqs::Client::new(&loader.load().await)
}
