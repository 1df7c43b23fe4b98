//! `redeliver simulate`: forecasts for policies, as tables, JSON, a picture or a page.

mod arguments;
mod page;
mod picture;
mod plot;
mod tables;

use redeliver_core::decide::breaker::LOWEST_RATE_SECONDS;
use redeliver_core::policy::{Globs, Policy};
use redeliver_sim::cost::Prices;
use redeliver_sim::planner::{FailedCall, Forecast, Scenario};

use crate::commands::run_args::progress_bar;
pub use arguments::Arguments;
use arguments::policy_names;
use picture::Picture;
use plot::POLICIES_MAX;
use redeliver_operator::check::{
    EvidenceTime, THIN_TRAFFIC, THIN_TRAFFIC_REMEDY, needs_evidence, remark_on_policy,
};
use redeliver_operator::files::{FileError, read_policy, read_text};
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::{format_count, format_span, group_digits};
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

/// Prints and draws the forecast for each policy.
pub fn main(arguments: &Arguments) -> Result<ExitCode, CommandFailure> {
    arguments.printing.check_destination()?;
    let picture = arguments.plot.as_deref().map(Picture::for_path).transpose()?;
    let forecast = run_forecast(arguments)?;
    if let Some(picture) = picture {
        picture.write(&forecast)?;
    }
    print_forecast(arguments, &forecast)
}

fn run_forecast(arguments: &Arguments) -> Result<Forecast, CommandFailure> {
    let prices = read_prices(arguments)?;
    let files: Vec<_> = arguments.policy_paths().collect();
    if files.len() > POLICIES_MAX {
        let sentence = format!("--compare: at most {} policies besides the first", POLICIES_MAX - 1);
        return Err(UsageError::new(sentence).into());
    }
    let policies: Result<Vec<_>, _> =
        files.iter().map(|path| read_policy(*path, arguments.strategy.definition())).collect();
    let policies = policies?;
    let scenario = arguments.build_scenario()?;
    for policy in &policies {
        check_status(policy, scenario.failed_call)?;
    }
    let runs = files.len() + arguments.compare_plain.len();
    warn_about_low_capacity(&scenario);
    let bar = progress_bar(scenario.messages * runs as u64);
    let mut forecast =
        Forecast::new(scenario, arguments.retention().as_secs(), arguments.architecture, prices);
    for ((path, policy), name) in files.iter().zip(policies).zip(policy_names(&files)) {
        if let Some(path) = path {
            remark_on_policy(path, &policy);
        }
        warn_about_thin_traffic(&name, &policy, &scenario);
        let before = bar.position();
        forecast.measure_policy(name, &policy, &|settled| bar.set_position(before + settled))?;
    }
    for plain in &arguments.compare_plain {
        let before = bar.position();
        forecast.measure_plain(*plain, &|settled| bar.set_position(before + settled))?;
    }
    bar.finish_and_clear();
    Ok(forecast)
}

/// Rejects a status that an HTTP target treats as a permanent error: the simulated target has no permanent errors.
fn check_status(policy: &Policy, failed_call: FailedCall) -> Result<(), UsageError> {
    let error_type = failed_call.error_type();
    let has = |globs: &Option<Globs>| globs.as_ref().is_some_and(|globs| globs.matches(&error_type.name()));
    let is_retried = has(&policy.retryable) && !has(&policy.non_retryable);
    let FailedCall::Status(status) = failed_call else { return Ok(()) };
    if is_retried || !failed_call.is_permanent() {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "--status {status}: an HTTP target gives up such messages immediately (NON_RETRYABLE_ERROR), even in an \
         outage; to retry them, name \"{failed_call}\" in the `retryable` list of each policy"
    )))
}

/// Warns if the environments' combined call rate exceeds the target's capacity, even at their lowest rates.
fn warn_about_low_capacity(scenario: &Scenario) {
    if let Some(sentence) = describe_excess_environments(scenario) {
        stderr::warning(sentence);
    }
}

fn describe_excess_environments(scenario: &Scenario) -> Option<String> {
    let capacity = scenario.capacity?;
    let most = capacity.saturating_mul(LOWEST_RATE_SECONDS);
    (u32::from(scenario.max_concurrency) > most).then(|| {
        format!(
            "--capacity {capacity}: each of {} environments makes at least one call in {LOWEST_RATE_SECONDS} s, \
             together more than its capacity; use a --max-concurrency of at most {most}",
            group_digits(scenario.max_concurrency.into())
        )
    })
}

/// Warns if the traffic is so thin that attempts run out before the circuit opens.
fn warn_about_thin_traffic(name: &str, policy: &Policy, scenario: &Scenario) {
    if let Some(sentence) = describe_thin_traffic(policy, scenario) {
        stderr::warning(format_args!("{name}: {sentence}"));
    }
}

