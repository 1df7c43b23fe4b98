//! One message of the page: its timeline, drawn and told, its attributes and its body.

use std::fmt::Write as _;

use super::moment;
use crate::audit::body::body_for_people;
use crate::audit::timeline::{Kind, Timeline};
use crate::dead_letters::{DeadLetterRecord, plain};
use crate::markup::escape;
use crate::people::{about, counted};
use crate::text::shortened;
use redeliver_core::annotation::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE};

/// Bytes of a body; `--show` prints all of it.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Characters of a text that others wrote.
const TEXT_MAX: usize = 2000;
const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 14.0;
/// Marks do not cover one another.
const DISTANCE: f64 = 24.0;

/// A summary, and what is behind it.
pub(super) fn story(record: &DeadLetterRecord, reveal: bool) -> String {
    let timeline = Timeline::of(record);
    let retries = record.attempts().map_or("retries unknown".to_owned(), retries);
    let mut markup = format!(
        "<summary><code class=\"id\">{}</code> <span>{retries}</span> {}</summary>\n<div class=\"story\">\n{}{}",
        escape(&shortened(record.message_id(), 128)),
        moment(record.message.sent_at),
        drawn(&timeline),
        told(&timeline),
    );
    let message = &record.message;
    let _ = writeln!(
        markup,
        "<p class=\"remark\">SQS message id <code>{}</code>, received {}{}</p>",
        escape(&message.sqs_message_id),
        counted(message.receive_count.into(), "time"),
        message.redriven_from.as_ref().map(|arn| format!(", moved from {}", escape(arn))).unwrap_or_default(),
    );
    markup.push_str(&attributes(record, reveal));
    let body = body_for_people(record, reveal, BODY_BYTES_MAX);
    let cut = if body.is_cut { "\n… (the rest is not on this page)" } else { "" };
    let masked = if reveal { "" } else { ", values masked" };
    let _ = writeln!(
        markup,
        "<details class=\"body\"><summary>Body <span>{}{masked}</span></summary><pre>{}{cut}</pre></details>\n</div>",
        counted(message.body.len() as u64, "byte"),
        escape(&body.text)
    );
    markup
}

fn retries(count: u32) -> String {
    match count {
        1 => "1 retry".to_owned(),
        _ => format!("{count} retries"),
    }
}

/// A line with a mark for each event, where it was in time, as far as the marks leave each other room.
fn drawn(timeline: &Timeline) -> String {
    let events: Vec<_> = timeline.events.iter().filter_map(|event| Some((event, event.at?))).collect();
    let first = match events.iter().map(|(_, at)| *at).min() {
        Some(first) if events.len() > 1 => first,
        _ => return String::new(),
    };
    let seconds = |at| float_seconds(at - first);
    let longest = events.iter().map(|(_, at)| seconds(*at)).fold(1.0, f64::max);
    let span = WIDTH - 2.0 * MARGIN;
    let mut places: Vec<_> = events.iter().map(|(_, at)| MARGIN + span * seconds(*at) / longest).collect();
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + DISTANCE);
    }
    let mut limit = WIDTH - MARGIN;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - DISTANCE;
    }
    let mut svg = format!(
        "<svg class=\"timeline\" role=\"img\" aria-label=\"Timeline\" viewBox=\"0 0 {WIDTH:.0} 32\">\
         <line x1=\"{MARGIN}\" x2=\"{:.0}\" y1=\"16\" y2=\"16\"/>",
        WIDTH - MARGIN
    );
    for ((event, at), x) in events.into_iter().zip(places) {
        let title =
            format!("{}, {} {}", event.kind.words(), at.format("%Y-%m-%d %H:%M:%S"), event.error_type);
        let mark = match event.kind {
            Kind::Sent => format!("<circle class=\"sent\" cx=\"{x:.1}\" cy=\"16\" r=\"7\"/>"),
            Kind::Failed(attempt) => format!(
                "<circle class=\"failed\" cx=\"{x:.1}\" cy=\"16\" r=\"11\"/><text x=\"{x:.1}\" y=\"16\">{}</text>",
                attempt.saturating_add(1)
            ),
            Kind::GivenUp | Kind::Redriven | Kind::SentHere => {
                format!(
                    "<rect class=\"end\" x=\"{:.1}\" y=\"6\" width=\"20\" height=\"20\" rx=\"3\"/><text x=\"{x:.1}\" y=\"16\">×</text>",
                    x - 10.0
                )
            }
        };
        let _ = write!(svg, "<g><title>{}</title>{mark}</g>", escape(&title));
    }
    svg + "</svg>\n"
}

fn told(timeline: &Timeline) -> String {
    let mut table = "<div class=\"scroll\"><table class=\"events\">\n".to_owned();
    let mut before = None;
    for event in &timeline.events {
        let after =
            event.at.zip(before).map(|(at, before): (_, redeliver_core::message::Timestamp)| at - before);
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"times\">{}</td><td class=\"number\">{}</td><td>{}</td><td class=\"details\">{}</td></tr>",
            event.kind.words(),
            event.at.map_or_else(|| "at an unknown time".to_owned(), moment),
            after.map(|after| format!("+{}", about(after.num_seconds()))).unwrap_or_default(),
            escape(&event.error_type),
            escape(&shortened(&event.error_details, TEXT_MAX)),
        );
        before = event.at.or(before);
    }
    table.push_str("</table></div>\n");
    if let Some(gap) = timeline.gap() {
        let _ = writeln!(table, "<p class=\"warning\">{}</p>", escape(&gap));
    }
    table
}

/// The producer's; ours are told already.
fn attributes(record: &DeadLetterRecord, reveal: bool) -> String {
    let is_told =
        |name: &str| record.dead_letter.is_some() && [DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&name);
    let rows =
        record.message.attributes.iter().filter(|(name, _)| !is_told(name)).map(|(name, attribute)| {
            let value =
                if reveal { shortened(&plain(&attribute.value), TEXT_MAX) } else { "<masked>".to_owned() };
            format!(
                "<tr><td><code>{}</code></td><td>{}</td><td class=\"details\">{}</td></tr>\n",
                escape(name),
                escape(&attribute.data_type),
                escape(&value)
            )
        });
    let rows: String = rows.collect();
    if rows.is_empty() {
        rows
    } else {
        format!("<div class=\"scroll\"><table class=\"attributes\">\n{rows}</table></div>\n")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture needs no more than 52 bits")]
fn float_seconds(span: chrono::TimeDelta) -> f64 {
    span.num_milliseconds() as f64 / 1000.0
}
