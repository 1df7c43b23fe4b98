//! Sentences about dead letters, shared by the commands and the console.

use std::collections::BTreeMap;
use std::fmt::Display;

use redeliver_core::message::Timestamp;
use redeliver_core::message::all_invalid::{self, INVALID_CODES, are_all_invalid};
use redeliver_dead_letters::groups::{DeadLetterGroup, GROUPS_MAX, format_timestamp};
use redeliver_dead_letters::redrive::{PilotResult, RedriveReport};
use redeliver_dead_letters::{Coverage, KnownCauses, MissingMembers, NotJudged, Pick, Retention};

use crate::terminal::escape::escape_line;
use crate::terminal::units::{approximate_span, format_count, format_span, group_digits};

/// Names the setting to check; `None` unless there are at least ten messages and all of them are invalid.
#[must_use]
pub fn describe_all_invalid(invalid: u64, all: u64, setting: &str) -> Option<String> {
    are_all_invalid(invalid, all).then(|| all_invalid::describe_all_invalid(group_digits(all), setting))
}

/// Counts the final records or dead letters with an invalid message, given the counts by code.
#[must_use]
pub fn count_invalid(by_code: &BTreeMap<String, u64>) -> u64 {
    INVALID_CODES.iter().filter_map(|code| by_code.get(*code)).sum()
}

/// Describes how many of the messages were seen.
pub fn describe_seen_messages(coverage: &Coverage) -> String {
    format!(
        "{} of about {} messages were seen",
        group_digits(coverage.seen),
        group_digits(coverage.approximate)
    )
}

/// Describes which messages were not seen, and what to do about it.
pub fn describe_incompleteness(coverage: &Coverage) -> String {
    let Coverage { seen, approximate, unreadable, reappeared, full_groups, .. } = coverage;
    let seen_of = describe_seen_messages(coverage);
    let unreadable_too = match unreadable {
        0 => String::new(),
        _ => format!(
            ", and {} more could not be understood: redeliver leaves them in the queue; look at them in the console",
            group_digits(*unreadable)
        ),
    };
    let again = if seen + unreadable >= *approximate {
        String::new()
    } else if let Some(behind) = describe_full_groups(*full_groups) {
        format!(". {behind}")
    } else if *reappeared > 0 {
        // The cause is known here, so the user need not guess.
        format!(
            ". {} became visible again while they were read, since SQS answered too slowly to keep them hidden, or \
             refused it (sqs:ChangeMessageVisibility): select fewer (--max), or run this nearer to the queue's region",
            format_count(*reappeared, "message")
        )
    } else {
        format!(
            ". The others are {ELSEWHERE}; or they were never there, since SQS's count is approximate. Messages that \
             a killed audit or run received are visible again within two minutes: then run this again for the rest"
        )
    };
    seen_of + &unreadable_too + &again
}

/// Explains why messages of a FIFO queue were not seen, and how to see them; `None` if every group had fewer than ten.
pub fn describe_full_groups(full_groups: u64) -> Option<String> {
    let groups = format_count(full_groups, "message group");
    (full_groups > 0).then(|| {
        format!(
            "The others are behind the first ten of {groups}: SQS returns no more than ten messages of a group at a \
             time. They become visible once these ten are sent back or deleted; `redrive --apply` and `purge --apply` \
             continue with the next ten, and cannot get past messages that they leave"
        )
    })
}

/// Describes how many lines of a file of dead letters are skipped because they repeat an earlier message.
pub fn describe_repeated_lines(file: &impl Display, count: u64) -> Option<String> {
    let lines = format_count(count, "line");
    (count > 0).then(|| format!("{file}: {lines} left out: an earlier line has the same message"))
}

/// Describes how many of the dead letters that were read will soon be deleted by SQS, and what to do about it.
pub fn describe_expiring_messages(
    count: u64,
    first_ends_at: Option<Timestamp>,
    retention: Option<Retention>,
    now: Timestamp,
) -> Option<String> {
    let within = approximate_span(retention.filter(|_| count > 0)?.last_fifth().num_seconds());
    let first = first_ends_at?;
    let first = match (first - now).num_seconds() {
        ..=0 => "at any moment".to_owned(),
        seconds => format!("in {} ({})", approximate_span(seconds), format_timestamp(first)),
    };
    let (first, them) = if count == 1 { (first, "it") } else { (format!("the first {first}"), "them") };
    Some(format!(
        "SQS deletes {} within {within}, {first}: send {them} back (`redeliver redrive`), or keep {them} (`redeliver \
         audit --save`).",
        format_count(count, "dead letter")
    ))
}

