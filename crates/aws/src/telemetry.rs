//! Telemetry: JSON lines on standard output that are both logs and CloudWatch metrics. One line summarizes a batch;
//! dead letters and events that need action have separate lines.

mod batch_totals;
mod invalid_messages;
mod log_line;
pub mod metrics;
mod panics;

pub use panics::log_without_message as panics_without_text;

use std::io::Write;
use std::sync::{Mutex, MutexGuard};

use redeliver_core::events::Event;
use redeliver_core::lock;
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::Tracer;
use tracing_subscriber::filter::LevelFilter;

use crate::SystemClock;
use crate::settings::{LogDetail, LogLevel, Logging, TracingSettings, aws_variable, function_name};
use batch_totals::BatchTotals;
use invalid_messages::InvalidMessages;
use log_line::MetricLogLines;
use metrics::{EventReport, LinePolicy};

/// An observer that writes domain events as JSON lines in CloudWatch's embedded metric format.
#[derive(Debug)]
pub struct JsonLinesObserver<C, W> {
    function: String,
    logging: Logging,
    clock: C,
    writer: Mutex<W>,
    totals: Mutex<BatchTotals>,
    /// `None` if messages without an envelope are valid.
    invalid: Option<Mutex<InvalidMessages>>,
    tracer: Option<Tracer>,
    /// The location of this invocation's log lines.
    log_location: Mutex<LogLocation>,
}

impl JsonLinesObserver<SystemClock, std::io::Stdout> {
    /// Creates an observer that writes to standard output, which Lambda sends to CloudWatch. In Lambda, the metrics'
    /// dimension is the function's name, which distinguishes deployments in one account; outside Lambda, it is
    /// `default_name`.
    #[must_use]
    pub fn for_stdout(default_name: &str, logging: Logging) -> Self {
        let function = function_name().unwrap_or_else(|| default_name.to_owned());
        let [group, stream] = ["AWS_LAMBDA_LOG_GROUP_NAME", "AWS_LAMBDA_LOG_STREAM_NAME"].map(aws_variable);
        let log_location = Mutex::new(LogLocation::in_stream(group, stream));
        Self { log_location, ..Self::new(function, logging, SystemClock, std::io::stdout()) }
    }
}

impl<C: Clock, W: Write + Send> JsonLinesObserver<C, W> {
    /// Creates an observer that writes to `writer`, with `function` as the metrics' dimension.
    pub fn new(function: impl Into<String>, logging: Logging, clock: C, writer: W) -> Self {
        let (function, writer, totals) = (function.into(), Mutex::new(writer), Mutex::default());
        let tracer = logging.tracing.map(|TracingSettings { continues }| Tracer::new(random_seed, continues));
        let log_location = Mutex::default();
        Self { function, logging, clock, writer, totals, tracer, log_location, invalid: None }
    }

    /// Logs one `all_invalid` line, with the setting to check, if all messages are invalid under this schema.
    #[must_use]
    pub fn with_schema(self, schema: &MessageSchema) -> Self {
        Self { invalid: (!schema.accepts_plain()).then(Mutex::default), ..self }
    }

    fn lock_totals(&self) -> MutexGuard<'_, BatchTotals> {
        lock(&self.totals)
    }

    fn write_lines(&self, fill: impl FnOnce(&mut MetricLogLines<'_>)) {
        let mut lines = MetricLogLines::new(&self.function, self.clock.now());
        fill(&mut lines);
        if lines.text.is_empty() {
            return;
        }
        let mut writer = lock(&self.writer);
        // A failed log write must not fail the message.
        let _ = writer.write_all(&lines.text).and_then(|()| writer.flush());
    }
}

impl<C: Clock, W: Write + Send> Observer for JsonLinesObserver<C, W> {
    fn observe(&self, event: &Event) {
        self.observe_all(std::slice::from_ref(event));
    }

    /// Writes all events in a single write.
    fn observe_all(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let Logging { detail, level, .. } = self.logging;
        self.write_lines(|lines| {
            for event in events {
                if let Some(invalid) = &self.invalid {
                    lock(invalid).add_event(event);
                }
                let observed = EventReport::from_event(event);
                match (observed.line, level) {
                    (LinePolicy::Own, _) | (LinePolicy::OwnUnlessWarn, LogLevel::Info) => {
                        lines.push_event(event, &observed);
                    }
                    _ => {
                        self.lock_totals().add_event(event, &observed);
                        if (detail, level) == (LogDetail::Messages, LogLevel::Info) {
                            lines.push_without_metrics(event, &observed);
                        }
                    }
                }
            }
        });
    }

    fn flush(&self) {
        let totals = std::mem::take(&mut *self.lock_totals());
        let trace = self.tracer.as_ref().and_then(Tracer::batch_for_log_line);
        let all_invalid = self.invalid.as_ref().and_then(|invalid| lock(invalid).end_batch());
        self.write_lines(|lines| {
            totals.write_lines(lines, trace);
            all_invalid.iter().for_each(|line| lines.push_all_invalid(line));
        });
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_ref()
    }

    fn begin_invocation(&self, request_id: &str) {
        let mut location = lock(&self.log_location);
        *location = std::mem::take(&mut *location).with_request_id(Some(request_id));
    }

    fn log_location(&self) -> LogLocation {
        lock(&self.log_location).clone()
    }
}

pub(crate) fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the system provides random bytes");
    seed
}

/// Initializes logging for the process. Dependencies log JSON at WARN and above, regardless of the environment, since
/// some of them log complete events at TRACE. Panics are logged without their message, which may contain payload data.
pub fn init_telemetry() {
    panics::log_without_message();
    // A second call fails and has no effect.
    let _ = tracing_subscriber::fmt()
        .json()
        .with_max_level(LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .try_init();
}

#[cfg(test)]
mod tests;
