//! The arguments of `redeliver fleet`.

use clap::{Args, ValueEnum};
use redeliver_operator::ExitCode;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::terminal::help::{CONNECT, Closing, SHOW};
use redeliver_operator::terminal::output::OutputArgs;

/// The end of the help of `fleet`.
const CLOSING: Closing = Closing {
    command: "fleet",
    page: "fleet",
    examples: &[
        "redeliver fleet --region eu-central-1 --region us-east-1",
        "redeliver fleet --profile shop --profile billing --format html -o fleet.html",
        "redeliver fleet --format json | jq '.dlqs[] | select(.visible > 0) | .name'",
    ],
    notes: &[
        "Findings about a DLQ: it does not exist (missing); its redrive policy names itself (points_to_itself); it is a \
         FIFO queue and its source is not, or the other way round (kind_mismatch); it keeps messages no longer than the \
         queue that feeds it (short_retention); messages wait in it, nothing is seen to read it, and no CloudWatch alarm \
         watches it (no_alarm); SQS deletes the oldest message soon, in the last fifth of its retention (deleted_soon). \
         That nothing points to it (orphan), or that the oldest message may be older than CloudWatch says (age_uncertain), \
         is a remark, and does not cause exit code 3.",
        "The age of the oldest message is CloudWatch's ApproximateAgeOfOldestMessage: a few minutes late, and without \
         messages that were received three times or more, as three audits do. `redeliver audit` reads the age of each \
         message.",
        "JSON: {schema, at, regions: [{account, region, profile, queues}], dlqs: [{name, account, region, state, fed_by: \
         [{kind, name}], read_by, readers: {state, ...}, visible, in_flight, delayed, retention_seconds, oldest_seconds, \
         first_deleted_by, alarms: [{name, state}], findings: [{code, sentence}], error}], problems}",
        "It takes one request for 1,000 queues and one for each queue, one for 100 subscribers of custom event buses and \
         one for each, one for 50 functions, 100 event source mappings and 100 alarms, and one for the ages of 500 DLQs \
         that are not empty, and for the receives of 250 of those that no function reads ($0.01 for 1,000 metrics; a \
         queue's receives are two). `redeliver permissions fleet` prints the IAM policy.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Nothing is wrong with any queue."),
        (ExitCode::Failed, "", "Nothing could be read."),
        (ExitCode::Usage, "", ""),
        (ExitCode::Found, "a faulty queue", ""),
        (ExitCode::Incomplete, "", ""),
    ],
};

/// Show every DLQ of an account, and what is wrong with it. Reads the attributes of all queues, receives no message and
/// changes nothing.
///
/// It shows what feeds each DLQ, how many messages wait in it and for how long. A DLQ is a queue that a redrive policy,
/// a Lambda function's DLQ, or the failure destination of an event source mapping or of a custom event bus's subscriber
/// points to. A queue that is only named like one (dlq, dead-letter) is shown as a possible orphan.
#[derive(Debug, Args)]
#[command(next_help_heading = CONNECT)]
#[command(after_help = CLOSING.short(), after_long_help = CLOSING.long())]
pub struct Arguments {
    /// A profile of the AWS configuration files; may be repeated
    ///
    /// The default is that of the AWS CLI.
    #[arg(long = "profile", value_name = "NAME")]
    profiles: Vec<String>,
    /// A region; may be repeated [default: the profile's]
    ///
    /// Each region is read with each profile.
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<String>,
    /// An endpoint other than AWS [default: `AWS_ENDPOINT_URL`]
    ///
    /// Such as that of an emulator of AWS.
    #[arg(long, value_name = "URL")]
    pub(super) endpoint_url: Option<String>,
    /// The format
    #[arg(long, help_heading = SHOW, value_enum, default_value_t = FleetFormat::Table)]
    pub(super) format: FleetFormat,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
    /// One web page that needs nothing else.
    Html,
}

impl Arguments {
    /// One connection for each combination of region and profile.
    pub(super) fn connections(&self) -> Vec<AwsConnection> {
        let profiles = or_default(&self.profiles);
        let regions = or_default(&self.regions);
        let of_profile = |profile: &Option<String>| {
            let account = AwsConnection::from_parts(profile.clone(), None, self.endpoint_url.clone());
            regions.iter().map(|region| account.in_region(region.clone())).collect::<Vec<_>>()
        };
        profiles.iter().flat_map(of_profile).collect()
    }
}

/// The names without duplicates, or the unnamed default.
fn or_default(named: &[String]) -> Vec<Option<String>> {
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
            let named = |one: &AwsConnection| {
                format!("{} {}", one.profile().unwrap_or("-"), one.region().unwrap_or("-"))
            };
            arguments.connections().iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(connections(&[]), ["- -"]);
        assert_eq!(connections(&["--region", "r", "--region", "s", "--region", "r"]), ["- r", "- s"]);
        let both = ["--profile", "a", "--profile", "b", "--region", "r", "--region", "s"];
        assert_eq!(connections(&both), ["a r", "a s", "b r", "b s"]);
        assert_eq!(connections(&["--profile", "a"]), ["a -"]);
    }
}
