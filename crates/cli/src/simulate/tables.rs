//! The report as tables: for a terminal, and for a page.

use std::collections::BTreeSet;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::report::{PolicyReport, Report};
use crate::people::{grouped, span};

/// Attempts that are told one by one; of the others only the last.
const ATTEMPTS_TOLD: usize = 12;
/// Characters of a line that a terminal shows without breaking it.
const WIDTH: usize = 100;

/// A table with its title.
pub(super) struct Section {
    pub(super) title: String,
    /// The first names the rows.
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// For a terminal.
pub(super) fn text(report: &Report) -> String {
    let tables = sections(report).into_iter().map(|section| {
        let parts: Vec<_> = parts(&section).into_iter().map(|columns| part(&section, &columns)).collect();
        format!("{}\n{}", section.title, parts.join("\n"))
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
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(of(&section.columns))
        .add_rows(section.rows.iter().map(|row| of(row)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

/// What was simulated, in a sentence.
pub(super) fn scenario(report: &Report) -> String {
    let given = &report.scenario;
    let mut sentence = format!("{} messages over {}", grouped(given.messages), span(given.over_seconds));
    match (given.outage_seconds, given.failure_rate) {
        (Some(seconds), _) => sentence += &format!("; the target is down for the first {}", span(seconds)),
        (None, rate) => sentence += &format!("; {} of the calls fail", percent(rate.unwrap_or_default())),
    }
    if let Some(most) = given.capacity_per_second {
        sentence += &format!("; the target takes {} a second", grouped(most.into()));
    }
    if let Some(most) = given.max_concurrency {
        sentence += &format!("; at most {most} invocations at once");
    }
    sentence + "."
}

/// All tables.
pub(super) fn sections(report: &Report) -> Vec<Section> {
    vec![schedule(report), survival(report), span_section(report), load(report), costs(report)]
}

fn schedule(report: &Report) -> Section {
    let policies = &report.policies;
    let longest = policies.iter().map(|policy| policy.schedule.len()).max().unwrap_or(0);
    let told = (0..longest).filter(|index| *index < ATTEMPTS_TOLD || index + 1 == longest);
    let is_alone = policies.len() == 1;
    let rows = told.map(|index| {
        let mut row = vec![(index + 1).to_string()];
        for policy in policies {
            match policy.schedule.get(index) {
                None => row.push("–".to_owned()),
                Some(attempt) => {
                    let moments =
                        [attempt.earliest_seconds, attempt.median_seconds, attempt.latest_seconds].map(span);
                    let made = if attempt.made < 1.0 - 1e-9 {
                        format!(" ({})", percent(attempt.made))
                    } else {
                        String::new()
                    };
                    if is_alone {
                        let [earliest, median, latest] = moments;
                        row.extend([earliest, median, latest + &made]);
                    } else {
                        row.push(moments.join(" · ") + &made);
                    }
                }
            }
        }
        row
    });
    let rows = rows.collect();
    let (title, columns) = if is_alone {
        let columns = ["attempt", "earliest", "median", "latest"].map(str::to_owned).to_vec();
        ("Attempts of one message, since its first failure", columns)
    } else {
        let title = "Attempts of one message, since its first failure: earliest · median · latest";
        (title, heading("attempt", policies))
    };
    Section { title: title.to_owned(), columns, rows }
}

fn survival(report: &Report) -> Section {
    let policies = &report.policies;
    let lengths = policies.first().map_or(0, |policy| policy.survival.len());
    let is_alone = policies.len() == 1;
    let rows = (0..lengths).map(|index| {
        let mut row = vec![
            policies.first().map_or(String::new(), |policy| span(policy.survival[index].outage_seconds)),
        ];
        for policy in policies {
            let survival = policy.survival[index];
            let chances = [survival.at_a_random_moment, survival.from_its_beginning].map(percent);
            if is_alone { row.extend(chances) } else { row.push(chances.join(" · ")) }
        }
        row
    });
    let rows = rows.collect();
    if is_alone {
        let columns =
            ["outage", "first failure at a random moment of it", "at its beginning"].map(str::to_owned);
        return Section {
            title: "Chance that a message survives an outage".to_owned(),
            columns: columns.to_vec(),
            rows,
        };
    }
    let title =
        "Chance that a message survives an outage: first failure at a random moment of it · at its beginning";
    Section { title: title.to_owned(), columns: heading("outage", policies), rows }
}

fn span_section(report: &Report) -> Section {
    let rows = vec![
        row("longest way, with calls of 60 s", report, |policy| span(policy.span.worst_case_seconds)),
        row("the source queue keeps a message", report, |policy| span(policy.span.retention_seconds)),
        row("fits into 80 % of that, or is meant", report, |policy| {
            if policy.span.fits { "yes".to_owned() } else { "NO: the stack refuses it".to_owned() }
        }),
    ];
    Section { title: "Worst case".to_owned(), columns: heading("", &report.policies), rows }
}

fn load(report: &Report) -> Section {
    let mut rows = vec![
        row("processed", report, |policy| grouped(policy.measured.processed)),
        row("dead-lettered", report, |policy| grouped(policy.measured.dead_lettered.values().sum())),
    ];
    let codes: BTreeSet<_> =
        report.policies.iter().flat_map(|policy| policy.measured.dead_lettered.keys()).collect();
    rows.extend(codes.into_iter().map(|code| {
        let count = |policy: &PolicyReport| policy.measured.dead_lettered.get(code).copied();
        row(&format!("  {code}"), report, |policy| grouped(count(policy).unwrap_or_default()))
    }));
    rows.push(row("calls of the target", report, |policy| grouped(policy.measured.calls)));
    let mut more = |name: &str, is_always: bool, value: fn(&PolicyReport) -> u64| {
        if is_always || report.policies.iter().any(|policy| value(policy) > 0) {
            rows.push(row(name, report, |policy| grouped(value(policy))));
        }
    };
    more("wasted: the target was down", false, |policy| policy.measured.wasted.while_down);
    more("wasted: over its capacity", false, |policy| policy.measured.wasted.over_capacity);
    more("wasted: failed by chance", false, |policy| policy.measured.wasted.by_chance);
    let (busiest, most) = if report.scenario.outage_seconds.is_some() {
        ("busiest second after the return", "99 % of the seconds after it: at most")
    } else {
        ("busiest second", "99 % of the seconds: at most")
    };
    more(busiest, true, |policy| policy.measured.after_return.peak_per_second);
    more(most, true, |policy| policy.measured.after_return.p99_per_second);
    more("hops of long delays", false, |policy| policy.measured.hops);
    more("still waiting", false, |policy| policy.measured.waiting);
    more("EXPIRED IN A QUEUE", false, |policy| policy.measured.unaccounted);
    let drain = if report.scenario.outage_seconds.is_some() {
        "drained after the return in"
    } else {
        "drained after the last one in"
    };
    rows.push(row(drain, report, |policy| span(policy.measured.drain_seconds)));
    Section { title: "Load on the target, measured".to_owned(), columns: heading("", &report.policies), rows }
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
    Section { title, columns: heading("", &report.policies), rows }
}

fn heading(first: &str, policies: &[PolicyReport]) -> Vec<String> {
    std::iter::once(first.to_owned())
        .chain(policies.iter().map(|policy| crate::text::escaped(&policy.name)))
        .collect()
}

fn row(name: &str, report: &Report, value: impl Fn(&PolicyReport) -> String) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(report.policies.iter().map(value)).collect()
}

/// One digit after the point, and never 0 or 100 for what is not.
fn percent(share: f64) -> String {
    const CERTAIN: f64 = 1e-9;
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
        let section = Section { title: "t".to_owned(), columns, rows };
        assert_eq!(parts(&section), [vec![0, 1, 2], vec![0, 3], vec![0, 4], vec![0, 5]]);
        let second = part(&section, &[0, 3]);
        assert_eq!(
            second.lines().map(str::trim_end).collect::<Vec<_>>(),
            [format!(" attempt  {}", "c".repeat(40)), format!(" 0        {}3", " ".repeat(39)),]
        );
    }
}
