//! `redeliver audit`: what died, why and when, read from a DLQ without consuming it.

mod age;
mod arguments;
mod attempts;
mod auditor;
mod body;
mod copies;
mod csv;
mod error;
#[cfg(test)]
mod examples;
mod groups;
mod html;
mod json_text;
mod over_time;
mod report;
mod show;
mod table;
mod timeline;
mod view;

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::{Either, select};
use indicatif::{ProgressBar, ProgressStyle};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

pub use age::Age;
pub use arguments::{Arguments, Format};
pub use attempts::{Attempts, SkippedAttempts};
pub use copies::Duplicates;
pub use error::AuditError;
pub(crate) use groups::GroupTable;
pub use groups::{Group, OTHER};
pub use over_time::{OverTime, Span};
pub use report::{Context, Report, Tally};

use auditor::{Audited, Auditor, Wanted};
pub(crate) use table::groups_for_people;
use view::View;

use crate::connection::KnownQueue;
use crate::dead_letters::{Archive, Filter};
use crate::files::create_output;

/// Reads the queue and prints what is in it.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(Audited { report, still_hidden, remark }) => {
            if let Some(remark) = remark {
                eprintln!("warning: {remark}");
            }
            if let Some(sentence) = report.incompleteness().filter(|_| !says_it_itself(arguments)) {
                eprintln!("warning: {sentence}");
            }
            if still_hidden > 0 {
                eprintln!(
                    "warning: {still_hidden} messages stay hidden from other readers for up to two minutes"
                );
            }
            exit_code(&report)
        }
        Err(error) => {
            eprintln!("error: {}", crate::text::escaped_lines(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

/// As documented in `--help`.
fn exit_code(report: &Report) -> ExitCode {
    ExitCode::from(match (report.complete, report.total) {
        (false, _) => 4,
        (true, 0) => 0,
        (true, _) => 3,
    })
}

/// The table on standard output has the sentence already.
fn says_it_itself(arguments: &Arguments) -> bool {
    arguments.format == Format::Table && arguments.output.is_none() && arguments.show.is_none()
}

fn run(arguments: &Arguments) -> Result<Audited, AuditError> {
    let wanted = match (&arguments.show, &arguments.filter) {
        (Some(id), _) => Wanted::One(id.clone()),
        (None, Some(filter)) => Wanted::Matching(Filter::new(filter)?),
        (None, None) => Wanted::All,
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(AuditError::Start)?;
    runtime.block_on(async {
        let mut stop = Box::pin(interrupted());
        let KnownQueue { queue, attributes } =
            match select(stop.as_mut(), Box::pin(arguments.queue.open())).await {
                Either::Left(_) => return Err(AuditError::Interrupted),
                Either::Right((queue, _)) => queue?,
            };
        let retention = attributes.get("MessageRetentionPeriod").and_then(|seconds| seconds.parse().ok());
        let arn = attributes.get("QueueArn").map(String::as_str).unwrap_or_default();
        let context = Context {
            queue: arn.rsplit(':').next().unwrap_or_default().to_owned(),
            retention: retention.map(Duration::from_secs),
            now: SystemClock.now(),
            filter: arguments.filter.clone(),
        };
        let archive = arguments.archive.as_deref().map(Archive::create).transpose()?;
        let mut output = output(arguments)?;
        let bar = progress_bar();
        let progress = |seen, approximate: u64| {
            bar.set_length(approximate.max(seen));
            bar.set_position(seen);
        };
        let auditor = Auditor {
            wanted,
            tally: Tally::new(context),
            archive,
            view: view(arguments),
            output: &mut output,
        };
        let audited = auditor.audit(&queue, &SystemClock, stop, progress).await;
        bar.finish_and_clear();
        audited
    })
}

fn view(arguments: &Arguments) -> Box<dyn View> {
    let colours = arguments.output.is_none() && console::colors_enabled();
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

fn output(arguments: &Arguments) -> Result<BufWriter<Box<dyn Write>>, AuditError> {
    let output: Box<dyn Write> = match &arguments.output {
        Some(path) => {
            Box::new(create_output(path).map_err(|error| AuditError::File { path: path.clone(), error })?)
        }
        None => Box::new(io::stdout().lock()),
    };
    Ok(BufWriter::new(output))
}

/// Ctrl-C, or a request to end, from now on: what was read is given back all the same.
async fn interrupted() {
    let ctrl_c = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let asked = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let asked = std::future::pending::<()>();
    select(Box::pin(ctrl_c), Box::pin(asked)).await;
    eprintln!("interrupted: giving the messages back");
}

/// On standard error, and only where that is a terminal.
fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} messages read, {elapsed}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests;
