//! The process's own log: JSON lines on standard error. The functions log to standard output.

use std::io::{self, Write as _};

use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::ports::Clock as _;
use serde_json::{Value, json};

pub(crate) fn info(event: &str, fields: Value) {
    write_line("INFO", event, fields);
}

pub(crate) fn warn(event: &str, remark: &str) {
    write_line("WARN", event, json!({ "remark": remark }));
}

pub(crate) fn error(event: &str, error: &str) {
    write_line("ERROR", event, json!({ "error": error }));
}

fn write_line(level: &str, event: &str, mut line: Value) {
    line["timestamp"] = format_rfc3339(SystemClock.now()).into();
    line["level"] = level.into();
    line["event"] = event.into();
    // A closed standard error must not stop the functions.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
