//! The dead-letter page: the causes of the selected messages, their counts, and the messages.

use std::collections::HashMap;

use maud::{Markup, html};
use redeliver_dead_letters::CauseState;
use redeliver_dead_letters::groups::{DeadLetterGroup, format_timestamp};
use redeliver_operator::CommandFailure;
use redeliver_operator::markup::chart::draw_columns;
use redeliver_operator::markup::render_timestamp;
use redeliver_operator::sentences::{describe_incompleteness, describe_unjudged_messages};
use redeliver_operator::terminal::units::{approximate_span, format_count, group_digits};
use serde::Deserialize;

use crate::dead_letters::facets::{CauseCount, count_by_cause, count_by_column};
use crate::dead_letters::reading::ReadingProgress;
use crate::dead_letters::selection::{SINCE_LAST_REFRESH, Selection};
use crate::dead_letters::snapshot::{CauseStatus, LetterEntry, SelectedLetters, Snapshot};
use crate::extract::DeploymentRequest;
use crate::layout::CAUSES;
use crate::pages::facets::render_facets;
use crate::pages::selected::{
    render_actions, render_active_filters, render_change_warning, render_filter_form,
};

/// Messages per page.
const PER_PAGE: usize = 20;
/// Maximum number of causes shown.
const CAUSES_MAX: usize = 200;
/// Maximum number of causes shown during a reading.
const SO_FAR_MAX: usize = 20;
/// The number of columns in a cause's trend.
const TREND: usize = 24;

/// The part of a list to show.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Paging {
    page: usize,
}

/// Shows the progress of a reading.
pub(crate) fn render_progress(ReadingProgress { seen, approximate }: ReadingProgress) -> Markup {
    html! {
        p role="status" { "Reading the queue: " (group_digits(seen)) " of about " (format_count(approximate.max(seen), "message")) "." }
        progress value=(seen) max=(approximate.max(seen).max(1)) aria-label="messages read" {}
    }
}

pub(crate) fn render_dead_letters(
    at: &DeploymentRequest,
    selection: &Selection,
    paging: Paging,
) -> Result<Markup, CommandFailure> {
    // Query the progress first: a reading publishes its result before it ends.
    let running = at.reading.current_progress();
    let seen = at.reading.last_seen.last_result();
    Ok(html! {
        @if let Some(why) = at.reading.last_seen.last_error() { p class="warning" role="alert" { (why) } }
        @if let Some(running) = running {
            div data-live=(at.page_path("letters/live")) { (render_running_reading(running, seen.is_none(), &at.reading.causes_so_far())) }
        }
        @if let Some(snapshot) = seen { (render_snapshot(at, &snapshot, selection, paging)?) }
        @else if running.is_none() { (render_refresh_button(at, selection, "Read")) }
    })
}

/// Shows the progress of a reading, and during the first one the causes found so far.
pub(crate) fn render_running_reading(
    progress: ReadingProgress,
    is_first: bool,
    so_far: &[DeadLetterGroup],
) -> Markup {
    html! {
        (self::render_progress(progress))
        @if is_first && !so_far.is_empty() {
            h2 { "Causes so far" }
            table class="list" {
                thead { tr { th { "Cause" } th class="number" { "Count" } th { "Last" } } }
                tbody { @for group in so_far.iter().take(SO_FAR_MAX) {
                    tr {
                        td { bdi { (group.headline) } }
                        td class="number" data-name="Count" { (group_digits(group.count)) }
                        td class="times" data-name="Last" { (render_timestamp(group.last)) }
                    }
                } }
            }
        }
    }
}

/// Shows how many more messages the queue has than at the last reading. `count` is the SQS count.
pub(crate) fn render_arrival_count(snapshot: &Snapshot, count: Option<u64>) -> Markup {
    let arrived = count.unwrap_or(0).saturating_sub(snapshot.message_count());
    html! { @if arrived > 0 { strong role="status" { (group_digits(arrived)) " more since this refresh" } } }
}

fn render_refresh_button(at: &DeploymentRequest, selection: &Selection, words: &str) -> Markup {
    if at.site.guard.read_only {
        return Markup::default(); // the request would be refused
    }
    html! { form method="post" action=(selection.page_url(&at.page_path("refresh"))) class="inline" { button { (words) } } }
}

