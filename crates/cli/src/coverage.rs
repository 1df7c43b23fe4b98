//! What was seen of a queue, in words.

use redeliver_dead_letters::Coverage;

use crate::people::grouped;

/// What is missing, and what to do about it.
pub(crate) fn incompleteness(coverage: &Coverage) -> String {
    let Coverage { seen, approximate, unreadable, .. } = coverage;
    let seen_of = format!("{} of about {} messages were seen", grouped(*seen), grouped(*approximate));
    let unreadable_too = match unreadable {
        0 => String::new(),
        _ => format!(
            ", and {} more could not be understood: redeliver leaves them there, look at them in the console",
            grouped(*unreadable)
        ),
    };
    let again = match seen + unreadable < *approximate {
        true => format!(
            ". The others are {ELSEWHERE}; or they were never there, since SQS's count is approximate. What an audit or a run that \
             was killed has received can be seen again within two minutes: run this again then for the rest"
        ),
        false => String::new(),
    };
    seen_of + &unreadable_too + &again
}

/// Where messages are that were not seen.
pub(crate) const ELSEWHERE: &str =
    "in flight elsewhere, delayed, or more than the 120,000 that SQS hands out at a time";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_understood_is_told_and_so_is_what_was_not_seen() {
        let coverage =
            Coverage { seen: 10, approximate: 100, unreadable: 90, complete: false, still_hidden: 0 };
        assert_eq!(
            incompleteness(&coverage),
            "10 of about 100 messages were seen, and 90 more could not be understood: redeliver leaves them there, look at them in \
             the console"
        );
        let others_too = Coverage { approximate: 101, ..coverage };
        assert!(incompleteness(&others_too).ends_with("run this again then for the rest"));
        assert_eq!(
            incompleteness(&Coverage { seen: 12, approximate: 20, unreadable: 0, ..coverage }),
            "12 of about 20 messages were seen. The others are in flight elsewhere, delayed, or more than the 120,000 that SQS hands \
             out at a time; or they were never there, since SQS's count is approximate. What an audit or a run that was killed has \
             received can be seen again within two minutes: run this again then for the rest"
        );
    }
}
