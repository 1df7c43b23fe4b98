//! The page of dead letters: groups by cause, and the selected messages.

use maud::{Markup, html};
use redeliver_dead_letters::groups::Group;
use redeliver_operator::Failure;
use redeliver_operator::markup::chart::columns_only;
use redeliver_operator::markup::moment;
use redeliver_operator::sentences::{incompleteness, not_judged_in_words};
use redeliver_operator::terminal::escape::shortened;
use redeliver_operator::terminal::units::{about, counted, grouped};
use serde::Deserialize;

use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::{DeadLetter, Selected, Snapshot};
use crate::extract::AtDeployment;
use crate::url::encoded;

/// Messages a page.
const ON_A_PAGE: usize = 100;
/// Groups that are shown.
const GROUPS_MAX: usize = 200;
/// Columns of a group's trend.
const TREND: usize = 24;
const DETAILS_MAX: usize = 300;

/// The part of a list that is shown.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Paging {
    page: usize,
}

/// Shows the progress of a reading.
pub(crate) fn progress((seen, approximate): (u64, u64)) -> Markup {
    html! {
        p role="status" { "Reading the queue: " (grouped(seen)) " of about " (counted(approximate.max(seen), "message")) "." }
        progress value=(seen) max=(approximate.max(seen).max(1)) aria-label="messages read" {}
    }
}

pub(crate) fn body(at: &AtDeployment, selection: &Selection, paging: Paging) -> Result<Markup, Failure> {
    // Ask for the progress first: a reading publishes its result before it ends.
    let running = at.reading.progress();
    Ok(html! {
        @if let Some(why) = at.reading.last_seen.failed() { p class="warning" role="alert" { (why) } }
        @if let Some(running) = running {
            div data-live=(at.path("letters/live")) { (progress(running)) }
        }
        @if let Some(snapshot) = at.reading.last_seen.seen() { (found(at, &snapshot, selection, paging)?) }
        @else if running.is_none() { (look_again(at, selection, "Look")) }
    })
}

fn look_again(at: &AtDeployment, selection: &Selection, words: &str) -> Markup {
    if at.site.guard.read_only {
        return Markup::default(); // it would be refused
    }
    html! { form method="post" action=(selection.address(&at.path("look"))) class="inline" { button { (words) } } }
}

fn found(
    at: &AtDeployment,
    snapshot: &Snapshot,
    selection: &Selection,
    paging: Paging,
) -> Result<Markup, Failure> {
    let (selected, wrong) = match snapshot.select(selection) {
        Ok(selected) => (selected, None),
        Err(error) => (Selected::default(), Some(error.to_string())),
    };
    let Selected { letters: selected, not_judged } = selected;
    let last_page = last_page(paging, selected.len())?;
    let first = paging.page.saturating_mul(ON_A_PAGE);
    let shown: Vec<_> = selected.iter().skip(first).take(ON_A_PAGE).copied().collect();
    Ok(html! {
        div class="actions" {
            span {
                (counted(snapshot.letters.len() as u64, "dead letter")) " in " strong { (at.dlq()) } ", looked at "
                (moment(snapshot.taken_at)) "."
            }
            (look_again(at, selection, "Look again"))
        }
        @if let Some(sentence) = snapshot.deleted_soon() { p class="warning" { (sentence) } }
        @if !snapshot.coverage.complete { p class="warning" { (incomplete(at, snapshot)) } }
        @if let Some(remark) = &snapshot.remark { p class="warning" { (remark) } }
        (filters(at, selection))
        @if let Some(why) = wrong { p class="warning" role="alert" { (why) } }
        @if let Some(why) = not_judged_in_words(&not_judged) { p class="warning" { (why) "." } }
        @if selection.is_everything() || !selection.group.is_empty() { (groups(at, snapshot, selection)) }
        h2 { (counted(selected.len() as u64, "message")) @if !selection.is_everything() { ", " (shortened(&selection.words(), DETAILS_MAX)) } }
        @if !selected.is_empty() && !at.site.guard.read_only {
            @let all = counted(selected.len() as u64, "message");
            div class="actions" {
                (plan_forms(at, selection, &format!("Plan to send back {all}"), &format!("Plan to delete {all}")))
                (edit_link(at, selection, &format!("Edit {all} and send back")))
            }
        }
        (list(at, snapshot, &shown))
        (pages(at, selection, paging, last_page))
    })
}

