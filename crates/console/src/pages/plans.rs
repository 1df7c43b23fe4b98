//! The list of plans, and a plan's page: before the plan starts, while it runs, and after it has ended.

use maud::{Markup, html};
use redeliver_aws::SystemClock;
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::{format_rfc3339, parse_rfc3339};
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::redrive::{JournalCounts, RepeatFailure};
use redeliver_operator::CommandFailure;
use redeliver_operator::dead_letter_source::open_backups;
use redeliver_operator::markup::render_timestamp;
use redeliver_operator::redrive::describe_other_sources;
use redeliver_operator::terminal::escape::escape_lines;
use redeliver_operator::terminal::units::{approximate_span, format_count, group_digits};
use serde::Deserialize;

use crate::dead_letters::selection::Selection;
use crate::dead_letters::snapshot::Snapshot;
use crate::extract::DeploymentRequest;
use crate::layout::TitledPage;
use crate::pages::bulk_edit::{self, BulkEdit};
use crate::pages::letter_links::{letter_link, letter_links, render_skip_reasons};
use crate::pages::start_form::render_start_form;
use crate::plans::command::{PlanCommand, build_command};
use crate::plans::decide::{PlanDecision, evaluate_plan};
use crate::plans::outcome::journal_counts;
use crate::plans::plan::{ConsolePlan, PlanAction, PlanFiles, PlanOutcome, StartedPlan};
use crate::plans::runner::{PlanState, RunningPlan, UNKNOWN_PLAN};

/// The fields of a form that creates a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PlanForm {
    #[serde(rename = "work")]
    action: String,
    body: Option<String>,
    new_id: Option<String>,
    #[serde(flatten)]
    edit: BulkEdit,
    #[serde(flatten)]
    selection: Selection,
}

impl PlanForm {
    /// Previews the edit in the form.
    pub(crate) fn edit_verdict(&self, at: &DeploymentRequest) -> Result<Markup, CommandFailure> {
        bulk_edit::render_bulk_verdict(at, &self.selection, &self.edit, self.new_id.is_some())
    }

    /// Returns the plan's jq expression, or `None` if its messages are sent back unchanged.
    fn edit_program(&self) -> Result<Option<String>, CommandFailure> {
        match self.action.as_str() {
            "edit" => self.edit.build_program().map(Some),
            _ => Ok(None),
        }
    }
}

/// Maximum number of messages listed.
const LISTED_MAX: usize = 100;

/// Creates a plan for those selected messages that can be sent or deleted.
pub(crate) fn make_plan(at: &DeploymentRequest, form: &PlanForm) -> Result<ConsolePlan, CommandFailure> {
    let snapshot = at.last_snapshot()?;
    let action = match form.action.as_str() {
        "delete" => PlanAction::Delete,
        "send_back" | "edit" => PlanAction::SendBack {
            to: at.source_arn()?.to_owned(),
            edit: form.body.clone(),
            program: form.edit_program()?,
            new_id: form.new_id.is_some(),
            max_generation: at.site.max_generation,
        },
        _ => return Err("a plan can only send messages back or delete them".into()),
    };
    let letters = snapshot.select_letters(&form.selection)?.letters;
    if form.body.is_some() && letters.len() != 1 {
        return Err("an edited body applies to exactly one message".into());
    }
    let ids: Vec<_> = letters.iter().map(|letter| letter.sqs_message_id.clone()).collect();
    let going = evaluate_plan(&snapshot, &action, &ids, at.redrive_plan(None, false))?.affected_ids;
    let is_edited = form.body.is_some() || form.action == "edit";
    if is_edited && going.is_empty() {
        return Err("nothing would be sent: go back; the reasons are listed below the edit".into());
    }
    // If no message can be sent, the plan contains all of them, so that its page shows the reason for each.
    let messages = if going.is_empty() { ids } else { going };
    let given =
        form.selection.active_members().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let selected = snapshot.describe_selection(&form.selection);
    Ok(ConsolePlan::new(format_rfc3339(SystemClock.now()), &at.from, action, selected, given, messages))
}

