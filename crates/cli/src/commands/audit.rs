//! `redeliver audit`: reports which messages died, why and when, and reads a DLQ without consuming it.

mod arguments;
mod csv;
#[cfg(test)]
#[path = "../../../operator/src/audit/examples.rs"]
pub(crate) mod examples;
mod html;
mod known_causes;
mod show;
mod table;

use std::cell::RefCell;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::{Clock as _, Queue as _};

pub use arguments::{Arguments, AuditFormat};
pub(crate) use table::format_groups;

use redeliver_dead_letters::groups::{DeadLetterGroup, OTHER};
use redeliver_dead_letters::{KnownCauses, Pick, Resolution};
#[cfg(test)]
use redeliver_operator::audit::{AuditContext, AuditTally};
use redeliver_operator::audit::{
    AuditProgress, AuditReport, AuditRequest, AuditResult, JsonLinesView, JsonView, View,
};
use redeliver_operator::dead_letter::{ShowOptions, suggest_edit};
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::sentences::{
    describe_causes_beyond_table_limit, describe_still_hidden_messages as still_hidden_in_words,
    describe_unjudged_messages,
};
use redeliver_operator::terminal::remaining::RemainingTime;
use redeliver_operator::terminal::signals;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

/// Reads the queue and prints a report.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    if let (Some(fingerprint), Some(file)) = (&arguments.resolved, &arguments.known_causes) {
        return record_resolution(arguments, fingerprint, file).await;
    }
    let audited = run_audit(arguments).await?;
    let AuditResult { report, missing, output_closed, still_hidden, remarks, .. } = &audited;
    remarks.iter().for_each(stderr::warning);
    describe_unjudged_messages(&report.not_judged).iter().for_each(stderr::warning);
    report.describe_all_invalid().iter().for_each(stderr::warning);
    // The table on standard output already contains the sentence.
    let is_in_table =
        arguments.is_table_on_stdout() && arguments.show.is_none() && arguments.known_causes.is_none();
    let is_known = is_in_table || *output_closed;
    // With --known-causes the sentence is printed once per day, since cron mails all output.
    if let Some(sentence) =
        report.describe_expiring_messages().filter(|_| !is_known && arguments.known_causes.is_none())
    {
        stderr::warning(sentence);
    }
    if let Some(sentence) = report.describe_incompleteness().filter(|_| !is_known) {
        stderr::warning(sentence);
    }
    for sentence in missing {
        stderr::error(sentence);
    }
    if let Some(sentence) = still_hidden_in_words(*still_hidden) {
        stderr::warning(sentence);
    }
    let is_for_people = arguments.is_table_on_stdout() && arguments.known_causes.is_none();
    if let Some(next) = next_command(arguments, report).filter(|_| is_for_people && !output_closed) {
        match next {
            NextStep::Command(command) => stderr::print_next_command(&command, "operate/audit"),
            NextStep::Edit(command) => {
                stderr::print_next_command(&command, "operate/edit");
                stderr::remark("in --edit, replace the last dot with the fix");
            }
        }
    }
    Ok(exit_code(&audited))
}

/// The suggested next command.
#[derive(Debug)]
enum NextStep {
    Command(NextCommand),
    /// An edit to be completed; as printed, it changes nothing.
    Edit(NextCommand),
}

/// Suggests the command that shows the newest message of the largest group, or sends the selected messages back. If
/// they are invalid, the whole group is edited first.
fn next_command(arguments: &Arguments, report: &AuditReport) -> Option<NextStep> {
    let group = report.groups.first().filter(|group| group.fingerprint != OTHER)?;
    let DeadLetterGroup { fingerprint, example, .. } = group;
    let words = arguments.source.to_arguments().filter(|_| arguments.period.is_default())?;
    // A command without the rest of the selection would send more than was audited.
    if arguments.selection.narrows_a_group() {
        return None;
    }
    let selected = match (&arguments.show, &arguments.selection.group) {
        // The full id: `--ids` does not accept prefixes.
        (Some(_), _) if report.total == 1 => Some(("ids", example)),
        (Some(_), _) => return None,
        (None, Some(_)) => Some(("group", fingerprint)),
        (None, None) => None,
    };
    match selected {
        None => {
            Some(NextStep::Command(NextCommand::new("audit").with_words(words).with_option("show", example)))
        }
        // The destination of messages from a file is unknown.
        Some(_) if arguments.source.file.is_some() => None,
        Some((name, value)) => {
            let redrive = NextCommand::new("redrive").with_words(words);
            Some(match suggest_edit(group) {
                Some(edit) => {
                    NextStep::Edit(redrive.with_option("group", fingerprint).with_option("edit", &edit))
                }
                None => NextStep::Command(redrive.with_option(name, value)),
            })
        }
    }
}

/// Returns the exit code of the most urgent condition.
fn exit_code(audited: &AuditResult) -> ExitCode {
    let AuditResult { report, missing, output_closed, .. } = audited;
    // Checked first, since a printed cause is never printed again.
    if audited.has_new_causes {
        return ExitCode::NewCause;
    }
    // The next run reports the rest again.
    if report.interrupted {
        return ExitCode::Interrupted;
    }
    // Takes precedence over all other codes: these messages are lost unless they are sent back or saved.
    if report.age.deleted_soon > 0 {
        return ExitCode::ExpiringSoon;
    }
    let has_ended_as_requested =
        (report.complete || report.max_reached || *output_closed) && report.not_judged.messages == 0;
    match (has_ended_as_requested, missing.is_empty(), report.total) {
        (false, ..) => ExitCode::Incomplete,
        (true, false, _) => ExitCode::NotFound,
        (true, true, 0) => ExitCode::Done,
        (true, true, _) => ExitCode::ProblemsFound,
    }
}

