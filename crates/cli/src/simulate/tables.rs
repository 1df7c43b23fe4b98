//! The report as tables: for a terminal, and for a page.

mod changes;

use std::collections::BTreeSet;
use std::iter::once;
use std::time::Duration;

use redeliver_core::strategy::Strategy;

use super::report::{PolicyReport, Report};
use super::run::CircuitBreaker;
use super::{Attempt, Measured, Survival, Trouble};
use crate::people::{float, grouped, span, table};

/// Attempts that have a row each; of the others only the last.
const ROWS_MAX: usize = 12;
/// Characters of a line that a terminal shows without breaking it.
const WIDTH: usize = 100;
/// What a chance may differ from 0 and 1 by rounding.
const CERTAIN: f64 = 1e-9;

/// Of the messages of a run; it is "almost all" in words.
const ALMOST_ALL: f64 = 0.9;
const HELD_ROW: &str = "messages held by the circuit breaker";

/// A table with its title.
pub(super) struct Section {
    pub(super) title: String,
    /// The first names the rows.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// What its columns mean, if they do not say it.
    pub(super) note: Option<String>,
}

pub(super) fn text(report: &Report) -> String {
    let tables = sections(report).into_iter().map(|section| {
        let parts: Vec<_> = parts(&section).into_iter().map(|columns| part(&section, &columns)).collect();
        let note = section.note.as_ref().map_or(String::new(), |note| format!("{note}\n"));
        format!("{}\n{}{note}", section.title, parts.join("\n"))
    });
    format!("{}\n\n{}", scenario(report), tables.collect::<Vec<_>>().join("\n"))
}

/// The columns of each part of a table that is wider than a terminal: each part has the rows' names.
fn parts(section: &Section) -> Vec<Vec<usize>> {
    let width = |column: usize| {
        let cells = section.rows.iter().map(|row| row[column].chars().count());
        cells.chain([section.columns[column].chars().count()]).max().unwrap_or(0) + 2
    };
    let (mut parts, mut taken) = (vec![vec![0]], width(0));
    for column in 1..section.columns.len() {
        let last = parts.last_mut().filter(|part| part.len() == 1 || taken + width(column) <= WIDTH);
        match last {
            Some(part) => part.push(column),
            None => {
                parts.push(vec![0, column]);
                taken = width(0);
            }
        }
        taken += width(column);
    }
    parts
}

fn part(section: &Section, columns: &[usize]) -> String {
    let of = |cells: &[String]| columns.iter().map(|column| cells[*column].clone()).collect::<Vec<_>>();
    let header = of(&section.columns);
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    table(&header, section.rows.iter().map(|row| of(row)), 1..columns.len())
}

/// What was simulated, in a sentence.
pub(super) fn scenario(report: &Report) -> String {
    let given = &report.scenario;
    let mut sentence = format!("{} messages over {}", grouped(given.messages), span(given.over.as_secs()));
    sentence += &match given.trouble {
        Trouble::Outage(length) => format!("; the target is down for the first {}", span(length.as_secs())),
        Trouble::FailureRate(rate) => format!("; {} of the calls fail", percent(rate)),
    };
    if let Some(most) = given.capacity {
        sentence += &format!("; the target takes {} a second", grouped(most.into()));
    }
    if let Some(most) = given.invocations.limit() {
        sentence += &format!("; at most {most} invocations at once");
    }
    if given.batching_window > Duration::ZERO {
        sentence += &format!("; a batch waits {} for more", span(given.batching_window.as_secs()));
    }
    if given.strategy != Strategy::default() {
        sentence += &format!("; strategy {}", given.strategy);
    }
    sentence + "."
}

pub(super) fn sections(report: &Report) -> Vec<Section> {
    let breaker = report.policies.iter().any(|policy| policy.without_circuit_breaker.is_some());
    [schedule(report), survival(report), span_section(report), load(report)]
        .into_iter()
        .chain(breaker.then(|| changes::section(report)))
        .chain([costs(report)])
        .collect()
}

fn schedule(report: &Report) -> Section {
    let longest = report.policies.iter().map(|policy| policy.schedule.len()).max().unwrap_or(0);
    let values = |policy: &PolicyReport, index: usize| {
        let Some(attempt) = policy.schedule.get(index) else {
            return vec!["–".to_owned()];
        };
        let made = match attempt.made {
            made if made < 1.0 - CERTAIN => format!(" ({})", percent(made)),
            _ => String::new(),
        };
        let Attempt { earliest_seconds, median_seconds, latest_seconds, .. } = *attempt;
        vec![span(earliest_seconds), span(median_seconds), span(latest_seconds) + &made]
    };
    let shown = (0..longest).filter(|index| *index < ROWS_MAX || index + 1 == longest);
    let rows =
        shown.map(|index| (index + 1, report.policies.iter().map(move |policy| values(policy, index))));
    let title = "Attempts of one message, since its first failure";
    side_by_side(report, title, "attempt", &["earliest", "median", "latest"], rows)
}

