//! Deploys redeliver to an AWS account under a separate name, sends messages down every path, destroys everything, and
//! reports.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod account;
mod cost;
mod report;
mod scenarios;

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use redeliver_tests::deployment::{Cdk, Cloud, Outputs, local_context};
use tokio::signal::ctrl_c;
use tokio::sync::oneshot;

use account::{AccountIdentity, SmokeAccount};
use report::SmokeReport;
use scenarios::SmokeTest;

const APP: &str = "test/smoke-app.ts";

/// Deploy redeliver to your AWS account under a separate name, send messages down every path, and destroy everything
/// again.
///
/// Shows the plan and asks for confirmation, unless --yes is given. The stack is destroyed at the end, even after a
/// failure or Ctrl-C. The report is in target/smoke. A run takes ten to thirty minutes and costs a few cents.
#[derive(Parser)]
#[command(name = "cargo xtask smoke", bin_name = "cargo xtask smoke")]
struct Arguments {
    /// The profile in your AWS configuration.
    #[arg(long, required_unless_present = "emulator")]
    profile: Option<String>,
    /// The region, if it differs from the profile's.
    #[arg(long)]
    region: Option<String>,
    /// The name of the stack, and the prefix of all names in it. The stack must not exist yet.
    #[arg(long, value_name = "NAME", default_value = "redeliver-smoke")]
    prefix: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Use an emulator on this machine instead of an account. The report lists the checks that it cannot run.
    #[arg(long, conflicts_with_all = ["profile", "region"])]
    emulator: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run_smoke(&Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_smoke(arguments: &Arguments) -> Result<bool, String> {
    if arguments.emulator {
        let cloud = Cloud::start().await.map_err(|error| error.to_string())?;
        let account = SmokeAccount::for_emulator(&cloud);
        return smoke_test_account(arguments, cloud.cdk(), &account).await;
    }
    let account =
        SmokeAccount::from_profile(arguments.profile.as_deref(), arguments.region.as_deref()).await?;
    // A separate folder, even if another run uses this prefix.
    let name = format!("{}-{}", arguments.prefix, std::process::id());
    let cdk = Cdk::for_user(&name, account.variables.clone());
    smoke_test_account(arguments, &cdk, &account).await
}

/// Returns true if all checks passed. Creates nothing without the user's consent.
async fn smoke_test_account(
    arguments: &Arguments,
    cdk: &Cdk,
    account: &SmokeAccount,
) -> Result<bool, String> {
    let prefix = &arguments.prefix;
    let identity = account.query_identity().await?;
    if let Some(status) = account.stack_status(prefix).await? {
        return Err(format!(
            "the stack {prefix} already exists ({status}); use another --prefix, or delete it first: {}",
            describe_deletion(prefix, &identity)
        ));
    }
    println!("{}", describe_plan(prefix, &identity));
    if let Some(advice) = account.concurrency_shortage(cdk, prefix, APP, &context_arguments(prefix)).await? {
        println!("{advice}");
    }
    if !arguments.yes && !ask_for_consent().await {
        return Err("nothing was created".to_owned());
    }
    let mut report = SmokeReport::begin(prefix, &identity, account.is_emulated);
    tokio::select! {
        done = deploy_and_test(cdk, account, prefix, &mut report) => {
            if let Err(error) = done {
                report.add_failure("the run completes", error);
            }
        }
        _ = ctrl_c() => report.add_failure("the run completes", "interrupted".to_owned()),
    }
    take_down(cdk, account, prefix, &identity, &mut report).await;
    report.add_cost(cost::cost_in_dollars(&report));
    let path = report.write_files()?;
    println!("{}\nreport: {}", report.to_markdown(), path.display());
    Ok(report.has_passed())
}

async fn deploy_and_test(
    cdk: &Cdk,
    account: &SmokeAccount,
    prefix: &str,
    report: &mut SmokeReport,
) -> Result<(), String> {
    eprintln!("deploying {prefix}, which takes some minutes on AWS ...");
    let started = report.elapsed_seconds();
    let outputs: Outputs =
        cdk.deploy_app_stack(APP, &context_arguments(prefix)).await.map_err(|error| error.to_string())?;
    report.add_figure("deployment_seconds", report.elapsed_seconds() - started);
    SmokeTest::new(account, prefix, &outputs).run_scenarios(report).await
}

fn context_arguments(prefix: &str) -> Vec<String> {
    [local_context(), vec![format!("prefix={prefix}")]].concat()
}

/// Destroys the stack after success or failure. A stack that was never created is not a failure.
async fn take_down(
    cdk: &Cdk,
    account: &SmokeAccount,
    prefix: &str,
    identity: &AccountIdentity,
    report: &mut SmokeReport,
) {
    eprintln!("destroying ...");
    let mut reported = cdk.destroy_app().await.err().map(|error| error.to_string()).unwrap_or_default();
    if !matches!(account.stack_status(prefix).await, Ok(None)) {
        // `cdk destroy` can fail for the same reason as the deployment.
        reported += &account.delete_stack(prefix).await.err().unwrap_or_default();
    }
    let left = match account.stack_status(prefix).await {
        Ok(None) => return report.add_pass("nothing is left behind", String::new()),
        Ok(Some(status)) => format!("the stack {prefix} is {status}"),
        Err(error) => format!("could not determine whether the stack {prefix} exists: {error}"),
    };
    report.add_failure(
        "nothing is left behind",
        format!("{left}; run {}\n{reported}", describe_deletion(prefix, identity)),
    );
}

fn describe_deletion(prefix: &str, identity: &AccountIdentity) -> String {
    format!("aws cloudformation delete-stack --stack-name {prefix} --region {}", identity.region)
}

fn describe_plan(prefix: &str, AccountIdentity { account, user, region }: &AccountIdentity) -> String {
    format!(
        "account {account}, region {region}, as {user}\n\
         creates the stack {prefix}: 7 queues, 4 functions with roles and log groups, alarms, a dashboard; sends some 20 messages; \
         destroys it all\n\
         costs about ${:.2}, and takes ten to thirty minutes",
        cost::expected_dollars()
    )
}

/// Reads in a separate thread: tokio's own standard input would keep the program from exiting on Ctrl-C.
async fn ask_for_consent() -> bool {
    println!("type yes to continue:");
    let (typed, answer) = oneshot::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _end_of_input = std::io::stdin().read_line(&mut line);
        let _receiver_gone = typed.send(line.trim() == "yes");
    });
    answer.await.unwrap_or(false)
}
