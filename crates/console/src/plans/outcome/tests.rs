use redeliver_dead_letters::Coverage;
use redeliver_dead_letters::redrive::PilotResult;

use super::*;

fn redrive_outcome(report: &RedriveReport) -> PlanOutcome {
    let deleted = report.sent - report.not_deleted;
    let all = JournalCounts { sent: report.sent, deleted, ..JournalCounts::default() };
    super::redrive_outcome(report, &all, report.returned_count(), &plan(0))
}

/// Creates a plan to send back this number of messages.
fn plan(messages: usize) -> ConsolePlan {
    let action = PlanAction::SendBack {
        to: "arn".to_owned(),
        edit: None,
        program: None,
        new_id: false,
        max_generation: 3,
    };
    ConsolePlan::new(
        String::new(),
        "arn:dlq",
        action,
        "all".to_owned(),
        Vec::new(),
        vec![String::new(); messages],
    )
}

#[test]
fn a_redrive_outcome_shows_its_counts_and_the_next_step() {
    let complete = Coverage { complete: true, ..Coverage::default() };
    let report = RedriveReport { sent: 7, coverage: Some(complete), ..RedriveReport::default() };
    let done = redrive_outcome(&report);
    assert_eq!(
        (done.finished, done.ending.as_str(), done.counts),
        (true, "done", vec![("sent back".to_owned(), 7)])
    );

    let watched = PilotResult { seconds: 60, sent: 50, came_back: 2, waiting: Some(30) };
    let stopped = RedriveReport {
        sent: 50,
        pilot_result: Some(watched),
        early_end: Some(EarlyEnd::Stopped),
        came_back: ["x".to_owned(), "y".to_owned()].into(),
        ..report.clone()
    };
    let stopped = redrive_outcome(&stopped);
    assert!(!stopped.finished && !stopped.in_both_queues);
    assert_eq!(
        stopped.remarks[1],
        "stopped: of 50 messages that this run sent, 2 came straight back, and about 30 wait for a retry: the cause \
         remains. Fix it and continue here, or continue anyway with 100 %"
    );

    let in_both = redrive_outcome(&RedriveReport { not_deleted: 3, ..report.clone() });
    assert!(!in_both.finished && in_both.in_both_queues, "{in_both:?}");
    assert!(in_both.remarks[0].contains("3 messages of the DLQ are also in the source queue"), "{in_both:?}");

    let not_seen = redrive_outcome(&RedriveReport { coverage: None, ..report.clone() });
    assert!(!not_seen.finished && not_seen.ending == "not all of the queue was seen");
    let staying = [("parked".to_owned(), (1, vec!["sqs-1".to_owned()]))].into();
    assert!(
        redrive_outcome(&RedriveReport { staying, ..report }).finished,
        "another run would not change which messages stay"
    );
}

#[test]
fn a_deletion_is_finished_only_if_all_messages_were_seen_and_deleted() {
    let complete = Some(Coverage { complete: true, ..Coverage::default() });
    let purged = PurgeReport { picked: 4, deleted: 4, coverage: complete, ..PurgeReport::default() };
    let done = purge_outcome(&purged, 0, "backup.jsonl", 0);
    assert!(done.finished && done.remarks == ["the messages that this run deleted are in backup.jsonl"]);
    for (purged, ending) in [
        (PurgeReport { deleted: 3, ..purged.clone() }, "not all messages were deleted"),
        (PurgeReport { coverage: None, ..purged.clone() }, "not all messages were deleted"),
        (PurgeReport { interrupted: true, ..purged.clone() }, "paused"),
        (PurgeReport { failed: Some("disk full".to_owned()), ..purged }, "failed"),
    ] {
        let outcome = purge_outcome(&purged, 0, "backup.jsonl", 0);
        assert_eq!((outcome.finished, outcome.ending.as_str()), (false, ending));
    }
}

#[test]
fn counts_cover_all_runs_of_a_plan() {
    let complete = Coverage { complete: true, ..Coverage::default() };
    let last = RedriveReport { sent: 51, coverage: Some(complete), ..RedriveReport::default() };
    let all = JournalCounts {
        sent: 500,
        edited: 3,
        deleted: 498,
        possible_copies: 4,
        unknown: 2,
        ..JournalCounts::default()
    };
    let counts = super::redrive_outcome(&last, &all, 50, &plan(0)).counts;
    let reported = [
        ("sent back", 500),
        ("edited", 3),
        ("possible copies, at most", 4),
        ("died again", 50),
        ("sent, not deleted from the DLQ", 2),
        ("possibly sent: the next run sends them again", 2),
    ];
    assert_eq!(counts, reported.map(|(name, count)| (name.to_owned(), count)));
    let purged = PurgeReport { picked: 4, deleted: 4, coverage: Some(complete), ..PurgeReport::default() };
    assert_eq!(purge_outcome(&purged, 3, "b", 0).counts, [("deleted".to_owned(), 7)]);
}

