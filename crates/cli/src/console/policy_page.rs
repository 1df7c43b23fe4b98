//! Policies side by side, tried out with sliders: what `redeliver simulate` says of each.

use std::fmt::Display;
use std::time::Duration;

use maud::{Markup, html};
use redeliver_core::strategy::Strategy;
use redeliver_sim::planner::{Concurrency, Scenario, TargetFault};
use serde::Deserialize;
use serde_json::json;

use super::at::At;
use crate::Failure;
use crate::simulate::drawn;

/// What the sliders say; what an address leaves out is the default policy, in an outage of half an hour.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct Sliders {
    outage_minutes: u64,
    messages: u64,
    capacity: u32,
    a_attempts: u32,
    a_delay: u32,
    a_kind: String,
    a_breaker: String,
    b_attempts: u32,
    b_delay: u32,
    b_kind: String,
    b_breaker: String,
}

impl Default for Sliders {
    fn default() -> Self {
        Self {
            outage_minutes: 30,
            messages: 2000,
            capacity: 0,
            a_attempts: 5,
            a_delay: 900,
            a_kind: "uniform".to_owned(),
            a_breaker: "on".to_owned(),
            b_attempts: 5,
            b_delay: 60,
            b_kind: "exponential".to_owned(),
            b_breaker: "off".to_owned(),
        }
    }
}

/// More would keep a person waiting.
const MESSAGES_MAX: u64 = 10_000;
const OUTAGE_MINUTES_MAX: u64 = 240;
const ATTEMPTS_MAX: u32 = 20;
const DELAY_MAX: u32 = 900;
const CAPACITY_MAX: u32 = 500;

/// One of the two policies.
struct Side<'a> {
    name: &'static str,
    attempts: u32,
    delay: u32,
    kind: &'a str,
    breaker: &'a str,
}

impl Sliders {
    fn sides(&self) -> [Side<'_>; 2] {
        let Self { a_attempts, a_delay, a_kind, a_breaker, b_attempts, b_delay, b_kind, b_breaker, .. } =
            self;
        [
            Side { name: "a", attempts: *a_attempts, delay: *a_delay, kind: a_kind, breaker: a_breaker },
            Side { name: "b", attempts: *b_attempts, delay: *b_delay, kind: b_kind, breaker: b_breaker },
        ]
    }

    fn scenario(&self) -> Scenario {
        let outage = Duration::from_secs(self.outage_minutes.clamp(1, OUTAGE_MINUTES_MAX) * 60);
        Scenario {
            strategy: Strategy::default(),
            messages: self.messages.clamp(1, MESSAGES_MAX),
            fault: TargetFault::Outage(outage),
            capacity: Some(self.capacity.min(CAPACITY_MAX)).filter(|capacity| *capacity > 0),
            over: outage,
            invocations: Concurrency::Limited(10),
            batching_window: Duration::ZERO,
            seed: 0,
        }
    }
}

impl Side<'_> {
    /// As it would stand in a policy file.
    fn policy(&self) -> String {
        let delay = self.delay.min(DELAY_MAX);
        let backoff = match self.kind {
            "exponential" => json!({ "kind": "exponential", "initial_delay_seconds": delay.max(1) }),
            "fixed" => json!({ "kind": "fixed", "delay_seconds": delay }),
            _ => json!({ "kind": "uniform", "max_delay_seconds": delay }),
        };
        let mut policy = json!({ "max_attempts": self.attempts.min(ATTEMPTS_MAX), "backoff": backoff });
        if self.breaker == "off" {
            policy["circuit_breaker"] = false.into();
        }
        policy.to_string()
    }
}

pub(super) fn body(at: &At, sliders: &Sliders) -> Result<Markup, Failure> {
    let mut policies = Vec::new();
    for side in sliders.sides() {
        policies.push((side.name, Strategy::default().policy(&side.policy())?));
    }
    let charts = drawn(sliders.scenario(), &policies)?;
    Ok(html! {
        p { "What a policy would do in an outage: the functions' own code, in virtual time. Nothing is deployed and AWS is not asked." }
        form class="sliders" method="get" action=(at.path("policy")) data-sliders="" {
            fieldset {
                legend { "Outage" }
                (slider("outage_minutes", "minutes", sliders.outage_minutes, 1, OUTAGE_MINUTES_MAX))
                (slider("messages", "messages", sliders.messages, 1, MESSAGES_MAX))
                (slider("capacity", "calls that the target takes a second (0: any)", sliders.capacity, 0, CAPACITY_MAX))
            }
            @for side in sliders.sides() { (of_side(&side)) }
            button { "Simulate" }
        }
        (charts)
    })
}

fn of_side(side: &Side<'_>) -> Markup {
    let name = |field: &str| format!("{}_{field}", side.name);
    let choice = |field: &str, label: &str, values: &[&str], chosen: &str| {
        html! {
            label { (label) select name=(name(field)) {
                @for value in values { option value=(value) selected[*value == chosen] { (value) } }
            } }
        }
    };
    html! {
        fieldset {
            legend { "Policy " (side.name) }
            (slider(&name("attempts"), "retries", side.attempts, 0, ATTEMPTS_MAX))
            (slider(&name("delay"), "seconds (the longest, the first, or each)", side.delay, 0, DELAY_MAX))
            (choice("kind", "backoff", &["uniform", "exponential", "fixed"], side.kind))
            (choice("breaker", "circuit breaker", &["on", "off"], side.breaker))
            details { summary { "As a policy file" } pre tabindex="0" role="region" aria-label={"Policy " (side.name) " as a file"} { (side.policy()) } }
        }
    }
}

fn slider(name: &str, label: &str, value: impl Display, least: impl Display, most: impl Display) -> Markup {
    html! {
        label { (label) " " output { (value) }
            input type="range" name=(name) min=(least) max=(most) value=(value); }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_a_policy_that_the_functions_take() {
        let sliders = Sliders { b_attempts: 1000, ..Sliders::default() };
        let policies = sliders.sides().map(|side| side.policy());
        assert_eq!(policies[0], r#"{"backoff":{"kind":"uniform","max_delay_seconds":900},"max_attempts":5}"#);
        assert_eq!(
            policies[1],
            r#"{"backoff":{"initial_delay_seconds":60,"kind":"exponential"},"circuit_breaker":false,"max_attempts":20}"#
        );
        for policy in policies {
            Strategy::default().policy(&policy).unwrap();
        }
    }

    #[test]
    fn what_is_beyond_all_measure_is_cut() {
        let sliders = Sliders { outage_minutes: u64::MAX, messages: 0, capacity: 0, ..Sliders::default() };
        let scenario = sliders.scenario();
        assert_eq!((scenario.messages, scenario.capacity), (1, None));
        assert_eq!(scenario.fault, TargetFault::Outage(Duration::from_secs(14_400)));
    }
}
