//! `--show ID`: one complete message.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use console::{Style, measure_text_width};
use redeliver_dead_letters::{DeadLetterRecord, format_value};
use redeliver_operator::audit::{AuditReport, View};
use redeliver_operator::dead_letter::{ShowOptions, Timeline, TimelineEvent, readable_body};
use redeliver_operator::log_lines::LogLinks;
use redeliver_operator::terminal::escape::{escape_line, escape_lines};
use redeliver_operator::terminal::layout::TextLayout;
use redeliver_operator::terminal::units::format_count;
use redeliver_operator::trace_url::Trace;

/// Maximum number of copies printed; a message can have more.
const COPIES_MAX: u64 = 10;
/// Maximum number of messages kept: two are enough to make the id ambiguous.
const MESSAGES_MAX: usize = 2;
/// Width of a fact's name, in columns.
const FACT_NAME: usize = 18;
/// The name of the fact whose value is a sentence.
const ERROR_DETAILS: &str = "error details";
/// Column at which an event's error starts on a terminal.
const ERROR_INDENT: usize = 6;

/// One complete message and its copies. If the prefix matches several messages, none is printed.
pub(super) struct ShowView {
    show_options: ShowOptions,
    colors: bool,
    layout: TextLayout,
    /// The requested id, or a prefix.
    named: String,
    /// The first matching messages, by id.
    found: BTreeMap<String, MessageCopies>,
}

/// The number of copies of a message, and the first few of them.
#[derive(Default)]
struct MessageCopies {
    count: u64,
    first: Vec<DeadLetterRecord>,
}

impl ShowView {
    pub(super) fn new(named: &str, show_options: ShowOptions, colors: bool, layout: TextLayout) -> Self {
        Self { show_options, colors, layout, named: named.to_owned(), found: BTreeMap::new() }
    }
}

impl View for ShowView {
    fn write_record(&mut self, record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
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
            copies.first.push(record.clone());
        }
        Ok(())
    }

    fn write_report(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let only = self.found.values().next().filter(|_| self.found.len() == 1);
        let Some(shown) = self.found.get(&self.named).or(only) else { return Ok(()) };
        let now = report.context.virtual_now.unwrap_or(report.context.now);
        let heading = Style::new().force_styling(self.colors).bold();
        let page =
            MessageView { show_options: &self.show_options, layout: self.layout.relative_to(now), heading };
        let texts: Vec<_> = shown.first.iter().map(|record| page.describe_message(record)).collect();
        output.write_all(texts.join("\n").as_bytes())
    }
}

/// The rendering options for a message.
struct MessageView<'a> {
    show_options: &'a ShowOptions,
    layout: TextLayout,
    heading: Style,
}

