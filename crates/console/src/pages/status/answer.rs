//! The first line of *Now*: sentences about problems, or a statement that all is quiet. Each number links to the items
//! that it counts.

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_operator::status::TargetStatus;
use redeliver_operator::terminal::units::{approximate_span, format_count, group_digits};

/// Seconds without a sign of an outage after which the outage might be over: the metric lags by two minutes, and the
/// timestamp of each data point is the start of its five-minute period.
const OLD_SIGN_SECONDS: i64 = 600;

/// The threshold of the alarm `held-too-long` (infra/lib/alarm.ts).
const LONG_HOLD_SECONDS: i64 = 3600;

/// The time range of CloudWatch queries. Data from containers begins only when the console starts.
const LONGEST_SECONDS: i64 = 14 * 86_400;

/// The facts that the sentences report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: Timestamp,
    pub(super) target: Option<TargetStatus>,
    /// The longest total time for which a message was held, if one was held recently.
    pub(super) longest_hold_seconds: Option<i64>,
    /// Messages that are waiting for a retry or are held: the delayed messages in the source queue, plus all messages
    /// in the intermediate DLQ or, without one, the in-flight messages in the source queue.
    pub(super) held: Option<u64>,
    /// The position of the source queue on the page.
    pub(super) source: usize,
    /// The number of visible messages in the source queue, if it has event source mappings, all of them are disabled,
    /// and nothing else reads it.
    pub(super) paused: Option<u64>,
    /// The number of blocked groups, and the time since which the first of them has been waiting.
    pub(super) blocked: Option<(u64, &'a str)>,
    /// `None` if the count could not be read.
    pub(super) dead_letters: Option<u64>,
    /// The time until the oldest dead letter expires, according to CloudWatch, if it expires soon.
    pub(super) oldest_ends_in_seconds: Option<i64>,
    pub(super) reading: Option<LastReading>,
    pub(super) alarms_on: &'a [&'a str],
    /// True if a request to CloudWatch failed.
    pub(super) is_blind: bool,
}

/// The last reading of the dead letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastReading {
    pub(super) taken_at: Timestamp,
    /// Messages in the queue, read or not.
    pub(super) count: u64,
    pub(super) new_causes: u64,
    /// Causes that were resolved and have newer messages.
    pub(super) returned_causes: u64,
    /// The time of the previous reading; causes found since then are new. `None` in the first reading, in which no
    /// cause is known to be new or old.
    pub(super) last_refresh: Option<Timestamp>,
    /// The number of messages that are about to expire, and the seconds until the first one does.
    pub(super) deleted_soon: Option<(u64, i64)>,
}

/// A part of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LinePart {
    Text(String),
    /// A number with a link to one of the deployment's pages, or to a place on this page.
    Link(String, String),
}

/// The line, and a flag that is set if it reports a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatusLine {
    parts: Vec<LinePart>,
    pub(super) is_bad: bool,
}

pub(super) fn build_status_line(facts: &Facts<'_>) -> StatusLine {
    let sentences = [
        describe_target(facts),
        describe_long_hold(facts),
        describe_pause(facts),
        describe_blocked_groups(facts),
        describe_dead_letters(facts),
        describe_expiring_messages(facts),
        describe_alarms(facts),
        describe_unknown_target(facts),
    ];
    let mut parts = Vec::new();
    for mut sentence in sentences.into_iter().flatten() {
        if !parts.is_empty() {
            parts.push(text_part(" "));
        }
        parts.append(&mut sentence);
    }
    if parts.is_empty() {
        let quiet = if facts.is_blind {
            "All quiet according to SQS's counts; CloudWatch is unavailable."
        } else {
            "All quiet."
        };
        return StatusLine { parts: vec![text_part(quiet)], is_bad: false };
    }
    StatusLine { parts, is_bad: true }
}

fn describe_target(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let Some(TargetStatus::Down(outage)) = facts.target else { return None };
    let since = format_clock(outage.since, facts.now);
    let began = if !outage.or_longer {
        format!("since about {since}")
    } else if outage.seconds < LONGEST_SECONDS {
        format!("since {since} or longer")
    } else {
        "for more than 14 days".to_owned()
    };
    let mut sentence = vec![text_part(format!("The target has been down {began}"))];
    match facts.held {
        None => sentence.push(text_part("; the number of held messages is unknown")),
        Some(0) => sentence.push(text_part(": no message is held")),
        Some(held) => {
            sentence.push(text_part(": "));
            sentence.push(link_part(
                format!("about {}", format_count(held, "message")),
                format!("#queue-{}", facts.source),
            ));
            sentence.push(text_part(" held, none lost"));
        }
    }
    if (facts.now - outage.last_sign).num_seconds() > OLD_SIGN_SECONDS {
        let last = format_clock(outage.last_sign, facts.now);
        sentence.push(text_part(format!(
            ". It may be up again: the last sign of the outage was at about {last}"
        )));
    }
    sentence.push(text_part("."));
    Some(sentence)
}

/// Describes the longest hold during an outage, or at any time if it is long enough to need attention.
fn describe_long_hold(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let seconds = facts.longest_hold_seconds?;
    let is_shown = seconds > LONG_HOLD_SECONDS || matches!(facts.target, Some(TargetStatus::Down(_)));
    is_shown
        .then(|| vec![text_part(format!("The longest hold of a message is {}.", approximate_span(seconds)))])
}

