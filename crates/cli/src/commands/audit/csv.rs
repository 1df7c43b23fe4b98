//! One line per message, for spreadsheets (RFC 4180). No cell can be read as a formula.

use std::io::{self, Write};

use redeliver_core::message::metadata::Metadata;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::written;
use redeliver_operator::audit::View;
use redeliver_operator::terminal::escape::escaped_lines;

/// The value of a column.
type Cell = fn(&DeadLetterRecord) -> String;

const COLUMNS: [(&str, Cell); 13] = [
    ("message_id", |record| record.message_id().to_owned()),
    ("sqs_message_id", |record| record.message.sqs_message_id.clone()),
    ("sent_at", |record| written(record.message.sent_at)),
    ("error_type", |record| record.error_type.clone()),
    ("error_details", |record| record.error_details.clone()),
    ("attempts", |record| or_empty(record.attempts())),
    ("generation", |record| or_empty(record.metadata.as_ref().map(Metadata::generation))),
    ("fingerprint", |record| record.fingerprint.clone()),
    ("first_sent_time", |record| written(record.first_sent())),
    ("dead_lettered_at", |record| or_empty(record.dead_letter.as_ref().map(|ours| &ours.dead_lettered_at))),
    ("cause_type", |record| or_empty(record.dead_letter.as_ref().map(|ours| &ours.cause.error_type))),
    ("receive_count", |record| record.message.receive_count.to_string()),
    ("body_bytes", |record| record.message.body.len().to_string()),
];
/// The last column, with `--reveal`.
const BODY: (&str, Cell) = ("body", |record| record.message.body.clone());

/// The view of `--format csv`: a header, then one line per message.
pub(super) struct Csv {
    /// True if bodies are shown.
    pub(super) reveal: bool,
}

impl Csv {
    fn write_row(&self, cell: impl Fn((&str, Cell)) -> String, output: &mut dyn Write) -> io::Result<()> {
        let columns = COLUMNS.into_iter().chain(self.reveal.then_some(BODY));
        let cells: Vec<_> = columns.map(|column| escaped(&cell(column))).collect();
        write!(output, "{}\r\n", cells.join(","))
    }
}

impl View for Csv {
    fn begin(&mut self, output: &mut dyn Write) -> io::Result<()> {
        self.write_row(|(name, _)| name.to_owned(), output)
    }

    fn add(&mut self, record: &DeadLetterRecord, output: &mut dyn Write) -> io::Result<()> {
        self.write_row(|(_, of)| of(record), output)
    }
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Escapes a cell so that a spreadsheet reads it as text ("CSV Injection", OWASP).
fn escaped(text: &str) -> String {
    let mut cell = String::with_capacity(text.len() + 2);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
        cell.push('\'');
    }
    cell += &escaped_lines(text).replace('"', "\"\"");
    if cell.contains(['"', ',', '\n', '\t', '\'', ';']) { format!("\"{cell}\"") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{foreign, record, with_sent_seconds};

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
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_commas_line_breaks_and_control_characters_stay_within_their_cell() {
        assert_eq!(escaped("say \"hi\", you"), "\"say \"\"hi\"\", you\"");
        assert_eq!(escaped("two\nlines"), "\"two\nlines\"");
        assert_eq!(escaped("\u{1b}[31m"), r"\u{1b}[31m");
    }

    #[test]
    fn a_message_is_a_row_and_has_its_body_only_if_it_is_revealed() {
        let ours = with_sent_seconds(record("NON_RETRYABLE_ERROR", "=1", 1), 60);
        let rows = |reveal| {
            let mut output = Vec::new();
            let mut csv = Csv { reveal };
            csv.begin(&mut output).unwrap();
            csv.add(&ours, &mut output).unwrap();
            csv.add(&foreign("plain", 2), &mut output).unwrap();
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
