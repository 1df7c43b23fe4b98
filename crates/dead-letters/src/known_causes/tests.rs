use std::collections::BTreeSet;

use proptest::prelude::*;
use redeliver_testing::dead_letters::at_seconds;

use std::fs;

use super::*;

const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

fn group(fingerprint: &str, seconds: i64) -> DeadLetterGroup {
    DeadLetterGroup {
        fingerprint: fingerprint.to_owned(),
        headline: "x".to_owned(),
        error_type: "NON_RETRYABLE_ERROR".to_owned(),
        count: 1,
        first: at_seconds(seconds),
        last: at_seconds(seconds),
        error_details: "x".to_owned(),
        example: "id".to_owned(),
        last_by_function: [(String::new(), at_seconds(seconds))].into(),
    }
}

/// Returns a group with each function's last message sent at the given time.
fn group_with_functions(functions: &[(&str, i64)]) -> DeadLetterGroup {
    let last_by_function = functions.iter().map(|(name, seconds)| ((*name).to_owned(), at_seconds(*seconds)));
    let last = functions.iter().map(|(_, seconds)| *seconds).max().unwrap();
    DeadLetterGroup { last_by_function: last_by_function.collect(), ..group("a", last) }
}

fn fingerprints(groups: &[&DeadLetterGroup]) -> Vec<String> {
    groups.iter().map(|group| group.fingerprint.clone()).collect()
}

#[test]
fn the_deletion_report_is_due_again_after_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let mut known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert!(known.is_deletion_report_due(at_seconds(100)));
    known.remember_deletion_report(at_seconds(100));
    known.merge_into_file(&path).unwrap();
    // A run that started earlier has older data, and must not undo the report.
    KnownCauses::without_causes(QUEUE).merge_into_file(&path).unwrap();
    let known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert!(
        !known.is_deletion_report_due(at_seconds(100 + 86_399))
            && known.is_deletion_report_due(at_seconds(100 + 86_400))
    );
}

#[test]
fn a_cause_is_new_only_once_and_the_overflow_group_is_never_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let groups = [group("a", 10), group(OTHER, 1), group("b", 20)];
    let mut known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!(fingerprints(&known.groups_with_new_cause(&groups)), ["a", "b"]);
    assert_eq!(
        (KnownCauses::count_unknown_causes(&groups), KnownCauses::count_unknown_causes(&groups[2..])),
        (1, 0)
    );
    known.remember_groups(&groups, at_seconds(100));
    known.merge_into_file(&path).unwrap();
    let known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!(fingerprints(&known.groups_with_new_cause(&[group("b", 30), group("c", 40)])), ["c"]);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        format!("{{\"known_causes_of\":\"{QUEUE}\"}}\n")
            + "{\"fingerprint\":\"a\",\"error_type\":\"NON_RETRYABLE_ERROR\",\"first\":\"1970-01-01T00:00:10.000Z\",\
               \"seen_at\":\"1970-01-01T00:01:40.000Z\"}\n"
            + "{\"fingerprint\":\"b\",\"error_type\":\"NON_RETRYABLE_ERROR\",\"first\":\"1970-01-01T00:00:20.000Z\",\
               \"seen_at\":\"1970-01-01T00:01:40.000Z\"}\n"
    );
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn a_cause_keeps_the_time_of_its_earliest_message() {
    let mut known = KnownCauses::without_causes(QUEUE);
    for (first, remembered) in [(20, 20), (30, 20), (10, 10)] {
        known.remember_groups(&[group("a", first)], at_seconds(100));
        assert_eq!(known.first_sent_at("a"), Some(at_seconds(remembered)));
    }
}

#[test]
fn a_foreign_or_damaged_causes_file_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let read_error = |text: &str| {
        replace_file(&path, text.as_bytes()).unwrap();
        let read = KnownCauses::read_file(&path, QUEUE).unwrap_err().to_string();
        let written = KnownCauses::without_causes(QUEUE).merge_into_file(&path).unwrap_err().to_string();
        assert_eq!((read.as_str(), fs::read_to_string(&path).unwrap().as_str()), (written.as_str(), text));
        read.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    assert_eq!(read_error("precious"), "is not a file of known causes; name another one");
    assert_eq!(read_error(""), "is not a file of known causes; name another one");
    let header = format!("{{\"known_causes_of\":\"{QUEUE}\"}}\n");
    assert!(read_error(&format!("{header}{{}}\n")).starts_with("line 2 is not a known cause (missing field"));
    assert_eq!(
        read_error("{\"known_causes_of\":\"arn:other\"}\n"),
        format!("has the causes of arn:other, not of {QUEUE}; name another file")
    );
}