/// Renders the list of plans that were started.
pub(crate) fn render_plans(at: &DeploymentRequest) -> Markup {
    let PlanFiles { started, damaged } = at.runner.started_plans(&at.from);
    let running = at.runner.running_id();
    html! {
        @for why in damaged { p class="warning" { (why) } }
        @for plan in at.runner.unstarted_plans(&at.from) {
            p { a href=(plan_path(at, &plan.id)) { (plan_heading(&plan.action)) ": " (plan.selected) } ", " (format_count(plan.messages.len() as u64, "message")) ": not started." }
        }
        @if started.is_empty() {
            p { "No plan has been started here yet. Select messages under " a href=(at.page_path("letters")) { "Dead letters" } "." }
        } @else {
            table class="list" {
                thead { tr { th { "Plan" } th { "State" } th class="number" { "Messages" } th { "Created" } } }
                tbody { @for StartedPlan { plan, outcome, .. } in &started {
                    tr {
                        td {
                            a href=(plan_path(at, &plan.id)) { bdi { (plan_heading(&plan.action)) ": " (plan.selected) } }
                            div class="details" { code { (plan.id) } }
                        }
                        td {
                            @if running.as_ref() == Some(&plan.id) { "running" }
                            @else if let Some(outcome) = outcome { (outcome.ending) }
                            @else { strong { "interrupted" } @if !at.site.guard.read_only { "; open it to continue" } }
                        }
                        td class="number" data-name="Messages" { (group_digits(plan.messages.len() as u64)) }
                        td class="times" data-name="Created" { (render_moment(&plan.made_at)) }
                    }
                } }
            }
        }
    }
}

fn plan_path(at: &DeploymentRequest, id: &str) -> String {
    at.page_path(&format!("plans/{id}"))
}

/// Renders a timestamp from a file, or the raw text if it cannot be parsed.
fn render_moment(text: &str) -> Markup {
    parse_rfc3339(text).map_or_else(|| html! { (text) }, render_timestamp)
}

const fn plan_heading(action: &PlanAction) -> &'static str {
    match action {
        PlanAction::SendBack { edit: Some(_), .. } | PlanAction::SendBack { program: Some(_), .. } => {
            "Send back edited"
        }
        PlanAction::SendBack { .. } => "Send back",
        PlanAction::Delete => "Delete",
        PlanAction::Restore { .. } => "Restore deleted messages",
    }
}

/// Renders a plan's page.
pub(crate) fn render_plan(at: &DeploymentRequest, id: &str) -> Result<TitledPage, CommandFailure> {
    let standing = at.runner.find_plan(&at.from, id).ok_or(UNKNOWN_PLAN)?;
    let (plan, content) = match &standing {
        PlanState::Shown(plan) if matches!(plan.action, PlanAction::Restore { .. }) => {
            (plan, render_unstarted_restore(at, plan))
        }
        PlanState::Shown(plan) => (plan, render_unstarted_plan(at, plan)?),
        PlanState::Running(running) => (&running.started.plan, render_running_plan(at, running)),
        PlanState::Ended(started) => (&started.plan, render_ended_plan(at, started)),
    };
    Ok(TitledPage {
        title: plan_heading(&plan.action).to_owned(),
        body: html! { (render_facts(plan)) (content) },
    })
}

fn render_facts(plan: &ConsolePlan) -> Markup {
    html! {
        p {
            (format_count(plan.messages.len() as u64, "message")) " of " code { (plan.from) }
            // The complete ARN, since another account's queue can have the same name.
            @if let Some(to) = plan.action.destination_arn() { " to " code { (to) } }
            ", selected by " (plan.selected) ". The set is fixed: messages that arrived later are not in it."
        }
        @if let PlanAction::SendBack { program: Some(program), new_id, .. } = &plan.action {
            p {
                "Each message is edited by " code { (escape_lines(program)) } @if *new_id { ", and gets a new message_id" }
                ". Messages that the edit would not change are not in the plan."
            }
        }
        @if let PlanAction::SendBack { edit: Some(body), new_id, .. } = &plan.action {
            details class="body" {
                summary { "The new body" @if *new_id { span { "with a new message_id" } } }
                pre tabindex="0" role="region" aria-label="The new body" { (body) }
            }
        }
    }
}