fn render_snapshot(
    at: &DeploymentRequest,
    snapshot: &Snapshot,
    selection: &Selection,
    paging: Paging,
) -> Result<Markup, CommandFailure> {
    let page = at.page_path("letters");
    let (selected, wrong) = match snapshot.select_letters(selection) {
        Ok(selected) => (selected, None),
        Err(error) => (SelectedLetters::default(), Some(error.to_string())),
    };
    let SelectedLetters { letters: selected, not_judged } = selected;
    let last_page = last_page(paging, selected.len())?;
    let first = paging.page.saturating_mul(PER_PAGE);
    let shown: Vec<_> = selected.iter().skip(first).take(PER_PAGE).copied().collect();
    let causes = selected_causes(snapshot, &selected);
    Ok(html! {
        @if let Some(why) = wrong { p class="warning" role="alert" { "This filter selects nothing: " (why) } }
        @else { p { (render_headline(at, snapshot, selected.len() as u64, &causes, selection)) } }
        (render_change_warning(at, snapshot))
        div class="actions refresh" {
            (render_refresh_button(at, selection, "Refresh"))
            span class="remark" {
                "Read " (render_timestamp(snapshot.taken_at)) ". "
                @if !at.is_file() { (snapshot.describe_refresh_cost().unwrap_or_default()) }
            }
            @if !at.is_file() {
                div data-live=(at.page_path("letters/arrived")) { (render_arrival_count(snapshot, at.status.message_count(&at.from))) }
            }
        }
        @if let Some(sentence) = snapshot.describe_expiring_messages() {
            p class="warning" { (sentence)
                @if let Some(until) = snapshot.expiry_cutoff() {
                    " " a href=(Selection { until: format_timestamp(until), ..Selection::default() }.page_url(&page)) { "Show them" }
                }
            }
        }
        @if !snapshot.coverage.complete { p class="warning" { (describe_incomplete_reading(at, snapshot)) } }
        @if let Some(remark) = &snapshot.remark { p class="warning" { (remark) } }
        (render_active_filters(&page, selection))
        @if let Some(why) = describe_unjudged_messages(&not_judged) { p class="warning" { (why) "." } }
        (render_filter_form(at, selection))
        @if selection.group.is_empty() { (render_cause_table(at, snapshot, selection, &causes)) }
        (render_facets(&page, selection, &selected))
        @if !selected.is_empty() {
            h2 { (format_count(selected.len() as u64, "message")) }
            (render_actions(at, selection, selected.len()))
        }
        (render_letters(at, snapshot, &shown))
        (render_paging(at, selection, paging, last_page))
    })
}

/// Renders the first line: the number of messages and causes, and the next step.
fn render_headline(
    at: &DeploymentRequest,
    snapshot: &Snapshot,
    selected: u64,
    causes: &[SelectedCause<'_>],
    selection: &Selection,
) -> Markup {
    let all = snapshot.letters.len() as u64;
    if all == 0 {
        return html! { "No dead letters in " strong { (at.dlq_name()) } "." };
    }
    let new = causes.iter().filter(|cause| cause.life.is_new).count() as u64;
    let returned = causes.iter().filter(|cause| cause.life.has_returned()).count() as u64;
    let selects_all = selection.selects_all();
    html! {
        @if selects_all { strong { (format_count(all, "dead letter")) } }
        @else { strong { (group_digits(selected)) } " of " (format_count(all, "dead letter")) " in " strong { (at.dlq_name()) } }
        @if !causes.is_empty() { " of " (format_count(causes.len() as u64, "cause")) }
        @if selects_all { " in " strong { (at.dlq_name()) } }
        @if new > 0 {
            ", " a href=(Selection { new: SINCE_LAST_REFRESH.to_owned(), ..selection.clone() }.page_url(&at.page_path("letters"))) { strong { (group_digits(new)) " new" } }
            @if let Some(last_refresh) = snapshot.causes.last_refresh { " since " (render_timestamp(last_refresh)) }
        }
        @if returned > 0 { ", " strong { (group_digits(returned)) " came back" } }
        ". "
        @if causes.len() > 1 { "Start with the first cause." }
        @else if let [only] = causes { a href=(at.cause_path(&only.group.fingerprint)) { "Open its cause" } "." }
        @else { "Remove a filter to see more." }
    }
}

fn describe_incomplete_reading(at: &DeploymentRequest, snapshot: &Snapshot) -> String {
    match snapshot.coverage.unreadable {
        left_out @ 1.. if at.is_file() => {
            format!("{} left out; for details run `redeliver audit`.", format_count(left_out, "line"))
        }
        _ => describe_incompleteness(&snapshot.coverage) + ".",
    }
}

/// A cause, and its selected messages.
struct SelectedCause<'s> {
    group: &'s DeadLetterGroup,
    selected: CauseCount,
    life: CauseStatus,
}

