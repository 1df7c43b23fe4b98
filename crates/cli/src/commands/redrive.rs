//! `redeliver redrive`: sends dead letters back to the source queue.

mod arguments;
mod paused;
mod question;
mod report_text;
mod sources;

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

pub use arguments::Arguments;

use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::redrive::{EarlyEnd, RedriveOutcome, RedriveProgress};
use redeliver_operator::message_file::is_standard_input;
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::queues::account;
use redeliver_operator::redrive::{
    OMIT_TO_ADVICE, RedriveResult, RedriveToFile, RedriveToQueue, RunEstimate,
};
use redeliver_operator::sentences::describe_still_hidden_messages;
use redeliver_operator::terminal::signals::stop_on_signal;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode, UsageError};
use report_text::RedriveRoute;

const TO_FIFO: &str = "the source queue is a FIFO queue: each dead letter goes to the end of its group, behind \
                       messages that were sent later; dead letters of one group arrive in any order";
const FINISHING: &str = "interrupted: finishing the work in progress; Ctrl-C again stops immediately";

/// Prints the plan or, with `--apply`, the report of the run.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    let redriven = run_redrive(arguments).await?;
    redriven.remarks.iter().for_each(stderr::warning);
    let hidden =
        redriven.report.coverage.and_then(|coverage| describe_still_hidden_messages(coverage.still_hidden));
    hidden.iter().for_each(stderr::warning);
    print_report(arguments, &redriven)
}

async fn run_redrive(arguments: &Arguments) -> Result<RedriveResult, CommandFailure> {
    arguments.printing.check_destination()?;
    if let Some(archive) = arguments.from.archive_uri()? {
        return Err(UsageError::new(archive.send_hint()).into());
    }
    let request = arguments.request()?;
    match arguments.output_file()? {
        Some(path) => write_to_file(&RedriveToFile::open(request).await?, path).await,
        None if arguments.sends_to_sources() => sources::send_to_sources(arguments, request).await,
        None => send_to_queue(arguments, &RedriveToQueue::open(request).await?).await,
    }
}

async fn send_to_queue(
    arguments: &Arguments,
    redrive: &RedriveToQueue<'_>,
) -> Result<RedriveResult, CommandFailure> {
    if redrive.sends_to_fifo() {
        stderr::remark(TO_FIFO);
    }
    let has_consumer = paused::has_consumer(arguments, &redrive.find_consumer().await?)?;
    let stop = stop_on_signal(FINISHING)?;
    if arguments.apply.is_wanted()
        && let Some(elsewhere) = redrive.describe_other_sources(&|| stop.is_requested()).await?
        && !question::ask_yes_no(&format!("{elsewhere}. Send them to the queue of --to anyway? [y/N] "))?
    {
        return Err(format!(
            "{elsewhere}: {OMIT_TO_ADVICE}; or confirm in a terminal, or select them (audit --save FILE) and send that file"
        )
        .into());
    }
    let bar = RunBar::new(arguments.selection.max());
    let (from, to) = (redrive.source_arn(), redrive.destination_arn());
    let verb = arguments.apply.choose_verb("sending back", "would send back");
    let connection = &arguments.from.queue.connection;
    account::announce_change(connection, to, format_args!("{verb} from {from} to {to}")).await;
    if arguments.apply.is_wanted() {
        stderr::remark(format_args!("journal: {}", redrive.journal_path().display()));
    }
    let redriven =
        redrive.run(has_consumer, &|| stop.is_requested(), &|progress| bar.show_progress(progress)).await;
    bar.bar.finish_and_clear();
    redriven
}

/// The progress bar of a run on a terminal.
struct RunBar {
    bar: ProgressBar,
    estimate: RefCell<RunEstimate>,
}

impl RunBar {
    /// Creates a bar that ticks steadily, since a round can take a minute, and watching the pilot takes longer.
    fn new(max: u64) -> Self {
        let template = "{spinner} {human_pos} sent back{msg}, {elapsed}";
        let bar = stderr::show_progress(ProgressBar::new_spinner(), template);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, estimate: RefCell::new(RunEstimate::new(max, SystemClock.now())) }
    }

    fn show_progress(&self, progress: RedriveProgress) {
        if let RedriveProgress::Sent(sent) = progress {
            self.bar.set_position(sent);
        }
        self.bar.set_message(self.estimate.borrow_mut().record_progress(progress, SystemClock.now()));
    }
}

async fn write_to_file(redrive: &RedriveToFile<'_>, path: &Path) -> Result<RedriveResult, CommandFailure> {
    redrive.duplicates_warning().iter().for_each(stderr::warning);
    let stop = stop_on_signal("interrupted: Ctrl-C again stops immediately")?;
    redrive.run(path, &|| stop.is_requested()).await
}

