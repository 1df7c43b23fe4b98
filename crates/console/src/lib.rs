//! `redeliver console`: the operator's commands as a web page for one person on this machine, over the same code and
//! with that person's own credentials.

mod at;
mod desk;
mod edit_page;
mod fleet_page;
mod frame;
mod guard;
mod latest;
mod letters;
mod letters_page;
mod live;
mod look;
mod making;
mod message_page;
mod now;
mod now_page;
mod outcome;
mod plan_page;
mod plans;
mod request;
mod run;
mod site;
mod spool;
mod start_form;
mod work;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use desk::Desk;
use guard::{Guard, Token};
use redeliver_operator::Failure;
use redeliver_operator::files::read_schema;
use redeliver_operator::http_server;
use redeliver_operator::plain_args::PlainArguments;
use redeliver_operator::queues::{Connection, OneQueue, QueueAddress};
use redeliver_operator::terminal::output::Output;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::number;
use site::Site;
use spool::Spool;

/// Open a local web page to operate a deployment: what flows, what died and why, send back, edit, delete, pause.
///
/// It listens on 127.0.0.1 alone and prints a link with a token in it. It calls AWS with your credentials, and nobody
/// else. Ctrl-C ends it; a redrive that is under way is brought to a point from which it can go on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver console --stack redeliver-prod
  redeliver console --stack orders-prod --stack payments-prod --read-only
  redeliver console --prefix orders --stage prod --profile operations
  redeliver console --queue orders-dlq --to orders
  redeliver console dead-letters.jsonl
  redeliver console --fleet --region eu-central-1

Plans, their journals and backups of what was deleted are files in --folder: start it there again to finish what was \
interrupted.

A file is shown and filtered, and nothing is changed: there is nothing to pause, to delete or to send back. `redrive FILE` \
edits its messages, and sends them or writes them to another file.

Exit codes:
  0  it was ended with Ctrl-C
  2  bad usage, or the deployment, its queues, the folder or the port cannot be used")]
pub struct Arguments {
    /// A file of dead letters, to be looked at: what `audit --archive`, `purge --backup` or `local --final-dlq` wrote
    #[arg(value_name = "FILE", conflicts_with_all = ["stacks", "prefix", "stage", "queue", "fleet", "folder"])]
    file: Option<PathBuf>,
    /// The redeliver stack of this name; may be given several times
    #[arg(long = "stack", value_name = "NAME", conflicts_with_all = ["prefix", "stage", "queue"])]
    stacks: Vec<String>,
    #[command(flatten)]
    named: Named,
    /// Begin with every DLQ of the account and region, as `redeliver fleet` shows them
    #[arg(long)]
    fleet: bool,
    /// With --queue: the queue that dead letters are sent back to
    #[arg(long, value_name = "QUEUE", requires = "queue")]
    to: Option<QueueAddress>,
    /// Show everything and change nothing
    #[arg(long)]
    read_only: bool,
    /// The port to listen on; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0..=65_535_u16))]
    port: u16,
    /// Where plans, journals and backups are kept
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// A JSON Schema for `data` that messages must match to be sent back
    #[arg(long, value_name = "FILE")]
    data_schema: Option<PathBuf>,
    #[command(flatten)]
    plain: PlainArguments,
    /// Leave alone what was sent back so many times already
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(0..=100_u32))]
    max_generation: u32,
    #[command(flatten)]
    connection: Connection,
}

/// One deployment or one DLQ.
#[derive(Clone, Debug, Default, Args)]
struct Named {
    /// The DLQ: its URL, name or ARN
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["prefix", "stage"])]
    queue: Option<QueueAddress>,
    /// The deployment with this prefix, also of a construct in an app of your own [default: redeliver]
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// The deployment with this stage [default: prod]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
}

