//! `LOG_DETAIL` and `LOG_LEVEL`.

use super::reader::SettingsReader;
use crate::otlp::OtlpSettings;

/// Logging settings. Metrics are always written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub detail: LogDetail,
    pub level: LogLevel,
    /// Set if spans are exported.
    pub tracing: Option<TracingSettings>,
}

/// Tracing settings. OpenTelemetry's own variables enable the export of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracingSettings {
    /// `TRACE_CONTINUE`: if true, an attempt continues the producer's trace; otherwise, it starts a new trace with
    /// links.
    pub continues: bool,
}

/// `LOG_DETAIL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDetail {
    /// `batches`: one line per batch, and one per event that needs action.
    #[default]
    Batches,
    /// `messages`: also a line for each message that is processed, handed off or re-sent.
    Messages,
}

/// `LOG_LEVEL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    #[default]
    Info,
    /// Only events that need action, dead letters, and batch lines, which contain the metrics.
    Warn,
}

impl Logging {
    pub(super) fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let detail = read_detail(reader);
        let level = match reader.optional("LOG_LEVEL").as_deref() {
            None | Some("INFO") => Ok(LogLevel::Info),
            Some("WARN") => Ok(LogLevel::Warn),
            Some(_) => Err("must be INFO or WARN, in capitals"),
        };
        let level = reader.check_value("LOG_LEVEL", level);
        let tracing = read_tracing(reader);
        Some(Self { detail: detail?, level: level?, tracing })
    }

    /// Reads the settings of a message-processor that runs the user's own function. That function's logger may use
    /// other levels in `LOG_LEVEL`, so any value except `WARN` counts as `INFO`.
    pub(super) fn with_own_function(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let level = match reader.optional("LOG_LEVEL").as_deref() {
            Some("WARN") => LogLevel::Warn,
            _ => LogLevel::Info,
        };
        let tracing = read_tracing(reader);
        Some(Self { detail: read_detail(reader)?, level, tracing })
    }
}

fn read_tracing(reader: &mut SettingsReader<'_>) -> Option<TracingSettings> {
    let continues = reader.read_flag("TRACE_CONTINUE");
    let is_on = matches!(OtlpSettings::from_variables(&reader.variables, ""), Ok(Some(_)));
    is_on.then_some(TracingSettings { continues })
}

fn read_detail(reader: &mut SettingsReader<'_>) -> Option<LogDetail> {
    let detail = match reader.optional("LOG_DETAIL").as_deref() {
        None | Some("batches") => Ok(LogDetail::Batches),
        Some("messages") => Ok(LogDetail::Messages),
        Some(_) => Err("must be batches or messages"),
    };
    reader.check_value("LOG_DETAIL", detail)
}
