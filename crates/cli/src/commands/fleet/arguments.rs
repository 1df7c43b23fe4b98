//! The arguments of `redeliver fleet`.

use clap::{Args, ValueEnum};
use redeliver_operator::ExitCode;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::terminal::help::{CONNECT, HelpFooter, SHOW};
use redeliver_operator::terminal::output::OutputArgs;

/// The closing text of the help for `fleet`.
const CLOSING: HelpFooter = HelpFooter {
    command: "fleet",
    page: "fleet",
    examples: &[
        "redeliver fleet --region eu-central-1 --region us-east-1",
        "redeliver fleet --profile shop --profile billing --format html -o fleet.html",
        "redeliver fleet --format json | jq '.dlqs[] | select(.visible > 0) | .name'",
    ],
    notes: &[
        "Findings about a DLQ: it does not exist (missing); its redrive policy names the queue itself \
         (points_to_itself); it is a FIFO queue and its source is not, or vice versa (kind_mismatch); it keeps \
         messages no longer than the queue that feeds it (short_retention); messages wait in it, no reader is \
         detected, and no CloudWatch alarm watches it (no_alarm); the oldest message is in the last fifth of its \
         retention, so SQS deletes it soon (deleted_soon). Two findings are only remarks and do not cause exit code 3: \
         nothing points to the queue (orphan), and the oldest message might be older than CloudWatch reports \
         (age_uncertain).",
        "The age of the oldest message is CloudWatch's ApproximateAgeOfOldestMessage, which is a few minutes late and \
         leaves out messages that were received three times or more (three audits are enough). `redeliver audit` reads \
         the age of each message.",
        "JSON: {schema, at, regions: [{account, region, profile, queues}], dlqs: [{name, account, region, state, \
         fed_by: [{kind, name}], read_by, readers: {state, ...}, visible, in_flight, delayed, retention_seconds, \
         oldest_seconds, first_deleted_by, alarms: [{name, state}], findings: [{code, sentence}], error}], problems}",
        "The command sends one request per 1,000 queues and one per queue; one per 100 subscribers of custom event \
         buses and one per subscriber; one each per 50 functions, 100 event source mappings and 100 alarms; one per \
         500 non-empty DLQs for their ages; and one per 250 non-empty DLQs that no function reads for their receives \
         ($0.01 per 1,000 metrics; a queue's receives are two metrics). `redeliver permissions fleet` prints the IAM \
         policy.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "No problem was found."),
        (ExitCode::Failed, "", "Nothing could be read."),
        (ExitCode::Usage, "", ""),
        (ExitCode::ProblemsFound, "a faulty queue", ""),
        (ExitCode::Incomplete, "", ""),
    ],
};

/// Show every DLQ in an account, and what is wrong with it. Reads the attributes of all queues, but receives no
/// messages and changes nothing.
///
/// Shows what feeds each DLQ, how many messages wait in it, and for how long. A queue counts as a DLQ if a redrive
/// policy, a Lambda function's DLQ setting, or the failure destination of an event source mapping or of a custom event
/// bus's subscriber points to it. A queue that is only named like a DLQ (dlq, dead-letter) is shown as a possible
/// orphan.
#[derive(Debug, Args)]
#[command(next_help_heading = CONNECT)]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// A profile from the AWS configuration files; may be repeated
    ///
    /// The default is the AWS CLI's.
    #[arg(long = "profile", value_name = "NAME")]
    profiles: Vec<String>,
    /// A region; may be repeated [default: the profile's]
    ///
    /// Every combination of region and profile is read.
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<String>,
    /// An endpoint other than AWS [default: `AWS_ENDPOINT_URL`]
    ///
    /// For example, the endpoint of an AWS emulator.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint_url: Option<String>,
    /// The output format
    #[arg(long, help_heading = SHOW, value_enum, default_value_t = FleetFormat::Table)]
    pub(super) format: FleetFormat,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// A human-readable table.
    Table,
    /// One JSON object.
    Json,
    /// One self-contained web page.
    Html,
}

impl Arguments {
    /// Returns one connection for each combination of region and profile.
    pub(super) fn connections(&self) -> Vec<AwsConnection> {
        let profiles = distinct_or_default(&self.profiles);
        let regions = distinct_or_default(&self.regions);
        let with_profile = |profile: &Option<String>| {
            let account = AwsConnection::from_parts(profile.clone(), None, self.endpoint_url.clone());
            regions.iter().map(|region| account.in_region(region.clone())).collect::<Vec<_>>()
        };
        profiles.iter().flat_map(with_profile).collect()
    }
}

/// Returns the names without duplicates, or a single `None`, the default.
fn distinct_or_default(named: &[String]) -> Vec<Option<String>> {
    let mut once: Vec<Option<String>> = Vec::new();
    for name in named {
        if !once.iter().flatten().any(|known| known == name) {
            once.push(Some(name.clone()));
        }
    }
    if once.is_empty() { vec![None] } else { once }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn each_region_is_read_once_with_each_profile() {
        let connections = |arguments: &[&str]| {
            let arguments = Program::parse_from(["program"].iter().chain(arguments)).arguments;
            let describe = |connection: &AwsConnection| {
                format!("{} {}", connection.profile().unwrap_or("-"), connection.region().unwrap_or("-"))
            };
            arguments.connections().iter().map(describe).collect::<Vec<_>>()
        };
        assert_eq!(connections(&[]), ["- -"]);
        assert_eq!(connections(&["--region", "r", "--region", "s", "--region", "r"]), ["- r", "- s"]);
        let both = ["--profile", "a", "--profile", "b", "--region", "r", "--region", "s"];
        assert_eq!(connections(&both), ["a r", "a s", "b r", "b s"]);
        assert_eq!(connections(&["--profile", "a"]), ["a -"]);
    }
}
