//! `redeliver console`: the operator's commands as a web page for one person on this machine, with the same code and
//! that person's credentials.

mod background;
mod browser;
mod dead_letters;
mod deployment;
mod error;
mod extract;
mod guard;
mod layout;
mod pages;
mod plans;
mod request;
mod router;
mod server_sent_events;
mod session;
mod site;
mod status_poll;
mod url;

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::files::read_schema;
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::queues::{AwsConnection, OneQueue, QueueAddress};
use redeliver_operator::status::containers::{Containers, MetricsUrl};
use redeliver_operator::terminal::help::{CONNECT, HelpFooter, SHOW, VALIDATE};
use redeliver_operator::terminal::output::OutputArgs;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::{number, seconds};
use redeliver_operator::trace_url::TraceUrlArgs;
use redeliver_operator::{CommandFailure, ExitCode, InterruptedError, UsageError, http_server};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use dead_letters::spool::Spool;
use deployment::{ConsoleDeployment, ConsoleFiles};
use guard::{Guard, SecretToken};
use session::Session;
use site::Site;

/// The closing text of the help for `console`.
const CLOSING: HelpFooter = HelpFooter {
    command: "console",
    page: "console",
    examples: &[
        "redeliver console --stack redeliver-prod",
        "redeliver console --queue orders-dlq --to orders",
        "redeliver console dead-letters.jsonl",
        "redeliver console --stack orders-prod --stack payments-prod --read-only",
        "redeliver console --prefix orders --stage prod --profile operations",
        "redeliver console s3://my-archive/redeliver --since 7d",
        "redeliver console --fleet --region eu-central-1",
        "redeliver console --stack orders-queues --metrics http://10.0.0.7:8080/metrics",
    ],
    notes: &[
        "Plans, journals and backups of deleted messages are files in --folder. To finish an interrupted plan, start \
         the console there again.",
        "A file can be shown and filtered, but not changed. `redrive FILE` edits its messages, and sends them or \
         writes them to another file; `audit s3://… --save FILE` creates such a file from an archive.",
    ],
    exit_codes: &[
        (ExitCode::Done, "after SIGTERM", ""),
        (ExitCode::Failed, "", "The deployment, its queues, the folder or the port cannot be used."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::Interrupted,
            "after Ctrl-C",
            "Also after SIGTERM before anything was opened, and after a second signal.",
        ),
    ],
};

