//! The first line of *Now*: what is wrong, in sentences, or that all is quiet. Each number leads to what it counts.

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_operator::status::Target;
use redeliver_operator::terminal::units::{about, counted, grouped};

/// An outage without a sign for longer than this may be over: the metric is two minutes late, and its signs are the
/// starts of five minutes.
const SIGN_IS_OLD_SECONDS: i64 = 600;

/// As for the alarm `held-too-long` (infra/lib/alarm.ts).
const HOLD_IS_LONG_SECONDS: i64 = 3600;

/// The time for which CloudWatch is asked. Containers are asked from the console's start on.
const LONGEST_SECONDS: i64 = 14 * 86_400;

/// The values that the sentences are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    pub(super) now: Timestamp,
    pub(super) target: Option<Target>,
    /// The longest time that a message has been held in all, if one was held lately.
    pub(super) longest_hold_seconds: Option<i64>,
    /// Messages that wait for a retry or are held: delayed in the source queue, and all in the intermediate DLQ.
    pub(super) held: Option<u64>,
    /// The place of the source queue on the page.
    pub(super) source: usize,
    /// Messages of the source queue that wait to be received, if its event source mappings are all off.
    pub(super) paused: Option<u64>,
    /// The number of blocked groups, and since when the first one waits.
    pub(super) blocked: Option<(u64, &'a str)>,
    /// `None` if the count could not be read.
    pub(super) dead_letters: Option<u64>,
    /// The time left for the oldest dead letter, by CloudWatch, if it is short.
    pub(super) oldest_ends_in_seconds: Option<i64>,
    pub(super) reading: Option<Reading>,
    pub(super) alarms_on: &'a [&'a str],
    /// True if a request to CloudWatch failed.
    pub(super) is_blind: bool,
}

/// The last reading of the dead letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) taken_at: Timestamp,
    /// Messages that were in the queue, read or not.
    pub(super) count: u64,
    pub(super) new_causes: u64,
    /// Causes that were resolved and have newer messages.
    pub(super) returned_causes: u64,
    /// The look before, since which they are new. `None` at the first look: no cause is known to be new or old.
    pub(super) last_look: Option<Timestamp>,
    /// Those that SQS deletes soon, and the seconds until the first one.
    pub(super) deleted_soon: Option<(u64, i64)>,
}

/// A part of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A number with its address within the deployment's pages, or on this page.
    Link(String, String),
}

/// The line, and whether something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    parts: Vec<Part>,
    pub(super) is_bad: bool,
}

pub(super) fn answer(facts: &Facts<'_>) -> Answer {
    let sentences = [
        target(facts),
        long_hold(facts),
        paused(facts),
        blocked(facts),
        dead_letters(facts),
        deleted_soon(facts),
        alarms(facts),
        unknown(facts),
    ];
    let mut parts = Vec::new();
    for mut sentence in sentences.into_iter().flatten() {
        if !parts.is_empty() {
            parts.push(text(" "));
        }
        parts.append(&mut sentence);
    }
    if parts.is_empty() {
        let quiet = if facts.is_blind {
            "All quiet by SQS's counts; CloudWatch is unavailable."
        } else {
            "All quiet."
        };
        return Answer { parts: vec![text(quiet)], is_bad: false };
    }
    Answer { parts, is_bad: true }
}

fn target(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let Some(Target::Down(outage)) = facts.target else { return None };
    let since = clock(outage.since, facts.now);
    let began = if !outage.or_longer {
        format!("since about {since}")
    } else if outage.seconds < LONGEST_SECONDS {
        format!("since {since} or longer")
    } else {
        "for more than 14 days".to_owned()
    };
    let mut sentence = vec![text(format!("The target has been down {began}"))];
    match facts.held {
        None => sentence.push(text("; the number of held messages is unknown")),
        Some(0) => sentence.push(text(": no message is held")),
        Some(held) => {
            sentence.push(text(": "));
            sentence.push(link(
                format!("about {}", counted(held, "message")),
                format!("#queue-{}", facts.source),
            ));
            sentence.push(text(" held, none lost"));
        }
    }
    if (facts.now - outage.last_sign).num_seconds() > SIGN_IS_OLD_SECONDS {
        let last = clock(outage.last_sign, facts.now);
        sentence.push(text(format!(". It may be up again: the last sign of the outage was at about {last}")));
    }
    sentence.push(text("."));
    Some(sentence)
}

/// The sentence on the longest hold: in an outage, or without one if it is long enough to need a look.
fn long_hold(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let seconds = facts.longest_hold_seconds?;
    let is_shown = seconds > HOLD_IS_LONG_SECONDS || matches!(facts.target, Some(Target::Down(_)));
    is_shown.then(|| vec![text(format!("The longest hold of a message is {}.", about(seconds)))])
}