fn print_report(
    arguments: &Arguments,
    RedriveResult { report, missing, .. }: &RedriveResult,
) -> Result<ExitCode, CommandFailure> {
    let applied = arguments.apply.is_wanted();
    let route = RedriveRoute::for_arguments(arguments);
    let printing = if route == RedriveRoute::FileToFile {
        arguments.printing.with_stdout()
    } else {
        arguments.printing.clone()
    };
    let table = || {
        let table = report_text::render_report_table(report, route, applied, arguments.selection.max());
        let example = report.edit_example.as_ref();
        let layout = printing.layout(SystemClock.now());
        table + &example.map(|example| report_text::render_edit_example(example, &layout)).unwrap_or_default()
    };
    printing.print_report("redrive", &report.to_json(), table)?;
    arguments.apply.remind_to_apply(report.planned > 0);
    for sentence in missing {
        stderr::error(sentence);
    }
    if let Some(EarlyEnd::Failed(error)) = &report.early_end {
        stderr::error(error);
    }
    let ending = RedriveOutcome::from_report(report, arguments.selection.max());
    if let Some(sentence) = report_text::closing_sentence(ending, route, report) {
        stderr::warning(sentence);
    }
    let again = NextCommand::from_args(std::env::args_os());
    let next = next_command(arguments, again, ending, report.planned > 0);
    if let Some(command) = next.filter(|_| printing.is_for_people()) {
        stderr::print_next_command(&command, "operate/redrive");
    }
    Ok(match ending {
        RedriveOutcome::Done if !missing.is_empty() => ExitCode::NotFound,
        ending => ending.exit_code(),
    })
}

/// Suggests the same command with `--apply`, or `again` if a second run can finish the redrive; otherwise, a command
/// that shows the result.
fn next_command(
    arguments: &Arguments,
    again: Option<NextCommand>,
    ending: RedriveOutcome,
    is_something_planned: bool,
) -> Option<NextCommand> {
    let source = &arguments.from;
    if source.file.as_deref().is_some_and(is_standard_input) {
        return None; // it can be read only once
    }
    if !arguments.apply.is_wanted() {
        return again.filter(|_| is_something_planned).map(|command| command.with_flag("apply"));
    }
    match ending {
        RedriveOutcome::Interrupted
        | RedriveOutcome::Failed
        | RedriveOutcome::NotSeen
        | RedriveOutcome::NotDeleted => again,
        RedriveOutcome::Left | RedriveOutcome::Stopped => {
            Some(NextCommand::new("audit").with_words(source.to_arguments()?))
        }
        RedriveOutcome::Done if source.file.is_some() => None,
        RedriveOutcome::Done => {
            Some(NextCommand::new("status").with_words(source.queue.deployment_arguments()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::commands::parse_command_line;

    fn suggest_next(words: &[&str], ending: RedriveOutcome, is_something_planned: bool) -> Option<String> {
        let words = ["redeliver", "redrive"].iter().chain(words).map(OsString::from);
        let crate::CliCommand::Redrive(arguments) = parse_command_line(words.clone()) else {
            panic!("expected redrive")
        };
        let again = NextCommand::from_args(words);
        let command = next_command(&arguments, again, ending, is_something_planned)?;
        parse_command_line(command.words());
        Some(command.to_string())
    }

    #[test]
    fn the_next_command_after_a_plan_adds_apply() {
        let words = ["--stack", "prod", "--where", ".a == 'b'", "--edit", ".body.data.n = 1"];
        assert_eq!(
            suggest_next(&words, RedriveOutcome::Done, true).as_deref(),
            Some(
                r"redeliver redrive --stack prod --where '.a == '\''b'\''' --edit '.body.data.n = 1' --apply"
            )
        );
        assert_eq!(suggest_next(&words, RedriveOutcome::Done, false), None, "nothing would be sent");
        assert_eq!(
            suggest_next(&["-", "--to", "orders"], RedriveOutcome::Done, true),
            None,
            "it was read once"
        );
        let file = ["--to", "orders", "--", "dead.jsonl"];
        assert_eq!(
            suggest_next(&file, RedriveOutcome::Left, true).as_deref(),
            Some("redeliver redrive --to orders --apply -- dead.jsonl")
        );
    }

    #[test]
    fn the_next_command_after_a_redrive_finishes_it_or_shows_its_result() {
        let words = ["--stack", "prod", "--region", "eu-central-1", "--group", "21d708b3fca00092", "--apply"];
        for ending in [
            RedriveOutcome::Interrupted,
            RedriveOutcome::Failed,
            RedriveOutcome::NotSeen,
            RedriveOutcome::NotDeleted,
        ] {
            assert_eq!(
                suggest_next(&words, ending, false).unwrap(),
                "redeliver redrive --stack prod --region eu-central-1 --group 21d708b3fca00092 --apply"
            );
        }
        for ending in [RedriveOutcome::Left, RedriveOutcome::Stopped] {
            assert_eq!(
                suggest_next(&words, ending, false).unwrap(),
                "redeliver audit --stack prod --region eu-central-1"
            );
        }
        assert_eq!(
            suggest_next(&words, RedriveOutcome::Done, false).unwrap(),
            "redeliver status --stack prod --region eu-central-1"
        );
        // A single queue has no deployment status, and a file remains unchanged.
        assert_eq!(suggest_next(&["--queue", "dlq", "--apply"], RedriveOutcome::Done, false), None);
        assert_eq!(
            suggest_next(&["dead.jsonl", "--to", "orders", "--apply"], RedriveOutcome::Done, false),
            None
        );
        assert_eq!(
            suggest_next(&["--queue", "dlq", "--apply"], RedriveOutcome::Stopped, false).as_deref(),
            Some("redeliver audit --queue dlq")
        );
    }
}
