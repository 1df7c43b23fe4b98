//! Renders a dead letter as HTML: its timeline as a drawing and as text, its attributes and its body.

use chrono::TimeDelta;
use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::{DeadLetterRecord, format_value};

use super::body::readable_body;
use super::timeline::{Timeline, TimelineEvent, TimelineEventKind};
use crate::log_lines::LogLinks;
use crate::markup::render_timestamp;
use crate::terminal::escape::shorten_text;
use crate::terminal::units::{approximate_span, as_float, format_count};
use crate::trace_url::{Trace, TraceUrlArgs};

/// The style sheet for pages that show dead letters.
pub const STYLE: &str = include_str!("story.css");

/// Maximum number of bytes of a body to show; `--show` prints the complete body.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Maximum displayed length of an attribute or error, in characters.
const TEXT_MAX: usize = 2000;
const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 14.0;
/// Minimum distance between two marks, so that they do not overlap.
const DISTANCE: f64 = 24.0;

/// The options for showing dead letters.
#[derive(Clone, Debug, Default)]
pub struct ShowOptions {
    /// True if the values in bodies and attributes are shown unmasked.
    pub reveal: bool,
    pub traces: TraceUrlArgs,
}

/// Renders a summary line and its details, with the body collapsed.
pub fn render_story(record: &DeadLetterRecord, show_options: &ShowOptions) -> Markup {
    let retries = match record.attempts() {
        None => "retries unknown".to_owned(),
        Some(1) => "1 retry".to_owned(),
        Some(count) => format!("{count} retries"),
    };
    html! {
        summary {
            code class="id" { (shorten_text(record.message_id(), 128)) } " " span { (retries) } " " (render_timestamp(record.message.sent_at))
        }
        (render_details(record, show_options, BODY_BYTES_MAX, false))
    }
}

/// Renders the timeline, the attributes and about `body_bytes_max` bytes of the body.
pub fn render_details(
    record: &DeadLetterRecord,
    show_options: &ShowOptions,
    body_bytes_max: usize,
    is_open: bool,
) -> Markup {
    let reveal = show_options.reveal;
    let timeline = Timeline::for_record(record);
    let message = &record.message;
    let body = readable_body(record, reveal, body_bytes_max);
    html! {
        div class="story" {
            (draw_timeline(&timeline))
            (render_events(&timeline))
            p class="remark" {
                "SQS message id " code { (message.sqs_message_id) }
                ", received " (format_count(message.receive_count.into(), "time"))
                @if let Some(arn) = &message.redriven_from { ", moved from " (arn) }
                @for Trace { name, id, url } in show_options.traces.trace_links(record) {
                    ", " (name) " "
                    @if let Some(url) = url { a href=(url) rel="noreferrer" { code { (id) } } }
                    @else { code { (id) } }
                }
            }
            (render_log_lines(record))
            (render_attributes(record, reveal))
            details class="body" open[is_open] {
                summary { "Body " span { (format_count(message.body.len() as u64, "byte")) @if !reveal { ", values masked" } } }
                pre tabindex="0" role="group" aria-label="Body" { (body.text) @if body.is_cut { "\n… (the rest is not on this page)" } }
            }
        }
    }
}

/// Draws a line with a mark for each event. Marks are placed by time, but far enough apart that they do not overlap.
fn draw_timeline(timeline: &Timeline) -> Markup {
    let events: Vec<_> = timeline.events.iter().filter_map(|event| Some((event, event.at?))).collect();
    let first = match events.iter().map(|(_, at)| *at).min() {
        Some(first) if events.len() > 1 => first,
        _ => return Markup::default(),
    };
    let seconds = |at: Timestamp| as_float((at - first).num_seconds().unsigned_abs());
    let longest = events.iter().map(|(_, at)| seconds(*at)).fold(1.0, f64::max);
    let span = WIDTH - 2.0 * MARGIN;
    let mut positions: Vec<_> = events.iter().map(|(_, at)| MARGIN + span * seconds(*at) / longest).collect();
    for index in 1..positions.len() {
        positions[index] = positions[index].max(positions[index - 1] + DISTANCE);
    }
    let mut limit = WIDTH - MARGIN;
    for position in positions.iter_mut().rev() {
        *position = position.min(limit);
        limit = *position - DISTANCE;
    }
    html! {
        svg class="timeline" role="img" aria-label="Timeline" viewBox={"0 0 " (WIDTH) " 32"} {
            line x1=(MARGIN) x2=(WIDTH - MARGIN) y1="16" y2="16" {}
            @for ((event, at), x) in events.into_iter().zip(positions) { (draw_mark(event, at, x.round())) }
        }
    }
}

fn draw_mark(event: &TimelineEvent, at: Timestamp, x: f64) -> Markup {
    html! {
        g {
            title { (event.kind.describe()) ", " (at.format("%Y-%m-%d %H:%M:%S").to_string()) " " (event.error_type) }
            @match event.kind {
                TimelineEventKind::Sent => circle class="sent" cx=(x) cy="16" r="7" {},
                TimelineEventKind::Failed(attempt) => {
                    circle class="failed" cx=(x) cy="16" r="11" {}
                    text x=(x) y="16" { (attempt.saturating_add(1)) }
                }
                TimelineEventKind::GivenUp | TimelineEventKind::Redriven | TimelineEventKind::SentHere => {
                    rect class="end" x=(x - 10.0) y="6" width="20" height="20" rx="3" {}
                    text x=(x) y="16" { "×" }
                }
            }
        }
    }
}

