//! `LOG_DETAIL` and `LOG_LEVEL`.

use super::reader::Reader;

/// The logging settings. Metrics are always written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub detail: LogDetail,
    pub level: LogLevel,
}

/// `LOG_DETAIL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDetail {
    /// `batches`: one line per batch, and one for each event that needs action.
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
    /// Only events that need action, dead letters, and the batches' lines, which hold the metrics.
    Warn,
}

impl Logging {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let detail = detail(reader);
        let level = match reader.optional("LOG_LEVEL").as_deref() {
            None | Some("INFO") => Ok(LogLevel::Info),
            Some("WARN") => Ok(LogLevel::Warn),
            Some(_) => Err("is neither INFO nor WARN (in capitals); set it to one of them"),
        };
        let level = reader.check("LOG_LEVEL", level);
        Some(Self { detail: detail?, level: level? })
    }

    /// Reads the settings with the user's own function, whose logger may use other levels.
    pub(super) fn with_own_function(reader: &mut Reader<'_>) -> Option<Self> {
        let level = match reader.optional("LOG_LEVEL").as_deref() {
            Some("WARN") => LogLevel::Warn,
            _ => LogLevel::Info,
        };
        Some(Self { detail: detail(reader)?, level })
    }
}

fn detail(reader: &mut Reader<'_>) -> Option<LogDetail> {
    let detail = match reader.optional("LOG_DETAIL").as_deref() {
        None | Some("batches") => Ok(LogDetail::Batches),
        Some("messages") => Ok(LogDetail::Messages),
        Some(_) => Err("is neither batches nor messages; set it to one of them"),
    };
    reader.check("LOG_DETAIL", detail)
}