/// Marks a cause as resolved in the file of known causes.
async fn record_resolution(
    arguments: &Arguments,
    fingerprint: &str,
    file: &Path,
) -> Result<ExitCode, CommandFailure> {
    let source = arguments.source.open(arguments.period).await?;
    let arn = source.dead_letters.arn();
    if !KnownCauses::read_file(file, arn)?.fingerprints().any(|known| known == fingerprint) {
        let file = file.display();
        stderr::error(format_args!(
            "{file} does not contain group {fingerprint}: run the command without --resolved first"
        ));
        return Ok(ExitCode::NotFound);
    }
    let resolved = Resolution { at: SystemClock.now(), by: arguments.resolved_by.clone() };
    KnownCauses::mark_resolved(file, arn, fingerprint, resolved)?;
    stderr::remark(format_args!("{}: {fingerprint} is resolved", file.display()));
    Ok(ExitCode::Done)
}

async fn run_audit(arguments: &Arguments) -> Result<AuditResult, CommandFailure> {
    arguments.output.check_destination()?;
    let can_mask =
        arguments.show.is_some() || matches!(arguments.format, AuditFormat::Html | AuditFormat::Csv);
    if arguments.reveal && !can_mask {
        return Err(UsageError::new("--reveal works only with --show, and with --format html or csv").into());
    }
    let request = AuditRequest {
        source: &arguments.source,
        period: arguments.period,
        pick: match &arguments.show {
            Some(id) => Pick::with_id(id),
            None => arguments.selection.build_pick()?,
        },
        max: arguments.selection.max(),
        known_causes: arguments.known_causes.as_deref(),
        save: arguments.save.as_deref(),
    };
    let interrupt = signals::stop_on_signal("interrupted: returning the messages to the queue")?;
    let mut stop = Box::pin(interrupt.wait_until_requested());
    let mut open = request.open(stop.as_mut()).await?;
    let known_causes = open.known_causes.take();
    let mut output = open_output(arguments)?;
    let template = "{bar:40} {human_pos}/{human_len} messages read, {elapsed}{msg}";
    let bar = stderr::show_progress(ProgressBar::new(0), template);
    let remaining = RefCell::new(RemainingTime::new(SystemClock.now()));
    let progress = |progress| match progress {
        AuditProgress::Read { seen, approximate } => {
            let total = approximate.max(seen);
            bar.set_length(total);
            bar.set_message(remaining.borrow_mut().describe(seen, total, SystemClock.now()));
            bar.set_position(seen);
        }
        AuditProgress::Over => bar.finish_and_clear(),
    };
    let view = select_view(arguments, known_causes.as_ref().map(|file| &file.known));
    let audited = open.run_audit(view, &mut output, stop, progress).await;
    bar.finish_and_clear();
    // Keep a pipe or a device: it was not created here.
    if let (Err(_), Some(ours)) = (&audited, arguments.output.file().filter(|path| path.is_file())) {
        let _ignored = std::fs::remove_file(ours);
    }
    let mut audited = audited?;
    if let Some(file) = known_causes {
        let groups = &audited.report.groups;
        audited.has_new_causes = !file.known.groups_with_new_cause(groups).is_empty()
            || !file.known.groups_with_recurred_cause(groups).is_empty();
        print_new_causes(arguments, &file.known, &audited);
        // If the output was closed, the causes remain new.
        if !audited.output_closed {
            file.remember_report(&audited.report, SystemClock.now())?;
        }
    }
    Ok(audited)
}

/// Prints the new causes, unless the output was closed or already contains them.
fn print_new_causes(
    arguments: &Arguments,
    known: &KnownCauses,
    AuditResult { report, output_closed, .. }: &AuditResult,
) {
    describe_causes_beyond_table_limit(&report.groups).iter().for_each(stderr::warning);
    if !output_closed && !arguments.is_table_on_stdout() {
        known_causes::new_cause_lines(known, report).iter().for_each(stderr::warning);
    }
}

fn select_view(arguments: &Arguments, known: Option<&KnownCauses>) -> Box<dyn View> {
    // Prints nothing else, so that a cron job stays silent until there is something new.
    if let Some(known) = known.filter(|_| arguments.is_table_on_stdout()) {
        return Box::new(known_causes::NewCauses { known: known.clone() });
    }
    let on_stdout = arguments.output.file().is_none();
    let colors = on_stdout && console::colors_enabled();
    let reveal = arguments.reveal;
    let show_options = ShowOptions { reveal, traces: arguments.traces.clone() };
    if let Some(id) = &arguments.show {
        let layout = arguments.output.layout(SystemClock.now());
        return Box::new(show::ShowView::new(id, show_options, colors, layout));
    }
    match arguments.format {
        AuditFormat::Table => {
            Box::new(table::Table { colors, layout: arguments.output.layout(SystemClock.now()) })
        }
        AuditFormat::Json => Box::new(JsonView),
        AuditFormat::Jsonl => Box::new(JsonLinesView),
        AuditFormat::Csv => Box::new(csv::Csv { reveal }),
        AuditFormat::Html => Box::new(html::HtmlReport::new(show_options)),
    }
}

fn open_output(arguments: &Arguments) -> Result<BufWriter<Box<dyn Write>>, CommandFailure> {
    let output: Box<dyn Write> = match arguments.output.file() {
        Some(path) => Box::new(redeliver_operator::terminal::output::create_file(path)?),
        None => Box::new(io::stdout().lock()),
    };
    Ok(BufWriter::new(output))
}

#[cfg(test)]
mod tests;
