//! `redeliver fleet`: every dead-letter queue in an account, with findings.

mod arguments;

use indicatif::ProgressBar;
use redeliver_operator::fleet::{Dlq, Fleet, html, survey_fleet, table};
use redeliver_operator::next_command::NextCommand;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::terminal::output::json_document;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, ExitCode};

pub use arguments::{Arguments, FleetFormat};

/// Reads the state and prints it.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.output.check_destination()?;
    let bar =
        stderr::show_progress(ProgressBar::new(0), "{bar:40} {human_pos}/{human_len} queues read, {elapsed}");
    let fleet = survey_fleet(&arguments.connections(), &bar).await;
    bar.finish_and_clear();
    if fleet.regions.is_empty() {
        return Err(fleet.shortened_problems().join("\n").into());
    }
    arguments.output.write_text(&match arguments.format {
        FleetFormat::Table => table::fleet_table(&fleet, &arguments.output.layout(fleet.at)),
        FleetFormat::Json => json_document("fleet", &fleet),
        FleetFormat::Html => html::render_page(&fleet),
    })?;
    for problem in fleet.shortened_problems() {
        stderr::error(problem);
    }
    let is_for_people = arguments.format == FleetFormat::Table && arguments.output.file().is_none();
    if let Some(command) = next_command(arguments, &fleet).filter(|_| is_for_people) {
        stderr::print_next_command(&command, "operate/audit");
    }
    Ok(fleet.exit_code())
}

/// Suggests an audit of the first non-empty DLQ.
fn next_command(arguments: &Arguments, fleet: &Fleet) -> Option<NextCommand> {
    let Dlq { name, account, region, .. } = fleet.dlqs.iter().find(|dlq| dlq.counts.visible > Some(0))?;
    let profile = fleet.regions_in(Some(account), region).find_map(|region| region.profile.clone());
    let connection = AwsConnection::from_parts(profile, Some(region.clone()), arguments.endpoint_url.clone());
    Some(NextCommand::new("audit").with_option("queue", name).with_words(connection.to_arguments()))
}

#[cfg(test)]
mod tests {
    use redeliver_core::message::Timestamp;
    use redeliver_operator::fleet::{DlqState, RegionSummary};
    use redeliver_operator::queues::QueueCounts;

    use super::*;
    use crate::commands::parse_command_line;

    fn dlq(name: &str, visible: u64) -> Dlq {
        Dlq {
            name: name.to_owned(),
            account: "123456789012".to_owned(),
            region: "eu-central-1".to_owned(),
            state: DlqState::There,
            fed_by: Vec::new(),
            read_by: Vec::new(),
            readers: None,
            counts: QueueCounts { visible: Some(visible), ..QueueCounts::default() },
            oldest_seconds: None,
            first_deleted_by: None,
            alarms: None,
            findings: Vec::new(),
            error: None,
        }
    }

    #[test]
    fn the_next_command_audits_the_first_non_empty_dlq_with_its_profile_and_region() {
        let next = |words: &str, dlqs: Vec<Dlq>| {
            let crate::CliCommand::Fleet(arguments) = parse_command_line(words.split(' ')) else {
                panic!("expected fleet")
            };
            let region = |profile: &str, account: &str| RegionSummary {
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
            parse_command_line(command.words());
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