fn survival(report: &Report) -> Section {
    let lengths: Vec<_> = report.policies.first().map_or(&[][..], |policy| &policy.survival).to_vec();
    let is_held = report.policies.iter().any(|policy| policy.held.is_some());
    let rows = lengths.into_iter().enumerate().map(|(index, Survival { outage_seconds, .. })| {
        let chances = report.policies.iter().map(move |policy| {
            let Survival { at_a_random_moment, from_its_beginning, held, .. } = policy.survival[index];
            let held = is_held.then(|| held.map_or("–".to_owned(), percent));
            held.into_iter().chain([at_a_random_moment, from_its_beginning].map(percent)).collect()
        });
        (span(outage_seconds), chances)
    });
    let title = "Chance that a message survives an outage";
    if !is_held {
        let names = ["first failure at a random moment of it", "at its beginning"];
        return side_by_side(report, title, "outage", &names, rows);
    }
    let names = ["held", "called, first at a random moment of it", "called, first at its beginning"];
    Section { note: Some(held_and_called(report)), ..side_by_side(report, title, "outage", &names, rows) }
}

/// What the columns mean, and for how many messages of the run the first one is.
fn held_and_called(report: &Report) -> String {
    let breakers = || report.policies.iter().filter_map(|policy| policy.measured.circuit_breaker);
    let sent = report.scenario.messages;
    if breakers().all(|breaker| float(breaker.held_messages) >= ALMOST_ALL * float(sent)) {
        return "\
held: from its beginning on, as almost all are; that spends no attempt.
called: each time, as without a circuit breaker. Few are: only before it opens"
            .to_owned();
    }
    let held: Vec<_> = breakers().map(|breaker| grouped(breaker.held_messages)).collect();
    format!(
        "\
held: from its beginning on; that spends no attempt. In this run {} of {} were held.
called: each time, as without a circuit breaker",
        held.join(" and "),
        grouped(sent)
    )
}

/// What the rows are called that are counted from the target's return on, if it was away.
const fn after_the_return(report: &Report) -> [&'static str; 3] {
    match report.scenario.trouble {
        Trouble::Outage(_) => [
            "busiest second after the return",
            "99 % of the seconds after it: at most",
            "drained after the return in",
        ],
        Trouble::FailureRate(_) => {
            ["busiest second", "99 % of the seconds: at most", "drained after the last one in"]
        }
    }
}

/// Several values of each policy: in columns of their own, or of more than one policy in one column.
fn side_by_side<Name: ToString>(
    report: &Report,
    title: &str,
    first: &str,
    names: &[&str],
    rows: impl Iterator<Item = (Name, impl Iterator<Item = Vec<String>>)>,
) -> Section {
    let is_alone = report.policies.len() == 1;
    let rows = rows.map(|(name, values)| {
        let cells = values.flat_map(|values| if is_alone { values } else { vec![values.join(" · ")] });
        once(name.to_string()).chain(cells).collect()
    });
    let rows = rows.collect();
    if is_alone {
        let columns = once(first).chain(names.iter().copied()).map(str::to_owned).collect();
        return Section { title: title.to_owned(), columns, rows, note: None };
    }
    Section {
        title: format!("{title}: {}", names.join(" · ")),
        columns: heading(first, report),
        rows,
        note: None,
    }
}

fn span_section(report: &Report) -> Section {
    let rows = vec![
        row("longest way, with calls of 60 s", report, |policy| span(policy.span.worst_case_seconds)),
        row("the source queue keeps a message", report, |policy| span(policy.span.retention_seconds)),
        row("fits into 80 % of that, or is meant", report, |policy| {
            if policy.span.fits { "yes".to_owned() } else { "NO: the stack refuses it".to_owned() }
        }),
        row("held by the circuit breaker at most", report, |policy| {
            policy.span.hold_seconds_max.map_or("–".to_owned(), span)
        }),
    ];
    Section { title: "Worst case".to_owned(), columns: heading("", report), rows, note: None }
}

