use redeliver_testing::dead_letters::{annotated_record, at_seconds, retried_record};

use redeliver_dead_letters::Resolution;

use super::*;
use crate::dead_letters::reading::{DlqReading, Mark};

const DAY: i64 = 86_400;

/// Returns a reading taken one day after the Unix epoch.
fn build_snapshot(messages: Vec<redeliver_core::message::ReceivedMessage>) -> Snapshot {
    let folder = tempfile::tempdir().unwrap();
    let mut collecting = SnapshotBuilder::new(Spool::new(folder.path()).unwrap());
    for message in messages {
        collecting.add_record(&DeadLetterRecord::new(message)).unwrap();
    }
    collecting.into_snapshot(Coverage::default(), at_seconds(DAY), Retention::from_seconds(14 * 86_400))
}

fn three_letters() -> Snapshot {
    let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000003","tenant":"Ärger AG"},"data":{"card":"Visa"}}"#;
    let messages = [
        retried_record("NON_RETRYABLE_ERROR", "no such user", 1),
        retried_record("RETRY_ATTEMPT_EXCEEDED", "too slow", 2),
        annotated_record(body, "NON_RETRYABLE_ERROR", "no such user", 3),
    ];
    let sent = [100, 200, DAY - 60];
    build_snapshot(
        messages
            .into_iter()
            .zip(sent)
            .map(|(mut message, sent)| {
                message.sent_at = at_seconds(sent);
                message
            })
            .collect(),
    )
}

fn select_ids(letters: &Snapshot, selection: &Selection) -> Vec<String> {
    letters
        .select_letters(selection)
        .unwrap()
        .letters
        .iter()
        .map(|letter| letter.sqs_message_id.clone())
        .collect()
}

fn build_selection(set: impl FnOnce(&mut Selection)) -> Selection {
    let mut selection = Selection::default();
    set(&mut selection);
    selection
}

#[test]
fn the_page_counts_messages_about_to_expire() {
    let mut letters = three_letters();
    assert_eq!(letters.describe_expiring_messages(), None);
    // Two were sent at the start of 1970, a day before the reading.
    letters.retention = Retention::from_seconds(86_410);
    assert!(
        letters
            .describe_expiring_messages()
            .unwrap()
            .starts_with("SQS deletes 2 dead letters within 4h 48m, the first in 1m 50s ("),
        "{:?}",
        letters.describe_expiring_messages()
    );
    letters.retention = None;
    assert_eq!(letters.describe_expiring_messages(), None);
}

#[test]
fn an_empty_selection_selects_all_letters_newest_first() {
    assert_eq!(select_ids(&three_letters(), &Selection::default()), ["sqs-3", "sqs-2", "sqs-1"]);
}

#[test]
fn each_filter_excludes_letters_that_do_not_match() {
    let letters = three_letters();
    let group = letters.find_letter("sqs-2").unwrap().fingerprint.clone();
    for (selection, expected) in [
        (build_selection(|selection| selection.group = group), &["sqs-2"][..]),
        (
            build_selection(|selection| selection.error_type = "NON_RETRYABLE_ERROR".to_owned()),
            &["sqs-3", "sqs-1"],
        ),
        (build_selection(|selection| selection.id = "sqs-1".to_owned()), &["sqs-1"]),
        (build_selection(|selection| selection.q = " visa ".to_owned()), &["sqs-3"]),
        (build_selection(|selection| selection.q = "SUCH USER".to_owned()), &["sqs-3", "sqs-1"]),
        (build_selection(|selection| selection.q = "8f00-000000000003".to_owned()), &["sqs-3"]),
        (build_selection(|selection| selection.tenant = "Ärger AG".to_owned()), &["sqs-3"]),
        (build_selection(|selection| selection.tenant = "Ärger".to_owned()), &[]),
        (build_selection(|selection| selection.since = "1h".to_owned()), &["sqs-3"]),
        (build_selection(|selection| selection.until = "1970-01-01T00:03:20".to_owned()), &["sqs-1"]),
        (build_selection(|selection| selection.since = "1970-01-01T00:03".to_owned()), &["sqs-3", "sqs-2"]),
        (build_selection(|selection| selection.since = "1970-01-01T00:03Z".to_owned()), &["sqs-3", "sqs-2"]),
        (
            build_selection(|selection| {
                selection.filter = ".error_type == \"RETRY_ATTEMPT_EXCEEDED\"".to_owned()
            }),
            &["sqs-2"],
        ),
        (
            build_selection(|selection| {
                selection.q = "user".to_owned();
                selection.until = "1h".to_owned()
            }),
            &["sqs-1"],
        ),
    ] {
        assert_eq!(select_ids(&letters, &selection), expected, "{selection:?}");
    }
}

#[test]
fn messages_on_which_the_jq_filter_fails_are_counted_but_not_selected() {
    let letters = three_letters();
    let filter = r#".body.data.card | ltrimstr("secret-") | tonumber > 0"#;
    let SelectedLetters { letters, not_judged } =
        letters.select_letters(&build_selection(|selection| selection.filter = filter.to_owned())).unwrap();
    let ids: Vec<_> = letters.iter().map(|letter| letter.sqs_message_id.as_str()).collect();
    assert_eq!(ids, ["sqs-2", "sqs-1"]);
    assert_eq!((not_judged.messages, not_judged.example.as_deref()), (1, Some("sqs-3")));
}

