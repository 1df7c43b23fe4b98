//! Which dead letters: the same options for `audit`, `redrive` and `purge`, and what there is to say about them.

use clap::Args;
use redeliver_dead_letters::{Absent, Filter, FilterError, Pick};

use crate::people::counted;
use crate::text::escaped;

/// Which dead letters are meant. Without any of these options, all.
#[derive(Clone, Debug, Default, Args)]
pub struct Picking {
    /// Only messages of this group, as `redeliver audit` shows it
    #[arg(long, value_name = "FINGERPRINT")]
    pub group: Option<String>,
    /// Only messages with one of these ids (`message_id` or SQS's), separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub ids: Vec<String>,
    /// Only messages for which this jq filter is true; it must give true, false or null
    #[arg(long = "where", value_name = "JQ")]
    pub filter: Option<String>,
    /// At most so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max: Option<u64>,
}

impl Picking {
    pub fn pick(&self) -> Result<Pick, FilterError> {
        let filter = self.filter.as_deref().map(Filter::new).transpose()?;
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
    let Absent { messages, members } = pick.filter.as_ref()?.absent()?;
    let example = members.first()?;
    Some(format!(
        "{} picked without {}, which jq takes for less than any number; to leave such messages out: `{} | numbers < …`, or \
         `and {2} != null`",
        counted(messages, "message"),
        escaped(&members.join(" or ")),
        escaped(example),
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
    fn what_a_filter_picked_only_because_a_member_is_absent_is_told_with_what_to_write_instead() {
        let pick = Pick::filtered(Filter::new(".attempts < 3").unwrap());
        assert_eq!(remark(&pick), None);
        pick.filter.as_ref().unwrap().matches("m", r#"{"attempts":null}"#.to_owned()).unwrap();
        assert_eq!(
            remark(&pick).unwrap(),
            "1 message picked without .attempts, which jq takes for less than any number; to leave such messages out: \
             `.attempts | numbers < …`, or `and .attempts != null`"
        );
    }
    #[test]
    fn of_several_absent_members_the_example_is_one() {
        let pick = Pick::filtered(Filter::new(".a < 3 or .b < 3").unwrap());
        pick.filter.as_ref().unwrap().matches("m", "{}".to_owned()).unwrap();
        assert_eq!(
            remark(&pick).unwrap(),
            "1 message picked without .a or .b, which jq takes for less than any number; to leave such messages out: \
             `.a | numbers < …`, or `and .a != null`"
        );
    }
}