fn render_events(timeline: &Timeline) -> Markup {
    let known = timeline.events.iter().scan(None, |before, event| {
        let after = event.at.zip(*before).map(|(at, before): (_, Timestamp)| at - before);
        *before = event.at.or(*before);
        Some((event, after))
    });
    html! {
        div class="scroll" tabindex="0" role="group" aria-label="What happened" { table class="events" {
            @for (event, after) in known {
                tr {
                    td { (event.kind.describe()) }
                    td class="times" { @match event.at { Some(at) => (render_timestamp(at)), None => "at an unknown time" } }
                    td class="number" { @if let Some(after) = after { "+" (approximate_span(TimeDelta::num_seconds(&after))) } }
                    td { (event.error_type) }
                    td class="details" tabindex=[scroll_tabindex(&event.error_details)] { (shorten_text(&event.error_details, TEXT_MAX)) }
                }
            }
        } }
        @for sentence in timeline.summary_sentences() { p { (sentence) } }
        @if let Some(gap) = timeline.describe_gap() { p class="warning" { (gap) } }
    }
}

/// Renders the location of the last attempt's log lines, with a link and a command to read them.
fn render_log_lines(record: &DeadLetterRecord) -> Markup {
    let Some(logs) = LogLinks::for_record(record) else { return Markup::default() };
    html! {
        p class="remark" {
            "Log lines of the last attempt: "
            @if let Some(id) = logs.location.request_id() { "request id " code { (id) } " " }
            @if let Some(location) = logs.describe_location() { "in " (location) " " }
            @if let Some(url) = &logs.url { a href=(url) rel="noreferrer" { "CloudWatch Logs Insights" } }
        }
        @if let Some(command) = &logs.command {
            details class="body" {
                summary { "Log lines on the command line" }
                pre tabindex="0" role="group" aria-label="The command for the log lines" { (command) }
            }
        }
    }
}

/// Renders the producer's attributes. redeliver's own attributes are shown elsewhere on the page.
fn render_attributes(record: &DeadLetterRecord, reveal: bool) -> Markup {
    let attributes = record.message.attributes.iter();
    let mut shown = attributes.filter(|(name, _)| !record.is_own_attribute(name)).peekable();
    html! {
        @if shown.peek().is_some() {
            div class="scroll" tabindex="0" role="group" aria-label="Attributes" { table class="attributes" {
                @for (name, attribute) in shown {
                    @let value = if reveal || record.is_unmasked(name) { shorten_text(&format_value(&attribute.value), TEXT_MAX) } else { "<masked>".to_owned() };
                    tr {
                        td { code { (name) } }
                        td { (attribute.data_type) }
                        td class="details" tabindex=[scroll_tabindex(&value)] { (value) }
                    }
                }
            } }
        }
    }
}

/// Returns the `tabindex` for text that might not fit in a small window: it scrolls, and must be reachable by keyboard.
pub fn scroll_tabindex(text: &str) -> Option<&'static str> {
    const UNSCROLLED_BYTES_MAX: usize = 300;
    (text.len() > UNSCROLLED_BYTES_MAX).then_some("0")
}

#[cfg(test)]
mod tests {
    use redeliver_testing::dead_letters;

    use super::*;

    #[test]
    fn a_page_links_to_the_last_attempts_log_lines_and_shows_the_command() {
        let mut record =
            DeadLetterRecord::new(dead_letters::retried_record("RETRY_ATTEMPT_EXCEEDED", "x", 1));
        let page = |record: &DeadLetterRecord| {
            render_details(record, &ShowOptions::default(), BODY_BYTES_MAX, false).into_string()
        };
        assert!(!page(&record).contains("Log lines"));
        record.dead_letter.as_mut().unwrap().last_attempt_logs = dead_letters::attempt_logs();
        let page = page(&record);
        for expected in [
            "request id <code>7b1c7d3e-0191</code>",
            "in /aws/lambda/orders 2026/07/25/[$LATEST]0123456789abcdef ",
            r#"<a href="https://console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:logs-insights$3F"#,
            "aws logs filter-log-events --region us-east-1 ",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
    }

    #[test]
    fn a_page_links_to_the_last_attempts_trace_and_the_producers_trace() {
        let mut message = dead_letters::retried_record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
        message.trace_header =
            Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8".to_owned());
        let mut record = DeadLetterRecord::new(message);
        let last = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        record.dead_letter.as_mut().unwrap().last_attempt_traceparent = Some(last.to_owned());
        let trace_url = Some("https://jaeger.example.com/{trace_id}".parse().unwrap());
        let show_options = ShowOptions { traces: TraceUrlArgs { trace_url }, ..ShowOptions::default() };
        let page = render_details(&record, &show_options, BODY_BYTES_MAX, false).into_string();
        let link =
            |id| format!(r#"<a href="https://jaeger.example.com/{id}" rel="noreferrer"><code>{id}</code>"#);
        for (name, id) in [
            ("trace of the last attempt", "0af7651916cd43dd8448eb211c80319c"),
            ("producer's trace", "5759e988bd862e3fe1be46a994272793"),
        ] {
            let expected = format!(", {name} {}", link(id));
            assert!(page.contains(&expected), "{expected} in {page}");
        }
    }
}
