//! One line a message, for spreadsheets (RFC 4180), in which no cell is a formula.

use std::io::{self, Write};

use super::view::View;
use crate::text::is_unsafe;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::written;

const COLUMNS: [&str; 13] = [
    "message_id",
    "sqs_message_id",
    "sent_at",
    "error_type",
    "error_details",
    "attempts",
    "generation",
    "fingerprint",
    "first_sent_time",
    "dead_lettered_at",
    "cause_type",
    "receive_count",
    "body_bytes",
];

/// One line a message.
pub(super) struct Csv {
    /// A last column with the bodies.
    pub(super) reveal: bool,
}

impl View for Csv {
    fn begin(&mut self, output: &mut dyn Write) -> io::Result<()> {
        let body = self.reveal.then_some("body");
        write_row(COLUMNS.into_iter().chain(body).map(str::to_owned), output)
    }

    fn add(&mut self, record: &DeadLetterRecord, output: &mut dyn Write) -> io::Result<()> {
        let message = &record.message;
        let dead_letter = record.dead_letter.as_ref();
        let cells = [
            record.message_id().to_owned(),
            message.sqs_message_id.clone(),
            written(message.sent_at),
            record.error_type.clone(),
            record.error_details.clone(),
            record.attempts().map(|attempts| attempts.to_string()).unwrap_or_default(),
            record.metadata.as_ref().map(|metadata| metadata.generation().to_string()).unwrap_or_default(),
            record.fingerprint.clone(),
            written(record.first_sent()),
            dead_letter.map(|ours| ours.dead_lettered_at.clone()).unwrap_or_default(),
            dead_letter.map(|ours| ours.cause.error_type.clone()).unwrap_or_default(),
            message.receive_count.to_string(),
            message.body.len().to_string(),
        ];
        write_row(cells.into_iter().chain(self.reveal.then(|| message.body.clone())), output)
    }
}

fn write_row(cells: impl Iterator<Item = String>, output: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<_> = cells.map(|text| cell(&text)).collect();
    write!(output, "{}\r\n", cells.join(","))
}

/// A cell that a spreadsheet takes for text ("CSV Injection", OWASP), without characters that move a terminal's cursor.
fn cell(text: &str) -> String {
    let mut cell = String::with_capacity(text.len() + 2);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']) {
        cell.push('\'');
    }
    for character in text.chars() {
        match character {
            '\n' | '\t' => cell.push(character),
            '\r' => cell.push_str("\\r"),
            _ if is_unsafe(character) => cell.extend(character.escape_unicode()),
            '"' => cell.push_str("\"\""),
            _ => cell.push(character),
        }
    }
    if cell.contains(['"', ',', '\n', '\t', '\'', ';']) { format!("\"{cell}\"") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{foreign, record};

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
            assert_eq!(cell(text), expected, "{text:?}");
        }
    }

    #[test]
    fn quotes_commas_line_breaks_and_control_characters_stay_within_their_cell() {
        assert_eq!(cell("say \"hi\", you"), "\"say \"\"hi\"\", you\"");
        assert_eq!(cell("two\nlines"), "\"two\nlines\"");
        assert_eq!(cell("\u{1b}[31m"), r"\u{1b}[31m");
    }

    #[test]
    fn a_message_is_a_row_and_has_its_body_only_if_it_is_revealed() {
        let rows = |reveal| {
            let mut output = Vec::new();
            let mut csv = Csv { reveal };
            csv.begin(&mut output).unwrap();
            csv.add(&record("NON_RETRYABLE_ERROR", "=1", 1), &mut output).unwrap();
            csv.add(&foreign("plain", 2), &mut output).unwrap();
            String::from_utf8(output).unwrap()
        };
        let masked = rows(false);
        let lines: Vec<_> = masked.split("\r\n").collect();
        assert_eq!(lines[0], COLUMNS.join(","));
        assert!(lines[1].starts_with(
            "00000000-0000-4000-8000-000000000001,sqs-1,1970-01-01T00:00:00.000Z,NON_RETRYABLE_ERROR,\"'=1\",2,0,"
        ));
        assert!(lines[2].starts_with("sqs-2,sqs-2,1970-01-01T00:00:00.000Z,UNANNOTATED,,,,"), "{}", lines[2]);
        assert_eq!((lines[3], lines.len()), ("", 4));
        assert!(
            !masked.contains("secret")
                && rows(true).contains("secret-1")
                && rows(true).contains(",plain\r\n")
        );
    }
}
