//! The arguments of `redeliver work`.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use clap::Args;
use redeliver_aws::targets::RuntimeCommand;
use redeliver_operator::ExitCode;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::terminal::help::Closing;
use redeliver_operator::terminal::units::{DAY, HOUR, number, seconds};
use redeliver_worker::{FunctionName, PollerLimits, WorkerFunctions, WorkerOptions};

use crate::commands::exec;

/// Time reserved for deleting the last batch and exiting.
const SHUTDOWN_RESERVE: Duration = Duration::from_secs(10);
/// "ReceiveMessage", Amazon SQS API Reference.
const WAIT_SECONDS_MAX: u64 = 20;

/// The end of the help of `work`.
const CLOSING: Closing = Closing {
    command: "work",
    page: "containers",
    examples: &[
        "redeliver work message-processor failed-message-processor final-dlq-annotator",
        "redeliver work message-processor --concurrency 8 --health 0.0.0.0:8080",
        "redeliver work message-processor \\\n--exec 'node_modules/.bin/aws-lambda-ric index.handler'",
        "redeliver work failed-message-processor --wait 2s \\\n--endpoint-url http://127.0.0.1:4566",
    ],
    notes: &[
        "The settings are the functions' environment variables. Also, each function needs the queue that it polls: \
         message-processor SOURCE_QUEUE_URL, failed-message-processor INTERMEDIATE_DLQ_URL, final-dlq-annotator \
         ANNOTATION_QUEUE_URL and, with STRATEGY=ordered, SOURCE_DLQ_URL.",
        "SIGTERM and Ctrl-C stop it: it finishes the receives in flight, processes their messages, and deletes those that \
         are done. Wait for --shutdown before you kill it. A second signal ends it at once. Nothing is lost either way: \
         messages that were not deleted come back.",
        "With --health, GET /healthz answers 200, or 503 when a function has not reached its queue for 60 seconds; GET \
         /readyz answers 200, or 503 from the first signal on; GET /metrics is for Prometheus.",
        "Its own log is on standard error, the functions' log on standard output, both as JSON lines. The function of \
         --exec prints to standard output, too.",
    ],
    exit_codes: &[
        (ExitCode::Done, "after SIGTERM", "Everything that was received is handled."),
        (ExitCode::Failed, "", "Settings are missing or wrong, or a queue cannot be used."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::NotAllDone,
            "",
            "It stopped before everything that was received was handled; the rest comes back.",
        ),
        (ExitCode::Interrupted, "after Ctrl-C", "Everything that was received is handled."),
    ],
};

/// Run the functions as a process that polls their queues. It is for containers instead of Lambda, and takes its settings
/// from the functions' environment variables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
#[command(after_help = CLOSING.short(), after_long_help = CLOSING.long())]
pub struct Arguments {
    /// The functions to run
    #[arg(help_heading = None::<&str>, value_name = "FUNCTION", required = true, value_enum)]
    functions: Vec<FunctionName>,
    /// Call your own Lambda function: this command starts its runtime
    ///
    /// Such as one of AWS's runtime interface clients. The message-processor calls it instead of `TARGET`. Each batch has a
    /// process of its own. `HANDLER_EVENT` says what one invocation gets.
    #[arg(long, value_name = "COMMAND", value_parser = exec::command)]
    exec: Option<RuntimeCommand>,
    /// The prefix of the functions' names in logs and metrics
    ///
    /// For example `orders` for `orders-message-processor`, to distinguish two deployments in one account.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Concurrent batches of each function, of up to 10 messages
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number(1..=1000_u16))]
    concurrency: u16,
    /// Serve /healthz, /readyz and /metrics here, such as 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    health: Option<SocketAddr>,
    /// The time for one batch
    ///
    /// The queues' visibility timeout must not be shorter, and should be six times as long; `TARGET_TIMEOUT_SECONDS` must
    /// be at least 5 s shorter.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = seconds(1..=12 * HOUR))]
    invocation: Duration,
    /// Longest wait of a receive for messages
    ///
    /// A shorter wait stops faster and makes more requests.
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = seconds(1..=WAIT_SECONDS_MAX))]
    wait: Duration,
    /// The time to stop [default: --wait + --invocation + 10s]
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

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an IP address with a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned())
}