fn paused(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let waiting = facts.paused?;
    let waiting = link(format!("about {}", counted(waiting, "message")), format!("#queue-{}", facts.source));
    Some(vec![link("Paused".to_owned(), "pause".to_owned()), text(": "), waiting, text(" to be received.")])
}

fn blocked(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let (count, since) = facts.blocked?;
    let groups = link(counted(count, "group"), "#blocked".to_owned());
    let are = if count == 1 { "is blocked" } else { "are blocked, the first one" };
    Some(vec![groups, text(format!(" {are} since {since}."))])
}

fn dead_letters(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let count = match facts.dead_letters {
        None => return Some(vec![text("Could not determine the number of dead letters.")]),
        Some(0) => return None,
        Some(count) => count,
    };
    let mut sentence = vec![link(counted(count, "dead letter"), "letters".to_owned())];
    if let Some(reading) = facts.reading {
        sentence.append(&mut since_the_look(reading, count, facts.now));
    }
    sentence.push(text("."));
    Some(sentence)
}

/// The new causes of a look, and the number of messages that arrived since, whose causes an old look does not have.
fn since_the_look(reading: Reading, count: u64, now: Timestamp) -> Vec<Part> {
    let Reading { taken_at, new_causes, returned_causes, last_look, .. } = reading;
    let taken_at = clock(taken_at, now);
    let arrived = count.saturating_sub(reading.count);
    let mut parts = match (new_causes, last_look) {
        (0, _) if arrived > 0 => vec![],
        (0, Some(_)) => vec![text(format!(", no new cause at {taken_at}"))],
        (0, None) => vec![text(format!(", first look at {taken_at}: new causes show from the next one on"))],
        (_, last_look) => {
            let causes = format!("{} new", counted(new_causes, "cause"));
            let since = last_look.map(|last_look| format!(" since {}", clock(last_look, now)));
            vec![
                text(", "),
                link(causes, "letters?new=last-look".to_owned()),
                text(since.unwrap_or_default()),
            ]
        }
    };
    if returned_causes > 0 {
        parts.push(text(", "));
        parts.push(link(counted(returned_causes, "cause"), "letters".to_owned()));
        parts.push(text(" came back"));
    }
    if arrived > 0 {
        parts.push(text(format!(", {} more since the look at {taken_at}: ", grouped(arrived))));
        parts.push(link("look again".to_owned(), "letters".to_owned()));
    }
    parts
}

fn deleted_soon(facts: &Facts<'_>) -> Option<Vec<Part>> {
    if facts.dead_letters == Some(0) {
        return None;
    }
    // A reading knows each message. CloudWatch's age leaves out messages that were received three times or more.
    let read = facts.reading.map(|reading| reading.deleted_soon);
    let (subject, seconds) = match (read, facts.oldest_ends_in_seconds) {
        (Some(None), _) | (None, None) => return None,
        (Some(Some((count, seconds))), _) => {
            let them = grouped(count);
            (format!("{them} of them soon, the first"), seconds)
        }
        (None, Some(seconds)) => ("the oldest of them".to_owned(), seconds),
    };
    let when = if seconds > 0 { format!("in {}", about(seconds)) } else { "at any moment".to_owned() };
    Some(vec![text("SQS deletes "), link(subject, "letters".to_owned()), text(format!(" {when}."))])
}

fn alarms(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let count = facts.alarms_on.len() as u64;
    let verb = if count == 1 { "is" } else { "are" };
    (count > 0)
        .then(|| vec![link(counted(count, "alarm"), "#alarms".to_owned()), text(format!(" {verb} on."))])
}

fn unknown(facts: &Facts<'_>) -> Option<Vec<Part>> {
    let is_unknown = facts.target == Some(Target::Unknown);
    is_unknown.then(|| vec![text("Could not determine whether the target is down.")])
}

fn text(words: impl Into<String>) -> Part {
    Part::Text(words.into())
}

const fn link(words: String, to: String) -> Part {
    Part::Link(words, to)
}

/// The time of day, with the date if that is another day.
fn clock(at: Timestamp, now: Timestamp) -> String {
    let format = if at.date_naive() == now.date_naive() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    at.format(format).to_string()
}

impl Answer {
    /// The line, with links to pages of the deployment whose address begins with `base`.
    pub(super) fn markup(&self, base: &str) -> Markup {
        html! {
            p class=(if self.is_bad { "answer bad" } else { "answer" }) {
                @for part in &self.parts {
                    @match part {
                        Part::Text(words) => (words),
                        Part::Link(words, to) if to.starts_with('#') => a href=(to) { (words) },
                        Part::Link(words, to) => a href={(base) (to)} { (words) },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