fn incomplete(at: &AtDeployment, snapshot: &Snapshot) -> String {
    match snapshot.coverage.unreadable {
        left_out @ 1.. if at.is_file() => {
            format!("{} left out, which `redeliver audit` names.", counted(left_out, "line"))
        }
        _ => incompleteness(&snapshot.coverage) + ".",
    }
}

fn filters(at: &AtDeployment, selection: &Selection) -> Markup {
    let field = |name: &str, label: &str, value: &str, example: &str| {
        html! { label { (label) input name=(name) value=(value) placeholder=(example) autocomplete="off"; } }
    };
    html! {
        form class="filters" method="get" action=(at.path("letters")) role="search" {
            (field("q", "Text", &selection.q, "an id, an error, a part of the body"))
            (field("type", "Error type", &selection.error_type, "RETRY_ATTEMPT_EXCEEDED"))
            (field("tenant", "Tenant", &selection.tenant, ""))
            (field("since", "Since", &selection.since, "2h, or 2026-01-31T08:30Z"))
            (field("until", "Until", &selection.until, ""))
            (field("where", "jq filter", &selection.filter, ".attempts > 3"))
            @if !selection.group.is_empty() { input type="hidden" name="group" value=(selection.group); }
            button { "Filter" }
            @if !selection.is_everything() { a href=(at.path("letters")) { "All" } }
        }
    }
}

fn groups(at: &AtDeployment, snapshot: &Snapshot, selection: &Selection) -> Markup {
    html! {
        h2 { (counted(snapshot.groups.len() as u64, "cause")) }
        div class="scroll" tabindex="0" role="region" aria-label="Causes" { table class="list" {
            thead { tr { th { "Error" } th class="number" { "Count" } th { "Trend" } th { "First" } th { "Last" } } }
            tbody { @for group in snapshot.groups.iter().take(GROUPS_MAX) {
                tr aria-current=[(group.fingerprint == selection.group).then_some("true")] {
                    td {
                        a href=(Selection::of_group(&group.fingerprint).address(&at.path("letters"))) { (group.error_type) }
                        @if snapshot.new_causes.contains(&group.fingerprint) { " " strong class="new" { "new" } }
                        div class="details" { (shortened(&group.error_details, DETAILS_MAX)) }
                    }
                    td class="number" data-name="Count" { (grouped(group.count)) }
                    td { (trend(snapshot, group)) }
                    td class="times" data-name="First" { (moment(group.first)) }
                    td class="times" data-name="Last" { (moment(group.last)) }
                }
            } }
        } }
        @if snapshot.groups.len() > GROUPS_MAX { p class="remark" { "The largest " (GROUPS_MAX) " are shown." } }
    }
}

/// Charts when the messages of a group came.
fn trend(snapshot: &Snapshot, group: &Group) -> Markup {
    // The newest message is the first.
    let (Some(newest), Some(oldest)) = (snapshot.letters.first(), snapshot.letters.last()) else {
        return Markup::default();
    };
    let [first, last] = [oldest.sent_at, newest.sent_at].map(|at| at.timestamp());
    let width = (last - first) / i64::try_from(TREND).unwrap_or(1) + 1;
    let mut counts = [0_u64; TREND];
    for letter in snapshot.letters.iter().filter(|letter| letter.fingerprint == group.fingerprint) {
        let column = usize::try_from((letter.sent_at.timestamp() - first) / width).unwrap_or(0);
        counts[column.min(TREND - 1)] += 1;
    }
    let [from, to] = [oldest, newest].map(|letter| letter.sent_at.format("%Y-%m-%d %H:%M").to_string());
    let columns = counts.into_iter().enumerate().filter(|(_, count)| *count > 0);
    columns_only(&format!("from {from} to {to}"), 4, TREND, columns)
}

