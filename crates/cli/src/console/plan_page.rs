//! Plans: made of what is selected, shown before anything is done, carried out, paused, and their outcome.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};
use redeliver_aws::SystemClock;
use redeliver_core::metadata::{parse_rfc3339, rfc3339};
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::Pick;
use redeliver_dead_letters::redrive::{self, Edit, Verdict};
use serde::Deserialize;

use super::desk::Desk;
use super::frame::{base, moment, source_is_missing};
use super::letters::{Letters, Selection};
use super::message_page::{NOT_LOOKED, NOT_THERE};
use super::plans::{Begun, Outcome, Pace, Plan, Work};
use super::site::Site;
use super::work::{Live, Standing};
use crate::Failure;
use crate::connection::name_in;
use crate::people::{counted, grouped};

/// Examples of ids.
const EXAMPLES: usize = 3;
/// Messages a second that can be asked for, as on the command line.
const RATE_MAX: u32 = 3000;
const WATCH_SECONDS_MAX: u64 = 3600;

/// What a form asks a plan for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    work: String,
    body: Option<String>,
    new_id: Option<String>,
    #[serde(flatten)]
    selection: Selection,
}

/// What a plan is made of.
pub(super) struct Making<'a> {
    pub(super) site: &'a Site,
    pub(super) desk: &'a Desk,
    pub(super) letters: &'a Letters,
}

/// What would become of a set.
#[derive(Debug, Default)]
struct Decided {
    going: Vec<String>,
    /// Of these, how many of each error type.
    by_type: BTreeMap<String, u64>,
    /// Why, how many, and which for example.
    staying: BTreeMap<String, (u64, Vec<String>)>,
}

impl Making<'_> {
    /// The plan, which has only what can go: it is fixed from now on.
    pub(super) fn plan(&self, asked: &Asked) -> Result<Plan, Failure> {
        let work = match asked.work.as_str() {
            "delete" => Work::Delete,
            "send_back" => {
                if let Some(why) = source_is_missing(self.desk) {
                    return Err(why.into());
                }
                Work::SendBack {
                    to: self.desk.to.clone().unwrap_or_default(),
                    edit: asked.body.clone(),
                    new_id: asked.new_id.is_some(),
                    max_generation: self.site.max_generation,
                }
            }
            _ => return Err("a plan is to send back or to delete".into()),
        };
        let selected = self.letters.select(&asked.selection)?;
        if asked.body.is_some() && selected.len() != 1 {
            return Err("an edited body is for one message".into());
        }
        let ids: Vec<_> = selected.iter().map(|letter| letter.sqs_message_id.clone()).collect();
        let going = self.decided(&work, &ids)?.going;
        if let (Some(_), true) = (&asked.body, going.is_empty()) {
            return Err("the edited message would stay: look at what the page says below the body".into());
        }
        let messages = if going.is_empty() { ids } else { going };
        let words = asked.selection.words();
        Ok(Plan::new(rfc3339(SystemClock.now()), &self.desk.from, work, words, messages))
    }

    /// By the engine's own decision, on the messages as they were looked at.
    fn decided(&self, work: &Work, ids: &[String]) -> Result<Decided, Failure> {
        let how = match work {
            Work::SendBack { edit, new_id, max_generation, .. } => Some(redrive::Plan {
                pick: Pick::default(),
                edit: edit.as_deref().map(Edit::body).transpose()?,
                new_id: *new_id,
                max_generation: *max_generation,
                schema: self.site.schema.clone(),
            }),
            Work::Delete => None,
        };
        let letters: HashMap<_, _> =
            self.letters.letters.iter().map(|letter| (letter.sqs_message_id.as_str(), letter)).collect();
        let mut decided = Decided::default();
        for id in ids {
            let Some(letter) = letters.get(id.as_str()) else {
                decided.stays(NOT_THERE.to_owned(), id);
                continue;
            };
            let verdict =
                how.as_ref().map(|how| how.decide(&self.letters.record(letter)?).map_err(Failure::from));
            match verdict.transpose()? {
                None | Some(Verdict::Send(_)) => {
                    decided.going.push(id.clone());
                    *decided.by_type.entry(letter.error_type.clone()).or_default() += 1;
                }
                Some(Verdict::Stays(reason)) => decided.stays(reason.to_string(), id),
                Some(Verdict::NotSelected) => decided.stays("is not selected".to_owned(), id),
            }
        }
        Ok(decided)
    }
}

impl Decided {
    fn stays(&mut self, reason: String, id: &str) {
        let (count, examples) = self.staying.entry(reason).or_default();
        *count += 1;
        if examples.len() < EXAMPLES {
            examples.push(id.to_owned());
        }
    }
}

