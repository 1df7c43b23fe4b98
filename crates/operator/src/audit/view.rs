//! The output formats of an audit: each message as it is read, or the report at the end.

use std::io::{self, Write};

use redeliver_dead_letters::DeadLetterRecord;

use super::report::AuditReport;
use crate::dead_letter::{JsonLayout, Mask, lay_out};
use crate::log_lines::LogLinks;

/// An output format.
pub trait View {
    /// Called before the first message.
    fn begin_output(&mut self, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Called for each selected message.
    fn write_record(&mut self, _record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn write_report(&mut self, _report: &AuditReport, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The report as one JSON object.
pub struct JsonView;

impl View for JsonView {
    fn write_report(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(report.to_json().as_bytes())
    }
}

/// One line per message: the filter's input document, and `logs`, which locates the log lines of the last attempt.
pub struct JsonLinesView;

impl View for JsonLinesView {
    fn write_record(&mut self, record: &DeadLetterRecord, output: &mut dyn Write) -> io::Result<()> {
        // The body may contain line breaks.
        let line = lay_out(&record.filter_document(), JsonLayout::Compact, Mask::Nothing, usize::MAX);
        let line = line.map(|line| line.text).unwrap_or_default();
        match (LogLinks::for_record(record), line.strip_suffix('}')) {
            (Some(logs), Some(open)) => {
                writeln!(output, "{open},\"logs\":{}}}", serde_json::to_string(&logs)?)
            }
            _ => writeln!(output, "{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{attempt_logs, foreign_dead_letter, message, record};

    #[test]
    fn a_line_locates_the_logs_of_the_last_attempt() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        record.dead_letter.as_mut().unwrap().last_attempt_logs = attempt_logs();
        let mut output = Vec::new();
        JsonLinesView.write_record(&record, &mut output).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&output).unwrap();
        let logs = &line["logs"];
        assert_eq!(
            [&logs["request_id"], &logs["log_group"], &logs["log_stream"]],
            ["7b1c7d3e-0191", "/aws/lambda/orders", "2026/07/25/[$LATEST]0123456789abcdef"]
        );
        assert!(logs["url"].as_str().unwrap().starts_with("https://console.aws.amazon.com/cloudwatch/"));
        assert!(logs["command"].as_str().unwrap().starts_with("aws logs filter-log-events "));
        assert_eq!(line["error_type"], "RETRY_ATTEMPT_EXCEEDED");
    }

    #[test]
    fn any_body_is_written_on_one_line() {
        let mut output = Vec::new();
        for record in
            [message("{\"a\":\n\r\n 1e400,\t\"b\" : [ ]}"), foreign_dead_letter("two\nlines\u{9b}", 2)]
        {
            JsonLinesView.write_record(&record, &mut output).unwrap();
        }
        let text = String::from_utf8(output).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with(r#""attributes":{},"body":{"a":1e400,"b":[]}}"#), "{}", lines[0]);
        assert!(lines[1].ends_with(r#""body":"two\nlines\u009b"}"#), "{}", lines[1]);
    }
}