#[test]
fn a_missing_directory_for_the_causes_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere/causes.jsonl");
    let error = KnownCauses::read_file(&path, QUEUE).unwrap_err().to_string();
    let expected = "its directory does not exist; create it first, or name another file";
    assert_eq!(error, format!("{}: {expected}", path.display()));
}

#[test]
fn causes_from_two_concurrent_runs_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let [mut one, mut two] = [(); 2].map(|()| KnownCauses::read_file(&path, QUEUE).unwrap());
    one.remember_groups(&[group("a", 1)], at_seconds(1));
    two.remember_groups(&[group("b", 1)], at_seconds(1));
    one.merge_into_file(&path).unwrap();
    two.merge_into_file(&path).unwrap();
    let known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!(fingerprints(&known.groups_with_new_cause(&[group("a", 1), group("b", 1)])), [""; 0]);
}

#[test]
fn beyond_the_limit_the_most_recently_seen_causes_are_kept() {
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1), group("b", 1)], at_seconds(10));
    known.remember_groups(&[group("a", 1), group("c", 1)], at_seconds(20));
    known.forget_oldest(2);
    assert_eq!(
        fingerprints(&known.groups_with_new_cause(&[group("a", 1), group("b", 1), group("c", 1)])),
        ["b"]
    );
}

proptest! {
    /// Each audit reports its new causes; some are killed after the report, before the causes are remembered.
    #[test]
    fn each_cause_is_reported_exactly_once_unless_an_audit_is_killed(
        audits in prop::collection::vec((prop::collection::btree_set(0_u8..6, 0..5), any::<bool>()), 0..12),
    ) {
        let mut known = KnownCauses::without_causes(QUEUE);
        let (mut reported, mut remembered) = (BTreeSet::new(), BTreeSet::new());
        for (number, (causes, killed)) in audits.into_iter().enumerate() {
            let groups: Vec<_> = causes.iter().map(|cause| group(&cause.to_string(), 1)).collect();
            for new in known.groups_with_new_cause(&groups) {
                prop_assert!(!remembered.contains(&new.fingerprint), "reported a second time");
                reported.insert(new.fingerprint.clone());
            }
            for group in &groups {
                prop_assert!(reported.contains(&group.fingerprint), "never reported");
            }
            if !killed {
                known.remember_groups(&groups, at_seconds(i64::try_from(number).unwrap()));
                remembered.extend(groups.into_iter().map(|group| group.fingerprint));
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn a_causes_file_that_another_user_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let header = format!("{{\"known_causes_of\":\"{QUEUE}\"}}\n");
    redeliver_testing::planted::check_each_planted_file(&path, &header, |why| {
        let error = KnownCauses::read_file(&path, QUEUE).unwrap_err().to_string();
        assert_eq!(error, format!("{}: cannot be read: {why}", path.display()));
    });
}

#[test]
fn a_note_survives_later_and_concurrent_audits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1)], at_seconds(10));
    known.merge_into_file(&path).unwrap();
    let mut earlier = KnownCauses::read_file(&path, QUEUE).unwrap();
    let note = CauseNote { at: at_seconds(20), text: "ticket 7".to_owned() };
    KnownCauses::write_note(&path, QUEUE, "a", Some(note.clone()), None).unwrap();
    earlier.remember_groups(&[group("a", 1), group("b", 25)], at_seconds(30));
    earlier.merge_into_file(&path).unwrap();
    let read = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!((read.find_note("a"), read.find_note("b")), (Some(&note), None));
    assert_eq!((read.first_sent_at("b"), read.last_audit_at()), (Some(at_seconds(25)), Some(at_seconds(30))));
    KnownCauses::write_note(&path, QUEUE, "a", None, None).unwrap();
    assert_eq!(KnownCauses::read_file(&path, QUEUE).unwrap().find_note("a"), None);
    let error = KnownCauses::write_note(&path, QUEUE, "c", Some(note), None).unwrap_err().to_string();
    assert_eq!(error, format!("{}: does not contain this cause: reload the list first", path.display()));
}

