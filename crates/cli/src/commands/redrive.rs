//! `redeliver redrive`: sends dead letters back to the source queue.

mod arguments;
mod paused;
mod report_text;

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use arguments::Arguments;

use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Queue as _, is_fifo};
use redeliver_dead_letters::files::sync_directory_of;
use redeliver_dead_letters::redrive::{
    Early, Edit, Ending, Journal, JournalError, Limits, Plan, Progress, Redrive, RedriveReport, plan_id,
};

use redeliver_operator::archive::PeriodArgs;
use redeliver_operator::dead_letter_source::DeadLetters;
use redeliver_operator::file_journals::{
    check_not_begun, journal_of_redrive, journal_of_send, or_all_once_more,
};
use redeliver_operator::files::read_schema;
use redeliver_operator::queues::account;
use redeliver_operator::redrive::{Applied, RedriveTask, check_destination, describe_wait};
use redeliver_operator::sentences::{picked_without_members, still_hidden};
use redeliver_operator::status::consumer::Consumer;
use redeliver_operator::terminal::escape::escaped_lines;
use redeliver_operator::terminal::signals::interrupted;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::counted;
use redeliver_operator::{ExitCode, Failure, UsageError};
use report_text::Way;

/// Prints the plan, or with `--apply` the report of its run.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let run = run(arguments).await?;
    let hidden = run.report.coverage.and_then(|coverage| still_hidden(coverage.still_hidden));
    hidden.iter().for_each(stderr::warning);
    print(arguments, &run)
}

/// A plan, or what was done.
struct Run {
    report: RedriveReport,
    /// Sentences about ids and groups that were named and not found.
    missing: Vec<String>,
}

async fn run(arguments: &Arguments) -> Result<Run, Failure> {
    arguments.printing.check()?;
    if let Some(archive) = arguments.from.archive()? {
        return Err(UsageError::new(archive.how_to_send()).into());
    }
    let plan = plan_of(arguments)?;
    let written = arguments.written()?;
    let from = arguments.from.open(PeriodArgs::default()).await?.dead_letters;
    match written {
        Some(path) => write(arguments, &plan, &from, path).await,
        None => send(arguments, plan, &from).await,
    }
}

async fn send(arguments: &Arguments, plan: Plan, from: &DeadLetters) -> Result<Run, Failure> {
    check_not_sent_as_backup(arguments)?;
    let connection = &arguments.from.queue.connection;
    let to = match &arguments.to {
        Some(address) => connection.find(address).await?,
        None => connection.find(&arguments.from.queue.source().await?).await?,
    };
    let plan = &Plan { to_fifo: is_fifo(to.queue.arn()), ..plan };
    if plan.to_fifo {
        stderr::remark(
            "the source queue is a FIFO queue: each dead letter goes to the end of its group, behind messages that were sent \
             later; dead letters of one group arrive in any order",
        );
    }
    check_destination(from, to.queue.arn())?;
    let is_file = from.lines().is_some();
    let is_consumed = is_consumed(arguments, to.queue.arn()).await?;
    let stop = interrupted("interrupted: finishing what is under way; Ctrl-C again does not wait")?;
    let bar =
        stderr::progress(ProgressBar::new_spinner(), "{spinner} {human_pos} sent back, {elapsed} {msg}");
    // A steady tick, since a round may take a minute, and watching the pilot longer.
    bar.enable_steady_tick(Duration::from_millis(100));
    let task = RedriveTask {
        from,
        to: &to.queue,
        plan,
        pace: arguments.pace(),
        max: arguments.selection.max(),
        is_consumed,
        interrupted: &|| stop.is_requested(),
        progress: &|progress| show(&bar, progress),
    };
    let id = id_of(arguments, from.name_in_journal(), to.queue.arn());
    let (from, to) = (from.arn(), to.queue.arn());
    let verb = arguments.apply.verb("sending back", "would send back");
    account::announce(connection, to, format_args!("{verb} from {from} to {to}")).await;
    let path = journal_path(arguments, &id);
    let (report, is_first_run) = if arguments.apply.is_wanted() {
        stderr::remark(format_args!("journal: {}", path.display()));
        let Applied { report, is_first, .. } = task.apply(&path, &id).await?;
        (report, is_first)
    } else {
        let report = task.dry_run(&path, &id).await?;
        if let Some(remark) = picked_without_members(&plan.pick) {
            stderr::warning(remark);
        }
        (report, true)
    };
    bar.finish_and_clear();
    // Only the first run over the whole queue can tell that a message is missing. In a file all stay.
    let knows = report.is_covered() && (is_first_run || is_file);
    let missing = if knows { plan.pick.missing() } else { Vec::new() };
    Ok(Run { report, missing })
}

