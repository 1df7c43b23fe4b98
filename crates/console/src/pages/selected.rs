//! The filters of a selection, the actions on all of its messages, and a warning if the selection is out of date.

use maud::{Markup, html};
use redeliver_operator::terminal::units::format_count;

use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::Snapshot;
use crate::extract::DeploymentRequest;

/// Renders a warning if a plan has changed the queue since the last reading.
pub(crate) fn render_change_warning(at: &DeploymentRequest, snapshot: &Snapshot) -> Markup {
    html! {
        @if at.runner.has_run_since(snapshot.taken_at) {
            p class="warning" {
                "A plan has run since this refresh, so some of these messages may be gone. Refresh before you create a \
                 plan."
            }
        }
    }
}

/// Renders the active filters, each with a link that removes it.
pub(crate) fn render_active_filters(page: &str, selection: &Selection) -> Markup {
    html! {
        @if !selection.selects_all() {
            ul class="active" aria-label="Filters" {
                @for (name, words) in selection.describe_members() {
                    li { bdi { (words) } " " a href=(selection.without_member(name).page_url(page)) aria-label={"Remove filter: " (words)} { "×" } }
                }
            }
        }
    }
}

/// Renders the form that filters dead letters.
pub(crate) fn render_filter_form(at: &DeploymentRequest, selection: &Selection) -> Markup {
    let field = |name: &str, label: &str, value: &str, example: &str| {
        html! { label { (label) input name=(name) value=(value) placeholder=(example) autocomplete="off"; } }
    };
    let Selection { tenant, error_type, since, until, filter, .. } = selection;
    let has_more = [tenant, error_type, since, until, filter].iter().any(|value| !value.is_empty());
    let hidden = [("group", &selection.group), ("function", &selection.function)];
    html! {
        form class="filters" method="get" action=(at.page_path("letters")) role="search" {
            (field("q", "Text", &selection.q, "an error, a part of the body, an id"))
            (field("new", "New causes since", &selection.new, "last-refresh, 8h, or 2026-01-31T22:30Z"))
            details open[has_more] {
                summary { "More filters" }
                div class="filters" {
                    (field("tenant", "Tenant", &selection.tenant, ""))
                    (field("type", "Error type", &selection.error_type, "RETRY_ATTEMPT_EXCEEDED"))
                    (field("since", "Since", &selection.since, "2h, or 2026-01-31T08:30Z"))
                    (field("until", "Until", &selection.until, ""))
                    (field("where", "jq filter", &selection.filter, ".attempts > 3"))
                }
            }
            @for (name, value) in hidden { @if !value.is_empty() { input type="hidden" name=(name) value=(value); } }
            button { "Filter" }
            @if !selection.selects_all() { a href=(at.page_path("letters")) { "All" } }
        }
    }
}

/// Renders the buttons for `count` selected messages, or a hint for a file or an archive.
pub(crate) fn render_actions(at: &DeploymentRequest, selection: &Selection, count: usize) -> Markup {
    let all = format_count(count as u64, "message");
    html! {
        @if let Some(why) = at.read_only_hint() { p class="remark" { (why) } }
        @if count > 0 && !at.site.guard.read_only && !at.is_file() {
            div class="actions" {
                (render_plan_forms(at, selection, &format!("Plan to send back {all}"), &format!("Plan to delete {all}")))
                a href=(selection.page_url(&at.page_path("edit"))) { "Edit " (all) " and send back" }
            }
        }
    }
}

/// Renders two forms with these labels: one plans to send the selection back, the other to delete it.
pub(crate) fn render_plan_forms(
    at: &DeploymentRequest,
    selection: &Selection,
    send_back: &str,
    delete: &str,
) -> Markup {
    html! {
        @for (action, words) in [("send_back", send_back), ("delete", delete)] {
            form method="post" action=(at.page_path("plans")) class="inline" {
                input type="hidden" name="work" value=(action);
                @for (name, value) in selection.active_members() { input type="hidden" name=(name) value=(value); }
                button { (words) }
            }
        }
    }
}
