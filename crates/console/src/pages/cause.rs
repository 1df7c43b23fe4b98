//! The page of a cause: what happened, since when, to whom, with two examples and the actions on all of its messages.

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::groups::{Group, written};
use redeliver_dead_letters::{CauseState, Resolved};
use redeliver_operator::Failure;
use redeliver_operator::audit::{CauseComparison, ComparedLetter, compare_cause};
use redeliver_operator::dead_letter::{Showing, story};
use redeliver_operator::markup::chart::columns_only;
use redeliver_operator::markup::moment;
use redeliver_operator::terminal::escape::shortened;
use redeliver_operator::terminal::units::{about, counted, grouped};
use serde::Deserialize;

use crate::dead_letters::facets::{Columns, columns};
use crate::dead_letters::reading::Mark;
use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::{CauseLife, DeadLetter, Snapshot};
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

/// The fields of the form that marks a cause as known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NoteForm {
    note: String,
    /// Any value: remove the note.
    remove: Option<String>,
}

impl From<NoteForm> for Mark {
    fn from(NoteForm { note, remove }: NoteForm) -> Self {
        if remove.is_some() { Self::NotKnown } else { Self::Known(note) }
    }
}

/// The fields of the form that marks a cause as resolved.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResolvedForm {
    by: String,
    /// Any value: it is not resolved.
    remove: Option<String>,
}

impl From<ResolvedForm> for Mark {
    fn from(ResolvedForm { by, remove }: ResolvedForm) -> Self {
        if remove.is_some() { Self::NotResolved } else { Self::Resolved(by) }
    }
}

/// The page of a cause. `selection` may narrow it to some of its messages.
pub(crate) fn page(at: &AtDeployment, fingerprint: &str, selection: &Selection) -> Result<Page, Failure> {
    let snapshot = at.snapshot()?;
    let Some(group) = snapshot.group(fingerprint) else { return gone(at, &snapshot, fingerprint) };
    let narrowed = Selection { group: String::new(), ..selection.clone() };
    let selection = Selection { group: fingerprint.to_owned(), ..selection.clone() };
    let letters = snapshot.select(&selection)?.letters;
    let path = at.cause_path(fingerprint);
    let life = snapshot.life(group);
    let compared = compared(&snapshot, fingerprint);
    let body = html! {
        p class="remark" { code { (group.error_type) } " " code { (fingerprint) } }
        p { (in_words(&snapshot, group, &letters, &narrowed)) }
        (changed_since(at, &snapshot))
        (active_filters(&path, &narrowed))
        (standing(&snapshot, &life, &path))
        @if let Some(compared) = &compared { (apart(compared)) }
        (actions(at, &selection, letters.len()))
        @if let Some(compared) = &compared { (beside_others(compared)) }
        (marks(at, &life, &path))
        (trend(&letters))
        (facets(&path, &narrowed, &letters))
        (examples(at, &snapshot, &letters)?)
        p { a href=(selection.address(&at.path("letters"))) { "All " (counted(letters.len() as u64, "message")) } }
    };
    Ok(Page { title: shortened(&group.headline, TITLE_MAX), body })
}

/// The page of a known cause without messages: it can still be marked.
fn gone(at: &AtDeployment, snapshot: &Snapshot, fingerprint: &str) -> Result<Page, Failure> {
    const GONE: &str = "No message of the last look has this cause: they were sent back, deleted, or have expired. Look \
                        again under \"Dead letters\".";
    let known = snapshot.causes.known();
    let error_type = known.error_type(fingerprint).ok_or(GONE)?.to_owned();
    let first = known.first(fingerprint);
    drop(known);
    let life = snapshot.life_without_messages(fingerprint);
    let path = at.cause_path(fingerprint);
    let body = html! {
        p class="remark" { code { (fingerprint) } @if let Some(first) = first { ", first seen " (moment(first)) } }
        p { (GONE) }
        (standing(snapshot, &life, &path))
        (marks(at, &life, &path))
    };
    Ok(Page { title: shortened(&error_type, TITLE_MAX), body })
}

/// Summarizes the messages: their number, their first and last time, and whether they still come.
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
        @if quiet < QUIET_SECONDS { "It still happens: fix the cause first, then send them back." }
        @else { "Nothing for " (about(quiet)) ": if the cause is fixed, send them back." }
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

