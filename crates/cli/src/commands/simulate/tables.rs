//! The forecast as tables, for a terminal and for a page.

mod plain;
mod section;
mod text;

use std::collections::BTreeSet;
use std::iter::once;

use redeliver_core::message::reason::{DeadLetterReason, ReasonCode};
use redeliver_core::strategy::Strategy;
use redeliver_sim::Batching;
use redeliver_sim::planner::{
    Bottleneck, BreakerCounts, DelayPercentiles, FailedCall, Flap, Forecast, ForecastOutcome,
    INNER_CONCURRENCY_MAX, InnerFunctionName, Measurements, PerMillion, PolicyForecast, RETENTION_SHARE_MAX,
    ScenarioGroups, ScheduledAttempt, Survival, TARGET_TIMEOUT, TargetFault, WorstCase,
};

use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::units::{as_float, format_count, format_span, group_digits};
pub(super) use section::Section;
use section::{
    CERTAIN, format_dollars, format_drain_time, format_percent, format_rounded, format_rounded_span,
    policy_row, recovery_row_names, section_with_policy_columns, section_with_policy_rows,
};

/// Attempts up to this number each have a row; of the later attempts, only the last is shown.
const ROWS_MAX: usize = 12;

/// The share of messages that the text calls "almost all".
const ALMOST_ALL: f64 = 0.9;

/// Renders the tables for a terminal.
pub(super) fn render_text(forecast: &Forecast) -> String {
    text::render_tables(
        &describe_verdict(forecast),
        &describe_scenario(forecast),
        &forecast_sections(forecast),
    )
}

/// Recommends a policy, or a change, in a sentence.
pub(super) fn describe_verdict(forecast: &Forecast) -> String {
    let [best, others @ ..] = &rank_policies(forecast)[..] else { return String::new() };
    let sent = forecast.scenario.messages;
    let result = match best.outcome.measured.unprocessed_count() {
        0 if sent == 1 => "processes the one message".to_owned(),
        0 => format!("processes all {}", format_count(sent, "message")),
        some => format!("does not process {} of {}", group_digits(some), format_count(sent, "message")),
    };
    let cost = format_dollars(best.outcome.per_million.total_dollars);
    let name = escape_line(&best.name);
    if !best.worst_case.fits {
        return if others.is_empty() {
            "The stack rejects this policy: shorten its delays, or lengthen the retention.".to_owned()
        } else {
            "The stack rejects each of these policies: shorten their delays, or lengthen the retention."
                .to_owned()
        };
    }
    let advice = if !others.is_empty() {
        format!("Use {name}: it {result}")
    } else if let Some(remedy) = suggest_remedy(&best.outcome.measured) {
        format!("This policy {result}: {remedy}")
    } else {
        format!("This policy {result}")
    };
    format!("{advice}. A million such messages cost {cost}.")
}

/// Suggests the policy change that addresses the most common reason for dead letters.
fn suggest_remedy(measured: &Measurements) -> Option<&'static str> {
    let (code, _) = measured.dead_lettered.iter().max_by_key(|(_, messages)| **messages)?;
    match ReasonCode::from_text(code)?.known()? {
        DeadLetterReason::HoldTimeExceeded => Some("raise hold_seconds_max"),
        DeadLetterReason::MessageExpired => Some("raise max_age_seconds"),
        DeadLetterReason::NonRetryableError => Some("check its retryable and non_retryable lists"),
        DeadLetterReason::RetryAttemptExceeded => Some("plan more or longer retries"),
        _ => None,
    }
}

/// Sorts the policies by unprocessed messages, then by cost. Policies that the stack rejects are last.
fn rank_policies(forecast: &Forecast) -> Vec<&PolicyForecast> {
    let mut policies: Vec<_> = forecast.policies.iter().collect();
    policies.sort_by(|left, right| {
        let rank =
            |policy: &PolicyForecast| (!policy.worst_case.fits, policy.outcome.measured.unprocessed_count());
        let price = |policy: &PolicyForecast| policy.outcome.per_million.total_dollars;
        rank(left).cmp(&rank(right)).then(price(left).total_cmp(&price(right)))
    });
    policies
}

