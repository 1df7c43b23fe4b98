//! A cause's page: its error, first occurrence and tenants, two examples, and the actions on all of its messages.

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::groups::{DeadLetterGroup, format_timestamp};
use redeliver_dead_letters::{CauseState, Resolution};
use redeliver_operator::CommandFailure;
use redeliver_operator::audit::{CauseComparison, ComparedLetter, compare_cause};
use redeliver_operator::dead_letter::{ShowOptions, render_story};
use redeliver_operator::markup::chart::draw_columns;
use redeliver_operator::markup::render_timestamp;
use redeliver_operator::terminal::escape::shorten_text;
use redeliver_operator::terminal::units::{approximate_span, format_count, group_digits};
use serde::Deserialize;

use crate::dead_letters::facets::{ColumnCounts, count_by_column};
use crate::dead_letters::reading::Mark;
use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::{CauseStatus, LetterEntry, Snapshot};
use crate::extract::DeploymentRequest;
use crate::layout::TitledPage;
use crate::pages::facets::render_facets;
use crate::pages::selected::{render_actions, render_active_filters, render_change_warning};

/// The number of columns in the trend.
const TREND_COLUMNS: usize = 96;
/// Maximum length of the title, in characters.
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
    /// Any value: remove the resolution.
    remove: Option<String>,
}

impl From<ResolvedForm> for Mark {
    fn from(ResolvedForm { by, remove }: ResolvedForm) -> Self {
        if remove.is_some() { Self::NotResolved } else { Self::Resolved(by) }
    }
}

/// Renders a cause's page. `selection` can narrow it to some of the cause's messages.
pub(crate) fn render_cause(
    at: &DeploymentRequest,
    fingerprint: &str,
    selection: &Selection,
) -> Result<TitledPage, CommandFailure> {
    let snapshot = at.last_snapshot()?;
    let Some(group) = snapshot.find_group(fingerprint) else {
        return render_gone_cause(at, &snapshot, fingerprint);
    };
    let narrowed = Selection { group: String::new(), ..selection.clone() };
    let selection = Selection { group: fingerprint.to_owned(), ..selection.clone() };
    let letters = snapshot.select_letters(&selection)?.letters;
    let path = at.cause_path(fingerprint);
    let life = snapshot.cause_status(group);
    let compared = compare_with_others(&snapshot, fingerprint);
    let body = html! {
        p class="remark" { code { (group.error_type) } " " code { (fingerprint) } }
        p { (render_summary(&snapshot, group, &letters, &narrowed)) }
        (render_change_warning(at, &snapshot))
        (render_active_filters(&path, &narrowed))
        (render_state_and_note(&snapshot, &life, &path))
        @if let Some(compared) = &compared { (render_differences(compared)) }
        (render_actions(at, &selection, letters.len()))
        @if let Some(compared) = &compared { (render_comparison(compared)) }
        (render_mark_forms(at, &life, &path))
        (render_trend(&letters))
        (render_facets(&path, &narrowed, &letters))
        (render_examples(at, &snapshot, &letters)?)
        p { a href=(selection.page_url(&at.page_path("letters"))) { "All " (format_count(letters.len() as u64, "message")) } }
    };
    Ok(TitledPage { title: shorten_text(&group.headline, TITLE_MAX), body })
}

/// Renders the page for an earlier cause that no longer has messages: it can still be marked.
fn render_gone_cause(
    at: &DeploymentRequest,
    snapshot: &Snapshot,
    fingerprint: &str,
) -> Result<TitledPage, CommandFailure> {
    const GONE: &str = "No message in the last refresh has this cause: its messages were sent back or deleted, or have \
                        expired. Refresh \"Dead letters\".";
    let known = snapshot.causes.lock_known();
    let error_type = known.error_type(fingerprint).ok_or(GONE)?.to_owned();
    let first = known.first_sent_at(fingerprint);
    drop(known);
    let life = snapshot.gone_cause_status(fingerprint);
    let path = at.cause_path(fingerprint);
    let body = html! {
        p class="remark" { code { (fingerprint) } @if let Some(first) = first { ", first seen " (render_timestamp(first)) } }
        p { (GONE) }
        (render_state_and_note(snapshot, &life, &path))
        (render_mark_forms(at, &life, &path))
    };
    Ok(TitledPage { title: shorten_text(&error_type, TITLE_MAX), body })
}

