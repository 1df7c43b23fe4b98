//! `LOG_DETAIL` and `LOG_LEVEL`: what is logged of what happens.

use super::reader::Reader;

/// What is logged; metrics are written whatever it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub detail: LogDetail,
    pub level: LogLevel,
}

/// `LOG_DETAIL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDetail {
    /// `batches`: a line a batch, and one for each thing that somebody must act on.
    #[default]
    Batches,
    /// `messages`: also a line for each message that is done, handed off or sent again.
    Messages,
}

/// `LOG_LEVEL`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    #[default]
    Info,
    /// Only what somebody must act on, dead letters, and the batches' lines, which hold the metrics.
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

    /// The same beside a user's own function, whose logger may have levels of its own.
    pub(super) fn beside_own_function(reader: &mut Reader<'_>) -> Option<Self> {
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
