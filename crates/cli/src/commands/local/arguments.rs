//! The arguments of `redeliver local`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use redeliver_aws::targets::{Command, HandlerEvent};
use redeliver_core::json::pointer::Pointer;
use redeliver_core::strategy::RetryLoop;

use crate::commands::exec;
use crate::commands::run_args::{probability, strategies};
use redeliver_operator::plain_args::{PlainArguments, pointer};
use redeliver_operator::terminal::output::Printing;
use redeliver_operator::terminal::units::number;

/// Run the whole retry loop on a file of messages: the three functions' own code on an SQS in memory, in virtual time.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver local examples/messages.jsonl --fail-rate 0.3
  redeliver local orders.jsonl --policy policy.json --final-dlq dead.jsonl
  redeliver local orders.jsonl --strategy visibility
  redeliver local bookings.jsonl --strategy ordered \\
    --group-pointer /data/account
  redeliver local events.jsonl --strategy async-retry --fail-first 3
  redeliver local orders.jsonl --target http://127.0.0.1:8080/orders
  redeliver local orders.jsonl --exec 'python3 -m awslambdaric app.handler'
  redeliver local orders.jsonl \\
    --exec 'node_modules/.bin/aws-lambda-ric index.handler'
  redeliver local orders.jsonl --endpoint-url http://127.0.0.1:4566

Virtual time starts at 2026-01-01T00:00:00Z and jumps from one due moment to the next. It stands still while --target \
or --exec works.

Exit codes:
  0    every line was sent, and every message was processed or dead-lettered
  1    a file that cannot be read or exists already, or an endpoint that refuses
  2    bad usage
  3    all of ten or more messages are invalid
  5    lines were refused, or a message is unaccounted for; the report says which
  130  interrupted")]
pub struct Arguments {
    /// Message bodies: any text, one a line, or one JSON document over several lines; what
    /// `aws sqs receive-message` prints, an SQS event of Lambda, or a JSON array of messages. `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,
    /// The retry policy (JSON); without it: 5 retries, each after a random delay of up to 900 s (with --strategy
    /// async-retry: for a day, each after up to twice as long as the one before)
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The strategy for failed messages
    #[arg(long, value_parser = strategies(RetryLoop::all()), default_value_t)]
    pub strategy: RetryLoop,
    /// JSON Pointer to the message group (a string or a number) in each body, for --strategy ordered [default: one group]
    #[arg(long, value_name = "POINTER", value_parser = pointer)]
    pub group_pointer: Option<Pointer>,
    /// A JSON Schema for `data`
    #[arg(long, value_name = "FILE")]
    pub data_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) plain: PlainArguments,
    /// Call this endpoint instead of the built-in target: https://, or http:// to this machine
    #[arg(long, value_name = "URL", conflicts_with_all = ["fail_rate", "fail_first", "fail_permanently"])]
    pub target: Option<String>,
    /// Call your own Lambda function instead: COMMAND starts its runtime, such as one of AWS's runtime interface clients. Each
    /// call has 30 s
    #[arg(long, value_name = "COMMAND", value_parser = exec::command, conflicts_with_all = ["target", "fail_rate", "fail_first", "fail_permanently"])]
    pub exec: Option<Command>,
    /// The event of one invocation of --exec's function
    #[arg(long, value_name = "EVENT", value_parser = handler_events(), default_value = "record", requires = "exec")]
    pub handler_event: HandlerEvent,
    /// Built-in target: the chance that a call fails, 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub fail_rate: f64,
    /// Built-in target: how many attempts of each message fail at first
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0_u32..))]
    pub fail_first: u32,
    /// Built-in target: the chance that a message fails permanently, 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub fail_permanently: f64,
    /// The same seed gives the same run, byte for byte
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0_u64..))]
    pub seed: u64,
    /// Write the final DLQ to this new file, one `{"body":…,"attributes":{…}}` a line
    #[arg(long, value_name = "OUT.jsonl")]
    pub final_dlq: Option<PathBuf>,
    #[command(flatten)]
    pub printing: Printing,
    /// Run in real time on this SQS-compatible endpoint, on queues of its own that are deleted at the end
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