/// Operate a deployment from a web page on this machine. Shows queues and dead letters, sends messages back, edits and
/// deletes them, and pauses functions.
///
/// Listens only on 127.0.0.1, prints a link with a token, and opens it in your browser if there is one. Calls AWS with
/// your credentials, and otherwise only the addresses given with --metrics. Ctrl-C ends the console and stops a redrive
/// at a point from which it can continue.
#[derive(Debug, Args)]
#[command(next_help_heading = SHOW)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// A file of dead letters to show, or an archive, s3://BUCKET[/PREFIX]
    ///
    /// A file written by `audit --save`, `purge --backup` or `local --final-dlq`.
    #[arg(help_heading = None::<&str>, value_name = "FILE", conflicts_with_all = ["stacks", "prefix", "stage", "queue", "fleet", "folder"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    period: PeriodArgs,
    /// The name of a redeliver stack; may be repeated
    #[arg(long = "stack", help_heading = CONNECT, value_name = "NAME", conflicts_with_all = ["prefix", "stage", "queue"])]
    stacks: Vec<String>,
    #[command(flatten)]
    named: DeploymentSelection,
    /// Start with every DLQ in the account and region
    ///
    /// The list is the same as in `redeliver fleet`.
    #[arg(long, help_heading = CONNECT)]
    fleet: bool,
    /// With --queue: the queue to send dead letters back to
    #[arg(long, help_heading = CONNECT, value_name = "QUEUE", requires = "queue", conflicts_with_all = ["stacks", "prefix", "stage"])]
    to: Option<QueueAddress>,
    /// A container's /metrics or Prometheus /federate URL; may be repeated
    ///
    /// The container must run `redeliver work --health`. Containers have no metrics in CloudWatch. With this option,
    /// the last day also shows holds and outages, starting with the first reading.
    #[arg(long, help_heading = CONNECT, value_name = "URL", conflicts_with_all = ["file", "fleet"])]
    metrics: Vec<MetricsUrl>,
    /// Read the dead letters again this often while a page is open
    ///
    /// They are read only if their number has changed. Each refresh receives every message once. Without this option,
    /// each refresh requires a click.
    #[arg(long, value_name = "SPAN", value_parser = seconds(60..=86_400), conflicts_with = "file")]
    refresh_every: Option<Duration>,
    /// Show everything and change nothing
    #[arg(long)]
    read_only: bool,
    /// The port to listen on [default: the first free one from 8722 to 8741]
    ///
    /// 0 selects any free port.
    #[arg(long, value_name = "N", value_parser = number(0..=65_535_u16))]
    port: Option<u16>,
    /// Do not open the link in a browser
    ///
    /// By default, the link is opened in a desktop session with a terminal, but not over SSH or in CI.
    #[arg(long)]
    no_open: bool,
    /// The folder for plans, journals and backups
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// The file that records known and resolved causes [default: one in --folder]
    ///
    /// The same file as for `audit --known-causes`. Allowed only with one deployment.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "fleet"])]
    known_causes: Option<PathBuf>,
    /// JSON Schema for the `data` of each message
    ///
    /// A message that does not match is not sent back.
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    data_schema: Option<PathBuf>,
    #[command(flatten)]
    traces: TraceUrlArgs,
    #[command(flatten)]
    plain: PlainArguments,
    /// Skip messages already sent back N times
    #[arg(long, help_heading = VALIDATE, value_name = "N", default_value_t = 3, value_parser = number(0..=100_u32))]
    max_generation: u32,
    #[command(flatten)]
    connection: AwsConnection,
}

/// The ports to try without `--port`.
const PORTS: RangeInclusive<u16> = 8722..=8741;

/// One deployment or one DLQ.
#[derive(Clone, Debug, Default, Args)]
struct DeploymentSelection {
    /// The DLQ: its URL, name or ARN
    #[arg(long, help_heading = CONNECT, value_name = "QUEUE", conflicts_with_all = ["prefix", "stage"])]
    queue: Option<QueueAddress>,
    /// The deployment's prefix [default: redeliver]
    ///
    /// The names of its queues start with PREFIX-STAGE. Also use it for a construct in your own app.
    #[arg(long, help_heading = CONNECT, value_name = "NAME")]
    prefix: Option<String>,
    /// The deployment's stage [default: prod]
    #[arg(long, help_heading = CONNECT, value_name = "NAME")]
    stage: Option<String>,
}

/// Serves the page until Ctrl-C or SIGTERM, then waits until readings and plans have stopped at a safe point.
///
/// # Errors
/// The options contradict each other, or the deployment, its queues, the folder or the port cannot be used.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    let mut signals = Signals::listen()?;
    let listener = bind_listener(arguments.port).await?;
    let read_only = arguments.read_only || arguments.file.is_some();
    let [path, token] = [(); 2].map(|()| SecretToken::new());
    let guard = Guard { address: listener.local_addr()?, path, token, read_only };
    let link = guard.entry_link();
    let site = tokio::select! {
        site = open_site(arguments, guard) => Arc::new(site?),
        _ = signals.next() => return Err(InterruptedError("anything was opened").into()),
    };
    OutputArgs::default().write_text(&format!("{link}\n"))?;
    let link_page = if arguments.no_open { None } else { browser::open_browser(&link, &arguments.folder) };
    let is_opened = if link_page.is_some() { "opening it in your browser" } else { "open this link" };
    stderr::remark(format_args!("{is_opened}; Ctrl-C ends the console"));
    // Polled until it completes, so that no response is cut off.
    let mut serving = pin!(http_server::serve_router(listener, router::build_router(Arc::clone(&site))));
    let signal = tokio::select! {
        never = serving.as_mut() => match never {},
        signal = signals.next() => signal,
    };
    stderr::remark("ending: finishing the work in progress; Ctrl-C again stops immediately");
    tokio::select! {
        () = site.stop_work() => Ok(if signal.is_interrupt { ExitCode::Interrupted } else { ExitCode::Done }),
        _ = signals.next() => Ok(ExitCode::Interrupted),
    }
}