impl MessageView<'_> {
    fn describe_message(&self, record: &DeadLetterRecord) -> String {
        let message = &record.message;
        let mut text = self.describe_facts(record);
        text += &self.describe_timeline(record);
        if !message.attributes.is_empty() {
            let _ = writeln!(text, "\n{}", self.heading.apply_to("Attributes"));
            for (name, attribute) in &message.attributes {
                let is_shown = self.show_options.reveal || record.is_unmasked(name);
                let value = if is_shown { format_value(&attribute.value) } else { "<masked>".to_owned() };
                let name = format!("  {} ({}): ", escape_line(name), escape_line(&attribute.data_type));
                let value = self.cut_unless_revealed(measure_text_width(&name), &value);
                let _ = writeln!(text, "{name}{value}");
            }
        }
        let masked = if self.show_options.reveal { "" } else { " (masked; --reveal shows it)" };
        let _ = writeln!(text, "\n{}{masked}", self.heading.apply_to("Body"));
        let body = readable_body(record, self.show_options.reveal, usize::MAX);
        for line in escape_lines(&body.text).lines() {
            let _ = writeln!(text, "{}", self.cut_unless_revealed(0, line));
        }
        text
    }

    /// Truncates text to fit on the rest of its line, unless `--reveal` was given.
    fn cut_unless_revealed(&self, from: usize, text: &str) -> String {
        if self.show_options.reveal { escape_line(text) } else { self.layout.fit_rest_of_line(from, text) }
    }

    fn describe_facts(&self, record: &DeadLetterRecord) -> String {
        let message = &record.message;
        let logs = LogLinks::for_record(record);
        let mut text = String::new();
        // Values meant for copying, such as an id or a link, are never truncated.
        let mut line = |name: &str, value: &str| {
            let line = format!("{name:<FACT_NAME$} {}", escape_line(value));
            let is_sentence = name == ERROR_DETAILS;
            let line = if is_sentence { self.layout.wrap_paragraph(&line, FACT_NAME + 1) } else { line };
            let _ = writeln!(text, "{line}");
        };
        line("message_id", record.message_id());
        line("SQS message id", &message.sqs_message_id);
        line("error type", &record.error_type);
        if !record.error_details.is_empty() {
            line(ERROR_DETAILS, &record.error_details);
        }
        line("fingerprint", &record.fingerprint);
        line("sent", &self.layout.format_moment(message.sent_at));
        line("received", &format_count(message.receive_count.into(), "time"));
        if let Some(attempts) = record.attempts() {
            line("retries", &attempts.to_string());
        }
        if let Some(metadata) = record.metadata.as_ref().filter(|metadata| metadata.generation() > 0) {
            line("generation", &metadata.generation().to_string());
        }
        if !message.omitted.is_empty() {
            line("omitted", &format!("{} (in the archive: it cannot be sent again)", record.omitted_paths()));
        }
        let optional =
            [("message group", &message.message_group_id), ("redriven from", &message.redriven_from)];
        for (name, value) in optional {
            if let Some(value) = value {
                line(name, value);
            }
        }
        for Trace { name, id, url } in self.show_options.traces.trace_links(record) {
            line(name, &url.map_or_else(|| id.clone(), |url| format!("{id} {url}")));
        }
        if let Some(LogLinks { location, url, command, .. }) = &logs {
            if let Some(id) = location.request_id() {
                line("request id", id);
            }
            if let Some(place) = logs.as_ref().and_then(LogLinks::describe_location) {
                line("log lines", &place);
            }
            for way in [url, command].into_iter().flatten() {
                line("", way);
            }
        }
        text
    }

    fn describe_timeline(&self, record: &DeadLetterRecord) -> String {
        let mut text = format!("\n{}\n", self.heading.apply_to("Timeline"));
        let timeline = Timeline::for_record(record);
        let last_error = timeline.events.iter().rposition(|event| !describe_error(event).is_empty());
        for (index, event) in timeline.events.iter().enumerate() {
            text += &self.describe_event(event, Some(index) == last_error);
        }
        for sentence in timeline.summary_sentences().into_iter().chain(timeline.describe_gap()) {
            let _ = writeln!(text, "  {}", self.layout.wrap_paragraph(&sentence, 2));
        }
        text
    }

    /// Describes an event in one line or, on a terminal, with its error below it; there, only the last error is shown
    /// in full.
    fn describe_event(&self, event: &TimelineEvent, is_last_error: bool) -> String {
        let at = event.at.map_or_else(|| "at an unknown time".to_owned(), |at| self.layout.format_moment(at));
        let (kind, error) = (event.kind.describe(), escape_line(&describe_error(event)));
        if self.layout.columns().is_none() {
            return format!("{}\n", format!("  {at:<24}  {kind:<17}  {error}").trim_end());
        }
        let mut text = format!("  {kind:<17}  {at}\n");
        if !error.is_empty() {
            let indent = " ".repeat(ERROR_INDENT);
            text += &match is_last_error {
                true => self.layout.wrap_paragraph(&format!("{indent}{error}"), ERROR_INDENT),
                false => format!("{indent}{}", self.layout.fit_rest_of_line(ERROR_INDENT, &error)),
            };
            text.push('\n');
        }
        text
    }
}

