//! Counts of what is selected, each a link that narrows the selection.

use maud::{Markup, html};
use redeliver_dead_letters::groups::written;
use redeliver_operator::terminal::units::{counted, grouped};

use crate::dead_letters::facets::{TimeCounts, by_time, by_value};
use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::DeadLetter;

/// Values of a facet that are shown.
const VALUES_MAX: usize = 12;

/// A value with its count, and the selection that it leads to.
struct Value {
    name: String,
    count: u64,
    selection: Selection,
}

/// Counts by tenant, error type, function and time. A facet that the selection already narrows is left out.
pub(crate) fn facets(page: &str, selection: &Selection, letters: &[&DeadLetter]) -> Markup {
    let facet = |of: fn(&DeadLetter) -> Option<&str>, narrow: fn(&mut Selection, String)| {
        let values = by_value(letters, of).into_iter().map(|(name, count)| {
            let mut selection = selection.clone();
            narrow(&mut selection, name.to_owned());
            Value { name: name.to_owned(), count, selection }
        });
        values.collect::<Vec<_>>()
    };
    let tenants = facet(|letter| letter.tenant.as_deref(), |selection, tenant| selection.tenant = tenant);
    let types = facet(|letter| Some(&letter.error_type), |selection, code| selection.error_type = code);
    let functions =
        facet(|letter| letter.function.as_deref(), |selection, function| selection.function = function);
    html! {
        div class="facets" {
            @if selection.tenant.is_empty() { (shown(page, "By tenant", &tenants)) }
            @if selection.error_type.is_empty() && types.len() > 1 { (shown(page, "By error", &types)) }
            @if selection.function.is_empty() { (shown(page, "By function", &functions)) }
            (times(page, selection, letters))
        }
    }
}

fn times(page: &str, selection: &Selection, letters: &[&DeadLetter]) -> Markup {
    let TimeCounts { counts, span } = by_time(letters);
    let is_hours = span.num_days() == 0;
    let values = counts.into_iter().map(|(start, count)| {
        let name = start.format(if is_hours { "%-d %b %H:00" } else { "%-d %b" }).to_string();
        let (since, until) = (written(start), written(start + span));
        Value { name, count, selection: Selection { since, until, ..selection.clone() } }
    });
    let values: Vec<_> = values.collect();
    // One hour is as far as it goes.
    if is_hours && values.len() < 2 {
        return Markup::default();
    }
    shown(page, if is_hours { "By hour" } else { "By day" }, &values)
}

fn shown(page: &str, title: &str, values: &[Value]) -> Markup {
    let more = values.len().saturating_sub(VALUES_MAX) as u64;
    html! {
        @if !values.is_empty() {
            section {
                h2 { (title) }
                ul {
                    @for Value { name, count, selection } in values.iter().take(VALUES_MAX) {
                        li { a href=(selection.address(page)) { bdi { (name) } } " " span class="number" { (grouped(*count)) } }
                    }
                    @if more > 0 { li class="remark" { "and " (counted(more, "more value")) } }
                }
            }
        }
    }
}