#[test]
fn a_run_with_messages_refused_by_sqs_is_not_finished() {
    let complete = Coverage { complete: true, ..Coverage::default() };
    let staying = [("not sent: refused".to_owned(), (1, vec!["sqs-1".to_owned()]))].into();
    let report =
        RedriveReport { sent: 7, coverage: Some(complete), staying, to_retry: 1, ..RedriveReport::default() };
    let outcome = redrive_outcome(&report);
    assert_eq!((outcome.finished, outcome.ending.as_str()), (false, "not all messages were sent"));
    assert_eq!(outcome.remarks, ["1 left in the DLQ: not sent: refused (e.g. sqs-1)"]);
}

#[test]
fn a_restore_is_finished_once_all_sendable_messages_are_sent() {
    let restore = PlanAction::Restore { to: "arn".to_owned(), deletion: "d".to_owned() };
    let messages = vec![String::new(); 8];
    let plan = ConsolePlan::new(String::new(), "arn:dlq", restore, "all".to_owned(), Vec::new(), messages);
    let all = JournalCounts { sent: 7, deleted: 7, ..JournalCounts::default() };
    let complete = Coverage { complete: true, ..Coverage::default() };
    let damaged = Coverage { complete: false, unreadable: 1, ..Coverage::default() };
    let report =
        RedriveReport { sent: 3, deleted_only: 4, coverage: Some(complete), ..RedriveReport::default() };
    let with = |early| RedriveReport { early_end: Some(early), ..report.clone() };
    for (report, finished, ending) in [
        (report.clone(), true, "done"),
        (
            RedriveReport { coverage: Some(damaged), ..report.clone() },
            true,
            "done, except for messages that stay",
        ),
        (
            RedriveReport { coverage: Some(damaged), to_retry: 1, ..report.clone() },
            false,
            "not all messages were sent",
        ),
        (with(EarlyEnd::Interrupted), false, "paused"),
        (with(EarlyEnd::Failed("x".to_owned())), false, "failed"),
    ] {
        let outcome = super::redrive_outcome(&report, &all, 0, &plan);
        assert_eq!((outcome.finished, outcome.ending.as_str()), (finished, ending));
        let queue_remark = outcome.remarks.iter().find(|remark| remark.contains("the DLQ was seen"));
        assert_eq!(queue_remark, None, "no other program reads a file");
        assert_eq!(outcome.counts[0], ("restored".to_owned(), 7));
        let missing = ("no complete line in the backups".to_owned(), 1);
        assert_eq!(outcome.counts.get(1), finished.then_some(&missing));
    }
}

#[test]
fn messages_gone_before_the_run_are_counted() {
    let covered = Some(Coverage { complete: true, ..Coverage::default() });
    let report = RedriveReport { sent: 212, coverage: covered, ..RedriveReport::default() };
    let all = JournalCounts { sent: 212, deleted: 212, ..JournalCounts::default() };
    let counts = super::redrive_outcome(&report, &all, 0, &plan(217)).counts;
    let gone = ("no longer in the DLQ when it ran".to_owned(), 5);
    assert_eq!(counts, [("sent back".to_owned(), 212), gone.clone()]);
    let paused = RedriveReport { early_end: Some(EarlyEnd::Interrupted), ..report };
    assert_eq!(super::redrive_outcome(&paused, &all, 0, &plan(217)).counts, [("sent back".to_owned(), 212)]);
    let purged = PurgeReport { picked: 4, deleted: 4, coverage: covered, ..PurgeReport::default() };
    assert_eq!(purge_outcome(&purged, 3, "b", 12).counts, [("deleted".to_owned(), 7), gone]);
}

#[test]
fn a_run_that_failed_before_deleting_blocks_other_plans() {
    let failed = RedriveReport {
        sent: 10,
        early_end: Some(EarlyEnd::Failed("disk".to_owned())),
        ..RedriveReport::default()
    };
    let blocks_others = |sent, deleted, unknown| {
        let all = JournalCounts { sent, deleted, unknown, ..JournalCounts::default() };
        super::redrive_outcome(&failed, &all, 0, &plan(20)).in_both_queues
    };
    assert_eq!(
        [blocks_others(10, 0, 0), blocks_others(10, 10, 10), blocks_others(10, 10, 0)],
        [true, true, false]
    );
}