/// Refuses a file of which only the journal of `send --backup` says what was sent.
fn check_not_sent_as_backup(arguments: &Arguments) -> Result<(), Failure> {
    match arguments.regular_file() {
        Some(file) if arguments.journal.is_none() => {
            check_not_begun(&journal_of_send(file), "redeliver send --backup").map_err(or_all_once_more)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The file's journal. What it says was sent is not written: it would be sent twice.
fn sent_before(arguments: &Arguments, from: &DeadLetters) -> Result<Option<Journal>, Failure> {
    let Some(file) = arguments.regular_file() else { return Ok(None) };
    let path = arguments.journal.clone().unwrap_or_else(|| journal_of_redrive(file));
    let journal = Journal::read_of_source(&path, from.name_in_journal()).map_err(JournalError::for_file)?;
    let unknown = journal.as_ref().map_or(0, |journal| journal.counts().unknown);
    if unknown > 0 {
        let messages = counted(unknown, "message");
        stderr::warning(format_args!(
            "{messages} may have been sent by a run that was killed, or without an answer, and may then be sent twice: first \
             finish that redrive, to its queue",
        ));
    }
    Ok(journal)
}

/// Writes the messages to a new file instead of sending them. A run that fails or is interrupted removes the file; one
/// that is killed leaves its first part.
async fn write(arguments: &Arguments, plan: &Plan, from: &DeadLetters, path: &Path) -> Result<Run, Failure> {
    check_not_sent_as_backup(arguments)?;
    let journal = sent_before(arguments, from)?;
    let stop = interrupted("interrupted: Ctrl-C again does not wait")?;
    let redrive = Redrive {
        dlq: from,
        source: &(),
        clock: &SystemClock,
        plan,
        can_come_back: false,
        limits: Limits {
            rate: None,
            max: arguments.selection.max(),
            stop_after_failures_percent: 100,
            watch: Duration::ZERO,
        },
        interrupted: &|| stop.is_requested(),
        progress: &|_| {},
    };
    let report = if arguments.apply.is_wanted() {
        let mut output = BufWriter::new(redeliver_operator::terminal::output::create(path)?);
        let report = redrive.write(journal.as_ref(), &mut output).await;
        let report = report.and_then(|report| {
            output.flush()?;
            // The dead letters may be deleted next. A pipe cannot be synchronised.
            if path.is_file() {
                output.get_ref().sync_all()?;
                sync_directory_of(path)?;
            }
            Ok(report)
        });
        let is_whole = report.as_ref().is_ok_and(|report| report.early.is_none());
        // A pipe or a device was there before.
        if !is_whole && path.is_file() {
            let _best_effort = std::fs::remove_file(path);
        }
        report?
    } else {
        redrive.dry_run_after(journal.as_ref()).await?
    };
    picked_without_members(&plan.pick).iter().for_each(stderr::warning);
    let missing = if report.early.is_none() { plan.pick.missing() } else { Vec::new() };
    Ok(Run { report, missing })
}

/// True if the source queue has a consumer. Without one, messages are sent only if the user agrees.
async fn is_consumed(arguments: &Arguments, source_arn: &str) -> Result<bool, Failure> {
    // A queue that is named with --to may have readers outside of the stack.
    let is_stack = arguments.to.is_none();
    let why = match Consumer::look(&arguments.from.queue.connection, source_arn, is_stack).await? {
        Consumer::There => return Ok(true),
        Consumer::Unknown(words) => {
            stderr::warning(format_args!("it is not known whether the source queue has a consumer: {words}"));
            return Ok(true);
        }
        Consumer::Nobody(why) => why,
    };
    if !arguments.apply.is_wanted() && !arguments.into_paused {
        stderr::warning(paused::refusal(&why));
    } else if arguments.into_paused {
        stderr::remark(&why);
    } else if !paused::is_wanted(&why)? {
        return Err(paused::refusal(&why).into());
    }
    Ok(false)
}

fn plan_of(arguments: &Arguments) -> Result<Plan, Failure> {
    Ok(Plan {
        pick: arguments.selection.pick()?,
        edit: arguments.edit.as_deref().map(Edit::new).transpose()?,
        new_id: arguments.new_id,
        into_lines: arguments.written()?.is_some(),
        max_generation: arguments.max_generation,
        schema: read_schema(arguments.data_schema.as_deref(), &arguments.plain)?,
        ..Plan::default()
    })
}

/// The journal that is named, the file's own, or one that is named after the plan, so that the same command finds what it
/// has begun.
fn journal_path(arguments: &Arguments, id: &str) -> PathBuf {
    match (&arguments.journal, arguments.regular_file()) {
        (Some(path), _) => path.clone(),
        (None, Some(file)) => journal_of_redrive(file),
        (None, None) => PathBuf::from(format!("redeliver-redrive-{id}.jsonl")),
    }
}

/// The id of a redrive: depends on the messages and the queues, not on the rate or `--max`. All redrives of a file to a
/// queue have the same, and so the same journal: nothing of it is sent twice, whatever they select.
fn id_of(arguments: &Arguments, from: &str, to: &str) -> String {
    if arguments.regular_file().is_some() {
        return plan_id(&[from, to]);
    }
    let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
    let selection = &arguments.selection;
    let mut ids = selection.ids.clone();
    ids.sort();
    let selection =
        [or_none(&selection.filter), ids.join(","), or_none(&selection.group), or_none(&arguments.edit)];
    let [filter, ids, group, edit] = &selection;
    let mut parts = vec![from, to, filter, ids, group, edit];
    parts.extend(arguments.new_id.then_some("--new-id"));
    plan_id(&parts)
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

fn print(arguments: &Arguments, Run { report, missing }: &Run) -> Result<ExitCode, Failure> {
    let applied = arguments.apply.is_wanted();
    // Reasons contain names of members from the messages.
    let way = Way::of(arguments);
    let table = || escaped_lines(&report_text::table(report, way, applied, arguments.selection.max()));
    let printing =
        if way == Way::FileToFile { arguments.printing.on_stdout() } else { arguments.printing.clone() };
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
    Ok(match ending {
        Ending::Done if !missing.is_empty() => ExitCode::NotThere,
        ending => ending.exit_code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(given: &[&str]) -> Arguments {
        let Program { arguments } = clap::Parser::parse_from([&["redrive"], given].concat());
        arguments
    }

    /// Another one would send all of the file again.
    #[test]
    fn all_redrives_of_a_file_to_a_queue_have_the_journal_beside_it_whatever_they_select() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dead.jsonl");
        redeliver_dead_letters::files::replace(&file, b"").unwrap();
        let name = file.to_str().unwrap();
        let ids =
            [&[][..], &["--ids", "a"], &["--group", "g"], &["--max", "1"], &["--edit", ".body.data.n = 1"]]
                .map(|options| {
                    let arguments = arguments(&[&[name, "--to", "orders"], options].concat());
                    let id = id_of(&arguments, "file", "queue");
                    assert_eq!(journal_path(&arguments, &id), folder.path().join("dead.jsonl.redriven"));
                    id
                });
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 1, "{ids:?}");
        let all = arguments(&[name, "--to", "orders"]);
        assert_ne!(id_of(&all, "file", "another queue"), ids[0]);
        let named = arguments(&[name, "--to", "orders", "--journal", "own.jsonl"]);
        assert_eq!(journal_path(&named, &ids[0]), Path::new("own.jsonl"));
    }
}