/// How a plan is to be carried out, as a form has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PaceAsked {
    rate: String,
    watch_seconds: String,
    stop_after_failures_percent: String,
    into_paused: Option<String>,
}

impl PaceAsked {
    /// # Errors
    /// Which field is wrong, and what it takes.
    pub(super) fn read(&self) -> Result<Pace, Failure> {
        let default = Pace::default();
        let rate = match self.rate.trim() {
            "" => None,
            text => Some(number("messages a second", text, 1, RATE_MAX.into())?),
        };
        let or = |text: &str, name, most, default: u64| match text.trim() {
            "" => Ok(default),
            text => number(name, text, 0, most),
        };
        let percent = or(
            &self.stop_after_failures_percent,
            "percent",
            100,
            default.stop_after_failures_percent.into(),
        )?;
        Ok(Pace {
            rate: rate.and_then(|rate| rate.try_into().ok()),
            watch_seconds: or(&self.watch_seconds, "seconds", WATCH_SECONDS_MAX, default.watch_seconds)?,
            stop_after_failures_percent: percent.try_into().unwrap_or(100),
            into_paused: self.into_paused.is_some(),
        })
    }
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{name}: a whole number from {least} to {most}").into())
}

/// All plans that were begun.
pub(super) fn list(site: &Site, desk: &Desk, number: usize) -> Markup {
    let (begun, damaged) = desk.works.begun(&desk.from);
    let running = desk.works.running();
    html! {
        @for why in damaged { p class="warning" { (why) } }
        @if begun.is_empty() {
            p { "No plan was begun here yet. Select messages under " a href={(base(number)) "/letters"} { "Dead letters" } "." }
        } @else {
            div class="scroll" tabindex="0" { table {
                thead { tr { th { "Plan" } th { "What" } th class="number" { "Messages" } th { "Made" } th { "State" } } }
                tbody { @for one in &begun {
                    tr {
                        td { a href={(base(number)) "/plans/" (one.plan.id)} { code { (one.plan.id) } } }
                        td { (heading(&one.plan.work)) ": " (one.plan.selected) }
                        td class="number" { (grouped(one.plan.messages.len() as u64)) }
                        td class="times" { (shown_moment(&one.plan.made_at)) }
                        td {
                            @if running.as_ref() == Some(&one.plan.id) { "running" }
                            @else if let Some(outcome) = &one.outcome { (outcome.ending) }
                            @else { strong { "interrupted" } @if !site.guard.read_only { ": open it to go on" } }
                        }
                    }
                } }
            } }
        }
    }
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
pub(super) fn body(site: &Site, number: usize, id: &str) -> Result<(String, Markup), Failure> {
    let desk = &site.desks[number];
    let standing = desk.works.find(&desk.from, id).ok_or("this plan is not known any more: make it again")?;
    let path = format!("{}/plans/{id}", base(number));
    Ok(match standing {
        Standing::Shown(plan) => (heading(&plan.work).to_owned(), shown(site, desk, &plan, &path)?),
        Standing::Running(begun, live) => {
            let body = html! {
                (facts(&begun.plan))
                div data-live={(path) "/live"} { (running(&begun, &live)) }
                form method="post" action={(path) "/pause"} { button { "Pause" } }
                p class="remark" { "Pausing brings to an end what is under way. The plan can go on later, also after this console was ended." }
            };
            (heading(&begun.plan.work).to_owned(), body)
        }
        Standing::Ended(begun) => (heading(&begun.plan.work).to_owned(), ended(site, number, &begun, &path)),
    })
}

fn facts(plan: &Plan) -> Markup {
    html! {
        p {
            (counted(plan.messages.len() as u64, "message")) " of " strong { (name_in(&plan.from)) }
            @if let Work::SendBack { to, .. } = &plan.work { " to " strong { (name_in(to)) } }
            ", selected by " (plan.selected) ". The set is fixed: what came since is not in it."
        }
        @if let Work::SendBack { edit: Some(body), new_id, .. } = &plan.work {
            details class="body" {
                summary { "The body that it gets" @if *new_id { span { "with a new message_id" } } }
                pre { (body) }
            }
        }
    }
}

fn shown(site: &Site, desk: &Desk, plan: &Plan, path: &str) -> Result<Markup, Failure> {
    let letters = desk.looks.shown().last.ok_or(NOT_LOOKED)?;
    let Decided { going, by_type, staying } =
        Making { site, desk, letters: &letters }.decided(&plan.work, &plan.messages)?;
    let verb = if plan.work == Work::Delete { "would be deleted" } else { "would be sent back" };
    Ok(html! {
        (facts(plan))
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
        @if site.guard.read_only { p { "The console was started with --read-only: nothing can be done with it." } }
        @else if !going.is_empty() { (start(&plan.work, path, Pace::default(), going.len() as u64, false)) }
    })
}

/// The form that starts a plan, or goes on with it.
fn start(work: &Work, path: &str, pace: Pace, count: u64, again: bool) -> Markup {
    let field = |name: &str, label: &str, value: &str, most: u64| {
        html! { label { (label) input type="number" name=(name) value=(value) min="0" max=(most); } }
    };
    let rate = pace.rate.map(|rate| rate.to_string()).unwrap_or_default();
    html! {
        form class="filters" method="post" action={(path) "/start"} {
            @if *work != Work::Delete {
                (field("rate", "Messages a second (empty: as fast as it goes)", &rate, RATE_MAX.into()))
                (field("watch_seconds", "Watch the first 50 for so many seconds", &pace.watch_seconds.to_string(), WATCH_SECONDS_MAX))
                (field("stop_after_failures_percent", "Stop if more than so many percent fail again", &pace.stop_after_failures_percent.to_string(), 100))
                label class="check" { input type="checkbox" name="into_paused" value="1" checked[pace.into_paused]; "Also if the deployment is paused" }
            } @else { p { "Each message is written to a backup file before it is deleted." } }
            button class="go" {
                @if again { "Go on" } @else if *work == Work::Delete { "Delete " (counted(count, "message")) } @else { "Send back " (counted(count, "message")) }
            }
        }
    }
}

/// How far a plan is.
pub(super) fn running(begun: &Begun, live: &Live) -> Markup {
    let total = begun.plan.messages.len() as u64;
    let verb = if begun.plan.work == Work::Delete { "deleted" } else { "sent back" };
    html! {
        p role="status" {
            @if live.sent == 0 { "Under way: reading the queue." } @else {
                (grouped(live.sent)) " of " (counted(total, "message")) " " (verb) " in this run"
                @if live.came_back > 0 { ", " strong { (grouped(live.came_back)) " came back" } } "."
            }
            @if let Some(waits) = &live.waits { " Now " (waits) "." }
            @if live.stopping { " Pausing…" }
        }
        progress value=[(live.sent > 0).then_some(live.sent)] max=(total.max(1)) aria-label="messages done" {}
    }
}

fn ended(site: &Site, number: usize, begun: &Begun, path: &str) -> Markup {
    let interrupted = Outcome {
        ending: "interrupted".to_owned(),
        remarks: vec!["The console was ended or killed while this plan was carried out. Its journal knows how far it is.".to_owned()],
        ..Outcome::default()
    };
    let outcome = begun.outcome.as_ref().unwrap_or(&interrupted);
    html! {
        (facts(&begun.plan))
        p class=(if outcome.finished { "done" } else { "warning" }) role="status" {
            strong { (outcome.ending) } @if !outcome.ended_at.is_empty() { ", " (shown_moment(&outcome.ended_at)) }
        }
        @if !outcome.counts.is_empty() {
            table class="plan" { tbody { @for (name, count) in &outcome.counts {
                tr { th scope="row" { (name) } td class="number" { (grouped(*count)) } }
            } } }
        }
        @for remark in &outcome.remarks { p { (remark) } }
        @if !outcome.finished && !site.guard.read_only {
            (start(&begun.plan.work, path, begun.pace, begun.plan.messages.len() as u64, true))
        }
        form method="post" action={(base(number)) "/look"} { button { "Look at the dead letters again" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_form_leaves_out_is_the_default_and_what_is_wrong_is_named() {
        let asked = |rate: &str, watch: &str, percent: &str| PaceAsked {
            rate: rate.to_owned(),
            watch_seconds: watch.to_owned(),
            stop_after_failures_percent: percent.to_owned(),
            into_paused: None,
        };
        assert_eq!(asked("", "", "").read().unwrap(), Pace::default());
        let given =
            Pace { rate: Some(20), watch_seconds: 0, stop_after_failures_percent: 100, into_paused: false };
        assert_eq!(asked(" 20 ", "0", "100").read().unwrap(), given);
        for (wrong, why) in [
            (asked("0", "", ""), "messages a second: a whole number from 1 to 3000"),
            (asked("-1", "", ""), "messages a second: a whole number from 1 to 3000"),
            (asked("", "3601", ""), "seconds: a whole number from 0 to 3600"),
            (asked("", "", "101"), "percent: a whole number from 0 to 100"),
        ] {
            assert_eq!(wrong.read().unwrap_err().to_string(), why);
        }
    }
}
