//! `redeliver redrive`: from the DLQ back to the source queue, without losing anything on the way.

mod arguments;
mod paused;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub use arguments::Arguments;

use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;
use redeliver_dead_letters::redrive::{
    Early, Edit, Ending, Journal, Limits, Plan, Progress, Redrive, Report, plan_id,
};

use crate::files::read_schema;
use crate::people::span;
use crate::signals::interrupted;
use crate::text::escaped_lines;
use crate::{Failure, account, picking, tell};
pub(crate) use paused::Consumer;
pub(crate) use words::{watched_in_words, why_not_deleted};

/// Plans, and with `--apply` does it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (report, missing) = run(arguments).await?;
    print(arguments, &report, &missing)
}

/// What came of it, and what was named and is not there.
async fn run(arguments: &Arguments) -> Result<(Report, Vec<String>), Failure> {
    arguments.printing.check()?;
    let plan = plan_of(arguments)?;
    let from = arguments.from.open().await?;
    let connection = &arguments.from.connection;
    let to = match &arguments.to {
        Some(address) => connection.source_queue(address).await?,
        None => connection.source_queue(&arguments.from.source().await?).await?,
    };
    // By ARN: one queue may have several URLs.
    if to.queue.arn() == from.queue.arn() {
        return Err("--to names the DLQ itself; name the source queue".into());
    }
    let watch = if is_consumed(arguments, to.queue.arn()).await? { arguments.watch } else { Duration::ZERO };
    let stop = interrupted("interrupted: finishing what is under way; Ctrl-C again does not wait")?;
    let bar = tell::progress(ProgressBar::new_spinner(), "{spinner} {human_pos} sent back, {elapsed} {msg}");
    // It turns by itself: a round may take a minute, and the pilot is watched for longer.
    bar.enable_steady_tick(Duration::from_millis(100));
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
        interrupted: &|| stop.is_requested(),
        progress: &|progress| show(&bar, progress),
    };
    let (from, to) = (from.queue.arn(), to.queue.arn());
    let verb = arguments.applying.verb("sending back", "would send back");
    account::announce(connection, from, format_args!("{verb} from {from} to {to}")).await;
    let (report, is_first_run) = if arguments.applying.is_wanted() {
        // The same options give the same name, so that the same command finds what it has begun.
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

/// Whether anybody takes what is sent; if nobody does, it is sent only if that is wanted.
async fn is_consumed(arguments: &Arguments, source_arn: &str) -> Result<bool, Failure> {
    // A queue that is named may be read by anybody.
    let is_stack = arguments.to.is_none();
    let why = match Consumer::look(&arguments.from.connection, source_arn, is_stack).await? {
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
        schema: read_schema(arguments.data_schema.as_deref(), &arguments.plain)?,
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

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Sent(sent) => {
            bar.set_message("");
            bar.set_position(sent);
        }
        Progress::CameBack(_) => {} // the report has it
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
    // Reasons name members that somebody else has named.
    let table = || escaped_lines(&words::table(report, applied, arguments.picking.max()));
    arguments.printing.print("redrive", &report.json(), table)?;
    arguments.applying.remark_that_nothing_was_done(report.planned > 0);
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