/// Describes the scenario in a sentence.
pub(super) fn describe_scenario(forecast: &Forecast) -> String {
    let given = &forecast.scenario;
    let mut sentence =
        format!("{} over {}", format_count(given.messages, "message"), format_span(given.over.as_secs()));
    sentence += &match given.fault {
        TargetFault::Outage(length) => {
            format!("; the target is down for the first {}", format_span(length.as_secs()))
        }
        TargetFault::Flap(Flap { up, down }) => {
            let [up, down] = [up, down].map(|length| format_span(length.as_secs()));
            format!("; the target is up for {up} and down for {down} in turn")
        }
        TargetFault::FailureRate(rate) => format!("; {} of the calls fail", format_percent(rate)),
    };
    match given.failed_call {
        FailedCall::Status(503) => {}
        FailedCall::Status(status) => sentence += &format!(" with HTTP status {status}"),
        FailedCall::Hang => {
            sentence += &format!("; calls that fail hang for {}", format_span(TARGET_TIMEOUT.as_secs()));
        }
    }
    if let Some(ScenarioGroups { count, down }) = given.groups {
        sentence += &format!(
            "; this affects {} of {}",
            group_digits(down.into()),
            format_count(count.into(), "group")
        );
    }
    if let Some(most) = given.capacity {
        sentence += &format!("; the target's capacity is {} per second", group_digits(most.into()));
    }
    sentence += &format!("; at most {} at once", format_count(given.max_concurrency.into(), "invocation"));
    if all_measurements(forecast).any(|measured| measured.bottleneck.is_some()) {
        sentence += &format!("; innerConcurrency {}", given.inner_concurrency);
    }
    let Batching { size, window } = given.batching;
    if size < Batching::default().size {
        sentence += &format!("; at most {} per batch", format_count(size.into(), "message"));
    }
    if window != Batching::for_message_processor(given.strategy).window {
        sentence += &format!("; a batch waits {} for more", format_span(window.as_secs()));
    }
    if given.strategy != Strategy::default() {
        sentence += &format!("; strategy {}", given.strategy);
    }
    sentence + "."
}

pub(super) fn forecast_sections(forecast: &Forecast) -> Vec<Section> {
    let breaker = forecast.policies.iter().any(|policy| policy.without_circuit_breaker.is_some());
    (forecast.policies.len() > 1)
        .then(|| comparison_section(forecast))
        .into_iter()
        .chain(plain::plain_sqs_section(forecast))
        .chain([
            schedule_section(forecast),
            survival_section(forecast),
            worst_case_section(forecast),
            load_section(forecast),
            delay_section(forecast),
        ])
        .chain(breaker.then(|| breaker_section(forecast)))
        .chain([cost_section(forecast)])
        .collect()
}

/// Builds a table with one row per policy, best first.
fn comparison_section(forecast: &Forecast) -> Section {
    let names =
        ["policy", "not processed", "calls", "busiest second", "time to drain", "dollars per million"];
    let rows = rank_policies(forecast).into_iter().map(|policy| {
        let measured = &policy.outcome.measured;
        vec![
            escape_line(&policy.name),
            group_digits(measured.unprocessed_count()),
            group_digits(measured.calls),
            group_digits(measured.after_return.peak_per_second),
            format_drain_time(measured),
            format_dollars(policy.outcome.per_million.total_dollars),
        ]
    });
    Section {
        title: "Policies, best first".to_owned(),
        names: 1,
        columns: names.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        note: None,
    }
}

fn schedule_section(forecast: &Forecast) -> Section {
    let mut attempts = forecast.policies.iter().flat_map(|policy| &policy.schedule.attempts);
    let is_uncertain = attempts.any(|attempt| attempt.made < 1.0 - CERTAIN);
    let longest = forecast.policies.iter().map(|policy| policy.schedule.attempts.len()).max().unwrap_or(0);
    let values = |policy: &PolicyForecast, index: usize| {
        let Some(attempt) = policy.schedule.attempts.get(index) else { return Vec::new() };
        let ScheduledAttempt { earliest_seconds, median_seconds, latest_seconds, made, .. } = *attempt;
        let spans = [earliest_seconds, median_seconds, latest_seconds].map(format_span);
        spans.into_iter().chain(is_uncertain.then(|| format_percent(made))).collect()
    };
    let shown = (0..longest).filter(|index| *index < ROWS_MAX || index + 1 == longest);
    let rows =
        shown.map(|index| (index + 1, forecast.policies.iter().map(move |policy| values(policy, index))));
    let title = "Attempts of one message, since its first failure";
    let names = ["earliest", "median", "latest", "made"];
    section_with_policy_rows(forecast, title, "attempt", &names[..if is_uncertain { 4 } else { 3 }], rows)
}

