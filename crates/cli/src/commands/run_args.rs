//! Arguments and the progress bar of `local` and `simulate`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use redeliver_core::strategy::{RetryLoop, StrategyDefinition};

use redeliver_operator::terminal::stderr;

/// Returns a parser for strategy names, with a summary of each strategy for the manual page.
pub(crate) fn strategy_parser<S: Into<RetryLoop> + Copy + Send + Sync + 'static>(
    offered: impl IntoIterator<Item = S>,
) -> impl TypedValueParser<Value = S> {
    let offered: Vec<_> =
        offered.into_iter().map(|strategy| (strategy.into().definition(), strategy)).collect();
    let value = |(definition, _): &(&StrategyDefinition, S)| {
        PossibleValue::new(definition.name).help(definition.summary)
    };
    PossibleValuesParser::new(offered.iter().map(value)).map(move |name| {
        let named = offered.iter().find(|(definition, _)| definition.name == name);
        named.expect("the parser lets no other names through").1
    })
}

/// Parses a probability from 0 to 1.
pub(crate) fn parse_probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(chance),
        _ => Err("a chance is a number from 0 to 1, such as 0.3".to_owned()),
    }
}

pub(crate) fn progress_bar(messages: u64) -> ProgressBar {
    stderr::show_progress(
        ProgressBar::new(messages),
        "{bar:40} {human_pos}/{human_len} messages settled, {elapsed}",
    )
}