/// Reports that received messages could not be made visible again; `None` if all were.
pub fn describe_still_hidden_messages(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{} will stay hidden from other readers for up to two minutes (half an hour if SQS answers slowly); if that \
             happens each time, you need sqs:ChangeMessageVisibility on the queue",
            format_count(count, "message")
        )
    })
}

/// Possible locations of messages that were not seen.
pub const ELSEWHERE: &str =
    "in flight elsewhere, delayed, or beyond the 120,000 that SQS hands out at a time";

/// Warns about messages that were selected only because jq treats a missing member as null.
pub fn describe_missing_members(pick: &Pick) -> Option<String> {
    let MissingMembers { messages, members, replacements } = pick.filter.as_ref()?.missing_members()?;
    Some(format!(
        "{} selected without {}: jq treats a missing member as null, which is less than any number and unequal to any \
         value. To exclude such messages, write `{}`",
        format_count(messages, "message"),
        escape_line(&members.join(" or ")),
        escape_line(&replacements.join("` and `")),
    ))
}

/// Describes the messages on which the filter failed, and what to do about it.
pub fn describe_unjudged_messages(not_judged: &NotJudged) -> Option<String> {
    let NotJudged { messages: 1.., example: Some(example), reason: Some(reason) } = not_judged else {
        return None;
    };
    Some(format!(
        "{} skipped, since the filter failed (e.g. {}: {}); write `?` after a member that may be missing or of \
         another type, such as `.body.data?.n?`, or select by --group or --ids",
        format_count(not_judged.messages, "message"),
        escape_line(example),
        escape_line(reason),
    ))
}

/// Warns about messages whose causes did not fit in the table of groups.
pub fn describe_causes_beyond_table_limit(groups: &[DeadLetterGroup]) -> Option<String> {
    let (messages, causes) = match KnownCauses::count_unknown_causes(groups) {
        0 => return None,
        messages => (format_count(messages, "message"), group_digits(GROUPS_MAX as u64)),
    };
    Some(format!(
        "{messages} died of causes beyond the first {causes}: could not determine whether those are new"
    ))
}

/// Describes the result of watching the pilot: its size, how long it was watched, the messages that failed again, and
/// the increase in messages waiting for a retry.
pub fn describe_pilot_result(PilotResult { seconds, sent, came_back, waiting }: &PilotResult) -> String {
    let (span, sent, came_back) = (format_span(*seconds), group_digits(*sent), group_digits(*came_back));
    let waiting = match waiting {
        Some(waiting) => {
            format!("about {} more messages wait for a retry than before", group_digits(*waiting))
        }
        None => "and the number waiting for a retry is unknown".to_owned(),
    };
    format!("the first {sent} were watched for {span}: {came_back} came straight back, {waiting}")
}

/// The reason messages are in both queues, and the first step of a remedy.
pub struct NotDeletedReason {
    pub why: String,
    pub remedy: &'static str,
}

