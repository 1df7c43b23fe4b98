use redeliver_dead_letters::Coverage;
use redeliver_dead_letters::redrive::Watched;

use super::*;
use crate::connection::{Connection, OneQueue};

const FROM: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

fn plan(work: Work, message: &str) -> Plan {
    Plan::new("2026-01-01T00:00:00Z".to_owned(), FROM, work, "all".to_owned(), vec![message.to_owned()])
}

fn send_back(message: &str) -> Plan {
    let to = FROM.replace("-final-dlq", "");
    plan(Work::SendBack { to, edit: None, new_id: false, max_generation: 3 }, message)
}

fn begun(plan: &Plan, outcome: Option<Outcome>) -> Begun {
    Begun { plan: plan.clone(), pace: Pace::default(), outcome }
}

/// Starts a plan on an endpoint that nobody answers at.
fn start(works: &Arc<Works>, id: &str) -> Result<(), String> {
    let queue = OneQueue::of(Some(FROM.parse().unwrap()), None, None);
    let queue = DeadLetterQueue::new(queue, Connection::to_endpoint("http://127.0.0.1:9"));
    let schema = MessageSchema::default();
    works.start(FROM, id, Pace::default(), &queue, &schema).map_err(|error| error.to_string())
}

fn finished() -> Outcome {
    Outcome { finished: true, ..Outcome::default() }
}

#[test]
fn what_is_finished_is_not_done_again_and_what_nobody_knows_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let works = Arc::new(Works::new(folder.path().to_owned()));
    let done = send_back("a");
    begun(&done, Some(finished())).write(folder.path()).unwrap();
    assert_eq!((start(&works, &done.id), works.running()), (Ok(()), None));
    assert_eq!(start(&works, "nobody").unwrap_err(), "this plan is not known any more: make it again");
}

#[test]
fn nothing_is_sent_while_another_plan_may_have_messages_in_both_queues() {
    let folder = tempfile::tempdir().unwrap();
    let works = Arc::new(Works::new(folder.path().to_owned()));
    let (first, second) = (send_back("a"), send_back("b"));
    works.show(second.clone());
    let in_both = Outcome { in_both_queues: true, ..Outcome::default() };
    for outcome in [None, Some(in_both)] {
        begun(&first, outcome).write(folder.path()).unwrap();
        let why = start(&works, &second.id).unwrap_err();
        assert!(why.starts_with(&format!("the plan {} has messages in both queues", first.id)), "{why}");
        assert!(matches!(works.find(FROM, &second.id), Some(Standing::Shown(_))), "nothing was begun");
    }
}

#[tokio::test]
async fn a_plan_is_on_the_disk_before_anything_is_done_and_how_it_failed_is_there_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let works = Arc::new(Works::new(folder.path().to_owned()));
    // A deletion that was killed has nothing in both queues.
    begun(&plan(Work::Delete, "z"), None).write(folder.path()).unwrap();
    let (plan, other) = (send_back("a"), send_back("b"));
    works.show(plan.clone());
    works.show(other.clone());
    start(&works, &plan.id).unwrap();
    assert_eq!(works.begun(FROM).0.len(), 2);
    if works.running().is_some() {
        assert_eq!(start(&works, &plan.id), Ok(()), "a second click");
    }
    while works.running().is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let Some(Standing::Ended(ended)) = works.find(FROM, &plan.id) else { panic!("it has ended") };
    let outcome = ended.outcome.unwrap();
    assert_eq!((outcome.ending.as_str(), outcome.finished), ("failed", false));
    assert!(outcome.remarks[0].contains("no connection to http://127.0.0.1:9"), "{outcome:?}");
}

#[test]
fn an_outcome_says_what_came_of_it_and_whether_there_is_more_to_do() {
    let complete = Coverage { complete: true, ..Coverage::default() };
    let report = Report { sent: 7, coverage: Some(complete), ..Report::default() };
    let done = of_redrive(&report);
    assert_eq!(
        (done.finished, done.ending.as_str(), done.counts),
        (true, "done", vec![("sent back".to_owned(), 7)])
    );

    let watched = Watched { seconds: 60, sent: 50, came_back: 2, waiting: Some(30) };
    let stopped = Report {
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

    let in_both = of_redrive(&Report { not_deleted: 3, ..report.clone() });
    assert!(!in_both.finished && in_both.in_both_queues, "{in_both:?}");
    assert!(in_both.remarks[0].contains("3 messages were sent and are in the DLQ, too"), "{in_both:?}");

    let not_seen = of_redrive(&Report { coverage: None, ..report.clone() });
    assert!(!not_seen.finished && not_seen.ending == "not all of the queue was seen");
    let staying = [("parked".to_owned(), (1, vec!["sqs-1".to_owned()]))].into();
    assert!(of_redrive(&Report { staying, ..report }).finished, "another run would not change what stays");
}

#[test]
fn a_deletion_is_finished_only_if_all_was_seen_and_all_of_it_is_gone() {
    let complete = Some(Coverage { complete: true, ..Coverage::default() });
    let purged = Purged { picked: 4, deleted: 4, coverage: complete, ..Purged::default() };
    let done = of_purge(&purged, "backup.jsonl");
    assert!(
        done.finished
            && done.remarks
                == ["what was deleted is in backup.jsonl: `redeliver send --backup` sends it again"]
    );
    for (purged, ending) in [
        (Purged { deleted: 3, ..purged.clone() }, "not all of it was deleted"),
        (Purged { coverage: None, ..purged.clone() }, "not all of it was deleted"),
        (Purged { interrupted: true, ..purged.clone() }, "paused"),
        (Purged { failed: Some("disk full".to_owned()), ..purged }, "failed"),
    ] {
        let outcome = of_purge(&purged, "backup.jsonl");
        assert_eq!((outcome.finished, outcome.ending.as_str()), (false, ending));
    }
}