/// Summarizes the messages: their number, the first and last timestamp, and whether they are still arriving.
fn render_summary(
    snapshot: &Snapshot,
    group: &DeadLetterGroup,
    letters: &[&LetterEntry],
    narrowed: &Selection,
) -> Markup {
    let (Some(last), Some(first)) = (letters.first(), letters.last()) else {
        return html! { "None of its " (format_count(group.count, "message")) " is selected." };
    };
    let quiet = (snapshot.now - last.sent_at).num_seconds();
    html! {
        strong { (format_count(letters.len() as u64, "message")) }
        @if !narrowed.selects_all() { " of " (group_digits(group.count)) }
        @if letters.len() > 1 { " from " (render_timestamp(first.sent_at)) " to " (render_timestamp(last.sent_at)) }
        @else { ", sent here " (render_timestamp(last.sent_at)) }
        @if let Some(attempts) = describe_retries(letters) { ", " (attempts) }
        ". "
        @if quiet < QUIET_SECONDS { "It is still happening: fix the cause first, then send the messages back." }
        @else { "Nothing for " (approximate_span(quiet)) ": if the cause is fixed, send the messages back." }
    }
}

/// Describes how many retries the messages had.
fn describe_retries(letters: &[&LetterEntry]) -> Option<String> {
    let known = || letters.iter().filter_map(|letter| letter.attempts);
    let (least, most) = (known().min()?, known().max()?);
    Some(match (least, most) {
        (0, 0) => "without a retry".to_owned(),
        (least, most) if least == most => format!("after {}", format_retries(most)),
        (least, most) => format!("after {least} to {}", format_retries(most)),
    })
}

fn format_retries(count: u32) -> String {
    if count == 1 { "1 retry".to_owned() } else { format!("{count} retries") }
}

/// Renders the state of the cause (new, returned or resolved), and the note left by the person who examined it.
fn render_state_and_note(snapshot: &Snapshot, life: &CauseStatus, path: &str) -> Markup {
    html! {
        @match &life.state {
            CauseState::Open => {},
            CauseState::Resolved(resolved) => p class="done" { "Resolved " (render_resolution(resolved)) ". It has not come back." },
            CauseState::CameBack(Some(resolved)) => p {
                strong class="new" { "came back" } " after it was resolved " (render_resolution(resolved)) ". "
                a href=(Selection { since: format_timestamp(resolved.at), ..Selection::default() }.page_url(path)) { "Only the newer messages" }
            },
            CauseState::CameBack(None) => p { strong class="new" { "came back" } " after it was resolved." },
        }
        @if let Some(note) = &life.note {
            p class="done" { "Known since " (render_timestamp(note.at)) @if !note.text.is_empty() { ": " bdi { (note.text) } } }
        }
        @if life.is_new {
            p { strong class="new" { "new" } " since the last refresh" @if let Some(last_refresh) = snapshot.causes.last_refresh { ", " (render_timestamp(last_refresh)) } "." }
        }
    }
}

fn render_resolution(Resolution { at, by }: &Resolution) -> Markup {
    html! { (render_timestamp(*at)) @if let Some(by) = by { " by " bdi { (by) } } }
}

/// Compares the cause with all others, if there are any.
fn compare_with_others(snapshot: &Snapshot, fingerprint: &str) -> Option<CauseComparison> {
    let letters = snapshot.letters.iter().map(|letter| ComparedLetter {
        fingerprint: &letter.fingerprint,
        sent_at: letter.sent_at,
        tenant: letter.tenant.as_deref(),
        function: letter.function.as_deref(),
    });
    compare_cause(fingerprint, letters).filter(|compared| compared.others > 0)
}

/// Shows how the cause differs from all others.
fn render_differences(compared: &CauseComparison) -> Markup {
    html! {
        @if !compared.findings.is_empty() { p { "Unlike the others: " bdi { (compared.summary(format_to_minute)) } "." } }
    }
}

