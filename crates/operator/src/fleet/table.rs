//! The report as text: one table per account and region, with its findings below.

use std::fmt::Write as _;

use super::report::{Dlq, DlqState, Fleet, QueueFinding, join_names};
use crate::terminal::escape::escape_line;
use crate::terminal::layout::TextLayout;
use crate::terminal::units::{approximate_span, format_count, format_span, group_digits};

/// Renders the report as text.
pub fn fleet_table(fleet: &Fleet, layout: &TextLayout) -> String {
    let head = format!("{} ({})", format_totals(fleet), layout.format_clock(fleet.at));
    let mut text = layout.wrap_paragraph(&head, 2) + "\n";
    for (account, region) in fleet.account_regions() {
        let dlqs: Vec<_> = fleet.dlqs_in(account, region).collect();
        let _ = writeln!(text, "\n{}", layout.wrap_paragraph(&format_region(fleet, account, region), 2));
        if !dlqs.is_empty() {
            text += &render_rows(fleet, &dlqs, layout);
            text += &render_findings(&dlqs, layout);
        }
        for queue in fleet.queues_in(account, region) {
            queue.findings.iter().for_each(|finding| text += &render_finding(&queue.name, finding, layout));
        }
    }
    text
}

/// Formats the totals: `5 DLQs, 2 with messages, 3 with something wrong`.
fn format_totals(fleet: &Fleet) -> String {
    let count = |matches: fn(&&Dlq) -> bool| group_digits(fleet.dlqs.iter().filter(matches).count() as u64);
    format!(
        "{}, {} with messages, {} with something wrong{}",
        format_count(fleet.dlqs.len() as u64, "DLQ"),
        count(|dlq| dlq.counts.has_messages()),
        count(|dlq| !dlq.is_healthy()),
        match fleet.queues.len() as u64 {
            0 => String::new(),
            others => format!("; {} with something wrong", format_count(others, "other queue")),
        }
    )
}

/// Formats a region: `eu-central-1, account 123456789012, profile prod: 37 queues`.
pub(super) fn format_region(fleet: &Fleet, account: Option<&str>, region: &str) -> String {
    let summaries: Vec<_> = fleet.regions_in(account, region).collect();
    let queues = match summaries.iter().map(|region| region.queues).max() {
        Some(0) => "no queues".to_owned(),
        Some(queues) => format_count(queues, "queue"),
        None => "not read".to_owned(),
    };
    let account = account.map(|account| format!(", account {account}"));
    let profiles =
        summaries.iter().filter_map(|region| Some(format!(", profile {}", region.profile.as_ref()?)));
    let details: String = account.into_iter().chain(profiles).collect();
    format!("{region}{details}: {queues}")
}

fn render_rows(fleet: &Fleet, dlqs: &[&Dlq], layout: &TextLayout) -> String {
    let header = ["DLQ", "visible", "in flight", "oldest", "deleted in", "kept", "alarm", "fed by"];
    layout.format_table(
        &header,
        dlqs.iter().map(|dlq| format_cells(fleet, dlq).to_vec()).collect(),
        &[1, 2, 3, 4, 5],
    )
}

/// Formats the cells of a row, in the order of the header.
pub(super) fn format_cells(fleet: &Fleet, dlq: &Dlq) -> [String; 8] {
    let is_empty = dlq.state == DlqState::There && !dlq.counts.has_messages();
    let unknown = if dlq.state == DlqState::Missing || is_empty { "-" } else { "?" };
    let or_unknown = |known: Option<String>| known.unwrap_or_else(|| unknown.to_owned());
    let left = dlq.first_deleted_by.map(|by| approximate_span((by - fleet.at).num_seconds()));
    [
        escape_line(&dlq.name),
        or_unknown(dlq.counts.visible.map(group_digits)),
        or_unknown(dlq.counts.in_flight.map(group_digits)),
        or_unknown(dlq.oldest_seconds.filter(|_| !is_empty).map(approximate_span)),
        or_unknown(left.filter(|_| !is_empty)),
        or_unknown(dlq.counts.retention_seconds.map(format_span)),
        format_alarm(dlq).to_owned(),
        format_feeders(dlq),
    ]
}

fn format_alarm(dlq: &Dlq) -> &'static str {
    match &dlq.alarms {
        None => "?",
        Some(_) if dlq.state == DlqState::Missing => "-",
        Some(alarms) if alarms.is_empty() => "none",
        Some(alarms) if alarms.iter().any(|alarm| alarm.state == "ALARM") => "on",
        Some(_) => "yes",
    }
}

fn format_feeders(dlq: &Dlq) -> String {
    let names: Vec<_> = dlq.fed_by.iter().map(|feeder| feeder.name.as_str()).collect();
    if names.is_empty() { "?".to_owned() } else { escape_line(&join_names(&names)) }
}

fn render_finding(queue: &str, finding: &QueueFinding, layout: &TextLayout) -> String {
    let mark = if finding.code.is_remark() { '?' } else { '!' };
    let line = format!(" {mark} {}: {}", escape_line(queue), escape_line(&finding.sentence));
    layout.wrap_paragraph(&line, 3) + "\n"
}

fn render_findings(dlqs: &[&Dlq], layout: &TextLayout) -> String {
    let mut text = String::new();
    for dlq in dlqs {
        dlq.findings.iter().for_each(|finding| text += &render_finding(&dlq.name, finding, layout));
        if let Some(error) = &dlq.error {
            let line = format!(" ! {}: {}", escape_line(&dlq.name), escape_line(error));
            let _ = writeln!(text, "{}", layout.wrap_paragraph(&line, 3));
        }
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