/// Shows what the plan would do, and the forms that start and discard it.
fn render_unstarted_plan(at: &DeploymentRequest, plan: &ConsolePlan) -> Result<Markup, CommandFailure> {
    let snapshot = at.last_snapshot()?;
    let PlanDecision { report, affected_ids } =
        evaluate_plan(&snapshot, &plan.action, &plan.messages, at.redrive_plan(None, false))?;
    let verb = format!("would be {}", plan.action.past_participle());
    let example = affected_ids.first().and_then(|id| snapshot.find_letter(id));
    let is_shared = !at.source.queue.belongs_to_deployment();
    let elsewhere = plan
        .action
        .destination_arn()
        .filter(|_| is_shared)
        .and_then(|to| describe_other_sources(&report, to));
    Ok(html! {
        @if let Some(elsewhere) = elsewhere { p class="warning" { (elsewhere) "." } }
        table class="plan" {
            tbody {
                tr { th scope="row" { (verb) } td class="number" { (group_digits(affected_ids.len() as u64)) } td {} }
                @for (error_type, count) in &report.by_error_type {
                    tr { th scope="row" class="part" { (error_type) } td class="number" { (group_digits(*count)) } td {} }
                }
                (render_skip_reasons(at, &report))
            }
        }
        @if let Some(letter) = example {
            p {
                "For example " (letter_link(at, &letter.sqs_message_id, &letter.message_id)) ": " bdi { (letter.headline) }
            }
        }
        @if !at.site.guard.read_only && !affected_ids.is_empty() { (render_start_form(&plan.action, &plan_path(at, &plan.id), None, affected_ids.len())) }
        @if at.site.guard.read_only { p { "The console was started with --read-only, so this plan cannot be started." } }
        @else { (render_cancel_form(at, plan)) }
        (render_messages(at, &snapshot, &affected_ids))
        (render_command(at, plan))
    })
}

/// Creates the plan that restores the messages that another plan deleted.
pub(crate) fn make_restore_plan(
    at: &DeploymentRequest,
    deletion: &str,
) -> Result<ConsolePlan, CommandFailure> {
    let Some(PlanState::Ended(started)) = at.runner.find_plan(&at.from, deletion) else {
        return Err(UNKNOWN_PLAN.into());
    };
    // Until the deletion is finished, a message can be in both a backup and the DLQ.
    if started.plan.action != PlanAction::Delete || !started.is_finished() {
        return Err("Only a finished deletion can be restored: finish it first.".into());
    }
    let action = PlanAction::Restore { to: at.source_arn()?.to_owned(), deletion: deletion.to_owned() };
    let messages = open_backups(&started.plan.backup_paths(&at.runner.folder), &at.from)?.message_ids()?;
    let selected = format!("the deletion {deletion}");
    Ok(ConsolePlan::new(format_rfc3339(SystemClock.now()), &at.from, action, selected, Vec::new(), messages))
}

fn render_unstarted_restore(at: &DeploymentRequest, plan: &ConsolePlan) -> Markup {
    html! {
        p { strong { (group_digits(plan.messages.len() as u64)) } " would be sent again, each once, from:" }
        (render_backups(at, plan))
        @if !at.site.guard.read_only {
            (render_start_form(&plan.action, &plan_path(at, &plan.id), None, plan.messages.len()))
            (render_cancel_form(at, plan))
        }
    }
}