#[test]
fn the_recurrence_of_a_resolved_cause_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let read_causes = || KnownCauses::read_file(&path, QUEUE).unwrap();
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1), group("b", 1)], at_seconds(10));
    known.merge_into_file(&path).unwrap();
    let mut earlier = read_causes();
    let resolved = Resolution { at: at_seconds(20), by: Some("orders:42".to_owned()) };
    KnownCauses::mark_resolved(&path, QUEUE, "a", resolved.clone()).unwrap();
    earlier.remember_groups(&[group("a", 15)], at_seconds(30));
    earlier.merge_into_file(&path).unwrap();
    let mut known = read_causes();
    assert_eq!(known.groups_with_recurred_cause(&[group("a", 20), group("b", 99)]), [], "nothing is newer");
    let newer = [group("a", 21)];
    assert_eq!(known.groups_with_recurred_cause(&newer), [(&newer[0], &resolved)]);
    assert!(known.groups_with_new_cause(&newer).is_empty(), "it is known");
    known.remember_groups(&newer, at_seconds(40));
    known.remember_recurrences(&newer);
    known.merge_into_file(&path).unwrap();
    assert_eq!(read_causes().groups_with_recurred_cause(&newer), [], "it is reported once");
    KnownCauses::mark_resolved(&path, QUEUE, "a", Resolution { at: at_seconds(50), by: None }).unwrap();
    assert_eq!(read_causes().groups_with_recurred_cause(&[group("a", 51)]).len(), 1);
}

/// Earlier versions still fail during a deployment, or on messages that are still queued.
#[test]
fn messages_from_versions_before_the_fix_do_not_reopen_a_cause() {
    let resolution_by = |author: &str| Resolution { at: at_seconds(20), by: Some(author.to_owned()) };
    let resolved = resolution_by("orders:42");
    for (functions, came_back_at) in [
        (&[("orders:41", 30)][..], None),
        (&[("orders:9", 30)], None),
        (&[("orders:42", 30)], Some(30)),
        (&[("orders:43", 30)], Some(30)),
        (&[("orders:42", 20)], None),
        (&[("orders:42", 10), ("orders:41", 30)], None),
        (&[("orders:42", 25), ("orders:41", 30)], Some(25)),
        // Messages that can come from any version.
        (&[("", 30)], Some(30)),
        (&[("orders:$LATEST", 30)], Some(30)),
        (&[("message-processor", 30)], Some(30)),
        (&[("mails:41", 30)], Some(30)),
    ] {
        assert_eq!(
            resolved.came_back_at(&group_with_functions(functions)),
            came_back_at.map(at_seconds),
            "{functions:?}"
        );
    }
    for other in ["the new certificate", "orders", "pull request 41"] {
        assert_eq!(
            resolution_by(other).came_back_at(&group_with_functions(&[("orders:41", 30)])),
            Some(at_seconds(30)),
            "{other}"
        );
    }
}

#[test]
fn a_recurrence_is_reported_once_despite_later_failures_in_old_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let read_causes = || KnownCauses::read_file(&path, QUEUE).unwrap();
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1)], at_seconds(10));
    known.merge_into_file(&path).unwrap();
    let resolved = Resolution { at: at_seconds(20), by: Some("orders:42".to_owned()) };
    KnownCauses::mark_resolved(&path, QUEUE, "a", resolved).unwrap();
    let earlier = [group_with_functions(&[("orders:41", 30)])];
    let mut known = read_causes();
    assert_eq!(known.groups_with_recurred_cause(&earlier), []);
    known.remember_recurrences(&earlier);
    known.merge_into_file(&path).unwrap();
    let both = [group_with_functions(&[("orders:41", 40), ("orders:42", 35)])];
    let mut known = read_causes();
    assert_eq!(known.groups_with_recurred_cause(&both).len(), 1, "it has been resolved so far");
    known.remember_recurrences(&both);
    known.merge_into_file(&path).unwrap();
    assert_eq!(read_causes().groups_with_recurred_cause(&both), []);
}

