//! The arguments of `redeliver local`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use redeliver_aws::targets::{HandlerEvent, RuntimeCommand};
use redeliver_core::json::pointer::Pointer;
use redeliver_core::strategy::RetryLoop;

use crate::commands::exec;
use crate::commands::run_args::{probability, strategies};
use redeliver_operator::ExitCode;
use redeliver_operator::plain_args::{PlainArguments, pointer};
use redeliver_operator::terminal::help::{Closing, SHOW, VALIDATE};
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::units::number;

const TARGET: &str = "Target";

/// The end of the help of `local`.
const CLOSING: Closing = Closing {
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
        "Virtual time starts at 2026-01-01T00:00:00Z and jumps from one due moment to the next. It stands still while \
              --target or --exec works.",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Every line was sent, and every message was processed or dead-lettered."),
        (ExitCode::Failed, "", "A file cannot be read or exists already, or the endpoint refuses."),
        (ExitCode::Usage, "", ""),
        (ExitCode::Found, "ten or more, all invalid", ""),
        (
            ExitCode::NotAllDone,
            "",
            "Lines were refused, or a message is unaccounted for; the report says which.",
        ),
        (ExitCode::Interrupted, "", ""),
    ],
};

/// Run the whole retry loop on a file of messages, without AWS. The functions' own code works on an SQS in memory, in
/// virtual time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loop")]
#[command(after_help = CLOSING.short(), after_long_help = CLOSING.long())]
pub struct Arguments {
    /// A file with one message per line, or `-` for standard input
    ///
    /// Message bodies: any text, one per line, or one JSON document over several lines; the output of `aws sqs
    /// receive-message`, an SQS event of Lambda, or a JSON array of messages.
    #[arg(help_heading = None::<&str>, value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The retry policy [default: 5 retries, each within 900 s]
    ///
    /// A JSON file. The default is 5 retries, each after a random delay of up to 900 s; with --strategy async-retry,
    /// retries for a day, each after up to twice as long as the one before.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The strategy for failed messages
    #[arg(long, value_parser = strategies(RetryLoop::all()), default_value_t)]
    pub strategy: RetryLoop,
    /// With --strategy ordered: JSON Pointer to the message group
    ///
    /// It points to a string or a number in each body. By default there is one group.
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub group_pointer: Option<Pointer>,
    /// JSON Schema for the `data` of each message
    #[arg(long, help_heading = VALIDATE, value_name = "FILE")]
    pub data_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: PlainArguments,
    /// Call this endpoint: https://, or http:// to this machine
    #[arg(long, help_heading = TARGET, value_name = "URL", conflicts_with_all = ["fail_rate", "fail_first", "fail_permanently"])]
    pub target: Option<String>,
    /// Call your own Lambda function: this command starts its runtime
    ///
    /// Such as one of AWS's runtime interface clients. Each call has 30 s.
    #[arg(long, help_heading = TARGET, value_name = "COMMAND", value_parser = exec::command, conflicts_with_all = ["target", "fail_rate", "fail_first", "fail_permanently"])]
    pub exec: Option<RuntimeCommand>,
    /// The event of one invocation
    ///
    /// It is for the function of --exec.
    #[arg(long, help_heading = TARGET, value_name = "EVENT", value_parser = handler_events(), default_value = "record", requires = "exec")]
    pub handler_event: HandlerEvent,
    /// Built-in target: the chance that a call fails, 0 to 1
    #[arg(long, help_heading = TARGET, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub fail_rate: f64,
    /// Built-in target: the first N attempts of a message fail
    #[arg(long, help_heading = TARGET, value_name = "N", default_value_t = 0, value_parser = number(0_u32..))]
    pub fail_first: u32,
    /// Built-in target: the chance of a permanent failure
    #[arg(long, help_heading = TARGET, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub fail_permanently: f64,
    /// The same seed gives the same run, byte for byte
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0_u64..))]
    pub seed: u64,
    /// Write the final DLQ to this new file
    ///
    /// One `{"body":…,"attributes":{…}}` per line.
    #[arg(long, help_heading = SHOW, value_name = "OUT.jsonl")]
    pub final_dlq: Option<PathBuf>,
    #[command(flatten)]
    pub printing: Printing,
    /// Run in real time on this SQS-compatible endpoint
    ///
    /// It creates queues of its own there, and deletes them at the end.
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
}

fn handler_events() -> impl TypedValueParser<Value = HandlerEvent> {
    let values = [
        PossibleValue::new("record").help("an SQS event with one record"),
        PossibleValue::new("batch").help("an SQS event with all records that may be called"),
    ];
    PossibleValuesParser::new(values)
        .map(|name| name.parse().expect("the parser lets no other names through"))
}