/// Returns the error of an event, with its details.
fn describe_error(event: &TimelineEvent) -> String {
    match (event.error_type.as_str(), event.error_details.as_str()) {
        ("", details) => details.to_owned(),
        (error_type, "") => error_type.to_owned(),
        (error_type, details) => format!("{error_type}: {details}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{attempt_logs, context, nth_message_id, record};

    fn show_message(record: &DeadLetterRecord, reveal: bool) -> String {
        show_with_layout(record, reveal, TextLayout::Whole)
    }

    fn show_with_layout(record: &DeadLetterRecord, reveal: bool, layout: TextLayout) -> String {
        let mut output = Vec::new();
        let show_options = ShowOptions { reveal, ..ShowOptions::default() };
        let mut show = ShowView::new(record.message_id(), show_options, false, layout);
        show.write_record(record, &mut output).unwrap();
        let report = AuditReport { context: context(), ..AuditReport::default() };
        show.write_report(&report, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    fn terminal(columns: usize) -> TextLayout {
        TextLayout::Fitted { columns, now: context().now, zone: jiff::tz::TimeZone::UTC }
    }

    /// The last error is the most important one.
    #[test]
    fn a_message_fits_a_terminal_and_keeps_its_complete_last_error() {
        let last_error = format!("HTTP 500: {}no stock of 17", "the warehouse is closed ".repeat(20));
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", &last_error, 1);
        record.metadata.as_mut().unwrap().retry_history[0].error_details = "slow ".repeat(60);
        let attribute = redeliver_core::message::Attribute::string("acme ".repeat(60));
        record.message.attributes.insert("tenant".to_owned(), attribute);
        for columns in [60, 80, 200] {
            let shown = show_with_layout(&record, false, terminal(columns));
            let long: Vec<_> = shown.lines().filter(|line| line.chars().count() > columns).collect();
            assert!(
                long.iter().all(|line| line.starts_with("trace ")),
                "only a link may be longer: {long:?}"
            );
            let timeline = shown.split("Timeline\n").nth(1).unwrap();
            let words = timeline.split("\n\n").next().unwrap();
            let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.ends_with(&format!("HttpStatus.503: {last_error}")), "{words}");
            assert!(words.contains('…'), "the first error is shortened: {words}");
            assert!(shown.contains("\nerror details      HTTP 500: "), "{shown}");
        }
        assert!(
            show_message(&record, false)
                .contains(&format!("Http.Timeout: {}", "slow ".repeat(60).trim_end()))
        );
        assert!(show_with_layout(&record, true, terminal(60)).contains(&"acme ".repeat(60)));
    }

    #[test]
    fn times_on_a_terminal_are_relative_and_local() {
        let shown = show_with_layout(&record("RETRY_ATTEMPT_EXCEEDED", "x", 1), false, terminal(80));
        for expected in [
            "sent               1d ago, Jan 1 00:00 UTC\n",
            "  attempt 1 failed   23h ago, Jan 1 00:01 UTC\n      Http.Timeout: slow 0\n",
        ] {
            assert!(shown.contains(expected), "{expected} in {shown}");
        }
    }

    #[test]
    fn a_complete_message_is_printed_with_its_data_masked() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "too\u{1b} often", 1);
        for (name, value) in [("email", "secret-address"), ("tenant", "Ärger AG")] {
            let attribute = redeliver_core::message::Attribute::string(value);
            record.message.attributes.insert(name.to_owned(), attribute);
        }
        record.message.trace_header =
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned());
        let text = show_message(&record, false);
        assert!(
            text.starts_with(&format!(
                "message_id         {}\nSQS message id     sqs-1\n",
                nth_message_id(1)
            )),
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
        assert!(show_message(&record, true).contains("    \"card\": \"secret-1\"\n"));
    }

    #[test]
    fn traces_of_the_last_attempt_and_the_producer_are_shown() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        record.message.trace_header =
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned());
        let last = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        record.dead_letter.as_mut().unwrap().last_attempt_traceparent = Some(last.to_owned());
        let text = show_message(&record, false);
        for expected in [
            "trace of the last attempt 0af7651916cd43dd8448eb211c80319c https://console.aws.amazon.com/",
            "producer's trace   5759e988bd862e3fe1be46a994272793 https://console.aws.amazon.com/",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn the_last_attempts_log_lines_get_a_link_and_a_command() {
        let mut record = record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        assert!(!show_message(&record, false).contains("log lines"));
        record.dead_letter.as_mut().unwrap().last_attempt_logs = attempt_logs();
        let text = show_message(&record, false);
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
    fn at_most_ten_copies_are_printed() {
        let mut output = Vec::new();
        let mut show = ShowView::new("sqs-1", ShowOptions::default(), false, TextLayout::Whole);
        for _ in 0..12 {
            show.write_record(&record("NON_RETRYABLE_ERROR", "x", 1), &mut output).unwrap();
        }
        show.write_report(&AuditReport::default(), &mut output).unwrap();
        assert_eq!(String::from_utf8(output).unwrap().matches("SQS message id").count(), 10);
    }
}
