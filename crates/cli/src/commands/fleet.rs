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

#[cfg(test)]
mod tests {
    use redeliver_core::message::Timestamp;
    use redeliver_operator::fleet::{DlqState, Region};
    use redeliver_operator::queues::Counts;

    use super::*;
    use crate::commands::checked;

    fn dlq(name: &str, visible: u64) -> Dlq {
        Dlq {
            name: name.to_owned(),
            account: "123456789012".to_owned(),
            region: "eu-central-1".to_owned(),
            state: DlqState::There,
            fed_by: Vec::new(),
            read_by: Vec::new(),
            readers: None,
            counts: Counts { visible: Some(visible), ..Counts::default() },
            oldest_seconds: None,
            first_deleted_by: None,
            alarms: None,
            findings: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn the_next_command_audits_the_first_dlq_with_messages_where_it_was_seen() {
        let next = |words: &str, dlqs: Vec<Dlq>| {
            let crate::Command::Fleet(arguments) = checked(words.split(' ')) else { panic!("a fleet") };
            let region = |profile: &str, account: &str| Region {
                account: Some(account.to_owned()),
                region: "eu-central-1".to_owned(),
                profile: Some(profile.to_owned()),
                queues: 2,
            };
            let fleet = Fleet {
                at: Timestamp::UNIX_EPOCH,
                regions: vec![region("shop", "210987654321"), region("billing", "123456789012")],
                dlqs,
                queues: Vec::new(),
                problems: Vec::new(),
            };
            let command = next_command(&arguments, &fleet)?;
            checked(command.words());
            Some(command.to_string())
        };
        let words = "redeliver fleet --profile shop --profile billing --endpoint-url http://127.0.0.1:1";
        assert_eq!(
            next(words, vec![dlq("empty-dlq", 0), dlq("orders-dlq", 2), dlq("mails-dlq", 9)]).as_deref(),
            Some(
                "redeliver audit --queue orders-dlq --profile billing --region eu-central-1 --endpoint-url \
                 http://127.0.0.1:1"
            )
        );
        assert_eq!(next(words, vec![dlq("empty-dlq", 0)]), None);
        assert_eq!(next(words, Vec::new()), None);
    }
}