fn render_backups(at: &DeploymentRequest, plan: &ConsolePlan) -> Markup {
    html! { ul { @for path in plan.backup_paths(&at.runner.folder) { li { code { (escape_lines(&path.display().to_string())) } } } } }
}

/// Lists the plan's messages, each with a link to its page.
fn render_messages(at: &DeploymentRequest, snapshot: &Snapshot, going: &[String]) -> Markup {
    let first = going.iter().take(LISTED_MAX).filter_map(|id| snapshot.find_letter(id));
    html! {
        @if !going.is_empty() {
            details {
                summary { "The messages" }
                ul class="ids" { @for letter in first { li { (letter_link(at, &letter.sqs_message_id, &letter.message_id)) } } }
                @if going.len() > LISTED_MAX { p { "and " (group_digits((going.len() - LISTED_MAX) as u64)) " more" } }
            }
        }
    }
}

/// Shows the equivalent command.
fn render_command(at: &DeploymentRequest, plan: &ConsolePlan) -> Markup {
    let command = build_command(plan, &at.connection.given_options());
    html! {
        details {
            summary { "On the command line" }
            @if let Some(PlanCommand { line, is_exact }) = command {
                pre tabindex="0" role="region" aria-label="The command" { (line) }
                p class="remark" {
                    "It only shows its plan; with --apply, it carries the plan out. "
                    @if is_exact { "It names these messages. " }
                    @else { "It selects from the messages in the queue when it runs; the set of this plan is fixed. " }
                    "If the console was started with --data-schema or --plain, add that option. Run either the plan or the command: the second one would send the same messages again."
                }
            } @else { p { "No single command does this: the edit or the selection exists only on this page." } }
        }
    }
}

fn render_cancel_form(at: &DeploymentRequest, plan: &ConsolePlan) -> Markup {
    html! { form method="post" action={(plan_path(at, &plan.id)) "/cancel"} { button { "Cancel this plan" } } }
}

fn render_running_plan(at: &DeploymentRequest, plan: &RunningPlan) -> Markup {
    let path = plan_path(at, &plan.started.plan.id);
    html! {
        div data-live={(path) "/live"} { (render_progress(plan, SystemClock.now())) }
        form method="post" action={(path) "/pause"} { button { "Pause" } }
        p class="remark" { "Requests in flight are finished first. You can continue later, even from a new console." }
    }
}

/// Shows the progress of a plan.
pub(crate) fn render_progress(
    RunningPlan { started, progress: live }: &RunningPlan,
    now: Timestamp,
) -> Markup {
    let total = started.plan.messages.len() as u64;
    let remaining = live.remaining_seconds(total, now).filter(|seconds| *seconds > 0);
    let verb = started.plan.action.past_participle();
    html! {
        p role="status" {
            @if live.done == 0 { "Reading the queue for " (format_count(total, "message")) "." } @else {
                (group_digits(live.done)) " of " (format_count(total, "message")) " " (verb) " in this run"
                @if live.before > 0 { ", " (group_digits(live.before)) " in earlier runs" }
                @if live.came_back > 0 { ", " strong { (group_digits(live.came_back)) " came back" } }
                @if let Some(seconds) = remaining { ", about " (approximate_span(seconds)) " left" } "."
            }
            @if let Some(waits) = &live.waits { " Now " (waits) "." }
            @if live.stopping { " Pausing…" }
        }
        progress value=[(live.done > 0).then_some(live.before + live.done)] max=(total.max(1)) aria-label="messages done" {}
    }
}