/// Listens on `--port`, or on the first free port of [`PORTS`], so that open pages find the console again; if all are
/// taken, on any free port.
async fn bind_listener(port: Option<u16>) -> Result<TcpListener, CommandFailure> {
    let bind = async |port| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        listener.map_err(|error| (error.kind(), format!("--port {port}: {error}").into()))
    };
    if port.is_none() {
        for port in PORTS {
            match bind(port).await {
                Err((ErrorKind::AddrInUse, _)) => {
                    stderr::remark(format!("port {port} is in use: trying the next one"));
                }
                bound => return bound.map_err(|(_, failure)| failure),
            }
        }
    }
    bind(port.unwrap_or(0)).await.map_err(|(_, failure)| failure)
}

async fn open_site(arguments: &Arguments, guard: Guard) -> Result<Site, CommandFailure> {
    let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
    let folder = std::path::absolute(&arguments.folder)?;
    if !folder.is_dir() {
        return Err(format!(
            "--folder {}: is not a folder; create it first, or name another",
            folder.display()
        )
        .into());
    }
    if !arguments.read_only && arguments.file.is_none() {
        // Plans need a writable folder.
        Spool::new(&folder).map_err(|error| {
            format!(
                "--folder {}: {error}; name one that you can write to, or add --read-only",
                folder.display()
            )
        })?;
    }
    if arguments.known_causes.is_some() && arguments.stacks.len() > 1 {
        return Err(UsageError::new(
            "--known-causes is the file of one queue: start a console for each --stack",
        )
        .into());
    }
    let mut deployments = Vec::new();
    if let Some(path) = &arguments.file {
        deployments.push(
            ConsoleDeployment::from_file(path, arguments.period, arguments.connection.clone(), &folder)
                .await?,
        );
    }
    let containers = metrics_containers(arguments)?;
    for which in named_deployments(arguments)? {
        let (to, connection) = (arguments.to.clone(), arguments.connection.clone());
        let files = ConsoleFiles { folder: &folder, known_causes: arguments.known_causes.as_deref() };
        deployments
            .push(ConsoleDeployment::open_queues(which, to, connection, files, containers.clone()).await?);
    }
    let command = command_digest(arguments, &folder, &deployments);
    Ok(Site {
        session: Session::restore_from(session::state_folder().as_deref(), guard.address.port(), command),
        guard,
        deployments,
        schema,
        traces: arguments.traces.clone(),
        max_generation: arguments.max_generation,
        refresh_every: arguments.refresh_every,
        fleet: arguments.fleet.then(Arc::default),
        connection: arguments.connection.clone(),
        switch_lock: Mutex::default(),
    })
}

fn metrics_containers(arguments: &Arguments) -> Result<Option<Containers>, CommandFailure> {
    if arguments.metrics.is_empty() {
        return Ok(None);
    }
    if arguments.stacks.len() > 1 {
        // The counters carry the function's name, but not the name of the stack that owns its queues.
        return Err(
            UsageError::new("--metrics is for one deployment: start a console for each --stack").into()
        );
    }
    Containers::new(arguments.metrics.clone()).map(Some)
}