/// Shows the counts of the cause next to those of all other causes.
fn render_comparison(compared: &CauseComparison) -> Markup {
    let versions = [("first version", &compared.first_version), ("last version", &compared.last_version)];
    let names = [("tenant", &compared.tenants), ("function", &compared.functions)];
    let hours = compared.hours.into_iter().enumerate().filter(|(_, count)| *count > 0);
    html! {
        details class="note" {
            summary { "Compared with all others" }
            table class="plan" {
                thead { tr { td {} th class="number" { "this cause" } th class="number" { "all others" } } }
                tbody {
                    tr { th scope="row" { "messages" } td class="number" { (group_digits(compared.count)) } td class="number" { (group_digits(compared.others)) } }
                    @for (what, version) in versions { @if let Some(version) = version {
                        tr { th scope="row" { (what) } td colspan="2" { bdi { (version) } } }
                    } }
                    @for (what, shares) in names { @for share in shares {
                        tr { th scope="row" { (what) " " bdi { (share.name) } } td class="number" { (group_digits(share.count)) } td class="number" { (group_digits(share.others)) } }
                    } }
                    tr { th scope="row" { "hours, 0 to 23 UTC" } td colspan="2" { (draw_columns("This cause by hour of the day", 6, compared.hours.len(), hours)) } }
                }
            }
        }
    }
}

/// Formats a timestamp for a sentence.
fn format_to_minute(at: Timestamp) -> String {
    at.format("%Y-%m-%d %H:%M").to_string()
}

/// Renders the forms that mark a cause as known and as resolved.
fn render_mark_forms(at: &DeploymentRequest, life: &CauseStatus, path: &str) -> Markup {
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
                @if note.is_some() { button name="remove" value="1" { "Unmark as known" } }
            }
        }
        details class="note" {
            summary { "Mark as resolved" }
            p class="remark" { "From now on, a new dead letter with this cause means that the cause came back, unless an earlier version of the function failed. " code { "audit --known-causes" } " reports that, too." }
            form class="filters" method="post" action={(path) "/resolved"} {
                label {
                    "Resolved by (optional)"
                    input name="by" maxlength="500" autocomplete="off" placeholder="orders:42, or a commit" value=[by];
                }
                button { "Mark as resolved" }
                @if !is_open { button name="remove" value="1" { "Reopen" } }
            }
        }
    }
}

/// Charts the cause's messages over time.
fn render_trend(letters: &[&LetterEntry]) -> Markup {
    let (Some(last), Some(first)) = (letters.first(), letters.last()) else { return Markup::default() };
    let ColumnCounts { counts, seconds } =
        count_by_column::<TREND_COLUMNS>(letters.iter().copied(), [first.sent_at, last.sent_at]);
    let label = format!("{} in each column", approximate_span(seconds));
    let drawn = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    html! {
        @if letters.len() > 1 {
            figure class="trend" {
                (draw_columns(&format!("Trend, {label}"), 6, TREND_COLUMNS, drawn))
                figcaption { span { (render_timestamp(first.sent_at)) } span { (label) } span { (render_timestamp(last.sent_at)) } }
            }
        }
    }
}

/// Renders the newest and the oldest message.
fn render_examples(
    at: &DeploymentRequest,
    snapshot: &Snapshot,
    letters: &[&LetterEntry],
) -> Result<Markup, CommandFailure> {
    let oldest = letters.last().filter(|_| letters.len() > 1);
    let examples = [("The newest message", letters.first()), ("The oldest message", oldest)];
    let show_options = ShowOptions { reveal: false, traces: at.site.traces.clone() };
    let mut shown = Vec::new();
    for (words, letter) in examples {
        let Some(letter) = letter else { continue };
        let address = at.letter_path(&letter.sqs_message_id);
        shown.push((words, address, render_story(&snapshot.read_record(letter)?, &show_options)));
    }
    Ok(html! {
        @if !shown.is_empty() { h2 { "Examples" } }
        @for (words, address, story) in shown {
            p { a href=(address) { (words) } }
            details { (story) }
        }
    })
}