fn survival_section(forecast: &Forecast) -> Section {
    let lengths: Vec<_> = forecast.policies.first().map_or(&[][..], |policy| &policy.survival).to_vec();
    let is_held = forecast.policies.iter().any(|policy| policy.hold.is_some());
    let rows = lengths.into_iter().enumerate().map(|(index, Survival { outage_seconds, .. })| {
        let chances = forecast.policies.iter().map(move |policy| {
            let Survival { at_a_random_moment, from_its_beginning, held, .. } = policy.survival[index];
            let held = is_held.then(|| held.map_or("–".to_owned(), format_percent));
            held.into_iter().chain([at_a_random_moment, from_its_beginning].map(format_percent)).collect()
        });
        (format_span(outage_seconds), chances)
    });
    let title = "Chance that a message survives an outage";
    if !is_held {
        let names = ["first failure at a random moment of it", "at its beginning"];
        return section_with_policy_rows(forecast, title, "outage", &names, rows);
    }
    let names = ["held", "called from a random moment", "called from its beginning"];
    Section {
        note: Some(explain_held_and_called_columns(forecast)),
        ..section_with_policy_rows(forecast, title, "outage", &names, rows)
    }
}

/// Explains the columns, and describes how many messages were held in the run.
fn explain_held_and_called_columns(forecast: &Forecast) -> String {
    let sent = forecast.scenario.messages;
    let mut breakers = forecast.circuit_breakers();
    if sent > 1 && breakers.all(|breaker| as_float(breaker.held_messages) >= ALMOST_ALL * as_float(sent)) {
        let few = if any_circuit_opened(forecast) { ". Few messages were, before it opened" } else { "" };
        return format!(
            "\
held: from the beginning of the outage, as almost all messages were. That spends no attempt.
called: each time, as without a circuit breaker{few}"
        );
    }
    let held: Vec<_> =
        forecast.circuit_breakers().map(|breaker| group_digits(breaker.held_messages)).collect();
    format!(
        "\
held: from the beginning of the outage. That spends no attempt. In this run {} of {} {} held.
called: each time, as without a circuit breaker",
        held.join(" and "),
        format_count(sent, "message"),
        if sent == 1 { "was" } else { "were" }
    )
}

fn worst_case_section(forecast: &Forecast) -> Section {
    let rows = vec![
        policy_row("longest time, with calls of 60 s", forecast, |policy| {
            format_span(policy.worst_case.worst_case_seconds)
        }),
        policy_row("retention of the source queue", forecast, |policy| {
            format_span(policy.worst_case.retention_seconds)
        }),
        policy_row("share of the retention (limit 80 %)", forecast, |policy| {
            retention_share(&policy.worst_case)
        }),
        policy_row("longest hold", forecast, |policy| {
            policy.worst_case.hold_seconds_max.map_or("–".to_owned(), format_span)
        }),
    ];
    section_with_policy_columns("Worst case", "", forecast, rows)
}

fn retention_share(worst_case: &WorstCase) -> String {
    let share = format!("{:.0} %", (worst_case.retention_share() * 100.0).ceil());
    if !worst_case.fits {
        format!("{share}: THE STACK REJECTS IT")
    } else if worst_case.retention_share() > RETENTION_SHARE_MAX {
        format!("{share}, as long_delays allows")
    } else {
        share
    }
}

fn all_measurements(forecast: &Forecast) -> impl Iterator<Item = &Measurements> {
    forecast.outcomes().map(|outcome| &outcome.measured)
}

