//! A table in the forecast, with rows or columns per policy, and the formatting of its numbers.

use std::iter::once;

use redeliver_sim::planner::{Forecast, Measurements, PolicyForecast, TargetFault};

use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::units::{format_span, group_digits};

/// A probability this close to 0 or 1 differs from it only by rounding.
pub(super) const CERTAIN: f64 = 1e-9;

pub(in crate::commands::simulate) struct Section {
    pub(in crate::commands::simulate) title: String,
    /// The number of leading columns that name the rows; the others contain values.
    pub(in crate::commands::simulate) names: usize,
    /// The headings.
    pub(in crate::commands::simulate) columns: Vec<String>,
    pub(in crate::commands::simulate) rows: Vec<Vec<String>>,
    /// Explains the columns.
    pub(in crate::commands::simulate) note: Option<String>,
}

impl Section {
    /// Returns the CSS class for name columns other than the first.
    pub(in crate::commands::simulate) fn css_class(&self, column: usize) -> Option<&'static str> {
        (0 < column && column < self.names).then_some("name")
    }
}

/// Builds a table with several values per policy, one column per value. Each policy has its own row, except policies
/// without values.
pub(super) fn section_with_policy_rows<Name: ToString>(
    forecast: &Forecast,
    title: &str,
    first: &str,
    names: &[&str],
    rows: impl Iterator<Item = (Name, impl Iterator<Item = Vec<String>>)>,
) -> Section {
    let is_alone = forecast.policies.len() == 1;
    let policy = (!is_alone).then_some("policy");
    let row = |name: &str, policy: &PolicyForecast, values: Vec<String>| {
        let policy = (!is_alone).then(|| escape_line(&policy.name));
        once(name.to_owned()).chain(policy).chain(values).collect::<Vec<_>>()
    };
    let rows = rows.flat_map(|(name, values)| {
        let name = name.to_string();
        let with_values = forecast.policies.iter().zip(values).filter(|(_, values)| !values.is_empty());
        with_values.map(|(policy, values)| row(&name, policy, values)).collect::<Vec<_>>()
    });
    let rows = rows.collect();
    let columns = once(first).chain(policy).chain(names.iter().copied()).map(str::to_owned).collect();
    Section { title: title.to_owned(), names: if is_alone { 1 } else { 2 }, columns, rows, note: None }
}

/// Builds a table with one column per policy.
pub(super) fn section_with_policy_columns(
    title: impl Into<String>,
    first: &str,
    forecast: &Forecast,
    rows: Vec<Vec<String>>,
) -> Section {
    let names = forecast.policies.iter().map(|policy| escape_line(&policy.name));
    let columns = once(first.to_owned()).chain(names).collect();
    Section { title: title.into(), names: 1, columns, rows, note: None }
}

pub(super) fn policy_row(
    name: &str,
    forecast: &Forecast,
    value: impl Fn(&PolicyForecast) -> String,
) -> Vec<String> {
    once(name.to_owned()).chain(forecast.policies.iter().map(value)).collect()
}

/// Formats a probability as a percentage with one decimal place. 0 % and 100 % appear only for exactly 0 and 1.
pub(super) fn format_percent(share: f64) -> String {
    match share * 100.0 {
        _ if share <= CERTAIN => "0 %".to_owned(),
        _ if share >= 1.0 - CERTAIN => "100 %".to_owned(),
        percent if percent < 0.05 => "< 0.1 %".to_owned(),
        percent if percent >= 99.95 => "> 99.9 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

pub(super) fn format_dollars(amount: f64) -> String {
    format!("${amount:.2}")
}

pub(super) fn format_rounded(number: f64) -> String {
    group_digits(round_to_integer(number))
}

pub(super) fn format_rounded_span(seconds: f64) -> String {
    format_span(round_to_integer(seconds))
}

/// Formats the time to drain, or a dash if no message was processed, regardless of when the last message died.
pub(super) fn format_drain_time(measured: &Measurements) -> String {
    if measured.processed == 0 { "–".to_owned() } else { format_span(measured.drain_seconds) }
}

fn round_to_integer(number: f64) -> u64 {
    format!("{number:.0}").parse().unwrap_or(u64::MAX)
}

/// Returns the names of three rows, which measure the time after the target's recovery if it was down.
pub(super) const fn recovery_row_names(forecast: &Forecast) -> [&'static str; 3] {
    match forecast.scenario.fault {
        TargetFault::Outage(_) | TargetFault::Flap(_) => [
            "busiest second after the return",
            "99th percentile of the seconds after it",
            "time to drain after the return",
        ],
        TargetFault::FailureRate(_) => {
            ["busiest second", "99th percentile of the seconds", "time to drain after the last message"]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certain_probabilities_are_0_or_100_percent() {
        let shown = [0.0, 1e-12, 0.0004, 0.5, 0.999_49, 0.9999, 1.0].map(format_percent);
        assert_eq!(shown, ["0 %", "0 %", "< 0.1 %", "50.0 %", "99.9 %", "> 99.9 %", "100 %"]);
    }
}
