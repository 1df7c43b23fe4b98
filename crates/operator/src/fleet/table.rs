//! The report as text: a table for each account and region, with the findings below.

use std::fmt::Write as _;

use super::report::{Dlq, DlqState, Finding, Fleet, some_of};
use crate::terminal::escape::escaped;
use crate::terminal::layout::Layout;
use crate::terminal::units::{about, counted, grouped, span};

/// The report for people.
pub fn fleet_table(fleet: &Fleet, layout: &Layout) -> String {
    let head = format!("{} ({})", totals(fleet), layout.clock(fleet.at));
    let mut text = layout.paragraph(&head, 2) + "\n";
    for (account, region) in fleet.places() {
        let dlqs: Vec<_> = fleet.dlqs_in(account, region).collect();
        let _ = writeln!(text, "\n{}", layout.paragraph(&place(fleet, account, region), 2));
        if !dlqs.is_empty() {
            text += &rows(fleet, &dlqs, layout);
            text += &findings(&dlqs, layout);
        }
        for queue in fleet.queues_in(account, region) {
            queue.findings.iter().for_each(|finding| text += &line(&queue.name, finding, layout));
        }
    }
    text
}

/// `5 DLQs, 2 of them with messages; something is wrong with 3`
fn totals(fleet: &Fleet) -> String {
    let count = |is_one: fn(&&Dlq) -> bool| grouped(fleet.dlqs.iter().filter(is_one).count() as u64);
    format!(
        "{}, {} with messages, {} with something wrong{}",
        counted(fleet.dlqs.len() as u64, "DLQ"),
        count(|dlq| dlq.counts.has_messages()),
        count(|dlq| !dlq.is_well()),
        match fleet.queues.len() as u64 {
            0 => String::new(),
            others => format!("; {} with something wrong", counted(others, "other queue")),
        }
    )
}

/// `eu-central-1, account 123456789012, profile prod: 37 queues`
pub(super) fn place(fleet: &Fleet, account: Option<&str>, region: &str) -> String {
    let seen: Vec<_> = fleet.seen_in(account, region).collect();
    let queues = match seen.iter().map(|region| region.queues).max() {
        Some(0) => "no queues".to_owned(),
        Some(queues) => counted(queues, "queue"),
        None => "not read".to_owned(),
    };
    let account = account.map(|account| format!(", account {account}"));
    let profiles = seen.iter().filter_map(|region| Some(format!(", profile {}", region.profile.as_ref()?)));
    let words: String = account.into_iter().chain(profiles).collect();
    format!("{region}{words}: {queues}")
}

fn rows(fleet: &Fleet, dlqs: &[&Dlq], layout: &Layout) -> String {
    let header = ["DLQ", "visible", "in flight", "oldest", "deleted in", "kept", "alarm", "fed by"];
    layout.table(&header, dlqs.iter().map(|dlq| cells(fleet, dlq).to_vec()).collect(), &[1, 2, 3, 4, 5])
}

/// In the order of the header.
pub(super) fn cells(fleet: &Fleet, dlq: &Dlq) -> [String; 8] {
    let is_empty = dlq.state == DlqState::There && !dlq.counts.has_messages();
    let unknown = if dlq.state == DlqState::Missing || is_empty { "-" } else { "?" };
    let or_unknown = |known: Option<String>| known.unwrap_or_else(|| unknown.to_owned());
    let left = dlq.first_deleted_by.map(|by| about((by - fleet.at).num_seconds()));
    [
        escaped(&dlq.name),
        or_unknown(dlq.counts.visible.map(grouped)),
        or_unknown(dlq.counts.in_flight.map(grouped)),
        or_unknown(dlq.oldest_seconds.filter(|_| !is_empty).map(about)),
        or_unknown(left.filter(|_| !is_empty)),
        or_unknown(dlq.counts.retention_seconds.map(span)),
        alarm(dlq).to_owned(),
        fed_by(dlq),
    ]
}

fn alarm(dlq: &Dlq) -> &'static str {
    match &dlq.alarms {
        None => "?",
        Some(_) if dlq.state == DlqState::Missing => "-",
        Some(alarms) if alarms.is_empty() => "none",
        Some(alarms) if alarms.iter().any(|alarm| alarm.state == "ALARM") => "on",
        Some(_) => "yes",
    }
}

fn fed_by(dlq: &Dlq) -> String {
    let names: Vec<_> = dlq.fed_by.iter().map(|feeder| feeder.name.as_str()).collect();
    if names.is_empty() { "?".to_owned() } else { escaped(&some_of(&names)) }
}

fn line(queue: &str, finding: &Finding, layout: &Layout) -> String {
    let mark = if finding.code.is_remark() { '?' } else { '!' };
    let line = format!(" {mark} {}: {}", escaped(queue), escaped(&finding.sentence));
    layout.paragraph(&line, 3) + "\n"
}

fn findings(dlqs: &[&Dlq], layout: &Layout) -> String {
    let mut text = String::new();
    for dlq in dlqs {
        dlq.findings.iter().for_each(|finding| text += &line(&dlq.name, finding, layout));
        if let Some(error) = &dlq.error {
            let line = format!(" ! {}: {}", escaped(&dlq.name), escaped(error));
            let _ = writeln!(text, "{}", layout.paragraph(&line, 3));
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