/// News about the cause: that it is new, came back or is resolved, and the note of the person who has examined it.
fn standing(snapshot: &Snapshot, life: &CauseLife, path: &str) -> Markup {
    html! {
        @match &life.state {
            CauseState::Open => {},
            CauseState::Resolved(resolved) => p class="done" { "Resolved " (end(resolved)) ". It has not come back." },
            CauseState::CameBack(Some(resolved)) => p {
                strong class="new" { "came back" } " after it was resolved " (end(resolved)) ". "
                a href=(Selection { since: written(resolved.at), ..Selection::default() }.address(path)) { "Only the newer messages" }
            },
            CauseState::CameBack(None) => p { strong class="new" { "came back" } " after it was resolved." },
        }
        @if let Some(note) = &life.note {
            p class="done" { "Known since " (moment(note.at)) @if !note.text.is_empty() { ": " bdi { (note.text) } } }
        }
        @if life.is_new {
            p { strong class="new" { "new" } " since the last look" @if let Some(last_look) = snapshot.causes.last_look { ", " (moment(last_look)) } "." }
        }
    }
}

fn end(Resolved { at, by }: &Resolved) -> Markup {
    html! { (moment(*at)) @if let Some(by) = by { " by " bdi { (by) } } }
}

/// Compares the cause with all others, if there are any.
fn compared(snapshot: &Snapshot, fingerprint: &str) -> Option<CauseComparison> {
    let letters = snapshot.letters.iter().map(|letter| ComparedLetter {
        fingerprint: &letter.fingerprint,
        sent_at: letter.sent_at,
        tenant: letter.tenant.as_deref(),
        function: letter.function.as_deref(),
    });
    compare_cause(fingerprint, letters).filter(|compared| compared.others > 0)
}

/// Shows how the cause differs from the others.
fn apart(compared: &CauseComparison) -> Markup {
    html! {
        @if !compared.findings.is_empty() { p { "Unlike the others: " bdi { (compared.summary(minute)) } "." } }
    }
}

/// Shows the counts of the cause beside those of all others.
fn beside_others(compared: &CauseComparison) -> Markup {
    let versions = [("first version", &compared.first_version), ("last version", &compared.last_version)];
    let names = [("tenant", &compared.tenants), ("function", &compared.functions)];
    let hours = compared.hours.into_iter().enumerate().filter(|(_, count)| *count > 0);
    html! {
        details class="note" {
            summary { "Compared with all others" }
            table class="plan" {
                thead { tr { td {} th class="number" { "this cause" } th class="number" { "all others" } } }
                tbody {
                    tr { th scope="row" { "messages" } td class="number" { (grouped(compared.count)) } td class="number" { (grouped(compared.others)) } }
                    @for (what, version) in versions { @if let Some(version) = version {
                        tr { th scope="row" { (what) } td colspan="2" { bdi { (version) } } }
                    } }
                    @for (what, shares) in names { @for share in shares {
                        tr { th scope="row" { (what) " " bdi { (share.name) } } td class="number" { (grouped(share.count)) } td class="number" { (grouped(share.others)) } }
                    } }
                    tr { th scope="row" { "hours, 0 to 23 UTC" } td colspan="2" { (columns_only("This cause by hour of the day", 6, compared.hours.len(), hours)) } }
                }
            }
        }
    }
}

/// A time in a sentence.
fn minute(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

/// The forms that mark a cause as known and as resolved.
fn marks(at: &AtDeployment, life: &CauseLife, path: &str) -> Markup {
    if at.site.guard.read_only || at.is_file() {
        return Markup::default();
    }
    let note = life.note.as_ref();
    let known = if note.is_some() { "Change the note" } else { "Mark as known" };
    let (by, is_open) = match &life.state {
        CauseState::Open => (None, true),
        CauseState::Resolved(resolved) => (resolved.by.as_deref(), false),
        CauseState::CameBack(_) => (None, false),
    };
    html! {
        details class="note" {
            summary { (known) }
            form class="filters" method="post" action={(path) "/note"} {
                label {
                    "Note for the next person"
                    input name="note" maxlength="500" autocomplete="off" placeholder="ticket 4711: wrong currency since Tuesday"
                        value=[note.map(|note| note.text.as_str())];
                }
                button { @if note.is_some() { "Save" } @else { (known) } }
                @if note.is_some() { button name="remove" value="1" { "Not known any more" } }
            }
        }
        details class="note" {
            summary { "Mark as resolved" }
            p class="remark" { "A message that is sent here from now on shows that the cause came back, unless an earlier version of the function failed. " code { "audit --known-causes" } " says so, too." }
            form class="filters" method="post" action={(path) "/resolved"} {
                label {
                    "Resolved by (may be empty)"
                    input name="by" maxlength="500" autocomplete="off" placeholder="orders:42, or a commit" value=[by];
                }
                button { "Mark as resolved" }
                @if !is_open { button name="remove" value="1" { "Not resolved" } }
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
