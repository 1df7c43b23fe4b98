//! Plans: all of them, and one: shown before anything is done, under way, and what came of it.

use maud::{Markup, html};
use redeliver_core::message::metadata::parse_rfc3339;

use super::at::At;
use super::making::{Decided, decide};
use super::plans::{Begun, Outcome, Pace, Plan, Work};
use super::start_form::form;
use super::work::{Live, NOT_KNOWN, Standing};
use redeliver_operator::Failure;
use redeliver_operator::markup::moment;
use redeliver_operator::terminal::units::{counted, grouped};

/// All plans that were begun.
pub(super) fn list(at: &At) -> Markup {
    let (begun, damaged) = at.works.begun(&at.from);
    let running = at.works.running();
    html! {
        @for why in damaged { p class="warning" { (why) } }
        @if begun.is_empty() {
            p { "No plan was begun here yet. Select messages under " a href=(at.path("letters")) { "Dead letters" } "." }
        } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Plans" { table {
                thead { tr { th { "Plan" } th { "What" } th class="number" { "Messages" } th { "Made" } th { "State" } } }
                tbody { @for Begun { plan, outcome, .. } in &begun {
                    tr {
                        td { a href=(path(at, &plan.id)) { code { (plan.id) } } }
                        td { (heading(&plan.work)) ": " (plan.selected) }
                        td class="number" { (grouped(plan.messages.len() as u64)) }
                        td class="times" { (shown_moment(&plan.made_at)) }
                        td {
                            @if running.as_ref() == Some(&plan.id) { "running" }
                            @else if let Some(outcome) = outcome { (outcome.ending) }
                            @else { strong { "interrupted" } @if !at.site.guard.read_only { ": open it to go on" } }
                        }
                    }
                } }
            } }
        }
    }
}

fn path(at: &At, id: &str) -> String {
    at.path(&format!("plans/{id}"))
}

/// A moment of a file; as it is written if somebody has changed it.
fn shown_moment(text: &str) -> Markup {
    parse_rfc3339(text).map_or_else(|| html! { (text) }, moment)
}

const fn heading(work: &Work) -> &'static str {
    match work {
        Work::SendBack { edit: Some(_), .. } => "Send back edited",
        Work::SendBack { .. } => "Send back",
        Work::Delete => "Delete",
    }
}

/// A plan's title and page.
pub(super) fn body(at: &At, id: &str) -> Result<(String, Markup), Failure> {
    let standing = at.works.find(&at.from, id).ok_or(NOT_KNOWN)?;
    let (plan, what) = match &standing {
        Standing::Shown(plan) => (plan, shown(at, plan)?),
        Standing::Running(begun, live) => (&begun.plan, under_way(at, begun, live)),
        Standing::Ended(begun) => (&begun.plan, ended(at, begun)),
    };
    Ok((heading(&plan.work).to_owned(), html! { (facts(plan)) (what) }))
}

fn facts(plan: &Plan) -> Markup {
    html! {
        p {
            (counted(plan.messages.len() as u64, "message")) " of " code { (plan.from) }
            // Whole: another account's queue may have the same name.
            @if let Work::SendBack { to, .. } = &plan.work { " to " code { (to) } }
            ", selected by " (plan.selected) ". The set is fixed: what came since is not in it."
        }
        @if let Work::SendBack { edit: Some(body), new_id, .. } = &plan.work {
            details class="body" {
                summary { "The body that it gets" @if *new_id { span { "with a new message_id" } } }
                pre tabindex="0" role="region" aria-label="The body that it gets" { (body) }
            }
        }
    }
}

/// What would become of it, and the form that starts it.
fn shown(at: &At, plan: &Plan) -> Result<Markup, Failure> {
    let Decided { going, by_type, staying } = decide(at, &*at.letters()?, &plan.work, &plan.messages)?;
    let verb = if plan.work == Work::Delete { "would be deleted" } else { "would be sent back" };
    Ok(html! {
        table class="plan" {
            tbody {
                tr { th scope="row" { (verb) } td class="number" { (grouped(going.len() as u64)) } td {} }
                @for (error_type, count) in &by_type {
                    tr { th scope="row" class="part" { (error_type) } td class="number" { (grouped(*count)) } td {} }
                }
                @for (reason, (count, examples)) in &staying {
                    tr { th scope="row" { "stays: " (reason) } td class="number" { (grouped(*count)) } td { "e.g. " (examples.join(", ")) } }
                }
            }
        }
        @if at.site.guard.read_only { p { "The console was started with --read-only: nothing can be done with it." } }
        @else if !going.is_empty() { (form(&plan.work, &path(at, &plan.id), Pace::default(), going.len(), false)) }
    })
}

fn under_way(at: &At, begun: &Begun, live: &Live) -> Markup {
    let path = path(at, &begun.plan.id);
    html! {
        div data-live={(path) "/live"} { (running(begun, live)) }
        form method="post" action={(path) "/pause"} { button { "Pause" } }
        p class="remark" { "Pausing brings to an end what is under way. The plan can go on later, also after this console was ended." }
    }
}

/// How far a plan is.
pub(super) fn running(begun: &Begun, live: &Live) -> Markup {
    let total = begun.plan.messages.len() as u64;
    let verb = if begun.plan.work == Work::Delete { "deleted" } else { "sent back" };
    html! {
        p role="status" {
            @if live.done == 0 { "Under way: reading the queue." } @else {
                (grouped(live.done)) " of " (counted(total, "message")) " " (verb) " in this run"
                @if live.came_back > 0 { ", " strong { (grouped(live.came_back)) " came back" } } "."
            }
            @if let Some(waits) = &live.waits { " Now " (waits) "." }
            @if live.stopping { " Pausing…" }
        }
        progress value=[(live.done > 0).then_some(live.done)] max=(total.max(1)) aria-label="messages done" {}
    }
}

fn ended(at: &At, begun: &Begun) -> Markup {
    let Begun { plan, pace, outcome } = begun;
    let interrupted = Outcome {
        ending: "interrupted".to_owned(),
        remarks: vec!["The console was ended or killed while this plan was carried out. Its journal knows how far it is.".to_owned()],
        ..Outcome::default()
    };
    let outcome = outcome.as_ref().unwrap_or(&interrupted);
    html! {
        p class=(if outcome.finished { "done" } else { "warning" }) role="status" {
            strong { (outcome.ending) } @if !outcome.ended_at.is_empty() { ", " (shown_moment(&outcome.ended_at)) }
        }
        @if !outcome.counts.is_empty() {
            table class="plan" { tbody { @for (name, count) in &outcome.counts {
                tr { th scope="row" { (name) } td class="number" { (grouped(*count)) } }
            } } }
        }
        @for remark in &outcome.remarks { p { (remark) } }
        @if !outcome.finished && !at.site.guard.read_only {
            (form(&plan.work, &path(at, &plan.id), *pace, plan.messages.len(), true))
        }
        form method="post" action=(at.path("look")) { button { "Look at the dead letters again" } }
    }
}