fn load_section(forecast: &Forecast) -> Section {
    type MeasuredCount = fn(&Measurements) -> u64;
    let count = |name: &str, value: &dyn Fn(&Measurements) -> u64| {
        policy_row(name, forecast, |policy| group_digits(value(&policy.outcome.measured)))
    };
    let measured = || all_measurements(forecast);
    let mut rows = vec![
        count("processed", &|measured| measured.processed),
        count("dead-lettered", &|measured| measured.dead_lettered.values().sum()),
    ];
    let codes: BTreeSet<_> = measured().flat_map(|measured| measured.dead_lettered.keys()).collect();
    rows.extend(codes.into_iter().map(|code| {
        count(&format!("  {code}"), &|measured| measured.dead_lettered.get(code).copied().unwrap_or_default())
    }));
    rows.push(count("calls to the target", &|measured| measured.calls));
    let [busiest, most, drain] = recovery_row_names(forecast);
    let has_breaker = measured().any(|measured| measured.circuit_breaker.is_some());
    let has_groups = forecast.scenario.groups.is_some();
    let overtaken = |measured: &Measurements| measured.by_group.as_ref().map_or(0, |groups| groups.overtaken);
    // The flag determines whether a row is shown even if all its counts are 0.
    let more: [(&str, bool, MeasuredCount); 12] = [
        ("wasted: the target was down", false, |measured| measured.wasted.while_down),
        ("wasted: over its capacity", false, |measured| measured.wasted.over_capacity),
        ("wasted: failed by chance", false, |measured| measured.wasted.by_chance),
        ("messages held", has_breaker, |measured| breaker_counts(measured).held_messages),
        ("  holds in total", false, |measured| breaker_counts(measured).holds),
        ("  probes of an open circuit", false, |measured| breaker_counts(measured).probes),
        (busiest, true, |measured| measured.after_return.peak_per_second),
        (most, true, |measured| measured.after_return.p99_per_second),
        ("overtaken by later messages of their group", has_groups, overtaken),
        ("hops of long delays", false, |measured| measured.hops),
        ("still waiting", false, |measured| measured.waiting),
        ("EXPIRED IN A QUEUE", false, |measured| measured.unaccounted),
    ];
    let shown = more.into_iter().filter(|(_, is_always_shown, value)| {
        *is_always_shown || measured().any(|measured| value(measured) > 0)
    });
    rows.extend(shown.map(|(name, _, value)| count(name, &value)));
    rows.push(policy_row(drain, forecast, |policy| format_drain_time(&policy.outcome.measured)));
    let note = describe_bottlenecks(forecast);
    Section { note, ..section_with_policy_columns("Load on the target, measured", "", forecast, rows) }
}