/// Serves the page until Ctrl-C.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).await;
    let listener = listener.map_err(|error| format!("--port {}: {error}", arguments.port))?;
    let read_only = arguments.read_only || arguments.file.is_some();
    let [path, token] = [(); 2].map(|()| Token::new());
    let guard = Guard { address: listener.local_addr()?, path, token, read_only };
    let link = guard.link();
    let site = tokio::select! {
        site = open(arguments, guard) => Arc::new(site?),
        _ = signals.next() => return Err("interrupted before anything was opened".into()),
    };
    Output::default().write(&format!("{link}\n"))?;
    stderr::remark("open this link; Ctrl-C ends the console");
    let service = TowerToHyperService::new(site::router(Arc::clone(&site)));
    // To the very end: an answer that is under way is not cut off.
    let mut serving = pin!(http_server::serve(listener, service));
    tokio::select! {
        never = serving.as_mut() => match never {},
        _ = signals.next() => {}
    }
    stderr::remark("ending: what is under way is brought to an end; Ctrl-C again does not wait");
    tokio::select! {
        () = site.rest() => Ok(ExitCode::SUCCESS),
        _ = signals.next() => Ok(ExitCode::from(130)),
    }
}

async fn open(arguments: &Arguments, guard: Guard) -> Result<Site, Failure> {
    let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
    let folder = std::path::absolute(&arguments.folder)?;
    if !folder.is_dir() {
        return Err(
            format!("--folder {}: is no folder; make it first, or name another", folder.display()).into()
        );
    }
    if !arguments.read_only && arguments.file.is_none() {
        // What cannot be kept is not begun.
        Spool::new(&folder).map_err(|error| {
            format!(
                "--folder {}: {error}; name one that you can write to, or add --read-only",
                folder.display()
            )
        })?;
    }
    let mut desks = Vec::new();
    if let Some(path) = &arguments.file {
        desks.push(Desk::of_file(path, arguments.connection.clone(), &folder)?);
    }
    for which in deployments(arguments)? {
        desks.push(Desk::open(which, arguments.to.clone(), arguments.connection.clone(), &folder).await?);
    }
    Ok(Site {
        guard,
        desks,
        schema,
        max_generation: arguments.max_generation,
        fleet: arguments.fleet.then(Arc::default),
        connection: arguments.connection.clone(),
        switching: Mutex::default(),
    })
}

fn deployments(arguments: &Arguments) -> Result<Vec<OneQueue>, Failure> {
    let Named { queue, prefix, stage } = arguments.named.clone();
    if !arguments.stacks.is_empty() {
        return Ok(arguments.stacks.iter().map(|stack| OneQueue::of_stack(stack)).collect());
    }
    match (queue, prefix, stage) {
        (None, None, None) if arguments.fleet || arguments.file.is_some() => Ok(Vec::new()),
        (None, None, None) => Err(
            "say which deployment: --stack, --prefix and --stage, or --queue with --to; name a file of dead letters; or begin \
             with --fleet"
                .into(),
        ),
        (queue, prefix, stage) => Ok(vec![OneQueue::of(queue, prefix, stage)]),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_folder_that_cannot_be_written_is_refused_before_a_plan_is_made_in_vain() {
        let refused = async |more: &[&str]| {
            let words = ["console", "--fleet", "--folder", "/proc"].iter().chain(more);
            let [path, token] = [(); 2].map(|()| Token::new());
            let guard = Guard { address: (Ipv4Addr::LOCALHOST, 0).into(), path, token, read_only: true };
            open(&Program::parse_from(words).arguments, guard).await.err().map(|error| error.to_string())
        };
        let why = refused(&[]).await.unwrap();
        assert!(why.starts_with("--folder /proc: "), "{why}");
        assert!(why.ends_with("; name one that you can write to, or add --read-only"), "{why}");
        assert_eq!(refused(&["--read-only"]).await, None);
    }
}

/// A filter of these tests starts this program once more, with this name.
#[cfg(test)]
#[test]
fn filter_worker() {
    redeliver_dead_letters::serve_filter();
}
