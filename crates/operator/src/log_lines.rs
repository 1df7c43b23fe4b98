//! Builds a CloudWatch Logs Insights link and an AWS CLI command for the log lines of a dead letter's last attempt.
//!
//! A dead letter is untrusted input, and so are its log names. [`LogLocation`] accepts only names in the CloudWatch and
//! Lambda formats; nevertheless, they are all encoded or quoted.

use std::fmt::Write as _;

use chrono::{SecondsFormat, TimeDelta};
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::Timestamp;
use redeliver_core::message::attempt_logs::AttemptLogs;
use redeliver_dead_letters::DeadLetterRecord;
use serde::Serialize;

use crate::aws_console;
use crate::terminal::shell::quote_word;

/// The margin before and after the call, since clocks differ and lines can be slightly late.
const MARGIN: TimeDelta = TimeDelta::seconds(1);

/// The location of the last attempt's log lines, with a link and a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogLinks {
    #[serde(flatten)]
    pub location: LogLocation,
    /// The default log group of an invoked Lambda function. The function might be configured to use a different one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_log_group: Option<String>,
    /// A link to CloudWatch Logs Insights that shows all lines of the log stream during the call or, without a stream,
    /// the lines with the request id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// An AWS CLI command that prints the lines with the request id or, without an id, all lines of the log stream
    /// during the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl LogLinks {
    /// Builds the links for a dead letter. Returns `None` if it has no log location.
    #[must_use]
    pub fn for_record(record: &DeadLetterRecord) -> Option<Self> {
        let logs = record.last_attempt_logs()?;
        let location = logs.location().clone();
        let default_log_group = default_log_group(record, &location);
        let group = location.log_group().or(default_log_group.as_deref());
        // A file of dead letters does not have a region, but the source queue does.
        let source = record.dead_letter.as_ref().and_then(|ours| ours.source_queue_arn.as_deref());
        let arn = [Some(record.message.queue_arn.as_str()), source].into_iter().flatten();
        let arn = arn.into_iter().find(|arn| aws_console::region_of_arn(arn).is_some());
        let arn_and_group =
            arn.zip(group).filter(|_| location.request_id().or(location.log_stream()).is_some());
        Some(Self {
            url: arn_and_group.and_then(|(arn, group)| insights_url(arn, group, &logs)),
            command: arn_and_group.and_then(|(arn, group)| log_lines_command(arn, group, &logs)),
            default_log_group,
            location,
        })
    }

    /// Describes the log group and the log stream, if known.
    #[must_use]
    pub fn describe_location(&self) -> Option<String> {
        if let Some(group) = &self.default_log_group {
            return Some(format!("{group}, unless the function has another log group"));
        }
        let names = [self.location.log_group(), self.location.log_stream()];
        let names = names.into_iter().flatten().collect::<Vec<_>>().join(" ");
        (!names.is_empty()).then_some(names)
    }
}

/// Returns the default log group, `/aws/lambda/NAME`, of an invoked function whose actual log group is unknown.
fn default_log_group(record: &DeadLetterRecord, location: &LogLocation) -> Option<String> {
    if location.log_group().is_some() || location.request_id().is_none() {
        return None;
    }
    let function = record.dead_letter.as_ref()?.cause.function.as_deref()?;
    let name = function.split(':').next().filter(|name| !name.is_empty())?;
    let default = LogLocation::in_stream(Some(format!("/aws/lambda/{name}")), None);
    default.log_group().map(str::to_owned)
}

/// Returns the start and the end of the call, with a margin.
fn call_period(logs: &AttemptLogs) -> (Timestamp, Timestamp) {
    let from = logs.started_at().checked_sub_signed(MARGIN).unwrap_or(logs.started_at());
    let to = logs.ended_at().checked_add_signed(MARGIN).unwrap_or(logs.ended_at());
    (from.max(Timestamp::UNIX_EPOCH), to.max(Timestamp::UNIX_EPOCH))
}

fn log_lines_command(arn: &str, group: &str, logs: &AttemptLogs) -> Option<String> {
    let (from, to) = call_period(logs);
    let mut command = format!(
        "aws logs filter-log-events --region {} --log-group-name {}",
        quote_word(aws_console::region_of_arn(arn)?),
        quote_word(group)
    );
    if let Some(stream) = logs.location().log_stream() {
        let _ = write!(command, " --log-stream-names {}", quote_word(stream));
    }
    if let Some(id) = logs.location().request_id() {
        // A term with a hyphen needs quotation marks ("Filter pattern syntax", Amazon CloudWatch Logs User Guide).
        let _ = write!(command, " --filter-pattern {}", quote_word(&format!("\"{id}\"")));
    }
    let (from, to) = (from.timestamp_millis(), to.timestamp_millis());
    let _ =
        write!(command, " --start-time {from} --end-time {to} --query 'events[].[message]' --output text");
    Some(command)
}

fn insights_url(arn: &str, group: &str, logs: &AttemptLogs) -> Option<String> {
    let (from, to) = call_period(logs);
    let location = logs.location();
    // The stream is preferred because it also contains lines that the handler prints without the request id.
    let filter = match (location.log_stream(), location.request_id()) {
        (Some(stream), _) => format!("@logStream = \"{stream}\""),
        (None, Some(id)) => format!("@message like \"{id}\""),
        (None, None) => return None,
    };
    let query =
        format!("fields @timestamp, @message\n| filter {filter}\n| sort @timestamp asc\n| limit 1000");
    let time = |time: Timestamp| encode_text(&time.to_rfc3339_opts(SecondsFormat::Millis, true));
    let detail = format!(
        "~(end~{}~start~{}~timeType~'ABSOLUTE~tz~'UTC~editorString~{}~source~(~{}))",
        time(to),
        time(from),
        encode_text(&query),
        encode_text(group)
    );
    let page = aws_console::cloudwatch_url(arn)?;
    Some(format!("{page}logsV2:logs-insights$3FqueryDetail$3D{}", encode_twice(&detail)))
}

/// Encodes a string in the console's object notation: `'` followed by the text, in which, for example, a slash becomes
/// `*2f`.
fn encode_text(text: &str) -> String {
    let mut written = "'".to_owned();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "*{byte:02x}");
        }
    }
    written
}

/// Encodes text for the console's links: percent-encoded twice, with `$` instead of `%`.
fn encode_twice(text: &str) -> String {
    let mut written = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte) {
            written.push(char::from(byte));
        } else {
            let _ = write!(written, "$25{byte:02X}");
        }
    }
    written
}

#[cfg(test)]
mod tests;
