//! `redeliver fleet`: every dead-letter queue of an account, with findings.

mod arguments;

use indicatif::ProgressBar;
use redeliver_operator::fleet::{Dlq, Fleet, html, look, table};
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::queues::Connection;
use redeliver_operator::terminal::output::document;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{ExitCode, Failure};

pub use arguments::{Arguments, Format};

/// Reads the state and prints it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.output.check()?;
    let bar =
        stderr::progress(ProgressBar::new(0), "{bar:40} {human_pos}/{human_len} queues read, {elapsed}");
    let fleet = look(&arguments.connections(), &bar).await;
    bar.finish_and_clear();
    if fleet.regions.is_empty() {
        return Err(fleet.problems_in_short().join("\n").into());
    }
    arguments.output.write(&match arguments.format {
        Format::Table => table::fleet_table(&fleet, &arguments.output.layout(fleet.at)),
        Format::Json => document("fleet", &fleet),
        Format::Html => html::of(&fleet),
    })?;
    for problem in fleet.problems_in_short() {
        stderr::error(problem);
    }
    let is_for_people = arguments.format == Format::Table && arguments.output.file().is_none();
    if let Some(command) = next_command(arguments, &fleet).filter(|_| is_for_people) {
        stderr::next(&command, "operate/audit");
    }
    Ok(fleet.exit_code())
}

/// The audit of the first DLQ with messages.
fn next_command(arguments: &Arguments, fleet: &Fleet) -> Option<NextCommand> {
    let Dlq { name, account, region, .. } = fleet.dlqs.iter().find(|dlq| dlq.counts.visible > Some(0))?;
    let profile = fleet.seen_in(Some(account), region).find_map(|region| region.profile.clone());
    let connection = Connection::at(profile, Some(region.clone()), arguments.endpoint_url.clone());
    Some(NextCommand::new("audit").option("queue", name).with(connection.words()))
}
