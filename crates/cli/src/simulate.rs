//! `redeliver simulate`: what a policy will do, before it is deployed. The real functions run in virtual time against a
//! target that is down, or fails, or takes only so much; what can be computed from the policy alone is computed.

mod arguments;
mod page;
mod plot;
mod tables;

use std::process::ExitCode;

pub use arguments::Arguments;
use arguments::names_of;
use maud::{Markup, html};
use redeliver_core::policy::Policy;
use redeliver_sim::planner::{Forecast, Outcome, Scenario, run};

use crate::check::remark_on;
use crate::files::{FileError, read_policy, read_text};
use crate::local::progress_bar;
use crate::people::counted;
use crate::{Failure, tell};
use plot::{POLICIES_MAX, Picture};
use redeliver_sim::cost::{Architecture, Prices};

/// Runs the scenario with each policy and prints what came of it.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    print(arguments, &simulate(arguments)?)
}

fn print(arguments: &Arguments, forecast: &Forecast) -> Result<ExitCode, Failure> {
    arguments.printing.print("simulate", forecast, || tables::text(forecast))?;
    let lost: u64 =
        forecast.outcomes().map(|Outcome { measured, .. }| measured.waiting + measured.unaccounted).sum();
    if lost == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let lost = counted(lost, "message");
    tell::error(format_args!("{lost} did not come to an end: a queue's retention ended before"));
    Ok(ExitCode::from(1))
}

/// The charts and tables of policies side by side, for a page.
pub(crate) fn drawn(scenario: Scenario, policies: &[(&str, Policy)]) -> Result<Markup, Failure> {
    const WEEK_SECONDS: u64 = 7 * 24 * 3600;
    let mut forecast = Forecast::new(scenario, WEEK_SECONDS, Architecture::Arm64, Prices::list());
    for (name, policy) in policies {
        let measured = run(policy, &scenario, &|_| {})?;
        forecast.add((*name).to_owned(), policy, measured, None);
    }
    let content = page::content(&forecast, &plot::figures(&forecast));
    Ok(html! { p { (tables::scenario(&forecast)) } (content) p class="remark" { (page::prices(&forecast)) } })
}

fn simulate(arguments: &Arguments) -> Result<Forecast, Failure> {
    let picture = arguments.plot.as_deref().map(Picture::at).transpose()?;
    let prices = match &arguments.prices {
        Some(path) => Prices::list_with(&read_text(path)?).map_err(|error| FileError::new(path, error))?,
        None => Prices::list(),
    };
    let files: Vec<_> = arguments.policies().collect();
    if files.len() > POLICIES_MAX {
        return Err(format!("--compare: at most {} policies beside the first", POLICIES_MAX - 1).into());
    }
    let policies: Result<Vec<_>, _> =
        files.iter().map(|path| read_policy(*path, arguments.strategy)).collect();
    let scenario = arguments.scenario();
    let bar = progress_bar(scenario.messages * files.len() as u64);
    let mut forecast = Forecast::new(scenario, arguments.retention.as_secs(), arguments.architecture, prices);
    let names = names_of(&files);
    for ((path, policy), name) in files.iter().zip(policies?).zip(names) {
        if let Some(path) = path {
            remark_on(path, &policy);
        }
        let before = bar.position();
        let measured = run(&policy, &scenario, &|settled| bar.set_position(before + settled))?;
        let without = match &policy.circuit_breaker {
            Some(_) => Some(run(&Policy { circuit_breaker: None, ..policy.clone() }, &scenario, &|_| {})?),
            None => None,
        };
        forecast.add(name, &policy, measured, without);
    }
    bar.finish_and_clear();
    if let Some(picture) = picture {
        picture.write(&forecast)?;
    }
    Ok(forecast)
}
