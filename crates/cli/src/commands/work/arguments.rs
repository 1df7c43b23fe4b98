//! The arguments of `redeliver work`.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use clap::{Args, ValueEnum};
use redeliver_aws::targets::Command;
use redeliver_core::strategy::Role;

use super::poller::Limits;
use crate::commands::exec;
use redeliver_operator::queues::Connection;
use redeliver_operator::terminal::units::{DAY, HOUR, number, seconds};

/// Time to delete the last batch, and to end.
const SHUTDOWN_RESERVE: Duration = Duration::from_secs(10);
/// "ReceiveMessage", Amazon SQS API Reference.
const WAIT_SECONDS_MAX: u64 = 20;

/// Run the functions as a process that polls their queues itself: for containers instead of Lambda.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver work message-processor failed-message-processor final-dlq-annotator
  redeliver work message-processor --concurrency 8 --health 0.0.0.0:8080
  redeliver work message-processor \\
    --exec 'node_modules/.bin/aws-lambda-ric index.handler'
  redeliver work failed-message-processor --wait 2s \\
    --endpoint-url http://127.0.0.1:4566

The settings are the functions' environment variables. Also, each function needs the queue that it polls: message-processor \
SOURCE_QUEUE_URL, failed-message-processor INTERMEDIATE_DLQ_URL, final-dlq-annotator ANNOTATION_QUEUE_URL and, with \
STRATEGY=ordered, SOURCE_DLQ_URL.

SIGTERM and Ctrl-C stop it: it finishes receives under way, handles what they bring, and deletes what is done. Give it \
the time --shutdown before you kill it. A second signal ends it at once. Nothing is lost either way: messages that were not \
deleted come back.

With --health, GET /healthz answers 200, or 503 when a function has not reached its queue for 60 seconds; GET /readyz answers \
200, or 503 from the first signal on; GET /metrics is for Prometheus.

Its own log is on standard error, the functions' log on standard output, both as JSON lines. The function of --exec \
prints to standard output, too.

Exit codes:
  0  stopped, and everything that was received is handled
  1  stopped before everything that was received was handled; the rest comes back
  2  bad usage, settings that are missing or wrong, or a queue that cannot be used")]
pub struct Arguments {
    /// The functions to run
    #[arg(value_name = "FUNCTION", required = true, value_enum)]
    functions: Vec<FunctionName>,
    /// The message-processor calls your own Lambda function instead of `TARGET`: COMMAND starts its runtime, such as one of
    /// AWS's runtime interface clients. Each batch has a process of its own. `HANDLER_EVENT` says what one invocation gets
    #[arg(long, value_name = "COMMAND", value_parser = exec::command)]
    pub(super) exec: Option<Command>,
    /// The prefix of the functions' names in logs and metrics, e.g. `orders` for `orders-message-processor`, to tell two
    /// deployments in one account apart
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Concurrent batches of each function, of up to 10 messages
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = number(1..=1000_u16))]
    concurrency: u16,
    /// Serve /healthz, /readyz and /metrics here, e.g. 127.0.0.1:8080
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(super) health: Option<SocketAddr>,
    /// The time for one batch. The queues' visibility timeout must not be shorter, and should be six times as long;
    /// `TARGET_TIMEOUT_SECONDS` must be at least 5 s shorter
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = seconds(1..=12 * HOUR))]
    invocation: Duration,
    /// Longest wait of a receive for messages; a shorter wait stops faster and makes more requests
    #[arg(long, value_name = "SPAN", default_value = "20s", value_parser = seconds(1..=WAIT_SECONDS_MAX))]
    wait: Duration,
    /// The time to stop [default: --wait + --invocation + 10s]
    #[arg(long, value_name = "SPAN", value_parser = seconds(0..=DAY))]
    shutdown: Option<Duration>,
    #[command(flatten)]
    pub(super) connection: Connection,
}

/// One of the three functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FunctionName {
    /// Polls `SOURCE_QUEUE_URL` and calls the target
    MessageProcessor,
    /// Polls `INTERMEDIATE_DLQ_URL` and schedules retries
    FailedMessageProcessor,
    /// Polls `ANNOTATION_QUEUE_URL` and writes final records
    FinalDlqAnnotator,
}

impl FunctionName {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MessageProcessor => redeliver_message_processor::NAME,
            Self::FailedMessageProcessor => redeliver_failed_message_processor::NAME,
            Self::FinalDlqAnnotator => redeliver_final_dlq_annotator::NAME,
        }
    }

    /// The queue that it polls, and with the strategy `ordered` the annotator a second one.
    pub(super) const fn polls(self) -> Role {
        match self {
            Self::MessageProcessor => Role::Source,
            Self::FailedMessageProcessor => Role::IntermediateDlq,
            Self::FinalDlqAnnotator => Role::Annotation,
        }
    }
}

impl Arguments {
    /// Each function once, in the order of the loop.
    pub(super) fn functions(&self) -> Vec<FunctionName> {
        let mut functions = self.functions.clone();
        functions.sort_unstable();
        functions.dedup();
        functions
    }

    /// A function's name in logs and metrics.
    pub(super) fn name(&self, function: FunctionName) -> String {
        match &self.name {
            Some(name) => format!("{name}-{}", function.as_str()),
            None => function.as_str().to_owned(),
        }
    }

    /// The name of this process as a service, after `redeliver-`.
    pub(super) fn service(&self) -> String {
        match self.functions()[..] {
            [function] => self.name(function),
            _ => self.name.clone().unwrap_or_else(|| "work".to_owned()),
        }
    }

    /// Concurrent batches of each function.
    pub(super) fn concurrency(&self) -> NonZeroU16 {
        NonZeroU16::new(self.concurrency).unwrap_or(NonZeroU16::MIN)
    }

    pub(super) fn limits(&self) -> Limits {
        let concurrency = self.concurrency().into();
        Limits { concurrency, batch_size: 10, wait: self.wait, invocation: self.invocation }
    }

    pub(super) fn shutdown(&self) -> Duration {
        self.shutdown.unwrap_or(self.wait + self.invocation + SHUTDOWN_RESERVE)
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "an IP address with a port, such as 127.0.0.1:8080 or [::1]:8080".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_process_of_one_function_is_the_service_of_its_name() {
        let service = |arguments: &[&str]| {
            let line = CommandLine::try_parse_from([&["work"], arguments].concat()).unwrap();
            line.arguments.service()
        };
        assert_eq!(service(&["message-processor", "message-processor"]), "message-processor");
        assert_eq!(service(&["message-processor", "--name", "orders"]), "orders-message-processor");
        assert_eq!(service(&["message-processor", "final-dlq-annotator", "--name", "orders"]), "orders");
        assert_eq!(service(&["message-processor", "final-dlq-annotator"]), "work");
    }
}
