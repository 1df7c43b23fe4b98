//! One line per message, for spreadsheets (RFC 4180). No cell can be interpreted as a formula.

use std::io::{self, Write};

use redeliver_core::message::metadata::Metadata;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::format_timestamp;
use redeliver_operator::audit::View;
use redeliver_operator::terminal::escape::escape_lines;

/// A function that returns a record's value for a column.
type Cell = fn(&DeadLetterRecord) -> String;

const COLUMNS: [(&str, Cell); 13] = [
    ("message_id", |record| record.message_id().to_owned()),
    ("sqs_message_id", |record| record.message.sqs_message_id.clone()),
    ("sent_at", |record| format_timestamp(record.message.sent_at)),
    ("error_type", |record| record.error_type.clone()),
    ("error_details", |record| record.error_details.clone()),
    ("attempts", |record| format_optional(record.attempts())),
    ("generation", |record| format_optional(record.metadata.as_ref().map(Metadata::generation))),
    ("fingerprint", |record| record.fingerprint.clone()),
    ("first_sent_time", |record| format_timestamp(record.first_sent_at())),
    ("dead_lettered_at", |record| {
        format_optional(record.dead_letter.as_ref().map(|ours| &ours.dead_lettered_at))
    }),
    ("cause_type", |record| format_optional(record.dead_letter.as_ref().map(|ours| &ours.cause.error_type))),
    ("receive_count", |record| record.message.receive_count.to_string()),
    ("body_bytes", |record| record.message.body.len().to_string()),
];
/// The last column, with `--reveal`.
const BODY: (&str, Cell) = ("body", |record| record.message.body.clone());

/// The view of `--format csv`: a header, then one line per message.
pub(super) struct Csv {
    /// True if rows include the bodies.
    pub(super) reveal: bool,
}

impl Csv {
    fn write_row(&self, cell: impl Fn((&str, Cell)) -> String, output: &mut dyn Write) -> io::Result<()> {
        let columns = COLUMNS.into_iter().chain(self.reveal.then_some(BODY));
        let cells: Vec<_> = columns.map(|column| escape_cell(&cell(column))).collect();
        write!(output, "{}\r\n", cells.join(","))
    }
}

impl View for Csv {
    fn begin_output(&mut self, output: &mut dyn Write) -> io::Result<()> {
        self.write_row(|(name, _)| name.to_owned(), output)
    }

    fn write_record(&mut self, record: &DeadLetterRecord, output: &mut dyn Write) -> io::Result<()> {
        self.write_row(|(_, cell)| cell(record), output)
    }
}

fn format_optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Escapes a cell so that a spreadsheet treats it as text ("CSV Injection", OWASP).
fn escape_cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len() + 2);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
        cell.push('\'');
    }
    cell += &escape_lines(text).replace('"', "\"\"");
    if cell.contains(['"', ',', '\n', '\t', '\'', ';']) { format!("\"{cell}\"") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{foreign_dead_letter, record, with_sent_time};

    #[test]
    fn no_cell_is_a_formula() {
        for (text, expected) in [
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("\r=1", "\"'\\r=1\""),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(escape_cell(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_line_breaks_and_control_characters_stay_in_a_cell() {
        assert_eq!(escape_cell("say \"hi\", you"), "\"say \"\"hi\"\", you\"");
        assert_eq!(escape_cell("two\nlines"), "\"two\nlines\"");
        assert_eq!(escape_cell("\u{1b}[31m"), r"\u{1b}[31m");
    }

    #[test]
    fn a_row_has_the_body_only_with_reveal() {
        let ours = with_sent_time(record("NON_RETRYABLE_ERROR", "=1", 1), 60);
        let rows = |reveal| {
            let mut output = Vec::new();
            let mut csv = Csv { reveal };
            csv.begin_output(&mut output).unwrap();
            csv.write_record(&ours, &mut output).unwrap();
            csv.write_record(&foreign_dead_letter("plain", 2), &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        let masked = rows(false);
        let lines: Vec<_> = masked.split("\r\n").collect();
        assert_eq!(lines[0], COLUMNS.map(|(name, _)| name).join(","));
        assert!(lines[1].starts_with(
            "00000000-0000-4000-8000-000000000001,sqs-1,1970-01-01T00:01:00.000Z,NON_RETRYABLE_ERROR,\"'=1\",2,0,"
        ));
        let bytes = ours.message.body.len();
        assert!(
            lines[1].ends_with(&format!(
                ",{},1970-01-01T00:00:00.000Z,1970-01-01T00:10:00.000000Z,HttpStatus.503,1,{bytes}",
                ours.fingerprint
            )),
            "{}",
            lines[1]
        );
        assert!(lines[2].starts_with("sqs-2,sqs-2,1970-01-01T00:00:00.000Z,UNANNOTATED,,,,"), "{}", lines[2]);
        assert_eq!((lines[3], lines.len()), ("", 4));
        assert!(
            !masked.contains("secret")
                && rows(true).contains("secret-1")
                && rows(true).contains(",plain\r\n")
        );
    }
}
