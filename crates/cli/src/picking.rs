//! Which dead letters: the same options for `audit`, `redrive` and `purge`, and what there is to say about them.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use redeliver_dead_letters::{Absent, Filter, FilterError, NotJudged, Pick};

use crate::people::{counted, number};
use crate::text::escaped;

/// Which dead letters are meant. Without any of these options, all.
#[derive(Clone, Debug, Default, Args)]
pub struct Picking {
    /// Only messages of this group, as `redeliver audit` shows it
    #[arg(long, value_name = "FINGERPRINT")]
    pub group: Option<String>,
    /// Only messages with one of these ids (`message_id` or SQS's), separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,
    /// Only messages for which this jq filter is true; it must give true, false or null
    #[arg(long = "where", value_name = "JQ")]
    pub filter: Option<String>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", value_parser = number(1_u64..))]
    pub max: Option<u64>,
}

impl Picking {
    pub fn pick(&self) -> Result<Pick, FilterError> {
        let filter = self.filter.as_deref().map(Filter::of_dead_letters).transpose()?;
        Ok(Pick::new(self.group.clone(), self.ids.clone(), filter))
    }

    /// Whether nothing is left out, apart from `--max`.
    pub fn is_everything(&self) -> bool {
        self.group.is_none() && self.ids.is_empty() && self.filter.is_none()
    }

    pub fn max(&self) -> u64 {
        self.max.unwrap_or(u64::MAX)
    }
}

/// What is worth a second look in what was picked, in a sentence.
pub(crate) fn remark(pick: &Pick) -> Option<String> {
    let Absent { messages, members, instead } = pick.filter.as_ref()?.absent()?;
    Some(format!(
        "{} picked without {}, which jq takes for null: less than any number, and unequal to any value; to leave such messages \
         out, write `{}`",
        counted(messages, "message"),
        escaped(&members.join(" or ")),
        escaped(&instead.join("` and `")),
    ))
}

/// What a filter could not judge, and what to do about it, in a sentence.
pub(crate) fn not_judged(not_judged: &NotJudged) -> Option<String> {
    let NotJudged { messages: 1.., example: Some(example), reason: Some(reason) } = not_judged else {
        return None;
    };
    Some(format!(
        "{} not judged by the filter, and left alone (e.g. {}: {}); write `?` after a member that may be missing or of another \
         kind, such as `.body.data?.n?`, or pick by --group or --ids",
        counted(not_judged.messages, "message"),
        escaped(example),
        escaped(reason),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_nothing_means_everything() {
        let picking = Picking::default();
        assert!(picking.is_everything() && picking.pick().unwrap().missing().is_empty());
        assert_eq!(Picking { max: Some(7), ..picking }.max(), 7);
    }

    #[test]
    fn an_id_is_not_empty() {
        #[derive(Debug, clap::Parser)]
        struct Program {
            #[command(flatten)]
            picking: Picking,
        }
        let parse = |ids| <Program as clap::Parser>::try_parse_from(["program", "--ids", ids]);
        assert_eq!(parse("a,b").unwrap().picking.ids, ["a", "b"]);
        for wrong in [",", "a,", "", "a,,b"] {
            let error = parse(wrong).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::InvalidValue, "{wrong}: {error}");
        }
    }

    fn remark_of(filter: &str, document: &str) -> Option<String> {
        let pick = Pick::filtered(Filter::new(filter).unwrap());
        assert_eq!(remark(&pick), None);
        pick.filter.as_ref().unwrap().matches("m", document).unwrap();
        remark(&pick)
    }

    #[test]
    fn what_was_not_judged_is_told_with_its_count_an_example_and_what_to_do() {
        assert_eq!(not_judged(&NotJudged::default()), None);
        let (example, reason) =
            (Some("sqs-7".to_owned()), Some("cannot index a value with another".to_owned()));
        assert_eq!(
            not_judged(&NotJudged { messages: 2, example, reason }).unwrap(),
            "2 messages not judged by the filter, and left alone (e.g. sqs-7: cannot index a value with another); write `?` \
             after a member that may be missing or of another kind, such as `.body.data?.n?`, or pick by --group or --ids"
        );
    }

    #[test]
    fn what_a_filter_picked_only_because_a_member_is_absent_is_told_with_what_to_write_instead() {
        assert_eq!(
            remark_of(".attempts < 3", r#"{"attempts":null}"#).unwrap(),
            "1 message picked without .attempts, which jq takes for null: less than any number, and unequal to any value; \
             to leave such messages out, write `(.attempts | numbers < 3)`"
        );
    }

    #[test]
    fn each_comparison_is_told_with_what_to_write_instead() {
        assert_eq!(
            remark_of(".a < 3 or .b < 3", "{}").unwrap(),
            "1 message picked without .a or .b, which jq takes for null: less than any number, and unequal to any value; \
             to leave such messages out, write `(.a != null and .a < 3)` and `(.b != null and .b < 3)`"
        );
    }
}
