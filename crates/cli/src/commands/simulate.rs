//! `redeliver simulate`: the planner's forecast for policies, as tables, JSON, a picture or a page.

mod arguments;
mod page;
mod picture;
mod plot;
mod tables;

use redeliver_sim::cost::Prices;
use redeliver_sim::planner::Forecast;

use crate::commands::run_args::progress_bar;
pub use arguments::Arguments;
use arguments::names_of;
use picture::Picture;
use plot::POLICIES_MAX;
use redeliver_operator::check::remark_on_policy;
use redeliver_operator::files::{FileError, read_policy, read_text};
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::counted;
use redeliver_operator::{ExitCode, Failure, UsageError};

/// Prints the forecast for each policy, and draws it.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments.printing.check()?;
    let picture = arguments.plot.as_deref().map(Picture::at).transpose()?;
    let forecast = forecast(arguments)?;
    if let Some(picture) = picture {
        picture.write(&forecast)?;
    }
    print(arguments, &forecast)
}

fn forecast(arguments: &Arguments) -> Result<Forecast, Failure> {
    let prices = prices(arguments)?;
    let files: Vec<_> = arguments.policies().collect();
    if files.len() > POLICIES_MAX {
        let sentence = format!("--compare: at most {} policies beside the first", POLICIES_MAX - 1);
        return Err(UsageError::new(sentence).into());
    }
    let policies: Result<Vec<_>, _> =
        files.iter().map(|path| read_policy(*path, arguments.strategy.definition())).collect();
    let scenario = arguments.scenario()?;
    let runs = files.len() + arguments.compare_plain.len();
    let bar = progress_bar(scenario.messages * runs as u64);
    let mut forecast =
        Forecast::new(scenario, arguments.retention().as_secs(), arguments.architecture, prices);
    for ((path, policy), name) in files.iter().zip(policies?).zip(names_of(&files)) {
        if let Some(path) = path {
            remark_on_policy(path, &policy);
        }
        let before = bar.position();
        forecast.measure(name, &policy, &|settled| bar.set_position(before + settled))?;
    }
    for plain in &arguments.compare_plain {
        let before = bar.position();
        forecast.measure_plain(*plain, &|settled| bar.set_position(before + settled))?;
    }
    bar.finish_and_clear();
    Ok(forecast)
}

fn prices(arguments: &Arguments) -> Result<Prices, FileError> {
    match &arguments.prices {
        Some(path) => Prices::list_with(&read_text(path)?).map_err(|error| FileError::new(path, error)),
        None => Ok(Prices::list()),
    }
}

fn print(arguments: &Arguments, forecast: &Forecast) -> Result<ExitCode, Failure> {
    arguments.printing.print("simulate", forecast, || tables::text(forecast))?;
    let lost: u64 =
        forecast.outcomes().map(|outcome| outcome.measured.waiting + outcome.measured.unaccounted).sum();
    if lost == 0 {
        return Ok(ExitCode::Done);
    }
    let lost = counted(lost, "message");
    stderr::error(format_args!("{lost} did not come out before a queue's retention ended"));
    Ok(ExitCode::Found)
}
