//! The output formats of an audit: each message as it is read, or the report at the end.

use std::io::{self, Write};

use redeliver_dead_letters::DeadLetterRecord;

use super::report::AuditReport;
use crate::dead_letter::{Layout, Mask, lay_out};

/// An output format.
pub trait View {
    /// Called before the first message.
    fn begin(&mut self, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Called for each selected message.
    fn add(&mut self, _record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _report: &AuditReport, _output: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// The report as one JSON object.
pub struct Json;

impl View for Json {
    fn end(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(report.json().as_bytes())
    }
}

/// One line a message: the document that filters get.
pub struct JsonLines;

impl View for JsonLines {
    fn add(&mut self, record: &DeadLetterRecord, output: &mut dyn Write) -> io::Result<()> {
        // A body has its own line breaks.
        let line = lay_out(&record.document(), Layout::Compact, Mask::Nothing, usize::MAX);
        writeln!(output, "{}", line.map(|line| line.text).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{foreign, message};

    #[test]
    fn each_message_is_one_line_whatever_its_body() {
        let mut output = Vec::new();
        for record in [message("{\"a\":\n\r\n 1e400,\t\"b\" : [ ]}"), foreign("two\nlines\u{9b}", 2)] {
            JsonLines.add(&record, &mut output).unwrap();
        }
        let text = String::from_utf8(output).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with(r#""attributes":{},"body":{"a":1e400,"b":[]}}"#), "{}", lines[0]);
        assert!(lines[1].ends_with(r#""body":"two\nlines\u009b"}"#), "{}", lines[1]);
    }
}
