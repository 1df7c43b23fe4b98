//! The list of plans, and the page of one: before it starts, while it runs, and its outcome.

use maud::{Markup, html};
use redeliver_aws::SystemClock;
use redeliver_core::message::metadata::{parse_rfc3339, rfc3339};
use redeliver_core::ports::Clock as _;
use redeliver_operator::Failure;
use redeliver_operator::markup::moment;
use redeliver_operator::terminal::units::{counted, grouped};
use serde::Deserialize;

use crate::dead_letters::selection::Selection;
use crate::extract::AtDeployment;
use crate::pages::start_form::form;
use crate::plans::decide::{Decided, decide};
use crate::plans::plan::{Action, Outcome, Pace, Plan, StartedPlan};
use crate::plans::runner::{NOT_KNOWN, PlanState, RunProgress};

/// The fields of a form that makes a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlanForm {
    #[serde(rename = "work")]
    action: String,
    body: Option<String>,
    new_id: Option<String>,
    #[serde(flatten)]
    selection: Selection,
}

/// Makes a plan of the selected messages that can go.
pub(crate) fn make(at: &AtDeployment, asked: &PlanForm) -> Result<Plan, Failure> {
    let snapshot = at.snapshot()?;
    let action = match asked.action.as_str() {
        "delete" => Action::Delete,
        "send_back" => Action::SendBack {
            to: at.source()?.to_owned(),
            edit: asked.body.clone(),
            new_id: asked.new_id.is_some(),
            max_generation: at.site.max_generation,
        },
        _ => return Err("a plan is to send back or to delete".into()),
    };
    let selected = snapshot.select(&asked.selection)?.letters;
    if asked.body.is_some() && selected.len() != 1 {
        return Err("an edited body is for one message".into());
    }
    let ids: Vec<_> = selected.iter().map(|letter| letter.sqs_message_id.clone()).collect();
    let going = decide(&snapshot, &action, &ids, &at.site.schema)?.going;
    if asked.body.is_some() && going.is_empty() {
        return Err("the edited message would stay: look at what the page says below the body".into());
    }
    // If no message can go, the plan has all of them, and its page says why each stays.
    let messages = if going.is_empty() { ids } else { going };
    Ok(Plan::new(rfc3339(SystemClock.now()), &at.from, action, asked.selection.words(), messages))
}

/// The list of plans that were started.
pub(crate) fn list(at: &AtDeployment) -> Markup {
    let (started, damaged) = at.runner.started(&at.from);
    let running = at.runner.running();
    html! {
        @for why in damaged { p class="warning" { (why) } }
        @if started.is_empty() {
            p { "No plan was begun here yet. Select messages under " a href=(at.path("letters")) { "Dead letters" } "." }
        } @else {
            div class="scroll" tabindex="0" role="region" aria-label="Plans" { table {
                thead { tr { th { "Plan" } th { "What" } th class="number" { "Messages" } th { "Made" } th { "State" } } }
                tbody { @for StartedPlan { plan, outcome, .. } in &started {
                    tr {
                        td { a href=(path(at, &plan.id)) { code { (plan.id) } } }
                        td { (heading(&plan.action)) ": " (plan.selected) }
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

fn path(at: &AtDeployment, id: &str) -> String {
    at.path(&format!("plans/{id}"))
}

/// A time from a file, or the text as it is if it is not a time.
fn shown_moment(text: &str) -> Markup {
    parse_rfc3339(text).map_or_else(|| html! { (text) }, moment)
}

const fn heading(action: &Action) -> &'static str {
    match action {
        Action::SendBack { edit: Some(_), .. } => "Send back edited",
        Action::SendBack { .. } => "Send back",
        Action::Delete => "Delete",
    }
}

/// A plan's title and page.
pub(crate) fn body(at: &AtDeployment, id: &str) -> Result<(String, Markup), Failure> {
    let standing = at.runner.find(&at.from, id).ok_or(NOT_KNOWN)?;
    let (plan, what) = match &standing {
        PlanState::Shown(plan) => (plan, shown(at, plan)?),
        PlanState::Running(started, live) => (&started.plan, under_way(at, started, live)),
        PlanState::Ended(started) => (&started.plan, ended(at, started)),
    };
    Ok((heading(&plan.action).to_owned(), html! { (facts(plan)) (what) }))
}

fn facts(plan: &Plan) -> Markup {
    html! {
        p {
            (counted(plan.messages.len() as u64, "message")) " of " code { (plan.from) }
            // Whole: another account's queue may have the same name.
            @if let Action::SendBack { to, .. } = &plan.action { " to " code { (to) } }
            ", selected by " (plan.selected) ". The set is fixed: what came since is not in it."
        }
        @if let Action::SendBack { edit: Some(body), new_id, .. } = &plan.action {
            details class="body" {
                summary { "The body that it gets" @if *new_id { span { "with a new message_id" } } }
                pre tabindex="0" role="region" aria-label="The body that it gets" { (body) }
            }
        }
    }
}

/// Shows what the plan would do, and the form that starts it.
fn shown(at: &AtDeployment, plan: &Plan) -> Result<Markup, Failure> {
    let Decided { going, by_type, staying } =
        decide(&*at.snapshot()?, &plan.action, &plan.messages, &at.site.schema)?;
    let verb = if plan.action == Action::Delete { "would be deleted" } else { "would be sent back" };
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
        @else if !going.is_empty() { (form(&plan.action, &path(at, &plan.id), Pace::default(), going.len(), false)) }
    })
}

fn under_way(at: &AtDeployment, started: &StartedPlan, live: &RunProgress) -> Markup {
    let path = path(at, &started.plan.id);
    html! {
        div data-live={(path) "/live"} { (running(started, live)) }
        form method="post" action={(path) "/pause"} { button { "Pause" } }
        p class="remark" { "Pausing brings to an end what is under way. The plan can go on later, also after this console was ended." }
    }
}

/// Shows the progress of a plan.
pub(crate) fn running(started: &StartedPlan, live: &RunProgress) -> Markup {
    let total = started.plan.messages.len() as u64;
    let verb = if started.plan.action == Action::Delete { "deleted" } else { "sent back" };
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

fn ended(at: &AtDeployment, started: &StartedPlan) -> Markup {
    let StartedPlan { plan, pace, outcome } = started;
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
            (form(&plan.action, &path(at, &plan.id), *pace, plan.messages.len(), true))
        }
        form method="post" action=(at.path("look")) { button { "Look at the dead letters again" } }
    }
}
