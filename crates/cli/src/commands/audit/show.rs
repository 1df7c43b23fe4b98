//! `--show ID`: one message whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use console::Style;
use redeliver_dead_letters::groups::written;
use redeliver_dead_letters::{DeadLetterRecord, plain};
use redeliver_operator::audit::{AuditReport, View};
use redeliver_operator::dead_letter::{Showing, Timeline, body_for_people};
use redeliver_operator::log_lines::LogLines;
use redeliver_operator::terminal::escape::{escaped, escaped_lines};
use redeliver_operator::terminal::units::counted;
use redeliver_operator::trace_url::Trace;

/// Copies that are printed; a message may have more.
const COPIES_MAX: u64 = 10;
/// Messages that are kept until it is known which one is meant.
const MESSAGES_MAX: usize = 2;

/// One message whole, and its copies. If several messages have an id that begins with what was named, none is printed.
pub(super) struct Show {
    showing: Showing,
    colours: bool,
    /// The id, or its beginning, that was named.
    named: String,
    /// The first messages, by id.
    found: BTreeMap<String, Copies>,
}

/// The copies of a message, and the text of the first ones.
#[derive(Default)]
struct Copies {
    count: u64,
    text: String,
}

impl Show {
    pub(super) fn new(named: &str, showing: Showing, colours: bool) -> Self {
        Self { showing, colours, named: named.to_owned(), found: BTreeMap::new() }
    }
}

impl View for Show {
    fn add(&mut self, record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        let message = &record.message;
        let is_named =
            record.message_id().eq_ignore_ascii_case(&self.named) || message.sqs_message_id == self.named;
        if !is_named && self.found.len() >= MESSAGES_MAX {
            return Ok(());
        }
        let id = if is_named { self.named.clone() } else { record.message_id().to_owned() };
        let copies = self.found.entry(id).or_default();
        copies.count += 1;
        if copies.count <= COPIES_MAX {
            let heading = Style::new().force_styling(self.colours).bold();
            copies.text += if copies.count == 1 { "" } else { "\n" };
            copies.text += &describe_message(record, &self.showing, &heading);
        }
        Ok(())
    }

    fn end(&mut self, _report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let only = self.found.values().next().filter(|_| self.found.len() == 1);
        let shown = self.found.get(&self.named).or(only);
        output.write_all(shown.map_or(&b""[..], |copies| copies.text.as_bytes()))
    }
}

fn describe_message(record: &DeadLetterRecord, showing: &Showing, heading: &Style) -> String {
    let reveal = showing.reveal;
    let message = &record.message;
    let logs = LogLines::of(record);
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{:<18} {}", name, escaped(value));
    };
    line("message_id", record.message_id());
    line("SQS message id", &message.sqs_message_id);
    line("error type", &record.error_type);
    if !record.error_details.is_empty() {
        line("error details", &record.error_details);
    }
    line("fingerprint", &record.fingerprint);
    line("sent", &written(message.sent_at));
    line("received", &counted(message.receive_count.into(), "time"));
    if let Some(attempts) = record.attempts() {
        line("retries", &attempts.to_string());
    }
    if let Some(metadata) = record.metadata.as_ref().filter(|metadata| metadata.generation() > 0) {
        line("generation", &metadata.generation().to_string());
    }
    if !message.omitted.is_empty() {
        line("omitted", &format!("{} (in the archive: it cannot be sent again)", record.omitted()));
    }
    let optional = [("message group", &message.message_group_id), ("redriven from", &message.redriven_from)];
    for (name, value) in optional {
        if let Some(value) = value {
            line(name, value);
        }
    }
    for Trace { name, id, url } in showing.traces.of(record) {
        line(name, &url.map_or_else(|| id.clone(), |url| format!("{id} {url}")));
    }
    if let Some(LogLines { location, url, command, .. }) = &logs {
        if let Some(id) = location.request_id() {
            line("request id", id);
        }
        if let Some(place) = logs.as_ref().and_then(LogLines::place) {
            line("log lines", &place);
        }
        for way in [url, command].into_iter().flatten() {
            line("", way);
        }
    }
    text += &describe_timeline(record, heading);
    if !message.attributes.is_empty() {
        let _ = writeln!(text, "\n{}", heading.apply_to("Attributes"));
        for (name, attribute) in &message.attributes {
            let is_shown = reveal || record.is_open(name);
            let value = if is_shown { escaped(&plain(&attribute.value)) } else { "<masked>".to_owned() };
            let (name, data_type) = (escaped(name), escaped(&attribute.data_type));
            let _ = writeln!(text, "  {name} ({data_type}): {value}");
        }
    }
    let masked = if reveal { "" } else { " (masked; --reveal shows it)" };
    let _ = writeln!(text, "\n{}{masked}", heading.apply_to("Body"));
    let body = body_for_people(record, reveal, usize::MAX);
    let _ = writeln!(text, "{}", escaped_lines(&body.text));
    text
}

