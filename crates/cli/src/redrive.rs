//! `redeliver redrive`: from the DLQ back to the source queue, without losing anything on the way.

mod apply;
mod arguments;
mod journal;
mod plan;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

pub use apply::{Limits, Redrive, RedriveError};
pub use arguments::Arguments;
pub use journal::{Journal, JournalError, plan_id};
pub use plan::{Edit, Plan, Reason, SendBack, Verdict};
pub use report::Report;

use indicatif::{ProgressBar, ProgressStyle};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Queue as _;

use crate::connection::QueueAddress;
use crate::files::read_schema;
use crate::format::Format;
use crate::interrupt::Interrupt;
use crate::output::document;
use crate::people::grouped;
use crate::text::escaped_lines;
use crate::{account, tell};

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
        },
        interrupted: &|| interrupt.came(),
        progress: &|sent| bar.set_position(sent),
    };
    let (from, to) = (from.queue.arn(), to.queue.arn());
    let (report, is_first_run) = if arguments.applying.is_wanted() {
        account::announce(connection, format_args!("sending back from {from} to {to}")).await;
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
        (redrive.dry_run().await?, true)
    };
    bar.finish_and_clear();
    // What an earlier run has sent back is not missing; and who has not seen all does not know.
    let knows = report.is_covered() && is_first_run;
    let missing = if knows { plan.pick.missing() } else { Vec::new() };
    Ok((report, missing))
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

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} sent back, {elapsed}");
    let bar = ProgressBar::new_spinner();
    tell::progress(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner())))
}

fn print(arguments: &Arguments, report: &Report, missing: &[String]) -> Result<ExitCode, Failure> {
    let applied = arguments.applying.is_wanted();
    arguments.output.write(&match arguments.format {
        // Reasons name members that somebody else has named.
        Format::Table => escaped_lines(&report.table(applied)),
        Format::Json => document("redrive", &report.json()),
    })?;
    if !applied && report.planned > 0 {
        arguments.applying.remark_that_nothing_was_done();
    }
    for sentence in missing {
        tell::error(sentence);
    }
    let code = exit_code(report, arguments.picking.max());
    Ok(ExitCode::from(if code == 0 { u8::from(!missing.is_empty()) } else { code }))
}

fn exit_code(report: &Report, max: u64) -> u8 {
    if report.interrupted {
        tell::warning("interrupted: run it again to finish");
        130
    } else if report.stopped {
        let (came_back, sent) = (grouped(report.came_back_count()), grouped(report.sent));
        tell::warning(format_args!("stopped: {came_back} of {sent} came straight back"));
        5
    } else if !report.is_covered() && report.sent < max {
        4
    } else {
        u8::from(report.staying_count() > 0)
    }
}
