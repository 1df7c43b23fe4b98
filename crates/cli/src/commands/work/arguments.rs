//! The arguments of `redeliver work`.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use clap::Args;
use redeliver_aws::targets::RuntimeCommand;
use redeliver_operator::ExitCode;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::terminal::help::HelpFooter;
use redeliver_operator::terminal::units::{DAY, HOUR, number, seconds};
use redeliver_worker::{FunctionName, PollerLimits, WorkerFunctions, WorkerOptions};

use crate::commands::exec;

/// Time reserved for deleting the last batch and exiting.
const SHUTDOWN_RESERVE: Duration = Duration::from_secs(10);
/// "ReceiveMessage", Amazon SQS API Reference.
const WAIT_SECONDS_MAX: u64 = 20;

/// The closing text of the help for `work`.
const CLOSING: HelpFooter = HelpFooter {
    command: "work",
    page: "containers",
    examples: &[
        "redeliver work message-processor failed-message-processor final-dlq-annotator",
        "redeliver work message-processor --concurrency 8 --health 0.0.0.0:8080",
        "redeliver work message-processor \\\n--exec 'node_modules/.bin/aws-lambda-ric index.handler'",
        "redeliver work failed-message-processor --wait 2s \\\n--endpoint-url http://127.0.0.1:4566",
    ],
    notes: &[
        "Settings are read from the functions' environment variables. In addition, each function requires the URL of \
         the queue that it polls: SOURCE_QUEUE_URL for message-processor, INTERMEDIATE_DLQ_URL for \
         failed-message-processor, and ANNOTATION_QUEUE_URL for final-dlq-annotator, which also requires \
         SOURCE_DLQ_URL with STRATEGY=ordered.",
        "On SIGTERM or Ctrl-C, the process finishes the receives in flight, processes their messages, and deletes the \
         finished ones. Allow at least the --shutdown time before you kill it. A second signal ends it immediately. No \
         message is lost either way: messages that were not deleted become visible again.",
        "With --health, GET /healthz returns 200, or 503 if a function has not reached its queue for 60 seconds; GET \
         /readyz returns 200, or 503 after the first signal; GET /metrics returns metrics for Prometheus.",
        "The process logs to standard error and the functions log to standard output, both as JSON lines. The function \
         of --exec also prints to standard output.",
    ],
    exit_codes: &[
        (ExitCode::Done, "after SIGTERM", "All received messages were handled."),
        (ExitCode::Failed, "", "Settings are missing or wrong, or a queue cannot be used."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::PartlyDone,
            "",
            "The process stopped before all received messages were handled; the rest become visible again.",
        ),
        (ExitCode::Interrupted, "after Ctrl-C", "All received messages were handled."),
    ],
};

/// Run the functions as a process that polls their queues. Runs in a container instead of Lambda, and reads its
/// settings from the functions' environment variables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// The functions to run
    #[arg(help_heading = None::<&str>, value_name = "FUNCTION", required = true, value_enum)]
    functions: Vec<FunctionName>,
    /// The command that starts the runtime of your own Lambda function
    ///
    /// For example, one of AWS's runtime interface clients. The message-processor calls the function instead of
    /// `TARGET`. Each concurrent batch has its own process. `HANDLER_EVENT` sets the event that each invocation
    /// receives.
    #[arg(long, value_name = "COMMAND", value_parser = exec::parse_command)]
    exec: Option<RuntimeCommand>,
    /// The prefix of the functions' names in logs and metrics
    ///
    /// For example `orders` for `orders-message-processor`, to distinguish two deployments in one account.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Concurrent batches per function, each of up to 10 messages
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number(1..=1000_u16))]
    concurrency: u16,
    /// The address of /healthz, /readyz and /metrics, e.g. 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    health: Option<SocketAddr>,
    /// The time limit for one batch
    ///
    /// The queues' visibility timeout must not be shorter, and should be six times as long; `TARGET_TIMEOUT_SECONDS`
    /// must be at least 5 s shorter.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = seconds(1..=12 * HOUR))]
    invocation: Duration,
    /// The longest time that a receive waits for messages
    ///
    /// With a shorter wait, the process stops faster but sends more requests.
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = seconds(1..=WAIT_SECONDS_MAX))]
    wait: Duration,
    /// The time allowed for stopping [default: --wait + --invocation + 10s]
    #[arg(long, value_name = "SPAN", value_parser = seconds(0..=DAY))]
    shutdown: Option<Duration>,
    #[command(flatten)]
    connection: AwsConnection,
}

impl From<Arguments> for WorkerOptions {
    fn from(arguments: Arguments) -> Self {
        let Arguments { functions, exec, name, concurrency, health, invocation, wait, shutdown, connection } =
            arguments;
        let concurrency = NonZeroU16::new(concurrency).unwrap_or(NonZeroU16::MIN);
        Self {
            functions: WorkerFunctions::new(functions, name),
            exec,
            limits: PollerLimits { concurrency, batch_size: 10, wait, invocation },
            health,
            shutdown: shutdown.unwrap_or(wait + invocation + SHUTDOWN_RESERVE),
            connection,
        }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an IP address with a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned())
}
