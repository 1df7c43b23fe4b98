//! `redeliver redrive`: from the DLQ back to the source queue, without losing anything on the way.

mod arguments;
mod paused;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub use arguments::Arguments;

use indicatif::{ProgressBar, ProgressStyle};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::redrive::{
    Early, Edit, Ending, Journal, Limits, Plan, Progress, Redrive, Report, plan_id,
};

use crate::connection::QueueAddress;
use crate::event_sources::EventSources;
use crate::files::read_schema;
use crate::format::Format;
use crate::interrupt::Interrupt;
use crate::output::document;
use crate::people::span;
use crate::text::escaped_lines;
use crate::{account, picking, tell};
use paused::Consumer;

type Failure = Box<dyn std::error::Error>;

/// Plans, and with `--apply` does it.
#[must_use]
pub fn main(arguments: &Arguments) -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(run(arguments)))
        .and_then(|(report, missing)| print(arguments, &report, &missing));
    outcome.unwrap_or_else(|error| {
        tell::error(error);
        ExitCode::from(2)
    })
}

/// What came of it, and what was named and is not there.
async fn run(arguments: &Arguments) -> Result<(Report, Vec<String>), Failure> {
    arguments.output.check()?;
    let plan = plan_of(arguments)?;
    let from = arguments.from.open().await?;
    let stack = arguments.from.stack().await?;
    let connection = arguments.from.connection();
    let to = match (&arguments.to, &stack) {
        (Some(address), _) => connection.source_queue(address).await?,
        (None, Some(stack)) => {
            connection.source_queue(&QueueAddress::Url(stack.source_queue_url()?.to_owned())).await?
        }
        (None, None) => return Err("--to is missing".into()),
    };
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
            max: arguments.picking.max(),
            stop_after_failures_percent: arguments.stop_after_failures,
            watch,
        },
        interrupted: &|| interrupt.came(),
        progress: &|progress| show(&bar, progress),
    };
    let (from, to) = (from.queue.arn(), to.queue.arn());
    let (report, is_first_run) = if arguments.applying.is_wanted() {
        account::announce(connection, from, format_args!("sending back from {from} to {to}")).await;
        let id = id_of(arguments, from, to);
        let path = arguments
            .journal
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("redeliver-redrive-{id}.jsonl")));
        tell::remark(format_args!("journal: {}", path.display()));
        let mut journal = Journal::open(&path, &id, from, to)?;
        let is_first_run = journal.is_new();
        (redrive.apply(&mut journal).await?, is_first_run)
    } else {
        let report = redrive.dry_run().await?;
        if let Some(remark) = picking::remark(&plan.pick) {
            tell::warning(remark);
        }
        (report, true)
    };
    bar.finish_and_clear();
    // What an earlier run has sent back is not missing; and who has not seen all does not know.
    let knows = report.is_covered() && is_first_run;
    let missing = if knows { plan.pick.missing() } else { Vec::new() };
    Ok((report, missing))
}

/// Whether anybody takes what is sent; where nobody does, it is sent only if that is wanted.
async fn is_consumed(arguments: &Arguments, source_arn: &str) -> Result<bool, Failure> {
    // A queue that is named may be read by anybody.
    let is_stack = arguments.to.is_none();
    let region = source_arn.split(':').nth(3);
    let sources = EventSources::new(&arguments.from.connection().sdk_config_in(region).await?);
    let why = match Consumer::of(&sources, source_arn, is_stack).await {
        Consumer::There => return Ok(true),
        Consumer::Unknown(words) => {
            tell::warning(format_args!(
                "whether anybody takes messages from the source queue is not known: {words}"
            ));
            return Ok(true);
        }
        Consumer::Nobody(why) => why,
    };
    if !arguments.applying.is_wanted() && !arguments.into_paused {
        tell::warning(paused::refusal(&why));
    } else if arguments.into_paused {
        tell::remark(&why);
    } else if !paused::is_wanted(&why)? {
        return Err(paused::refusal(&why).into());
    }
    Ok(false)
}

fn plan_of(arguments: &Arguments) -> Result<Plan, Failure> {
    Ok(Plan {
        pick: arguments.picking.pick()?,
        edit: arguments.edit.as_deref().map(Edit::new).transpose()?,
        new_id: arguments.new_id,
        max_generation: arguments.max_generation,
        schema: read_schema(arguments.data_schema.as_deref())?,
    })
}

/// What is sent decides; how fast and how much does not.
fn id_of(arguments: &Arguments, from: &str, to: &str) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_default();
    let picking = &arguments.picking;
    let mut ids = picking.ids.clone();
    ids.sort();
    let selection =
        [or_none(&picking.filter), ids.join(","), or_none(&picking.group), or_none(&arguments.edit)];
    let [filter, ids, group, edit] = &selection;
    let mut parts = vec![from, to, filter, ids, group, edit];
    parts.extend(arguments.new_id.then_some("--new-id"));
    plan_id(&parts)
}

/// It turns by itself: a round may take a minute, and the pilot is watched for longer.
fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} sent back, {elapsed} {msg}");
    let bar =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(100));
    tell::progress(bar)
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Sent(sent) => {
            bar.set_message("");
            bar.set_position(sent);
        }
        Progress::Watching(left) => {
            bar.set_message(format!("watching what becomes of them, {} left", span(left.as_secs())))
        }
        Progress::Waiting(left) => {
            bar.set_message(format!("waiting for what is hidden, {} left", span(left.as_secs())))
        }
    }
}

fn print(arguments: &Arguments, report: &Report, missing: &[String]) -> Result<ExitCode, Failure> {
    let applied = arguments.applying.is_wanted();
    arguments.output.write(&match arguments.format {
        // Reasons name members that somebody else has named.
        Format::Table => escaped_lines(&words::table(report, applied)),
        Format::Json => document("redrive", &report.json()),
    })?;
    if !applied && report.planned > 0 {
        arguments.applying.remark_that_nothing_was_done();
    }
    for sentence in missing {
        tell::error(sentence);
    }
    if let Some(Early::Failed(error)) = &report.early {
        tell::error(error);
    }
    let ending = Ending::of(report, arguments.picking.max());
    if let Some(sentence) = words::sentence(ending, report) {
        tell::warning(sentence);
    }
    Ok(ExitCode::from(match ending {
        Ending::Done if !missing.is_empty() => Ending::Left.code(),
        ending => ending.code(),
    }))
}
