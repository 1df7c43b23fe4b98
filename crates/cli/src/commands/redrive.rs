//! `redeliver redrive`: sends dead letters back to the source queue.

mod arguments;
mod paused;
mod question;
mod report_text;
mod sources;

use std::path::Path;
use std::time::Duration;

pub use arguments::Arguments;

use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::redrive::{Early, Ending, Progress};
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::queues::account;
use redeliver_operator::redrive::{RedriveToFile, RedriveToQueue, Redriven, TO_THEIR_OWN, describe_wait};
use redeliver_operator::sentences::still_hidden;
use redeliver_operator::terminal::signals::interrupted;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{ExitCode, Failure, UsageError};
use report_text::Way;

const TO_FIFO: &str = "the source queue is a FIFO queue: each dead letter goes to the end of its group, behind messages \
                       that were sent later; dead letters of one group arrive in any order";
const FINISHING: &str = "interrupted: finishing what is under way; Ctrl-C again does not wait";

/// Prints the plan, or with `--apply` the report of its run.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let redriven = run(arguments).await?;
    redriven.remarks.iter().for_each(stderr::warning);
    let hidden = redriven.report.coverage.and_then(|coverage| still_hidden(coverage.still_hidden));
    hidden.iter().for_each(stderr::warning);
    print(arguments, &redriven)
}

async fn run(arguments: &Arguments) -> Result<Redriven, Failure> {
    arguments.printing.check()?;
    if let Some(archive) = arguments.from.archive()? {
        return Err(UsageError::new(archive.how_to_send()).into());
    }
    let request = arguments.request()?;
    match arguments.written()? {
        Some(path) => write(&RedriveToFile::open(request).await?, path).await,
        None if arguments.goes_to_sources() => sources::send(arguments, request).await,
        None => send(arguments, &RedriveToQueue::open(request).await?).await,
    }
}

async fn send(arguments: &Arguments, redrive: &RedriveToQueue<'_>) -> Result<Redriven, Failure> {
    if redrive.is_to_fifo() {
        stderr::remark(TO_FIFO);
    }
    let is_consumed = paused::is_consumed(arguments, &redrive.consumer().await?)?;
    let stop = interrupted(FINISHING)?;
    if arguments.apply.is_wanted()
        && let Some(elsewhere) = redrive.from_elsewhere(&|| stop.is_requested()).await?
        && !question::is_answered_yes(&format!("{elsewhere}. Send them to the queue of --to anyway? [y/N] "))?
    {
        return Err(format!(
            "{elsewhere}: {TO_THEIR_OWN}; or confirm in a terminal, or select them (audit --save FILE) and send that file"
        )
        .into());
    }
    let bar = progress_bar();
    let (from, to) = (redrive.from_arn(), redrive.to_arn());
    let verb = arguments.apply.verb("sending back", "would send back");
    let connection = &arguments.from.queue.connection;
    account::announce(connection, to, format_args!("{verb} from {from} to {to}")).await;
    if arguments.apply.is_wanted() {
        stderr::remark(format_args!("journal: {}", redrive.journal_path().display()));
    }
    let redriven = redrive.run(is_consumed, &|| stop.is_requested(), &|progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    redriven
}

/// A steady tick, since a round may take a minute, and watching the pilot longer.
fn progress_bar() -> ProgressBar {
    let bar =
        stderr::progress(ProgressBar::new_spinner(), "{spinner} {human_pos} sent back, {elapsed} {msg}");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

async fn write(redrive: &RedriveToFile<'_>, path: &Path) -> Result<Redriven, Failure> {
    redrive.warning().iter().for_each(stderr::warning);
    let stop = interrupted("interrupted: Ctrl-C again does not wait")?;
    redrive.run(path, &|| stop.is_requested()).await
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Sent(sent) => {
            bar.set_message("");
            bar.set_position(sent);
        }
        Progress::CameBack(_) => {} // the report has it
        Progress::Watching(_) | Progress::Waiting(_) => {
            bar.set_message(describe_wait(progress).unwrap_or_default());
        }
    }
}

fn print(arguments: &Arguments, Redriven { report, missing, .. }: &Redriven) -> Result<ExitCode, Failure> {
    let applied = arguments.apply.is_wanted();
    let way = Way::of(arguments);
    let printing =
        if way == Way::FileToFile { arguments.printing.on_stdout() } else { arguments.printing.clone() };
    let table = || {
        let table = report_text::table(report, way, applied, arguments.selection.max());
        let example = report.edit_example.as_ref();
        let layout = printing.layout(SystemClock.now());
        table + &example.map(|example| report_text::edit_example(example, &layout)).unwrap_or_default()
    };
    printing.print("redrive", &report.json(), table)?;
    arguments.apply.remark_that_nothing_was_done(report.planned > 0);
    for sentence in missing {
        stderr::error(sentence);
    }
    if let Some(Early::Failed(error)) = &report.early {
        stderr::error(error);
    }
    let ending = Ending::of(report, arguments.selection.max());
    if let Some(sentence) = report_text::sentence(ending, way, report) {
        stderr::warning(sentence);
    }
    let next = next_command(arguments, ending, report.planned > 0);
    if let Some(command) = next.filter(|_| printing.is_for_people()) {
        stderr::next(&command, "operate/redrive");
    }
    Ok(match ending {
        Ending::Done if !missing.is_empty() => ExitCode::NotThere,
        ending => ending.exit_code(),
    })
}

/// The same command with `--apply`, or again if it can finish; else the one that shows what has come of it.
fn next_command(arguments: &Arguments, ending: Ending, is_something_planned: bool) -> Option<NextCommand> {
    let again = || NextCommand::again(std::env::args_os());
    let source = &arguments.from;
    if source.file.as_deref().is_some_and(is_standard_input) {
        return None; // it can be read only once
    }
    if !arguments.apply.is_wanted() {
        let is_asked_for = is_something_planned && !arguments.apply.is_dry_run();
        return again().filter(|_| is_asked_for).map(|command| command.flag("apply"));
    }
    match ending {
        Ending::Interrupted | Ending::Failed | Ending::NotSeen | Ending::NotDeleted => again(),
        Ending::Left | Ending::Stopped => Some(NextCommand::new("audit").with(source.words()?)),
        Ending::Done if source.file.is_some() => None,
        Ending::Done => Some(NextCommand::new("status").with(source.queue.deployment_words()?)),
    }
}