fn render_ended_plan(at: &DeploymentRequest, started: &StartedPlan) -> Markup {
    let StartedPlan { plan, pace, outcome, died_again, .. } = started;
    let all = plan.journal_counts(&at.runner.folder);
    let seen = died_again.iter().map(|died| died.count).sum();
    let interrupted = PlanOutcome {
        ending: "interrupted".to_owned(),
        counts: all.as_ref().map(|all| journal_counts(all, seen, plan)).unwrap_or_default(),
        remarks: vec![
            "The console ended while this plan was running. Continue it from where it stopped. Messages that it held \
             are visible again two minutes after it ended."
                .to_owned(),
        ],
        ..PlanOutcome::default()
    };
    let outcome = outcome.as_ref().unwrap_or(&interrupted);
    let can_cancel = !plan.may_have_begun(&at.runner.folder, all.as_ref());
    html! {
        p class=(if outcome.finished { "done" } else { "warning" }) role="status" {
            strong { (outcome.ending) } @if !outcome.ended_at.is_empty() { ", " (render_moment(&outcome.ended_at)) }
        }
        @if !outcome.counts.is_empty() {
            table class="plan" { tbody {
                @for (name, count) in &outcome.counts {
                    tr { th scope="row" { (name) } td class="number" { (group_digits(*count)) } }
                }
                tr { th scope="row" class="part" { "in the plan" } td class="number" { (group_digits(plan.messages.len() as u64)) } }
            } }
        }
        @for remark in &outcome.remarks { p { (remark) } }
        @if let Some(all) = &all { (render_repeat_failures(at, started, &outcome.ended_at, all)) }
        @if !outcome.finished && !at.site.guard.read_only {
            (render_start_form(&plan.action, &plan_path(at, &plan.id), Some(*pace), plan.messages.len()))
            @if can_cancel { (render_cancel_form(at, plan)) }
        }
        @if plan.action == PlanAction::Delete && !plan.backup_paths(&at.runner.folder).is_empty() {
            h2 { "Backups" }
            (render_backups(at, plan))
            @if !outcome.finished { p { "Once the deletion is finished, it can be restored here." } }
            @else if !at.site.guard.read_only {
                form method="post" action={(plan_path(at, &plan.id)) "/restore"} { button { "Restore to the source queue" } }
            }
        }
        (render_resolve_link(at, plan))
        form method="post" action=(at.page_path("refresh")) { button { "Refresh the dead letters" } }
    }
}

/// Renders a link to the next step after a cause's messages were sent back.
fn render_resolve_link(at: &DeploymentRequest, plan: &ConsolePlan) -> Markup {
    let cause = plan.selection.iter().find(|(name, _)| name == "group").map(|(_, fingerprint)| fingerprint);
    html! {
        @if let (Some(fingerprint), PlanAction::SendBack { .. }) = (cause, &plan.action) {
            p { "Is the cause fixed? " a href=(at.cause_path(fingerprint)) { "Mark it as resolved" } " to see if it comes back." }
        }
    }
}

/// Renders the causes of messages that failed again after this plan, according to the last reading or to the runs.
fn render_repeat_failures(
    at: &DeploymentRequest,
    started: &StartedPlan,
    ended_at: &str,
    all: &JournalCounts,
) -> Markup {
    let snapshot = at.reading.last_seen.last_result();
    let later =
        snapshot.filter(|snapshot| parse_rfc3339(ended_at).is_some_and(|ended| snapshot.taken_at > ended));
    let after_refresh = later.and_then(|snapshot| {
        Some((snapshot.taken_at, snapshot.find_repeat_failures(&all.generations).ok()?))
    });
    let died = after_refresh.as_ref().map_or(&started.died_again, |(_, died)| died);
    html! {
        @if !died.is_empty() {
            h2 { (format_count(died.iter().map(|died| died.count).sum(), "message")) " died again" }
            p class="remark" {
                @match &after_refresh {
                    Some((taken_at, _)) => { "Messages in the DLQ at the last refresh, " (render_timestamp(*taken_at)) "." },
                    None => "Messages that came back while the plan was carried out. Refresh to see later ones.",
                }
            }
            ul { @for RepeatFailure { fingerprint, headline, count, examples } in died {
                li {
                    (group_digits(*count)) ": " a href=(at.cause_path(fingerprint)) { bdi { (headline) } } ", e.g. " (letter_links(at, examples))
                }
            } }
        }
    }
}
