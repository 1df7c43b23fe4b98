//! Arguments and the progress bar of `local` and `simulate`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use redeliver_core::strategy::Strategy;

use redeliver_operator::terminal::stderr;

/// Parses a strategy by its name; `--help` has a line for each.
pub(crate) fn strategies(some: &[Strategy]) -> impl TypedValueParser<Value = Strategy> + use<> {
    let values =
        some.iter().map(|strategy| PossibleValue::new(strategy.name()).help(strategy.definition().summary));
    PossibleValuesParser::new(values)
        .map(|name| Strategy::named(&name).expect("the parser lets no other names through"))
}

pub(crate) fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(chance),
        _ => Err("a chance is a number from 0 to 1, such as 0.3".to_owned()),
    }
}

pub(crate) fn progress_bar(messages: u64) -> ProgressBar {
    stderr::progress(
        ProgressBar::new(messages),
        "{bar:40} {human_pos}/{human_len} messages settled, {elapsed}",
    )
}