#[test]
fn only_marks_notes_and_newer_messages_change_a_causes_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1)], at_seconds(10));
    known.merge_into_file(&path).unwrap();
    let resolved = Resolution { at: at_seconds(20), by: Some("orders:42".to_owned()) };
    let resolve = || KnownCauses::mark_resolved(&path, QUEUE, "a", resolved.clone()).unwrap();
    let note = |seconds| {
        let note = CauseNote { at: at_seconds(30), text: String::new() };
        KnownCauses::write_note(&path, QUEUE, "a", Some(note), Some(&group("a", seconds))).unwrap()
    };
    let state = |known: &KnownCauses, seconds| known.cause_state("a", Some(&group("a", seconds)));
    assert_eq!(state(&known, 99), CauseState::Open);
    assert_eq!(known.cause_state("unknown", None), CauseState::Open);
    let known = resolve();
    assert_eq!(known, KnownCauses::read_file(&path, QUEUE).unwrap());
    assert_eq!(known.cause_state("a", None), CauseState::Resolved(resolved.clone()));
    assert_eq!(state(&known, 20), CauseState::Resolved(resolved.clone()));
    assert_eq!(state(&known, 21), CauseState::CameBack(Some(resolved.clone())));
    let group_with_version = |version| group_with_functions(&[(version, 21)]);
    assert_eq!(
        known.cause_state("a", Some(&group_with_version("orders:41"))),
        CauseState::Resolved(resolved.clone())
    );
    // A note on a cause that is still resolved does not change its state; a note on one that recurred reopens it.
    assert_eq!(note(20).cause_state("a", None), CauseState::Resolved(resolved.clone()));
    assert_eq!(state(&note(21), 21), CauseState::Open);
    resolve();
    let opened = KnownCauses::mark_unresolved(&path, QUEUE, "a").unwrap();
    assert_eq!((state(&opened, 21), opened.find_note("a").is_some()), (CauseState::Open, true));
    // An audit reports the recurrence once. The state does not change.
    let mut audited = resolve();
    audited.remember_recurrences(&[group("a", 25)]);
    audited.merge_into_file(&path).unwrap();
    let known = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!(known.cause_state("a", None), CauseState::CameBack(None));
    // An audit that started before the cause was reopened does not undo the reopening.
    KnownCauses::mark_unresolved(&path, QUEUE, "a").unwrap();
    known.merge_into_file(&path).unwrap();
    assert_eq!(KnownCauses::read_file(&path, QUEUE).unwrap().cause_state("a", None), CauseState::Open);
}

#[test]
fn the_causes_file_keeps_members_from_a_later_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&[group("a", 1)], at_seconds(10));
    known.merge_into_file(&path).unwrap();
    let later = r#","owner":{"since":[1,2.5,null],"team":"payments"}}"#;
    let text =
        fs::read_to_string(&path).unwrap().trim_end().strip_suffix('}').unwrap().to_owned() + later + "\n";
    replace_file(&path, text.as_bytes()).unwrap();
    let mut known = KnownCauses::read_file(&path, QUEUE).unwrap();
    known.remember_groups(&[group("a", 1)], at_seconds(20));
    known.merge_into_file(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&later[1..later.len() - 1]), "{text}");
}

#[test]
fn the_overflow_group_counts_each_of_its_messages() {
    let overflow = DeadLetterGroup { count: 7, ..group(OTHER, 1) };
    assert_eq!(KnownCauses::count_unknown_causes(&[group("a", 1), overflow]), 7);
}

#[test]
fn a_slow_run_keeps_a_faster_runs_changes_to_the_same_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("causes.jsonl");
    let [mut slow, mut fast] = [(); 2].map(|()| KnownCauses::read_file(&path, QUEUE).unwrap());
    slow.remember_groups(&[group("a", 5)], at_seconds(10));
    fast.remember_groups(&[group("a", 1)], at_seconds(30));
    fast.merge_into_file(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let text = text.trim_end().strip_suffix('}').unwrap().to_owned() + ",\"owner\":\"payments\"}\n";
    replace_file(&path, text.as_bytes()).unwrap();
    slow.merge_into_file(&path).unwrap();
    let merged = KnownCauses::read_file(&path, QUEUE).unwrap();
    assert_eq!(
        (merged.first_sent_at("a"), merged.last_audit_at()),
        (Some(at_seconds(1)), Some(at_seconds(30)))
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "and its other members are kept");
}