/// Returns the reason and the remedy for messages that were sent back but are still in the DLQ.
pub fn not_deleted_reason(report: &RedriveReport) -> NotDeletedReason {
    match &report.why_not_deleted {
        Some(why) => {
            NotDeletedReason { why: format!("The deletion of the last one: {why}."), remedy: why.remedy() }
        }
        None => NotDeletedReason {
            why: "Their deletion is not confirmed.".to_owned(),
            remedy: "Make sure that nothing else reads the DLQ",
        },
    }
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::groups::{GroupTable, OTHER};
    use redeliver_dead_letters::{DeadLetterRecord, Filter};
    use redeliver_testing::dead_letters::retried_record;

    use super::*;

    #[test]
    fn unparsed_and_unseen_messages_are_both_counted() {
        let coverage = Coverage {
            seen: 10,
            approximate: 100,
            unreadable: 90,
            complete: false,
            still_hidden: 0,
            reappeared: 0,
            full_groups: 0,
        };
        assert_eq!(
            describe_incompleteness(&coverage),
            "10 of about 100 messages were seen, and 90 more could not be understood: redeliver leaves them in the queue; look at them in \
             the console"
        );
        assert_eq!(
            describe_incompleteness(&Coverage {
                seen: 10,
                approximate: 20,
                unreadable: 0,
                reappeared: 4,
                ..coverage
            }),
            "10 of about 20 messages were seen. 4 messages became visible again while they were read, since SQS \
             answered too slowly to keep them hidden, or refused it (sqs:ChangeMessageVisibility): select fewer \
             (--max), or run this nearer to the queue's region"
        );
        let grouped = Coverage { seen: 10, approximate: 35, unreadable: 0, full_groups: 1, ..coverage };
        assert_eq!(
            describe_incompleteness(&grouped),
            "10 of about 35 messages were seen. The others are behind the first ten of 1 message group: SQS returns no more than \
             ten messages of a group at a time. They become visible once these ten are sent back or deleted; `redrive --apply` and `purge \
             --apply` continue with the next ten, and cannot get past messages that they leave"
        );
        let others_too = Coverage { approximate: 101, ..coverage };
        assert!(describe_incompleteness(&others_too).ends_with("then run this again for the rest"));
        assert_eq!(
            describe_incompleteness(&Coverage { seen: 12, approximate: 20, unreadable: 0, ..coverage }),
            "12 of about 20 messages were seen. The others are in flight elsewhere, delayed, or beyond the 120,000 that SQS hands \
             out at a time; or they were never there, since SQS's count is approximate. Messages that a killed audit \
             or run received are visible again within two minutes: then run this again for the rest"
        );
    }

    fn remark_on_filter(filter: &str, document: &str) -> Option<String> {
        let pick = Pick::with_filter(Filter::new(filter).unwrap());
        assert_eq!(describe_missing_members(&pick), None);
        pick.filter.as_ref().unwrap().judge_document("m", document).unwrap();
        describe_missing_members(&pick)
    }

    #[test]
    fn unjudged_messages_are_counted_with_an_example_and_a_remedy() {
        assert_eq!(describe_unjudged_messages(&NotJudged::default()), None);
        let (example, reason) =
            (Some("sqs-7".to_owned()), Some("cannot index a value with another".to_owned()));
        assert_eq!(
            describe_unjudged_messages(&NotJudged { messages: 2, example, reason }).unwrap(),
            "2 messages skipped, since the filter failed (e.g. sqs-7: cannot index a value with another); write \
             `?` after a member that may be missing or of another type, such as `.body.data?.n?`, or select by \
             --group or --ids"
        );
    }

    #[test]
    fn a_filter_on_an_absent_member_causes_a_warning_with_a_fix() {
        assert_eq!(
            remark_on_filter(".attempts < 3", r#"{"attempts":null}"#).unwrap(),
            "1 message selected without .attempts: jq treats a missing member as null, which is less than any number and \
             unequal to any value. To exclude such messages, write `(.attempts | numbers < 3)`"
        );
    }

    #[test]
    fn a_fix_is_suggested_for_each_comparison_with_an_absent_member() {
        assert_eq!(
            remark_on_filter(".a < 3 or .b < 3", "{}").unwrap(),
            "1 message selected without .a or .b: jq treats a missing member as null, which is less than any number and \
             unequal to any value. To exclude such messages, write `(.a != null and .a < 3)` and `(.b != null and .b < 3)`"
        );
    }

    #[test]
    fn a_watched_pilot_is_described_without_a_waiting_count() {
        let watched = PilotResult { seconds: 90, sent: 50, came_back: 1, waiting: None };
        assert_eq!(
            describe_pilot_result(&watched),
            "the first 50 were watched for 1m 30s: 1 came straight back, and the number waiting for a retry is unknown"
        );
    }

    #[test]
    fn causes_beyond_the_table_are_reported_as_undetermined() {
        let record = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", 1));
        let mut table = GroupTable::default();
        table.add_record(&record);
        let mut groups = table.into_groups();
        assert_eq!(describe_causes_beyond_table_limit(&groups), None);
        groups.push(DeadLetterGroup { fingerprint: OTHER.to_owned(), count: 1_234, ..groups[0].clone() });
        assert_eq!(
            describe_causes_beyond_table_limit(&groups).unwrap(),
            "1,234 messages died of causes beyond the first 10,000: could not determine whether those are new"
        );
    }
}