#[test]
fn an_invalid_time_or_filter_is_an_error() {
    let why = |selection: &Selection| three_letters().select_letters(selection).unwrap_err().to_string();
    assert_eq!(
        why(&build_selection(|selection| selection.since = "yesterday".to_owned())),
        "since: write a span such as 2h or 7d, or a moment such as 2026-01-31T08:30Z"
    );
    assert!(
        why(&build_selection(|selection| selection.filter = ".error_type ==".to_owned())).contains("filter")
    );
}

#[test]
fn a_letter_expires_at_the_end_of_the_retention_period() {
    let letters = three_letters();
    assert_eq!(letters.expires_at(letters.find_letter("sqs-1").unwrap()), Some(at_seconds(14 * DAY + 100)));
}

#[test]
fn groups_cover_the_whole_reading() {
    let letters = three_letters();
    assert_eq!(letters.groups.iter().map(|group| group.count).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(letters.read_record(letters.find_letter("sqs-2").unwrap()).unwrap().error_details, "too slow");
}

#[test]
fn a_cause_is_new_until_it_is_marked() {
    let mut letters = three_letters();
    let [twice, once] = [0, 1].map(|index| letters.groups[index].clone());
    let queue = "arn:aws:sqs:us-east-1:000000000000:final-dlq";
    let folder = tempfile::tempdir().unwrap();
    let reading = DlqReading::new(folder.path().join("causes.jsonl"));
    let mut known = KnownCauses::without_causes(queue);
    known.remember_groups(&letters.groups, at_seconds(DAY));
    known.merge_into_file(&folder.path().join("causes.jsonl")).unwrap();
    letters.causes = CauseHistory::new(known, [once.fingerprint.clone()].into(), None);
    let new = |new: &str| select_ids(&letters, &build_selection(|selection| selection.new = new.to_owned()));
    assert_eq!(new("last-refresh"), ["sqs-2"]);
    // A cause is as old as its first dead letter: the larger cause is almost a day old.
    assert_eq!(new("1970-01-01T00:02:00Z"), ["sqs-2"]);
    assert_eq!(new("2d"), ["sqs-3", "sqs-2", "sqs-1"]);
    assert_eq!(new("1m"), Vec::<String>::new());
    let mark = |mark, seconds| {
        reading.mark_cause(queue, &letters, &once.fingerprint, mark, at_seconds(seconds)).unwrap();
        let life = letters.cause_status(&once);
        (letters.count_new_and_returned(), life.list_rank(), life.note.map(|note| note.text))
    };
    assert_eq!(mark(Mark::Known(" ticket 7 ".to_owned()), DAY), ([0, 0], 3, Some("ticket 7".to_owned())));
    assert_eq!(new("last-refresh"), Vec::<String>::new());
    assert_eq!(mark(Mark::NotKnown, DAY), ([1, 0], 1, None));
    assert_eq!(mark(Mark::Resolved(String::new()), DAY), ([0, 0], 4, None));
    let end = |by: Option<&str>, seconds| Resolution { at: at_seconds(seconds), by: by.map(str::to_owned) };
    assert_eq!(letters.cause_status(&once).state, CauseState::Resolved(end(None, DAY)));
    // Its message was sent to this queue 200 seconds after the Unix epoch.
    assert_eq!(mark(Mark::Resolved("orders:42".to_owned()), 199), ([0, 1], 0, None));
    assert_eq!(letters.cause_status(&once).state, CauseState::CameBack(Some(end(Some("orders:42"), 199))));
    assert_eq!(mark(Mark::NotResolved, DAY), ([1, 0], 1, None));
    assert_eq!(letters.cause_status(&twice).list_rank(), 2);
}

#[test]
fn a_cause_keeps_its_age_when_its_first_message_is_gone() {
    let mut letters = three_letters();
    let mut known = KnownCauses::without_causes("queue");
    let late = letters.groups[1].clone();
    let first = at_seconds(50);
    known.remember_groups(&[DeadLetterGroup { first, ..late.clone() }], at_seconds(60));
    letters.causes = CauseHistory::new(known, BTreeSet::new(), None);
    let since =
        |text: &str| select_ids(&letters, &build_selection(|selection| selection.new = text.to_owned()));
    assert_eq!(
        since("1970-01-01T00:01:00Z"),
        ["sqs-3", "sqs-1"],
        "its known first death was 50 s after the Unix epoch"
    );
}

#[test]
fn a_refresh_reports_how_often_messages_were_received() {
    let cost = |counts: [u32; 2]| {
        let messages = counts.into_iter().zip(1..).map(|(receive_count, number)| {
            redeliver_core::message::ReceivedMessage {
                receive_count,
                ..retried_record("NON_RETRYABLE_ERROR", "x", number)
            }
        });
        build_snapshot(messages.collect()).describe_refresh_cost().unwrap()
    };
    assert_eq!(cost([1, 1]), "A refresh receives every message: these were received once.");
    assert_eq!(cost([1, 2]), "A refresh receives every message: these were received up to 2 times.");
    assert_eq!(
        cost([11, 3]),
        "A refresh receives every message: these were received up to 11 times. SQS's age metric no longer counts 2 \
         messages that were received three times or more."
    );
}

#[test]
fn the_link_in_the_warning_selects_the_messages_about_to_expire() {
    let mut letters = three_letters();
    letters.retention = Retention::from_seconds(86_410);
    let until = redeliver_dead_letters::groups::format_timestamp(letters.expiry_cutoff().unwrap());
    assert_eq!(
        select_ids(&letters, &build_selection(|selection| selection.until = until)),
        ["sqs-2", "sqs-1"]
    );
}
