//! `redeliver redrive`: from the DLQ back to the source queue, without losing anything on the way.

mod apply;
mod arguments;
mod ending;
mod journal;
mod paused;
mod plan;
mod report;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub use apply::{Limits, Progress, Redrive, RedriveError, Watched};
pub use arguments::Arguments;
pub use ending::Ending;
pub use journal::{Entry, Journal, JournalError, plan_id};
pub use plan::{Edit, Plan, Reason, SendBack, Verdict};
pub use report::Report;

use indicatif::{ProgressBar, ProgressStyle};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;

use crate::dead_letters::Filter;
use crate::event_sources::EventSources;
use crate::files::read_schema;
use crate::format::Format;
use crate::interrupt::Interrupt;
use crate::text::escaped_lines;
use paused::Consumer;

type Failure = Box<dyn std::error::Error>;

/// Plans, and with `--apply` does it.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match outcome {
        Ok(report) => print(arguments, &report),
        Err(error) => {
            eprintln!("error: {}", escaped_lines(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Report, Failure> {
    let plan = plan_of(arguments)?;
    let from = arguments.from.open().await?;
    let stack = arguments.from.stack().await?;
    let to = match (&arguments.to, &stack) {
        (Some(url), _) => url.clone(),
        (None, Some(stack)) => stack.source_queue_url()?.to_owned(),
        (None, None) => return Err("--to is missing".into()),
    };
    let to = arguments.from.connection().source_queue(&to).await?;
    // By ARN: one queue may have several URLs.
    if to.queue.arn() == from.queue.arn() {
        return Err("--to names the DLQ itself; name the source queue".into());
    }
    let watch = if is_consumed(arguments, to.queue.arn()).await? { arguments.watch } else { Duration::ZERO };
    let interrupt = Interrupt::listen();
    let bar = progress_bar();
    let redrive = Redrive {
        dlq: &from.queue,
        source: &to.queue,
        clock: &SystemClock,
        plan: &plan,
        limits: Limits {
            rate: arguments.rate,
            max: arguments.max,
            stop_after_failures_percent: arguments.stop_after_failures,
            watch,
        },
        interrupted: &|| interrupt.came(),
        progress: &|progress| show(&bar, progress),
    };
    let report = if arguments.apply {
        let (from, to) = (from.queue.arn(), to.queue.arn());
        let id = id_of(arguments, from, to);
        let path = arguments
            .journal
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("redeliver-redrive-{id}.jsonl")));
        eprintln!("journal: {}", path.display());
        redrive.apply(&mut Journal::open(&path, &id, from, to)?).await?
    } else {
        let report = redrive.dry_run().await?;
        if let Some(remark) = plan.filter.as_ref().and_then(Filter::remark) {
            eprintln!("warning: {remark}");
        }
        report
    };
    bar.finish_and_clear();
    Ok(report)
}

/// Whether anybody takes what is sent; where nobody does, it is sent only if that is wanted.
async fn is_consumed(arguments: &Arguments, source_arn: &str) -> Result<bool, Failure> {
    // A queue that is named may be read by anybody.
    let is_stack = arguments.to.is_none();
    let sources = EventSources::new(&arguments.from.connection().sdk_config().await?);
    let why = match Consumer::of(&sources, source_arn, is_stack).await {
        Consumer::There => return Ok(true),
        Consumer::Unknown(words) => {
            eprintln!("note: whether anybody takes messages from the source queue is not known: {words}");
            return Ok(true);
        }
        Consumer::Nobody(why) => why,
    };
    if !arguments.apply || arguments.into_paused {
        eprintln!("note: {why}");
    } else if !paused::is_wanted(&why)? {
        return Err(paused::refusal(&why).into());
    }
    Ok(false)
}

fn plan_of(arguments: &Arguments) -> Result<Plan, Failure> {
    Ok(Plan {
        filter: arguments.filter.as_deref().map(Filter::new).transpose()?,
        ids: arguments.ids.iter().cloned().collect(),
        group: arguments.group.clone(),
        edit: arguments.edit.as_deref().map(Edit::new).transpose()?,
        new_id: arguments.new_id,
        max_generation: arguments.max_generation,
        schema: read_schema(arguments.data_schema.as_deref())?,
    })
}

/// What is sent decides; how fast and how much does not.
fn id_of(arguments: &Arguments, from: &str, to: &str) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut ids = arguments.ids.clone();
    ids.sort();
    let selection =
        [or_none(&arguments.filter), ids.join(","), or_none(&arguments.group), or_none(&arguments.edit)];
    let [filter, ids, group, edit] = &selection;
    let mut parts = vec![from, to, filter, ids, group, edit];
    parts.extend(arguments.new_id.then_some("--new-id"));
    plan_id(&parts)
}

/// It turns by itself: a round may take a minute, and the pilot is watched for longer.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} sent back, {elapsed} {msg}");
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn whole(span: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Sent(sent) => {
            bar.set_message("");
            bar.set_position(sent);
        }
        Progress::Watching(left) => {
            bar.set_message(format!("watching what becomes of them, {} left", whole(left)))
        }
        Progress::Waiting(left) => {
            bar.set_message(format!("waiting for what is hidden, {} left", whole(left)))
        }
    }
}

fn print(arguments: &Arguments, report: &Report) -> ExitCode {
    let text = match arguments.format {
        // Reasons name members that somebody else has named.
        Format::Table => escaped_lines(&report.table(arguments.apply)),
        Format::Json => format!("{:#}\n", report.json()),
    };
    // Whoever reads it may have seen enough; the exit code tells the rest.
    let _closed = io::stdout().lock().write_all(text.as_bytes());
    if !arguments.apply && report.planned > 0 {
        eprintln!("nothing was done: add --apply");
    }
    let ending = report.ending(arguments.max);
    if let Some(sentence) = ending.sentence(report) {
        eprintln!("{sentence}");
    }
    ExitCode::from(ending.code())
}
