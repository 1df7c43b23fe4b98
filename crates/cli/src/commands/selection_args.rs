//! The options that select dead letters, for `audit`, `redrive` and `purge`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use redeliver_dead_letters::{Filter, FilterError, Pick};
use redeliver_operator::terminal::help::SELECT;
use redeliver_operator::terminal::units::number;

/// The options that select dead letters. Without any of them, all are selected.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArgs {
    /// Only messages of this group, as shown by `redeliver audit`
    #[arg(long, help_heading = SELECT, value_name = "FINGERPRINT")]
    pub group: Option<String>,
    /// Only messages with one of these ids, separated by commas
    ///
    /// An id is a `message_id` or an SQS message id.
    #[arg(long, help_heading = SELECT, value_name = "ID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,
    /// Only messages for which this jq filter is true
    ///
    /// The filter must return true, false or null.
    #[arg(long = "where", help_heading = SELECT, value_name = "JQ")]
    pub filter: Option<String>,
    /// Maximum number of messages
    #[arg(long, help_heading = SELECT, value_name = "N", value_parser = number(1_u64..))]
    pub max: Option<u64>,
}

impl SelectionArgs {
    /// Builds the selection.
    ///
    /// # Errors
    /// The filter is not valid jq.
    pub fn build_pick(&self) -> Result<Pick, FilterError> {
        let filter = self.filter.as_deref().map(Filter::for_dead_letters).transpose()?;
        Ok(Pick::new(self.group.clone(), self.ids.clone(), filter))
    }

    /// True if all dead letters are selected, regardless of `--max`.
    pub fn selects_all(&self) -> bool {
        self.group.is_none() && self.ids.is_empty() && self.filter.is_none()
    }

    /// True if only part of a group is selected.
    pub fn narrows_a_group(&self) -> bool {
        self.group.is_some() && (!self.ids.is_empty() || self.filter.is_some() || self.max.is_some())
    }

    /// Returns the limit set with `--max`, or `u64::MAX` without it.
    pub fn max(&self) -> u64 {
        self.max.unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_selection_means_all_dead_letters() {
        let selection = SelectionArgs::default();
        assert!(selection.selects_all() && selection.build_pick().unwrap().describe_missing().is_empty());
        assert_eq!(SelectionArgs { max: Some(7), ..selection }.max(), 7);
    }

    #[test]
    fn an_empty_id_is_rejected() {
        #[derive(Debug, clap::Parser)]
        struct Program {
            #[command(flatten)]
            selection: SelectionArgs,
        }
        let parse = |ids| <Program as clap::Parser>::try_parse_from(["program", "--ids", ids]);
        assert_eq!(parse("a,b").unwrap().selection.ids, ["a", "b"]);
        for wrong in [",", "a,", "", "a,,b"] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::InvalidValue, "{wrong}: {error}");
        }
    }
}
