//! Counts of the selected messages. Each count is a link that narrows the selection.

use maud::{Markup, html};
use redeliver_dead_letters::groups::format_timestamp;
use redeliver_operator::terminal::units::{format_count, group_digits};

use crate::dead_letters::facets::{TimeCounts, count_by_time, count_by_value};
use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::LetterEntry;

/// Maximum number of values shown per facet.
const VALUES_MAX: usize = 12;

/// A value with its count, and the selection that its link opens.
struct FacetValue {
    name: String,
    count: u64,
    selection: Selection,
}

/// Renders counts by tenant, error type, function and time. Facets that the selection already narrows are omitted.
pub(crate) fn render_facets(page: &str, selection: &Selection, letters: &[&LetterEntry]) -> Markup {
    let facet = |value: fn(&LetterEntry) -> Option<&str>, narrow: fn(&mut Selection, String)| {
        let values = count_by_value(letters, value).into_iter().map(|(name, count)| {
            let mut selection = selection.clone();
            narrow(&mut selection, name.to_owned());
            FacetValue { name: name.to_owned(), count, selection }
        });
        values.collect::<Vec<_>>()
    };
    let tenants = facet(|letter| letter.tenant.as_deref(), |selection, tenant| selection.tenant = tenant);
    let types = facet(|letter| Some(&letter.error_type), |selection, code| selection.error_type = code);
    let functions =
        facet(|letter| letter.function.as_deref(), |selection, function| selection.function = function);
    html! {
        div class="facets" {
            @if selection.tenant.is_empty() { (render_facet(page, "By tenant", &tenants)) }
            @if selection.error_type.is_empty() && types.len() > 1 { (render_facet(page, "By error", &types)) }
            @if selection.function.is_empty() { (render_facet(page, "By function", &functions)) }
            (render_time_facet(page, selection, letters))
        }
    }
}

fn render_time_facet(page: &str, selection: &Selection, letters: &[&LetterEntry]) -> Markup {
    let TimeCounts { counts, span } = count_by_time(letters);
    let is_hours = span.num_days() == 0;
    let values = counts.into_iter().map(|(start, count)| {
        let name = start.format(if is_hours { "%-d %b %H:00" } else { "%-d %b" }).to_string();
        let (since, until) = (format_timestamp(start), format_timestamp(start + span));
        FacetValue { name, count, selection: Selection { since, until, ..selection.clone() } }
    });
    let values: Vec<_> = values.collect();
    // A single hour cannot be narrowed further.
    if is_hours && values.len() < 2 {
        return Markup::default();
    }
    render_facet(page, if is_hours { "By hour" } else { "By day" }, &values)
}

fn render_facet(page: &str, title: &str, values: &[FacetValue]) -> Markup {
    let more = values.len().saturating_sub(VALUES_MAX) as u64;
    html! {
        @if !values.is_empty() {
            section {
                h2 { (title) }
                ul {
                    @for FacetValue { name, count, selection } in values.iter().take(VALUES_MAX) {
                        li { a href=(selection.page_url(page)) { bdi { (name) } } " " span class="number" { (group_digits(*count)) } }
                    }
                    @if more > 0 { li class="remark" { "and " (format_count(more, "more value")) } }
                }
            }
        }
    }
}
