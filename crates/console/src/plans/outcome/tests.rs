use redeliver_core::ports::{EntryError, Fault};
use redeliver_dead_letters::redrive::Watched;
use redeliver_dead_letters::{Coverage, NotDeleted};

use super::*;

fn of_redrive(report: &RedriveReport) -> Outcome {
    let deleted = report.sent - report.not_deleted;
    let all = JournalCounts { sent: report.sent, deleted, ..JournalCounts::default() };
    super::of_redrive(report, &all, report.came_back_count(), 0)
}

#[test]
fn an_outcome_says_what_came_of_it_and_whether_there_is_more_to_do() {
    let complete = Coverage { complete: true, ..Coverage::default() };
    let report = RedriveReport { sent: 7, coverage: Some(complete), ..RedriveReport::default() };
    let done = of_redrive(&report);
    assert_eq!(
        (done.finished, done.ending.as_str(), done.counts),
        (true, "done", vec![("sent back".to_owned(), 7)])
    );

    let watched = Watched { seconds: 60, sent: 50, came_back: 2, waiting: Some(30) };
    let stopped = RedriveReport {
        sent: 50,
        watched: Some(watched),
        early: Some(Early::Stopped),
        came_back: ["x".to_owned(), "y".to_owned()].into(),
        ..report.clone()
    };
    let stopped = of_redrive(&stopped);
    assert!(!stopped.finished && !stopped.in_both_queues);
    assert!(
        stopped.remarks[1]
            .starts_with("of 50 messages that this run sent, 2 came straight back, and about 30 wait")
    );

    let in_both = of_redrive(&RedriveReport { not_deleted: 3, ..report.clone() });
    assert!(!in_both.finished && in_both.in_both_queues, "{in_both:?}");
    assert!(in_both.remarks[0].contains("3 messages were sent and are in the DLQ, too"), "{in_both:?}");
    let failed = |fault, code| NotDeleted::Failed(EntryError::new(fault, code));
    for (why, remedy) in [
        (NotDeleted::VisibleToOthers, "Stop the other program that reads the DLQ, and go on here"),
        (failed(Fault::Sender, "AccessDenied"), "Allow sqs:DeleteMessage on the DLQ, and go on here"),
        (failed(Fault::Throttled, "RequestThrottled"), "Wait until SQS answers again, and go on here"),
    ] {
        let in_both =
            of_redrive(&RedriveReport { not_deleted: 3, why_not_deleted: Some(why), ..report.clone() });
        assert!(in_both.remarks[0].ends_with(remedy), "{in_both:?}");
    }

    let not_seen = of_redrive(&RedriveReport { coverage: None, ..report.clone() });
    assert!(!not_seen.finished && not_seen.ending == "not all of the queue was seen");
    let staying = [("parked".to_owned(), (1, vec!["sqs-1".to_owned()]))].into();
    assert!(
        of_redrive(&RedriveReport { staying, ..report }).finished,
        "another run would not change what stays"
    );
}

#[test]
fn a_deletion_is_finished_only_if_all_was_seen_and_all_of_it_is_gone() {
    let complete = Some(Coverage { complete: true, ..Coverage::default() });
    let purged = Purged { picked: 4, deleted: 4, coverage: complete, ..Purged::default() };
    let done = of_purge(&purged, 0, "backup.jsonl", 0);
    assert!(done.finished && done.remarks == ["what this run deleted is in backup.jsonl"]);
    for (purged, ending) in [
        (Purged { deleted: 3, ..purged.clone() }, "not all of it was deleted"),
        (Purged { coverage: None, ..purged.clone() }, "not all of it was deleted"),
        (Purged { interrupted: true, ..purged.clone() }, "paused"),
        (Purged { failed: Some("disk full".to_owned()), ..purged }, "failed"),
    ] {
        let outcome = of_purge(&purged, 0, "backup.jsonl", 0);
        assert_eq!((outcome.finished, outcome.ending.as_str()), (false, ending));
    }
}

#[test]
fn the_counts_are_of_all_runs_together_and_not_of_the_last_one() {
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
    let counts = super::of_redrive(&last, &all, 50, 0).counts;
    let told = [
        ("sent back", 500),
        ("edited", 3),
        ("possible copies, at most", 4),
        ("died again", 50),
        ("sent, not deleted from the DLQ", 2),
        ("perhaps sent: the next run sends them again", 2),
    ];
    assert_eq!(counts, told.map(|(name, count)| (name.to_owned(), count)));
    let purged = Purged { picked: 4, deleted: 4, coverage: Some(complete), ..Purged::default() };
    assert_eq!(of_purge(&purged, 3, "b", 0).counts, [("deleted".to_owned(), 7)]);
}

#[test]
fn a_restore_is_finished_once_all_that_can_be_sent_is_sent() {
    let summary = Summary { sent: 3, sent_before: 4, ..Summary::default() };
    let outcome = |summary: &Summary| {
        let outcome = of_restore(summary, &[]);
        (outcome.finished, outcome.ending, outcome.counts[0].1)
    };
    assert_eq!(outcome(&summary), (true, "done".to_owned(), 7));
    for (summary, finished, ending) in [
        (Summary { invalid: 1, ..summary.clone() }, true, "done, except for lines that are not messages"),
        (Summary { unconfirmed: 1, ..summary.clone() }, false, "not all of it was restored"),
        (Summary { stopped: Some(Stopped::Interrupted), ..summary.clone() }, false, "paused"),
        (Summary { stopped: Some(Stopped::Refused("x".to_owned())), ..summary }, false, "failed"),
    ] {
        assert_eq!(outcome(&summary), (finished, ending.to_owned(), 7));
    }
}

#[test]
fn messages_of_the_plan_that_were_gone_before_it_ran_are_counted() {
    let covered = Some(Coverage { complete: true, ..Coverage::default() });
    let report = RedriveReport { sent: 212, coverage: covered, ..RedriveReport::default() };
    let all = JournalCounts { sent: 212, deleted: 212, ..JournalCounts::default() };
    let counts = super::of_redrive(&report, &all, 0, 217).counts;
    let gone = ("no longer in the DLQ when it ran".to_owned(), 5);
    assert_eq!(counts, [("sent back".to_owned(), 212), gone.clone()]);
    let paused = RedriveReport { early: Some(Early::Interrupted), ..report };
    assert_eq!(super::of_redrive(&paused, &all, 0, 217).counts, [("sent back".to_owned(), 212)]);
    let purged = Purged { picked: 4, deleted: 4, coverage: covered, ..Purged::default() };
    assert_eq!(of_purge(&purged, 3, "b", 12).counts, [("deleted".to_owned(), 7), gone]);
}

#[test]
fn a_run_that_failed_before_it_deleted_holds_up_other_plans() {
    let failed =
        RedriveReport { sent: 10, early: Some(Early::Failed("disk".to_owned())), ..RedriveReport::default() };
    let holds_up = |sent, deleted, unknown| {
        let all = JournalCounts { sent, deleted, unknown, ..JournalCounts::default() };
        super::of_redrive(&failed, &all, 0, 20).in_both_queues
    };
    assert_eq!([holds_up(10, 0, 0), holds_up(10, 10, 10), holds_up(10, 10, 0)], [true, true, false]);
}
