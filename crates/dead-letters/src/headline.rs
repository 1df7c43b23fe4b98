//! The headline of a dead letter: a one-line summary of the error.

use redeliver_core::failure::annotation::{Cause, DeadLetter};
use redeliver_core::truncate::{LAST_ERROR, clean_text};

use crate::{DeadLetterRecord, UNANNOTATED};

/// The maximum length of a headline, in bytes; its text can come from other programs.
const HEADLINE_BYTES_MAX: usize = 300;
/// Separates an error message from the location where the error was thrown.
const LOCATION_SEPARATOR: &str = " (at ";

/// Formats the error as one line: `HTTP 422 Unprocessable Entity`, `KeyError: 'id' at orders.py:31`.
pub(crate) fn format_headline(record: &DeadLetterRecord) -> String {
    let DeadLetterRecord { error_type: code, error_details, dead_letter, foreign, .. } = record;
    let line = match (dead_letter, foreign) {
        (Some(DeadLetter { cause: Cause { error_type, message, .. }, .. }), _) if *error_type != *code => {
            format_error(error_type, message)
        }
        (Some(DeadLetter { cause, .. }), _) => cause.message.clone(),
        (None, Some(_)) => error_details.clone(),
        // If the document did not fit, only the explanation exists, and it ends with the last error.
        (None, None) => {
            let error = error_details.rsplit(LAST_ERROR).next().unwrap_or_default();
            match error.split_once(": ") {
                Some((name, message)) if !name.contains(char::is_whitespace) => format_error(name, message),
                _ => error.to_owned(),
            }
        }
    };
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match (line.as_str(), code.as_str()) {
        ("" | "-", UNANNOTATED) => "No error is recorded".to_owned(),
        ("" | "-", code) => code.to_owned(),
        (line, _) => clean_text(line, HEADLINE_BYTES_MAX),
    }
}

fn format_error(name: &str, message: &str) -> String {
    // The text of an HTTP response already contains the status.
    if let Some(status) = name.strip_prefix("HttpStatus.") {
        return if message.is_empty() { format!("HTTP {status}") } else { message.to_owned() };
    }
    let (text, thrown) = message.split_once(LOCATION_SEPARATOR).unwrap_or((message, ""));
    let place = format_location(thrown).map(|place| format!(" at {place}")).unwrap_or_default();
    match (name, text) {
        ("", text) => format!("{text}{place}"),
        (name, "") => format!("{name}{place}"),
        (name, text) => format!("{name}: {text}{place}"),
    }
}

/// Extracts the file and the line from a stack frame in each runtime's format: `File "/var/task/orders.py", line 31`
/// (Python), `/var/task/index.js:7:3` (Node.js), `Handler.java:31` (Java), `/src/Function.cs:line 31` (.NET).
fn format_location(frame: &str) -> Option<String> {
    let is_name_character = |character: char| character.is_alphanumeric() || "._-".contains(character);
    ["\", line ", ":line ", ":"].into_iter().find_map(|between| {
        frame.match_indices(between).find_map(|(at, _)| {
            let (before, after) = (&frame[..at], &frame[at + between.len()..]);
            let line = after.split(|character: char| !character.is_ascii_digit()).next()?;
            let file = before.rsplit(|character| !is_name_character(character)).next()?;
            (!line.is_empty() && file.contains('.')).then(|| format!("{file}:{line}"))
        })
    })
}

#[cfg(test)]
mod tests {
    use redeliver_testing::dead_letters::{foreign_message, retried_record};

    use super::*;

    #[test]
    fn a_headline_has_the_error_and_its_file_and_line_in_each_runtime() {
        for (name, message, line) in [
            ("HttpStatus.422", "HTTP 422 Unprocessable Entity", "HTTP 422 Unprocessable Entity"),
            ("HttpStatus.599", "", "HTTP 599"),
            (
                "Http.Timeout",
                "the target did not answer in time",
                "Http.Timeout: the target did not answer in time",
            ),
            (
                "KeyError",
                r#"'id' (at File "/var/task/orders.py", line 31, in charge)"#,
                "KeyError: 'id' at orders.py:31",
            ),
            (
                "TypeError",
                "x is not a function (at charge (/var/task/index.js:7:3))",
                "TypeError: x is not a function at index.js:7",
            ),
            (
                "IllegalStateException",
                "no order (at example.Handler.charge(Handler.java:31)); caused by java.sql.SQLException: timed out",
                "IllegalStateException: no order at Handler.java:31",
            ),
            (
                "OrderError",
                "no order (at /var/task/app.rb:3:in `charge')",
                "OrderError: no order at app.rb:3",
            ),
            (
                "KeyNotFoundException",
                "no order (at Charge(Order o) in /src/Function.cs:line 31)",
                "KeyNotFoundException: no order at Function.cs:31",
            ),
            ("Odd", "no order (at somewhere:else)", "Odd: no order"),
            ("Runtime.Exited", "", "Runtime.Exited"),
            ("", "no name", "no name"),
        ] {
            assert_eq!(format_error(name, message), line);
        }
    }

    #[test]
    fn a_headline_without_a_document_is_the_last_error_of_the_explanation() {
        let mut message = retried_record(
            "RETRY_ATTEMPT_EXCEEDED",
            "Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503 Service Unavailable",
            1,
        );
        message.attributes.remove("DeadLetter");
        assert_eq!(format_headline(&DeadLetterRecord::new(message)), "HTTP 503 Service Unavailable");
        assert_eq!(format_headline(&DeadLetterRecord::new(foreign_message("x", 1))), "No error is recorded");
    }

    #[test]
    fn a_headline_without_an_error_text_is_the_code() {
        for (details, line) in [("", "HTTP 503"), ("-", "NON_RETRYABLE_ERROR")] {
            let record = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", details, 1));
            assert_eq!(format_headline(&record), line);
        }
    }

    #[test]
    fn a_headline_is_one_line_of_limited_length() {
        let record = DeadLetterRecord::new(retried_record(
            "NON_RETRYABLE_ERROR",
            &format!("a\n  b {}", "x".repeat(400)),
            1,
        ));
        let line = format_headline(&record);
        assert!(line.starts_with("a b xxx") && line.len() <= HEADLINE_BYTES_MAX, "{line}");
    }
}