/// Returns the causes of the selected messages: returned and new causes first, known and resolved causes last, and the
/// largest first within a rank.
fn selected_causes<'s>(snapshot: &'s Snapshot, selected: &[&LetterEntry]) -> Vec<SelectedCause<'s>> {
    let counts = count_by_cause(selected);
    let causes = snapshot.groups.iter().filter_map(|group| {
        let selected = *counts.get(group.fingerprint.as_str())?;
        Some(SelectedCause { group, selected, life: snapshot.cause_status(group) })
    });
    let mut causes: Vec<_> = causes.collect();
    causes.sort_by_key(|cause| (cause.life.list_rank(), std::cmp::Reverse(cause.selected.count)));
    causes
}

fn render_cause_table(
    at: &DeploymentRequest,
    snapshot: &Snapshot,
    selection: &Selection,
    causes: &[SelectedCause<'_>],
) -> Markup {
    let trends = render_trends(snapshot);
    html! {
        @if !causes.is_empty() {
            table id=(CAUSES) tabindex="-1" class="list causes" {
                thead { tr { th { "Cause" } th class="number" { "Count" } th { "Trend" } th { "First" } th { "Last" } } }
                tbody { @for SelectedCause { group, selected, life } in causes.iter().take(CAUSES_MAX) {
                    tr {
                        td {
                            a href=(selection.page_url(&at.cause_path(&group.fingerprint))) { bdi { (group.headline) } }
                            @if life.is_new { " " strong class="new" { "new" } }
                            @if life.has_returned() { " " strong class="new" { "came back" } }
                            div class="details" { code { (group.error_type) } (render_marks(life)) }
                        }
                        td class="number" data-name="Count" { (group_digits(selected.count)) }
                        td { (trends.get(group.fingerprint.as_str()).cloned().unwrap_or_default()) }
                        td class="times" data-name="First" { (render_timestamp(selected.first)) }
                        td class="times" data-name="Last" { (render_timestamp(selected.last)) }
                    }
                } }
            }
            @if causes.len() > CAUSES_MAX { p class="remark" { "The first " (CAUSES_MAX) " are shown." } }
        }
    }
}

/// Renders the marks on a cause.
fn render_marks(CauseStatus { note, state, .. }: &CauseStatus) -> Markup {
    html! {
        @if let CauseState::Resolved(resolved) = state {
            " resolved " (render_timestamp(resolved.at)) @if let Some(by) = &resolved.by { " by " bdi { (by) } }
        }
        @if let Some(note) = note { " known" @if !note.text.is_empty() { ": " bdi { (note.text) } } }
    }
}

/// Charts the send times of each cause's messages.
fn render_trends(snapshot: &Snapshot) -> HashMap<&str, Markup> {
    // The list is sorted newest first.
    let (Some(newest), Some(oldest)) = (snapshot.letters.first(), snapshot.letters.last()) else {
        return HashMap::new();
    };
    let mut by_cause: HashMap<&str, Vec<&LetterEntry>> = HashMap::new();
    for letter in &snapshot.letters {
        by_cause.entry(&letter.fingerprint).or_default().push(letter);
    }
    let [from, to] = [oldest, newest].map(|letter| letter.sent_at.format("%Y-%m-%d %H:%M").to_string());
    let label = format!("from {from} to {to}");
    let drawn = by_cause.into_iter().map(|(cause, letters)| {
        let columns = count_by_column::<TREND>(letters.into_iter(), [oldest.sent_at, newest.sent_at]);
        let drawn = columns.counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
        (cause, draw_columns(&label, 4, TREND, drawn))
    });
    drawn.collect()
}

fn render_letters(at: &DeploymentRequest, snapshot: &Snapshot, shown: &[&LetterEntry]) -> Markup {
    html! {
        @if !shown.is_empty() {
            table class="list" {
                thead { tr { th { "Message" } th { "Error" } th class="number" { "Retries" } th { "Sent here" } th { "Deleted by SQS" } } }
                tbody { @for letter in shown {
                    tr {
                        td { a href=(at.letter_path(&letter.sqs_message_id)) { code { (letter.message_id) } } }
                        td { bdi { (letter.headline) } @if let Some(tenant) = &letter.tenant { div class="details" { "tenant " bdi { (tenant) } } } }
                        td class="number" data-name="Retries" { @match letter.attempts { Some(attempts) => (attempts), None => "?" } }
                        td class="times" data-name="Sent here" { (render_timestamp(letter.sent_at)) }
                        td class="times" data-name="Deleted by SQS" { (render_expiry(snapshot, letter)) }
                    }
                } }
            }
        }
    }
}

fn render_expiry(snapshot: &Snapshot, letter: &LetterEntry) -> Markup {
    html! {
        @match snapshot.expires_at(letter) {
            None => "?",
            Some(at) if at <= snapshot.taken_at => "any moment",
            Some(at) => { "in " (approximate_span((at - snapshot.taken_at).num_seconds())) },
        }
    }
}

/// Returns the number of the last page, or an error if the requested page does not exist.
fn last_page(Paging { page }: Paging, selected: usize) -> Result<usize, CommandFailure> {
    let last = selected.div_ceil(PER_PAGE).saturating_sub(1);
    if page > last {
        let (part, parts) = (page.saturating_add(1), format_count(last as u64 + 1, "part"));
        return Err(format!("There is no part {part} of this list: it has {parts}.").into());
    }
    Ok(last)
}

fn render_paging(at: &DeploymentRequest, selection: &Selection, paging: Paging, last: usize) -> Markup {
    let address = selection.page_url(&at.page_path("letters"));
    let mark = if address.contains('?') { '&' } else { '?' };
    html! {
        @if last > 0 {
            nav aria-label="Parts of the list" class="pages" {
                @if paging.page > 0 { a href={(address) (mark) "page=" (paging.page - 1)} { "Newer" } }
                span { "part " (paging.page + 1) " of " (last + 1) }
                @if paging.page < last { a href={(address) (mark) "page=" (paging.page + 1)} { "Older" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Query;

    use super::*;

    #[test]
    fn a_page_beyond_the_last_one_is_an_error() {
        let last = |page, selected| last_page(Paging { page }, selected).map_err(|error| error.to_string());
        assert_eq!([last(0, 0), last(0, 20), last(1, 21)], [Ok(0), Ok(0), Ok(1)]);
        let absent =
            |part: usize, parts: &str| Err(format!("There is no part {part} of this list: it has {parts}."));
        assert_eq!(last(1, 20), absent(2, "1 part"));
        assert_eq!(last(usize::MAX, 50), absent(usize::MAX, "3 parts"));
    }

    #[test]
    fn a_selection_survives_a_round_trip_through_its_address() {
        let selection = Selection {
            group: "21d708b3fca00092".to_owned(),
            error_type: "A&B".to_owned(),
            q: "50 % + ärger?".to_owned(),
            tenant: "#1".to_owned(),
            function: "orders:live".to_owned(),
            new: "8h".to_owned(),
            since: "2h".to_owned(),
            until: "2026-01-31T08:30Z".to_owned(),
            filter: ".a == \"=&\" and .b > 1".to_owned(),
            id: "x/y".to_owned(),
        };
        let address = selection.page_url("/3/letters");
        assert!(
            address.starts_with("/3/letters?group=21d708b3fca00092&type=A%26B&q=50%20%25%20%2B%20"),
            "{address}"
        );
        let Query(read) = Query::<Selection>::try_from_uri(&address.parse().unwrap()).unwrap();
        assert_eq!(read, selection);
        assert_eq!(Selection::default().page_url("/0/letters"), "/0/letters");
    }
}