/// Returns a digest of the command and its queues: with different queues, a page would show and change the wrong
/// deployment.
fn command_digest(arguments: &Arguments, folder: &Path, deployments: &[ConsoleDeployment]) -> String {
    let queues: Vec<_> =
        deployments.iter().map(|deployment| (&deployment.from, deployment.source_arn().ok())).collect();
    let digest = Sha256::digest(format!("{arguments:?} {} {queues:?}", folder.display()));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named_deployments(arguments: &Arguments) -> Result<Vec<OneQueue>, CommandFailure> {
    let DeploymentSelection { queue, prefix, stage } = arguments.named.clone();
    if !arguments.stacks.is_empty() {
        return Ok(arguments.stacks.iter().map(|stack| OneQueue::from_stack(stack)).collect());
    }
    match (queue, prefix, stage) {
        (None, None, None) if arguments.fleet || arguments.file.is_some() => Ok(Vec::new()),
        (None, None, None) => Err(UsageError::new(
            "name a deployment (--stack, or --prefix and --stage), a queue (--queue with --to) or a file of dead \
             letters, or start with --fleet",
        )
        .into()),
        (queue, prefix, stage) => Ok(vec![OneQueue::from_names(queue, prefix, stage)]),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use redeliver_testing::layers::first_upward_import;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn an_unwritable_folder_is_rejected_at_startup() {
        let refused = async |more: &[&str]| {
            let words = ["console", "--fleet", "--folder", "/proc"].iter().chain(more);
            let [path, token] = [(); 2].map(|()| SecretToken::new());
            let guard = Guard { address: (Ipv4Addr::LOCALHOST, 0).into(), path, token, read_only: true };
            open_site(&Program::parse_from(words).arguments, guard).await.err().map(|error| error.to_string())
        };
        let why = refused(&[]).await.unwrap();
        assert!(why.starts_with("--folder /proc: "), "{why}");
        assert!(why.ends_with("; name one that you can write to, or add --read-only"), "{why}");
        assert_eq!(refused(&["--read-only"]).await, None);
    }

    #[test]
    fn metrics_are_allowed_only_for_a_single_deployment() {
        let url = ["console", "--metrics", "http://127.0.0.1:1/metrics"];
        let with = |more: &[&str]| metrics_containers(&Program::parse_from(url.iter().chain(more)).arguments);
        let why = with(&["--stack", "a", "--stack", "b"]).unwrap_err().to_string();
        assert_eq!(why, "--metrics is for one deployment: start a console for each --stack");
        assert!(with(&["--stack", "a"]).unwrap().is_some());
        assert!(Program::try_parse_from(url.iter().chain(&["--fleet"])).is_err());
    }

    #[test]
    fn a_destination_is_allowed_only_for_a_queue() {
        let parse = |words: &[&str]| {
            Program::try_parse_from(["console", "--to", "orders"].iter().chain(words)).map(|_| ())
        };
        parse(&["--queue", "orders-dlq"]).unwrap();
        for deployment in [&["--stack", "prod"][..], &["--prefix", "orders"], &["--stage", "prod"]] {
            let error = parse(deployment).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{error}");
        }
    }

    #[test]
    fn a_module_imports_only_from_lower_layers() {
        let floors = [
            "background browser url guard layout server_sent_events",
            "error session status_poll",
            "request dead_letters::selection dead_letters::spool dead_letters::text_search",
            "dead_letters::snapshot",
            "dead_letters::facets dead_letters::reading plans::plan",
            "dead_letters plans::command plans::decide plans::outcome",
            "plans::run",
            "plans::runner",
            "plans deployment",
            "site",
            "extract",
            "pages::diff pages::edit pages::facets pages::fleet pages::letter_links pages::selected pages::start_form \
             pages::status",
            "pages::bulk_edit pages::cause pages::dead_letter pages::dead_letters pages::pause",
            "pages::plans",
            "pages",
            "router",
        ];
        assert_eq!(first_upward_import(concat!(env!("CARGO_MANIFEST_DIR"), "/src"), &floors), None);
    }
}
