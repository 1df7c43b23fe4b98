//! `redeliver audit`: what died, why and when, read from a DLQ without consuming it.

mod age;
mod arguments;
mod attempts;
mod auditor;
mod body;
mod copies;
mod csv;
#[cfg(test)]
pub(crate) mod examples;
mod html;
mod json_text;
mod over_time;
mod report;
mod show;
mod since;
mod table;
mod timeline;
mod view;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::{Either, select};
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

pub use arguments::{Arguments, Format};
use auditor::{Audited, Auditor, Progress};
pub(crate) use html::told;
use report::{Context, Tally};
pub(crate) use since::remark as not_known_to_be_new;
pub(crate) use table::groups_for_people;
use view::View;

use crate::connection::KnownQueue;
use crate::people::counted;
use crate::{Failure, signals, tell};
use redeliver_dead_letters::{Archive, Known, Pick};

/// Reads the queue and prints what is in it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let audited = run(arguments).await?;
    let Audited { report, missing, output_closed, still_hidden, remark, .. } = &audited;
    if let Some(remark) = remark {
        tell::warning(remark);
    }
    let is_known = says_it_itself(arguments) || *output_closed;
    if let Some(sentence) = report.incompleteness().filter(|_| !is_known) {
        tell::warning(sentence);
    }
    for sentence in missing {
        tell::error(sentence);
    }
    if *still_hidden > 0 {
        let messages = counted(*still_hidden, "message");
        tell::warning(format_args!("{messages} stay hidden from other readers for up to two minutes"));
    }
    Ok(exit_code(&audited))
}

/// As documented in `--help`.
fn exit_code(audited: &Audited) -> ExitCode {
    let Audited { report, missing, output_closed, .. } = audited;
    // First: what was told now is not told again.
    if audited.has_new_causes {
        return ExitCode::from(6);
    }
    let has_ended_as_asked = report.complete || report.max_reached || *output_closed;
    ExitCode::from(match (has_ended_as_asked, missing.is_empty(), report.total) {
        (false, ..) => 4,
        (true, false, _) => 1,
        (true, true, 0) => 0,
        (true, true, _) => 3,
    })
}

/// The table on standard output has the sentence already.
fn says_it_itself(arguments: &Arguments) -> bool {
    let is_table = arguments.format == Format::Table && arguments.output.file().is_none();
    is_table && arguments.show.is_none() && arguments.since.is_none()
}

async fn run(arguments: &Arguments) -> Result<Audited, Failure> {
    arguments.output.check()?;
    let can_mask = arguments.show.is_some() || matches!(arguments.format, Format::Html | Format::Csv);
    if arguments.reveal && !can_mask {
        return Err("--reveal is for --show, and for --format html or csv: leave it out".into());
    }
    let pick = match &arguments.show {
        Some(id) => Pick::one(id),
        None => arguments.picking.pick()?,
    };
    let interrupt = signals::interrupted("interrupted: giving the messages back")?;
    let mut stop = Box::pin(interrupt.requested());
    let KnownQueue { queue, attributes } = match select(stop.as_mut(), Box::pin(arguments.queue.open())).await
    {
        Either::Left(_) => return Err("interrupted before anything was read".into()),
        Either::Right((queue, _)) => queue?,
    };
    let retention = attributes.get("MessageRetentionPeriod").and_then(|seconds| seconds.parse().ok());
    let arn = attributes.get("QueueArn").map(String::as_str).unwrap_or_default();
    let context = Context {
        queue: arn.rsplit(':').next().unwrap_or_default().to_owned(),
        retention: retention.map(Duration::from_secs),
        now: SystemClock.now(),
        filter: arguments.picking.filter.clone(),
    };
    let known = arguments.since.as_deref().map(|path| Known::read(path, arn)).transpose()?;
    let archive = arguments.archive.as_deref().map(Archive::create).transpose()?;
    let mut output = output(arguments)?;
    let template = "{bar:40} {human_pos}/{human_len} messages read, {elapsed}";
    let bar = tell::progress(ProgressBar::new(0), template);
    let progress = |progress| match progress {
        Progress::Read { seen, approximate } => {
            bar.set_length(approximate.max(seen));
            bar.set_position(seen);
        }
        Progress::Over => bar.finish_and_clear(),
    };
    let auditor = Auditor {
        pick,
        max: arguments.picking.max(),
        tally: Tally::new(context),
        archive,
        view: view(arguments, known.as_ref()),
        output: &mut output,
    };
    let audited = auditor.audit(&queue, &SystemClock, stop, progress).await;
    bar.finish_and_clear();
    // A pipe or a device was there before.
    if let (Err(_), Some(ours)) = (&audited, arguments.output.file().filter(|path| path.is_file())) {
        let _nothing_is_in_it = std::fs::remove_file(ours);
    }
    let mut audited = audited?;
    if let (Some(path), Some(mut known)) = (&arguments.since, known) {
        let lines = since::lines(&known, &audited.report.groups);
        audited.has_new_causes = !lines.is_empty();
        since::remark(&audited.report.groups).iter().for_each(tell::warning);
        // Whoever closed the output has not read them.
        if !audited.output_closed {
            if !prints_new_causes_alone(arguments) {
                lines.iter().for_each(tell::warning);
            }
            known.remember(&audited.report.groups, SystemClock.now());
            known.write(path)?;
        }
    }
    Ok(audited)
}

fn prints_new_causes_alone(arguments: &Arguments) -> bool {
    arguments.since.is_some() && arguments.format == Format::Table && arguments.output.file().is_none()
}

fn view(arguments: &Arguments, known: Option<&Known>) -> Box<dyn View> {
    if let Some(known) = known.filter(|_| prints_new_causes_alone(arguments)) {
        return Box::new(since::NewCauses { known: known.clone() });
    }
    let colours = arguments.output.file().is_none() && console::colors_enabled();
    let reveal = arguments.reveal;
    if arguments.show.is_some() {
        return Box::new(show::Show { reveal, colours, printed: 0 });
    }
    match arguments.format {
        Format::Table => Box::new(table::Table { colours }),
        Format::Json => Box::new(view::Json),
        Format::Jsonl => Box::new(view::JsonLines),
        Format::Csv => Box::new(csv::Csv { reveal }),
        Format::Html => Box::new(html::Page::new(reveal)),
    }
}

fn output(arguments: &Arguments) -> Result<BufWriter<Box<dyn Write>>, Failure> {
    let output: Box<dyn Write> = match arguments.output.file() {
        Some(path) => Box::new(crate::output::create(path)?),
        None => Box::new(io::stdout().lock()),
    };
    Ok(BufWriter::new(output))
}

#[cfg(test)]
mod tests;
