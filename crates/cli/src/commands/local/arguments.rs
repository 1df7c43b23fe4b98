//! The arguments of `redeliver local`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use redeliver_aws::targets::{HandlerEvent, RuntimeCommand};
use redeliver_core::json::pointer::Pointer;
use redeliver_core::strategy::RetryLoop;

use crate::commands::exec;
use crate::commands::run_args::{parse_probability, strategy_parser};
use redeliver_operator::ExitCode;
use redeliver_operator::plain_args::{PlainArguments, parse_pointer};
use redeliver_operator::terminal::help::{HelpFooter, SHOW, VALIDATE};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::units::number;

const TARGET: &str = "Target";

/// The closing text of the help for `local`.
const CLOSING: HelpFooter = HelpFooter {
    command: "local",
    page: "tutorial",
    examples: &[
        "redeliver local examples/messages.jsonl --fail-rate 0.3",
        "redeliver local orders.jsonl --policy policy.json --final-dlq dead.jsonl",
        "redeliver local orders.jsonl --exec 'python3 -m awslambdaric app.handler'",
        "redeliver local orders.jsonl --strategy visibility",
        "redeliver local bookings.jsonl --strategy ordered \\\n--group-pointer /data/account",
        "redeliver local events.jsonl --strategy async-retry --fail-first 3",
        "redeliver local orders.jsonl --target http://127.0.0.1:8080/orders",
        "redeliver local orders.jsonl \\\n--exec 'node_modules/.bin/aws-lambda-ric index.handler'",
        "redeliver local orders.jsonl --endpoint-url http://127.0.0.1:4566",
    ],
    notes: &[
        "Virtual time starts at 2026-01-01T00:00:00Z and jumps from one due time to the next. It does not advance \
              during calls to --target or --exec.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Every line was sent, and every message was processed or dead-lettered."),
        (ExitCode::Failed, "", "A file cannot be read or already exists, or the endpoint rejects a request."),
        (ExitCode::Usage, "", ""),
        (ExitCode::ProblemsFound, "ten or more, all invalid", ""),
        (
            ExitCode::PartlyDone,
            "",
            "Lines were refused, or a message is unaccounted for; the report says which.",
        ),
        (ExitCode::Interrupted, "", ""),
    ],
};

/// Run the whole retry loop on a file of messages, without AWS. Runs the functions' own code on an in-memory SQS, in
/// virtual time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loop")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// A file with one message per line, or `-` for standard input
    ///
    /// Message bodies (any text, one per line, or one JSON document over several lines), the output of `aws sqs
    /// receive-message`, a Lambda SQS event, or a JSON array of messages.
    #[arg(help_heading = None::<&str>, value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The retry policy [default: 5 retries, each within 900 s]
    ///
    /// A JSON file. The default is 5 retries, each after a random delay of up to 900 s. With --strategy async-retry,
    /// the default is to retry for a day, with a maximum delay that doubles each time.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The strategy for failed messages
    #[arg(long, value_parser = strategy_parser(RetryLoop::all()), default_value_t)]
    pub strategy: RetryLoop,
    /// With --strategy ordered: JSON Pointer to the message group
    ///
    /// Points to a string or a number in each body. By default, all messages are in one group.
    #[arg(long, value_name = "POINTER", value_parser = parse_pointer)]
    pub group_pointer: Option<Pointer>,
    /// JSON Schema for the `data` of each message
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    pub data_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: PlainArguments,
    /// The endpoint to call: https://, or http:// to this machine
    #[arg(long, help_heading = TARGET, value_name = "URL", conflicts_with_all = ["fail_rate", "fail_first", "fail_permanently"])]
    pub target: Option<String>,
    /// The command that starts the runtime of your own Lambda function
    ///
    /// For example, one of AWS's runtime interface clients. Each call can take up to 30 s.
    #[arg(long, help_heading = TARGET, value_name = "COMMAND", value_parser = exec::parse_command, conflicts_with_all = ["target", "fail_rate", "fail_first", "fail_permanently"])]
    pub exec: Option<RuntimeCommand>,
    /// The event passed to each invocation
    ///
    /// Applies to the function that --exec starts.
    #[arg(long, help_heading = TARGET, value_name = "EVENT", value_parser = handler_event_parser(), default_value = "record", requires = "exec")]
    pub handler_event: HandlerEvent,
    /// Built-in target: the chance that a call fails, 0 to 1
    #[arg(long, help_heading = TARGET, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    pub fail_rate: f64,
    /// Built-in target: the first N attempts of a message fail
    #[arg(long, help_heading = TARGET, value_name = "N", default_value_t = 0, value_parser = number(0_u32..))]
    pub fail_first: u32,
    /// Built-in target: the chance of a permanent failure
    #[arg(long, help_heading = TARGET, value_name = "P", default_value_t = 0.0, value_parser = parse_probability)]
    pub fail_permanently: f64,
    /// Random seed; equal seeds give byte-identical runs
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0_u64..))]
    pub seed: u64,
    /// Write the final DLQ to this new file
    ///
    /// One `{"body":…,"attributes":{…}}` per line.
    #[arg(long, help_heading = SHOW, value_name = "OUT.jsonl")]
    pub final_dlq: Option<PathBuf>,
    #[command(flatten)]
    pub printing: PrintArgs,
    /// Run in real time on this SQS-compatible endpoint
    ///
    /// Creates its own queues there, and deletes them at the end.
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
}

fn handler_event_parser() -> impl TypedValueParser<Value = HandlerEvent> {
    let values = [
        PossibleValue::new("record").help("an SQS event with one record"),
        PossibleValue::new("batch").help("an SQS event with all callable records"),
    ];
    PossibleValuesParser::new(values)
        .map(|name| name.parse().expect("the parser lets no other names through"))
}