/// The buttons for everything that is selected.
pub(crate) fn plan_forms(at: &AtDeployment, selection: &Selection, send_back: &str, delete: &str) -> Markup {
    html! {
        @for (action, words) in [("send_back", send_back), ("delete", delete)] {
            form method="post" action=(at.path("plans")) class="inline" {
                input type="hidden" name="work" value=(action);
                @for (name, value) in selection.given() { input type="hidden" name=(name) value=(value); }
                button { (words) }
            }
        }
    }
}

/// Leads to the page that edits everything that is selected.
pub(crate) fn edit_link(at: &AtDeployment, selection: &Selection, words: &str) -> Markup {
    html! { a href=(selection.address(&at.path("edit"))) { (words) } }
}

fn list(at: &AtDeployment, snapshot: &Snapshot, shown: &[&DeadLetter]) -> Markup {
    html! {
        @if !shown.is_empty() {
            div class="scroll" tabindex="0" role="region" aria-label="Messages" { table class="list" {
                thead { tr { th { "Message" } th { "Error" } th class="number" { "Retries" } th { "Sent here" } th { "Deleted by SQS" } } }
                tbody { @for letter in shown {
                    tr {
                        td { a href=(at.path(&format!("letters/{}", encoded(&letter.sqs_message_id)))) { code { (letter.message_id) } } }
                        td { (letter.error_type) div class="details" { (shortened(&letter.error_details, DETAILS_MAX)) } }
                        td class="number" data-name="Retries" { @match letter.attempts { Some(attempts) => (attempts), None => "?" } }
                        td class="times" data-name="Sent here" { (moment(letter.sent_at)) }
                        td class="times" data-name="Deleted by SQS" { (expiry(snapshot, letter)) }
                    }
                } }
            } }
        }
    }
}

fn expiry(snapshot: &Snapshot, letter: &DeadLetter) -> Markup {
    html! {
        @match snapshot.expires_at(letter) {
            None => "?",
            Some(at) if at <= snapshot.taken_at => "any moment",
            Some(at) => { "in " (about((at - snapshot.taken_at).num_seconds())) },
        }
    }
}

/// Returns the number of the last page, or an error if the page asked for does not exist.
fn last_page(Paging { page }: Paging, selected: usize) -> Result<usize, Failure> {
    let last = selected.div_ceil(ON_A_PAGE).saturating_sub(1);
    if page > last {
        let (part, parts) = (page.saturating_add(1), counted(last as u64 + 1, "part"));
        return Err(format!("There is no part {part} of this list: it has {parts}.").into());
    }
    Ok(last)
}

fn pages(at: &AtDeployment, selection: &Selection, paging: Paging, last: usize) -> Markup {
    let address = selection.address(&at.path("letters"));
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
    fn a_part_that_is_not_there_is_told() {
        let asked = |page, selected| last_page(Paging { page }, selected).map_err(|error| error.to_string());
        assert_eq!([asked(0, 0), asked(0, 100), asked(1, 101)], [Ok(0), Ok(0), Ok(1)]);
        let absent =
            |part: usize, parts: &str| Err(format!("There is no part {part} of this list: it has {parts}."));
        assert_eq!(asked(1, 100), absent(2, "1 part"));
        assert_eq!(asked(usize::MAX, 250), absent(usize::MAX, "3 parts"));
    }

    #[test]
    fn a_selection_is_the_same_after_its_address_was_shared() {
        let selection = Selection {
            group: "21d708b3fca00092".to_owned(),
            error_type: "A&B".to_owned(),
            q: "50 % + ärger?".to_owned(),
            tenant: "#1".to_owned(),
            since: "2h".to_owned(),
            until: "2026-01-31T08:30Z".to_owned(),
            filter: ".a == \"=&\" and .b > 1".to_owned(),
            id: "x/y".to_owned(),
        };
        let address = selection.address("/3/letters");
        assert!(
            address.starts_with("/3/letters?group=21d708b3fca00092&type=A%26B&q=50%20%25%20%2B%20"),
            "{address}"
        );
        let Query(read) = Query::<Selection>::try_from_uri(&address.parse().unwrap()).unwrap();
        assert_eq!(read, selection);
        assert_eq!(Selection::default().address("/0/letters"), "/0/letters");
    }
}