fn describe_pause(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let waiting = facts.paused?;
    let waiting =
        link_part(format!("about {}", format_count(waiting, "message")), format!("#queue-{}", facts.source));
    Some(vec![
        link_part("Paused".to_owned(), "pause".to_owned()),
        text_part(": "),
        waiting,
        text_part(" waiting."),
    ])
}

fn describe_blocked_groups(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let (count, since) = facts.blocked?;
    let groups = link_part(format_count(count, "group"), "#blocked".to_owned());
    let are = if count == 1 { "is blocked" } else { "are blocked, the first one" };
    Some(vec![groups, text_part(format!(" {are} since {since}."))])
}

fn describe_dead_letters(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let count = match facts.dead_letters {
        None => return Some(vec![text_part("Could not determine the number of dead letters.")]),
        Some(0) => return None,
        Some(count) => count,
    };
    let mut sentence = vec![link_part(format_count(count, "dead letter"), "letters".to_owned())];
    if let Some(reading) = facts.reading {
        sentence.append(&mut describe_changes_since_refresh(reading, count, facts.now));
    }
    sentence.push(text_part("."));
    Some(sentence)
}

/// Describes the new causes in a reading, and counts the messages that have arrived since; their causes are not known
/// yet.
fn describe_changes_since_refresh(reading: LastReading, count: u64, now: Timestamp) -> Vec<LinePart> {
    let LastReading { taken_at, new_causes, returned_causes, last_refresh, .. } = reading;
    let taken_at = format_clock(taken_at, now);
    let arrived = count.saturating_sub(reading.count);
    let mut parts = match (new_causes, last_refresh) {
        (0, _) if arrived > 0 => vec![],
        (0, Some(_)) => vec![text_part(format!(", no new cause at {taken_at}"))],
        (0, None) => {
            vec![text_part(format!(
                ", first read at {taken_at}: new causes are shown from the next refresh on"
            ))]
        }
        (_, last_refresh) => {
            let causes = format!("{} new", format_count(new_causes, "cause"));
            let since =
                last_refresh.map(|last_refresh| format!(" since {}", format_clock(last_refresh, now)));
            vec![
                text_part(", "),
                link_part(causes, "letters?new=last-refresh".to_owned()),
                text_part(since.unwrap_or_default()),
            ]
        }
    };
    if returned_causes > 0 {
        parts.push(text_part(", "));
        parts.push(link_part(format_count(returned_causes, "cause"), "letters".to_owned()));
        parts.push(text_part(" came back"));
    }
    if arrived > 0 {
        parts.push(text_part(format!(", {} more since the refresh at {taken_at}: ", group_digits(arrived))));
        parts.push(link_part("refresh".to_owned(), "letters".to_owned()));
    }
    parts
}

fn describe_expiring_messages(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    if facts.dead_letters == Some(0) {
        return None;
    }
    // A reading includes every message. CloudWatch's age excludes messages that were received three times or more.
    let read = facts.reading.map(|reading| reading.deleted_soon);
    let (subject, seconds) = match (read, facts.oldest_ends_in_seconds) {
        (Some(None), _) | (None, None) => return None,
        (Some(Some((count, seconds))), _) => {
            let them = group_digits(count);
            (format!("{them} of them soon, the first"), seconds)
        }
        (None, Some(seconds)) => ("the oldest of them".to_owned(), seconds),
    };
    let when =
        if seconds > 0 { format!("in {}", approximate_span(seconds)) } else { "at any moment".to_owned() };
    Some(vec![
        text_part("SQS deletes "),
        link_part(subject, "letters".to_owned()),
        text_part(format!(" {when}.")),
    ])
}

fn describe_alarms(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let count = facts.alarms_on.len() as u64;
    let verb = if count == 1 { "is" } else { "are" };
    (count > 0).then(|| {
        vec![link_part(format_count(count, "alarm"), "#alarms".to_owned()), text_part(format!(" {verb} on."))]
    })
}

fn describe_unknown_target(facts: &Facts<'_>) -> Option<Vec<LinePart>> {
    let is_unknown = facts.target == Some(TargetStatus::Unknown);
    is_unknown.then(|| vec![text_part("Could not determine whether the target is down.")])
}

fn text_part(words: impl Into<String>) -> LinePart {
    LinePart::Text(words.into())
}

const fn link_part(words: String, to: String) -> LinePart {
    LinePart::Link(words, to)
}

/// Formats the time of day, with the date if it is not today.
fn format_clock(at: Timestamp, now: Timestamp) -> String {
    let format = if at.date_naive() == now.date_naive() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    at.format(format).to_string()
}

impl StatusLine {
    /// Renders the line, with links to the deployment's pages, whose URLs start with `base`.
    pub(super) fn render_line(&self, base: &str) -> Markup {
        html! {
            p class=(if self.is_bad { "answer bad" } else { "answer" }) {
                @for part in &self.parts {
                    @match part {
                        LinePart::Text(words) => (words),
                        LinePart::Link(words, to) if to.starts_with('#') => a href=(to) { (words) },
                        LinePart::Link(words, to) => a href={(base) (to)} { (words) },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
