//! The page of a cause: what happened, since when, to whom, with two examples and the actions on all of its messages.

use maud::{Markup, html};
use redeliver_dead_letters::groups::Group;
use redeliver_operator::Failure;
use redeliver_operator::dead_letter::{Showing, story};
use redeliver_operator::markup::chart::columns_only;
use redeliver_operator::markup::moment;
use redeliver_operator::terminal::escape::shortened;
use redeliver_operator::terminal::units::{about, counted, grouped};
use serde::Deserialize;

use crate::dead_letters::facets::{Columns, columns};
use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::{DeadLetter, Snapshot};
use crate::extract::AtDeployment;
use crate::layout::Page;
use crate::pages::facets::facets;
use crate::pages::selected::{actions, active_filters, changed_since};

/// Columns of the trend.
const TREND: usize = 96;
/// Characters of the title.
const TITLE_MAX: usize = 160;
/// A cause without a new dead letter for this long is quiet.
const QUIET_SECONDS: i64 = 3600;

/// The fields of the form that notes something on a cause.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NoteForm {
    pub(crate) note: String,
    /// Any value: remove the note.
    pub(crate) remove: Option<String>,
}

/// The page of a cause. `selection` may narrow it to some of its messages.
pub(crate) fn page(at: &AtDeployment, fingerprint: &str, selection: &Selection) -> Result<Page, Failure> {
    let snapshot = at.snapshot()?;
    let group = snapshot.groups.iter().find(|group| group.fingerprint == fingerprint).ok_or(
        "No message of the last look has this cause: they were sent back, deleted, or have expired. Look again under \
         \"Dead letters\".",
    )?;
    let narrowed = Selection { group: String::new(), ..selection.clone() };
    let selection = Selection { group: fingerprint.to_owned(), ..selection.clone() };
    let letters = snapshot.select(&selection)?.letters;
    let path = at.cause_path(fingerprint);
    let body = html! {
        p class="remark" { code { (group.error_type) } " " code { (fingerprint) } }
        p { (in_words(&snapshot, group, &letters, &narrowed)) }
        (changed_since(at, &snapshot))
        (active_filters(&path, &narrowed))
        (standing(&snapshot, group))
        (actions(at, &selection, letters.len()))
        @if !at.site.guard.read_only && !at.is_file() { (note_form(&snapshot, group, &path)) }
        (trend(&letters))
        (facets(&path, &narrowed, &letters))
        (examples(at, &snapshot, &letters)?)
        p { a href=(selection.address(&at.path("letters"))) { "All " (counted(letters.len() as u64, "message")) } }
    };
    Ok(Page { title: shortened(&group.headline, TITLE_MAX), body })
}

/// Says how many there are, since when, and whether it still happens.
fn in_words(snapshot: &Snapshot, group: &Group, letters: &[&DeadLetter], narrowed: &Selection) -> Markup {
    let (Some(last), Some(first)) = (letters.first(), letters.last()) else {
        return html! { "None of its " (counted(group.count, "message")) " is selected." };
    };
    let quiet = (snapshot.now - last.sent_at).num_seconds();
    html! {
        strong { (counted(letters.len() as u64, "message")) }
        @if !narrowed.is_everything() { " of " (grouped(group.count)) }
        @if letters.len() > 1 { " from " (moment(first.sent_at)) " to " (moment(last.sent_at)) }
        @else { ", sent here " (moment(last.sent_at)) }
        @if let Some(attempts) = attempts(letters) { ", " (attempts) }
        ". "
        @if quiet < QUIET_SECONDS { "It still happens: mend the cause first, then send them back." }
        @else { "Nothing for " (about(quiet)) ": if the cause is mended, send them back." }
    }
}

/// The retries that they had.
fn attempts(letters: &[&DeadLetter]) -> Option<String> {
    let known = || letters.iter().filter_map(|letter| letter.attempts);
    let (least, most) = (known().min()?, known().max()?);
    Some(match (least, most) {
        (0, 0) => "without a retry".to_owned(),
        (least, most) if least == most => format!("after {}", retries(most)),
        (least, most) => format!("after {least} to {}", retries(most)),
    })
}

fn retries(count: u32) -> String {
    if count == 1 { "1 retry".to_owned() } else { format!("{count} retries") }
}

/// News about the cause: that it is new, or the note of somebody who has looked into it.
fn standing(snapshot: &Snapshot, group: &Group) -> Markup {
    html! {
        @if let Some(note) = snapshot.causes.note(&group.fingerprint) {
            p class="done" { "Known since " (moment(note.at)) @if !note.text.is_empty() { ": " bdi { (note.text) } } }
        }
        @if snapshot.causes.is_new(&group.fingerprint) {
            p { strong class="new" { "new" } " since the last look" @if let Some(last_look) = snapshot.causes.last_look { ", " (moment(last_look)) } "." }
        }
    }
}

fn note_form(snapshot: &Snapshot, group: &Group, path: &str) -> Markup {
    let note = snapshot.causes.note(&group.fingerprint);
    html! {
        details class="note" {
            summary { @if note.is_some() { "Change the note" } @else { "Mark as known" } }
            form class="filters" method="post" action={(path) "/note"} {
                label {
                    "Note for the next person"
                    input name="note" maxlength="500" autocomplete="off" placeholder="ticket 4711: wrong currency since Tuesday"
                        value=[note.as_ref().map(|note| note.text.as_str())];
                }
                button { @if note.is_some() { "Save" } @else { "Mark as known" } }
                @if note.is_some() { button name="remove" value="1" { "Not known any more" } }
            }
        }
    }
}

/// Charts the life of a cause.
fn trend(letters: &[&DeadLetter]) -> Markup {
    let (Some(last), Some(first)) = (letters.first(), letters.last()) else { return Markup::default() };
    let Columns { counts, seconds } =
        columns::<TREND>(letters.iter().copied(), [first.sent_at, last.sent_at]);
    let label = format!("{} in each column", about(seconds));
    let drawn = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    html! {
        @if letters.len() > 1 {
            figure class="trend" {
                (columns_only(&format!("Trend, {label}"), 6, TREND, drawn))
                figcaption { span { (moment(first.sent_at)) } span { (label) } span { (moment(last.sent_at)) } }
            }
        }
    }
}

/// The newest and the oldest message.
fn examples(at: &AtDeployment, snapshot: &Snapshot, letters: &[&DeadLetter]) -> Result<Markup, Failure> {
    let oldest = letters.last().filter(|_| letters.len() > 1);
    let examples = [("The newest message", letters.first()), ("The oldest message", oldest)];
    let showing = Showing { reveal: false, traces: at.site.traces.clone() };
    let mut shown = Vec::new();
    for (words, letter) in examples {
        let Some(letter) = letter else { continue };
        let address = at.letter_path(&letter.sqs_message_id);
        shown.push((words, address, story(&snapshot.record(letter)?, &showing)));
    }
    Ok(html! {
        @if !shown.is_empty() { h2 { "Examples" } }
        @for (words, address, story) in shown {
            p { a href=(address) { (words) } }
            details { (story) }
        }
    })
}