fn describe_timeline(record: &DeadLetterRecord, heading: &Style) -> String {
    let mut text = format!("\n{}\n", heading.apply_to("Timeline"));
    let timeline = Timeline::of(record);
    for event in &timeline.events {
        let at = event.at.map_or_else(|| "at an unknown time".to_owned(), written);
        let error = match (event.error_type.as_str(), event.error_details.as_str()) {
            ("", details) => escaped(details),
            (error_type, "") => escaped(error_type),
            (error_type, details) => format!("{}: {}", escaped(error_type), escaped(details)),
        };
        let _ = writeln!(text, "{}", format!("  {at:<24}  {:<17}  {error}", event.kind.words()).trim_end());
    }
    for sentence in timeline.between() {
        let _ = writeln!(text, "  {sentence}");
    }
    if let Some(gap) = timeline.gap() {
        let _ = writeln!(text, "  {gap}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{attempt_logs, id, record};

    fn shown(record: &DeadLetterRecord, reveal: bool) -> String {
        let mut output = Vec::new();
        let mut show = Show::new(record.message_id(), Showing { reveal, ..Showing::default() }, false);
        show.add(record, &mut output).unwrap();
        show.end(&AuditReport::default(), &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn a_message_is_printed_whole_with_its_data_masked() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "too\u{1b} often", 1);
        for (name, value) in [("email", "secret-address"), ("tenant", "Ärger AG")] {
            let attribute = redeliver_core::message::Attribute::string(value);
            record.message.attributes.insert(name.to_owned(), attribute);
        }
        record.message.trace_header =
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned());
        let text = shown(&record, false);
        assert!(
            text.starts_with(&format!("message_id         {}\nSQS message id     sqs-1\n", id(1))),
            "{text}"
        );
        for expected in [
            "error type         RETRY_ATTEMPT_EXCEEDED\n",
            "trace              5759e988bd862e3fe1be46a994272793 https://console.aws.amazon.com/",
            "  1970-01-01T00:01:00.000Z  attempt 1 failed   Http.Timeout: slow 0\n",
            "  1970-01-01T00:10:00.000Z  given up           HttpStatus.503: too",
            "  ErrorType (String): RETRY_ATTEMPT_EXCEEDED\n",
            "  email (String): <masked>\n",
            "  tenant (String): Ärger AG\n",
            "Body (masked; --reveal shows it)\n{\n  \"metadata\": {\n",
            "    \"card\": \"<masked string>\"\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains("secret"), "{text}");
        assert!(shown(&record, true).contains("    \"card\": \"secret-1\"\n"));
    }

    #[test]
    fn the_traces_of_the_last_attempt_and_of_the_producer_are_named() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        record.message.trace_header =
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned());
        let last = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        record.dead_letter.as_mut().unwrap().last_attempt_traceparent = Some(last.to_owned());
        let text = shown(&record, false);
        for expected in [
            "trace of the last attempt 0af7651916cd43dd8448eb211c80319c https://console.aws.amazon.com/",
            "producer's trace   5759e988bd862e3fe1be46a994272793 https://console.aws.amazon.com/",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn the_log_lines_of_the_last_attempt_are_a_link_and_a_command() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        assert!(!shown(&record, false).contains("log lines"));
        record.dead_letter.as_mut().unwrap().last_attempt_logs = attempt_logs();
        let text = shown(&record, false);
        let lines: Vec<_> = text.lines().skip_while(|line| !line.starts_with("request id")).collect();
        assert_eq!(lines[0], "request id         7b1c7d3e-0191");
        assert_eq!(lines[1], "log lines          /aws/lambda/orders 2026/07/25/[$LATEST]0123456789abcdef");
        let [link, command] =
            ["https://console.aws.amazon.com/cloudwatch/home?", "aws logs filter-log-events "];
        for (line, way) in lines[2..4].iter().zip([link, command]) {
            assert!(line.starts_with(&format!("{:19}{way}", "")), "{line}");
        }
    }

    #[test]
    fn no_more_than_ten_copies_are_printed() {
        let mut output = Vec::new();
        let mut show = Show::new("sqs-1", Showing::default(), false);
        for _ in 0..12 {
            show.add(&record("NON_RETRYABLE_ERROR", "x", 1), &mut output).unwrap();
        }
        show.end(&AuditReport::default(), &mut output).unwrap();
        assert_eq!(String::from_utf8(output).unwrap().matches("SQS message id").count(), 10);
    }
}