fn load(report: &Report) -> Section {
    type Count = fn(&Measured) -> u64;
    let count = |name: &str, value: &dyn Fn(&Measured) -> u64| {
        row(name, report, |policy| grouped(value(&policy.measured)))
    };
    let measured = || report.policies.iter().map(|policy| &policy.measured);
    let mut rows = vec![
        count("processed", &|measured| measured.processed),
        count("dead-lettered", &|measured| measured.dead_lettered.values().sum()),
    ];
    let codes: BTreeSet<_> = measured().flat_map(|measured| measured.dead_lettered.keys()).collect();
    rows.extend(codes.into_iter().map(|code| {
        count(&format!("  {code}"), &|measured| measured.dead_lettered.get(code).copied().unwrap_or_default())
    }));
    rows.push(count("calls of the target", &|measured| measured.calls));
    let [busiest, most, drain] = after_the_return(report);
    let more: [(&str, Count); 11] = [
        ("wasted: the target was down", |measured| measured.wasted.while_down),
        ("wasted: over its capacity", |measured| measured.wasted.over_capacity),
        ("wasted: failed by chance", |measured| measured.wasted.by_chance),
        (HELD_ROW, |measured| of_breaker(measured).held_messages),
        ("  held so often, all together", |measured| of_breaker(measured).holds),
        ("  probes: calls while it was open", |measured| of_breaker(measured).probes),
        (busiest, |measured| measured.after_return.peak_per_second),
        (most, |measured| measured.after_return.p99_per_second),
        ("hops of long delays", |measured| measured.hops),
        ("still waiting", |measured| measured.waiting),
        ("EXPIRED IN A QUEUE", |measured| measured.unaccounted),
    ];
    let shown = more.into_iter().filter(|(name, value)| {
        let has_breaker = *name == HELD_ROW && measured().any(|measured| measured.circuit_breaker.is_some());
        has_breaker || [busiest, most].contains(name) || measured().any(|measured| value(measured) > 0)
    });
    rows.extend(shown.map(|(name, value)| count(name, &value)));
    rows.push(row(drain, report, |policy| span(policy.measured.drain_seconds)));
    Section {
        title: "Load on the target, measured".to_owned(),
        columns: heading("", report),
        rows,
        note: None,
    }
}

fn of_breaker(measured: &Measured) -> CircuitBreaker {
    measured.circuit_breaker.unwrap_or_default()
}

fn costs(report: &Report) -> Section {
    let rows = vec![
        row("SQS requests", report, |policy| rounded(policy.per_million.sqs_requests)),
        row("Lambda invocations", report, |policy| rounded(policy.per_million.invocations)),
        row("Lambda GB-seconds", report, |policy| rounded(policy.per_million.gb_seconds)),
        row("logs", report, |policy| format!("{:.2} GB", policy.per_million.log_gb)),
        row("SQS", report, |policy| dollars(policy.per_million.dollars.sqs_requests)),
        row("Lambda", report, |policy| {
            dollars(policy.per_million.dollars.lambda_requests + policy.per_million.dollars.lambda_duration)
        }),
        row("CloudWatch Logs", report, |policy| dollars(policy.per_million.dollars.logs)),
        row("together", report, |policy| dollars(policy.per_million.total_dollars)),
    ];
    let title = format!(
        "A million such messages, at the prices of {} as of {}",
        report.prices.region, report.prices.read_on
    );
    Section { title, columns: heading("", report), rows, note: None }
}

fn heading(first: &str, report: &Report) -> Vec<String> {
    let names = report.policies.iter().map(|policy| crate::text::escaped(&policy.name));
    once(first.to_owned()).chain(names).collect()
}

fn row(name: &str, report: &Report, value: impl Fn(&PolicyReport) -> String) -> Vec<String> {
    once(name.to_owned()).chain(report.policies.iter().map(value)).collect()
}

/// One digit after the point, and never 0 or 100 for what is not.
fn percent(share: f64) -> String {
    match share * 100.0 {
        _ if share <= CERTAIN => "0 %".to_owned(),
        _ if share >= 1.0 - CERTAIN => "100 %".to_owned(),
        percent if percent < 0.05 => "< 0.1 %".to_owned(),
        percent if percent >= 99.95 => "> 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

fn dollars(amount: f64) -> String {
    format!("${amount:.2}")
}

fn rounded(number: f64) -> String {
    grouped(format!("{number:.0}").parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_0_or_100_only_where_it_is() {
        let shown = [0.0, 1e-12, 0.0004, 0.5, 0.999_49, 0.9999, 1.0].map(percent);
        assert_eq!(shown, ["0 %", "0 %", "< 0.1 %", "50.0 %", "99.9 %", "> 99.9 %", "100 %"]);
    }

    #[test]
    fn a_table_that_is_wider_than_a_terminal_goes_on_below_with_the_names_of_its_rows() {
        let columns = ["attempt", &"a".repeat(40), &"b".repeat(40), &"c".repeat(40), &"d".repeat(120), "e"];
        let columns = columns.map(str::to_owned).to_vec();
        let rows = vec![(0..6).map(|column| column.to_string()).collect()];
        let section = Section { title: "t".to_owned(), columns, rows, note: None };
        assert_eq!(parts(&section), [vec![0, 1, 2], vec![0, 3], vec![0, 4], vec![0, 5]]);
        let second = part(&section, &[0, 3]);
        assert_eq!(
            second.lines().map(str::trim_end).collect::<Vec<_>>(),
            [format!(" attempt  {}", "c".repeat(40)), format!(" 0        {}3", " ".repeat(39)),]
        );
    }
}
