//! The effect of the circuit breaker, and why there may be none.

use redeliver_sim::planner::{Forecast, Outcome, TargetFault};

use super::section::{Section, after_the_return, dollars, side_by_side};
use redeliver_operator::terminal::units::{grouped, span};

/// The outcomes of the policies with and without their circuit breakers.
pub(super) fn section(forecast: &Forecast) -> Section {
    type Value = fn(&Outcome) -> String;
    let [busiest, _, drain] = after_the_return(forecast);
    let values: [(&str, Value); 6] = [
        ("dead-lettered", |outcome| grouped(outcome.measured.dead_lettered.values().sum())),
        ("calls of the target", |outcome| grouped(outcome.measured.calls)),
        ("  wasted", |outcome| grouped(outcome.measured.wasted.total())),
        (busiest, |outcome| grouped(outcome.measured.after_return.peak_per_second)),
        (drain, |outcome| span(outcome.measured.drain_seconds)),
        ("a million such messages cost", |outcome| dollars(outcome.per_million.total_dollars)),
    ];
    let rows = values.into_iter().map(|(name, value)| {
        let of_both = forecast.policies.iter().map(move |policy| {
            let own = value(&policy.outcome);
            match &policy.without_circuit_breaker {
                Some(without) => vec![own, value(without)],
                None => vec!["–".to_owned(), own],
            }
        });
        (name, of_both)
    });
    let title = "What the circuit breaker changes";
    let names = ["with it", "without it"];
    Section { note: never_opened(forecast), ..side_by_side(forecast, title, "", &names, rows) }
}

/// Advice if the circuit breaker never opened. In a small flow no environment meets enough failures.
fn never_opened(forecast: &Forecast) -> Option<String> {
    let has_opened = forecast.circuit_breakers().any(|breaker| breaker.openings > 0);
    let minimum = forecast.policies.iter().filter_map(|policy| policy.minimum_calls).min()?;
    let invocations = forecast.scenario.invocations;
    let fewer = match invocations.limit() {
        _ if invocations.environments() == 1 => "",
        Some(_) => "--max-concurrency 1, or ",
        None => "--environments 1, or ",
    };
    let never = "The circuit breaker never opened: no environment met enough failed calls.";
    let advice = match forecast.scenario.fault {
        TargetFault::Outage(_) => format!("\nTry {fewer}a minimum_calls below {minimum}"),
        // It should not open in this case.
        TargetFault::FailureRate(_) => String::new(),
    };
    (!has_opened).then(|| format!("{never}{advice}"))
}