/// Returns one sentence per policy with an inner function that cannot keep up.
fn describe_bottlenecks(forecast: &Forecast) -> Option<String> {
    let is_alone = forecast.policies.len() == 1;
    let sentences: Vec<_> = forecast
        .policies
        .iter()
        .filter_map(|policy| {
            let prefix = if is_alone { String::new() } else { format!("{}: ", escape_line(&policy.name)) };
            let bottleneck = policy.outcome.measured.bottleneck.as_ref()?;
            Some(prefix + &bottleneck_sentence(bottleneck, forecast.scenario.inner_concurrency))
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("\n"))
}

fn bottleneck_sentence(bottleneck: &Bottleneck, inner_concurrency: u16) -> String {
    let Bottleneck { wanted_per_second, possible_per_second, inner_concurrency_needed, .. } = bottleneck;
    let [wanted, possible] = [wanted_per_second, possible_per_second].map(|rate| group_digits(*rate));
    let remedy = match (bottleneck.function, *inner_concurrency_needed <= INNER_CONCURRENCY_MAX.into()) {
        (InnerFunctionName::FailedMessageProcessor, true) => {
            format!("innerConcurrency {inner_concurrency_needed}, or the strategy direct-resend")
        }
        (InnerFunctionName::FinalDlqAnnotator, true) => {
            format!("innerConcurrency {inner_concurrency_needed}")
        }
        (InnerFunctionName::FailedMessageProcessor, false) => "the strategy direct-resend".to_owned(),
        (InnerFunctionName::FinalDlqAnnotator, false) => "several deployments".to_owned(),
    };
    format!(
        "\
BOTTLENECK: the {}: {wanted} messages per second needed, {possible} possible with innerConcurrency {inner_concurrency}.
Up to {} messages wait for it; without the bottleneck, the time to drain is {}.
Use {remedy}.",
        bottleneck.function,
        group_digits(bottleneck.backlog_max),
        format_span(bottleneck.drain_seconds_without)
    )
}

/// Builds the table of processing delays, by group if there are groups.
fn delay_section(forecast: &Forecast) -> Section {
    type DelayRow = (&'static str, fn(&Measurements) -> (Option<DelayPercentiles>, u64));
    let all: DelayRow = ("all messages", |measured| (measured.delay_seconds, measured.unprocessed_count()));
    let by_group: [DelayRow; 2] = [
        ("groups affected by a fault", |measured| {
            measured.by_group.as_ref().map_or((None, 0), |groups| (groups.down, groups.down_unprocessed))
        }),
        ("other groups", |measured| {
            measured.by_group.as_ref().map_or((None, 0), |groups| (groups.up, groups.up_unprocessed))
        }),
    ];
    let rows = once(all).chain(by_group.into_iter().filter(|_| forecast.scenario.groups.is_some()));
    let rows = rows.map(|(name, value)| {
        let values = forecast.outcomes().map(move |outcome| {
            let (delays, unprocessed) = value(&outcome.measured);
            let percentiles = delays.map(|DelayPercentiles { p50, p90, p99, max }| [p50, p90, p99, max]);
            let spans =
                percentiles.map_or([(); 4].map(|()| "–".to_owned()), |each| each.map(format_rounded_span));
            spans.into_iter().chain([group_digits(unprocessed)]).collect()
        });
        (name, values)
    });
    let title = "Time from a message's send until it is processed, measured";
    let names = ["median", "90th percentile", "99th percentile", "longest", "not processed"];
    section_with_policy_rows(forecast, title, "", &names, rows)
}

fn breaker_counts(measured: &Measurements) -> BreakerCounts {
    measured.circuit_breaker.unwrap_or_default()
}

/// Compares the results of the policies with and without their circuit breakers.
fn breaker_section(forecast: &Forecast) -> Section {
    type Value = fn(&ForecastOutcome) -> String;
    let [busiest, _, drain] = recovery_row_names(forecast);
    let values: [(&str, Value); 6] = [
        ("dead-lettered", |outcome| group_digits(outcome.measured.dead_lettered.values().sum())),
        ("calls to the target", |outcome| group_digits(outcome.measured.calls)),
        ("  wasted", |outcome| group_digits(outcome.measured.wasted.total())),
        (busiest, |outcome| group_digits(outcome.measured.after_return.peak_per_second)),
        (drain, |outcome| format_drain_time(&outcome.measured)),
        ("a million such messages cost", |outcome| format_dollars(outcome.per_million.total_dollars)),
    ];
    let rows = values.into_iter().map(|(name, value)| {
        let both = forecast.policies.iter().map(move |policy| {
            let own = value(&policy.outcome);
            match &policy.without_circuit_breaker {
                Some(without) => vec![own, value(without)],
                None => vec!["–".to_owned(), own],
            }
        });
        (name, both)
    });
    let title = "Effect of the circuit breaker";
    let names = ["with it", "without it"];
    Section {
        note: describe_unopened_circuits(forecast),
        ..section_with_policy_rows(forecast, title, "", &names, rows)
    }
}

/// Returns a note if no circuit opened. Possible reasons: too few failed calls per environment, errors that are not
/// evidence of an outage, or a rate limit.
fn describe_unopened_circuits(forecast: &Forecast) -> Option<String> {
    let has_breaker = forecast.circuit_breakers().next().is_some();
    (has_breaker && !any_circuit_opened(forecast)).then(|| "No circuit opened.".to_owned())
}

fn any_circuit_opened(forecast: &Forecast) -> bool {
    forecast.circuit_breakers().any(|breaker| breaker.openings > 0)
}

fn cost_section(forecast: &Forecast) -> Section {
    type Value = fn(&PerMillion) -> String;
    let values: [(&str, Value); 9] = [
        ("SQS requests", |needs| format_rounded(needs.sqs_requests)),
        ("Lambda invocations", |needs| format_rounded(needs.invocations)),
        ("Lambda GB-seconds", |needs| format_rounded(needs.gb_seconds)),
        ("logs", |needs| format!("{:.2} GB", needs.log_gb)),
        ("SQS", |needs| format_dollars(needs.dollars.sqs_requests)),
        ("Lambda", |needs| format_dollars(needs.dollars.lambda_requests + needs.dollars.lambda_duration)),
        ("CloudWatch Logs", |needs| format_dollars(needs.dollars.logs)),
        ("total", |needs| format_dollars(needs.total_dollars)),
        ("an archive of the dead letters", |needs| format_dollars(needs.archive_dollars)),
    ];
    let dead_letters: u64 =
        forecast.outcomes().flat_map(|outcome| outcome.measured.dead_lettered.values()).sum();
    let shown = if dead_letters == 0 { &values[..values.len() - 1] } else { &values };
    let rows = shown
        .iter()
        .map(|(name, value)| policy_row(name, forecast, |policy| value(&policy.outcome.per_million)));
    let title = format!(
        "A million such messages, at the prices of {} as of {}",
        forecast.prices.region, forecast.prices.read_on
    );
    section_with_policy_columns(title, "", forecast, rows.collect())
}