fn describe_thin_traffic(policy: &Policy, scenario: &Scenario) -> Option<String> {
    let EvidenceTime { attempts_seconds, interval_seconds } = EvidenceTime::for_policy(policy)?;
    let outage = scenario.fault.outage_seconds()?;
    if !needs_evidence(policy, scenario.failed_call.error_type()) {
        return None;
    }
    let interval = scenario.over.as_secs() / scenario.messages;
    (interval > interval_seconds && outage > attempts_seconds).then(|| {
        format!(
            "{} spends {THIN_TRAFFIC}: at one message per {}, the attempts (about {} in all) run out before the \
             circuit opens, and messages die in an outage of {}; {THIN_TRAFFIC_REMEDY}",
            scenario.failed_call,
            format_span(interval),
            format_span(attempts_seconds),
            format_span(outage)
        )
    })
}

fn read_prices(arguments: &Arguments) -> Result<Prices, FileError> {
    match &arguments.prices {
        Some(path) => Prices::with_overrides(&read_text(path)?).map_err(|error| FileError::new(path, error)),
        None => Ok(Prices::shipped_list()),
    }
}

fn print_forecast(arguments: &Arguments, forecast: &Forecast) -> Result<ExitCode, CommandFailure> {
    arguments.printing.print_report("simulate", forecast, || tables::render_text(forecast))?;
    let lost: u64 =
        forecast.outcomes().map(|outcome| outcome.measured.waiting + outcome.measured.unaccounted).sum();
    if lost == 0 {
        return Ok(ExitCode::Done);
    }
    let lost = format_count(lost, "message");
    stderr::error(format_args!("{lost} not processed before a queue's retention ended"));
    Ok(ExitCode::ProblemsFound)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_sim::planner::TargetFault;

    use super::*;

    #[test]
    fn too_many_environments_for_the_capacity_cause_a_warning() {
        let sentence = |max_concurrency, capacity| {
            describe_excess_environments(&Scenario { max_concurrency, capacity, ..Scenario::default() })
        };
        assert_eq!(
            sentence(1000, Some(25)).unwrap(),
            "--capacity 25: each of 1,000 environments makes at least one call in 20 s, together more than its \
             capacity; use a --max-concurrency of at most 500"
        );
        assert_eq!((sentence(500, Some(25)), sentence(1000, None)), (None, None));
    }

    #[test]
    fn attempts_that_run_out_before_the_circuit_opens_cause_a_warning() {
        let sentence = |policy, failed_call, messages, outage: u64| {
            let outage = Duration::from_secs(outage);
            let scenario = Scenario {
                messages,
                fault: TargetFault::Outage(outage),
                failed_call,
                over: outage,
                ..Scenario::default()
            };
            describe_thin_traffic(&Policy::from_json(policy).unwrap(), &scenario)
        };
        let fault = FailedCall::Status(500);
        assert_eq!(
            sentence("{}", fault, 72, 43_200).unwrap(),
            "HttpStatus.500 spends attempts until the first calls of ten messages have failed: at one message per 10m, \
             the attempts (about 37m 30s in all) run out before the circuit opens, and messages die in an outage of \
             12h; plan more or longer retries, or name the error in opens_on"
        );
        assert!(sentence("{}", FailedCall::Hang, 72, 43_200).unwrap().starts_with("Http.Timeout spends "));
        let enough = [(300, 43_200), (2, 1800)];
        assert_eq!(enough.map(|(messages, outage)| sentence("{}", fault, messages, outage)), [None, None]);
        for policy in [
            r#"{"circuit_breaker":{"opens_on":["HttpStatus.500"]}}"#,
            r#"{"non_retryable":["HttpStatus.500"]}"#,
            r#"{"retryable":["HttpStatus.503"]}"#,
        ] {
            assert_eq!(sentence(policy, fault, 72, 43_200), None, "{policy}");
        }
        assert_eq!(sentence("{}", FailedCall::Status(503), 72, 43_200), None, "no attempts are spent");
    }

    /// A plan must not show retries that a deployed HTTP target would never get.
    #[test]
    fn a_permanent_status_is_refused_unless_the_policy_retries_it() {
        let refusal = |policy, status| {
            let policy = Policy::from_json(policy).unwrap();
            check_status(&policy, FailedCall::Status(status)).map_err(|error| error.to_string())
        };
        assert_eq!(
            refusal("{}", 422).unwrap_err(),
            "--status 422: an HTTP target gives up such messages immediately (NON_RETRYABLE_ERROR), even in an outage; \
             to retry them, name \"HttpStatus.422\" in the `retryable` list of each policy"
        );
        for status in [300, 404, 408, 409, 429, 500] {
            assert_eq!(refusal("{}", status), Ok(()), "{status}");
        }
        assert_eq!(refusal(r#"{"retryable":["HttpStatus.4*"]}"#, 422), Ok(()));
        assert!(refusal(r#"{"retryable":["HttpStatus.5*"]}"#, 422).is_err());
        let both = r#"{"retryable":["HttpStatus.*"],"non_retryable":["HttpStatus.422"]}"#;
        assert!(refusal(both, 422).is_err());
    }
}
