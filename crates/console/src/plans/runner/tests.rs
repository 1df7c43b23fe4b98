use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Duration;

use redeliver_operator::file_journals::redrive_journal_path;
use redeliver_operator::queues::{AwsConnection, OneQueue};

use super::*;
use crate::plans::plan::PlanOutcome;

const FROM: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-final-dlq";

fn plan(action: PlanAction, message: &str) -> ConsolePlan {
    ConsolePlan::new(
        "2026-01-01T00:00:00Z".to_owned(),
        FROM,
        action,
        "all".to_owned(),
        Vec::new(),
        vec![message.to_owned()],
    )
}

fn send_back_plan(message: &str) -> ConsolePlan {
    let to = FROM.replace("-final-dlq", "");
    plan(PlanAction::SendBack { to, edit: None, program: None, new_id: false, max_generation: 3 }, message)
}

fn started_plan(plan: &ConsolePlan, outcome: Option<PlanOutcome>) -> StartedPlan {
    StartedPlan { outcome, ..StartedPlan::new(plan.clone(), RedrivePace::default()) }
}

/// Starts a plan against an endpoint that nothing listens on.
fn start(runner: &Arc<PlanRunner>, id: &str) -> Result<(), String> {
    start_with_request(runner, id, StartRequest::default()).map_err(|refused| refused.why.to_string())
}

fn start_with_request(runner: &Arc<PlanRunner>, id: &str, wanted: StartRequest) -> Result<(), StartError> {
    start_against_endpoint("http://127.0.0.1:9", runner, id, wanted)
}

fn start_against_endpoint(
    endpoint: &str,
    runner: &Arc<PlanRunner>,
    id: &str,
    wanted: StartRequest,
) -> Result<(), StartError> {
    let queue = OneQueue::from_names(Some(FROM.parse().unwrap()), None, None);
    let queue = DeadLetterQueue::new(
        queue,
        AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(endpoint.to_owned())),
    );
    let schema = MessageSchema::default();
    let to = FROM.replace("-final-dlq", "");
    runner.start_plan(id, wanted, &RunContext { from: FROM, to: Some(&to), queue: &queue, schema: &schema })
}

fn finished_outcome() -> PlanOutcome {
    PlanOutcome { finished: true, ..PlanOutcome::default() }
}

#[test]
fn finished_and_unknown_plans_are_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let done = send_back_plan("a");
    started_plan(&done, Some(finished_outcome())).write_file(folder.path()).unwrap();
    assert_eq!((start(&runner, &done.id), runner.running_id()), (Ok(()), None));
    assert_eq!(start(&runner, "unknown").unwrap_err(), "this plan no longer exists: create it again");
}

#[test]
fn no_plan_starts_while_another_may_have_messages_in_both_queues() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let (first, second) = (send_back_plan("a"), send_back_plan("b"));
    runner.keep_plan(second.clone());
    let in_both = PlanOutcome { in_both_queues: true, ..PlanOutcome::default() };
    for outcome in [None, Some(in_both)] {
        started_plan(&first, outcome).write_file(folder.path()).unwrap();
        let why = start(&runner, &second.id).unwrap_err();
        assert!(why.starts_with(&format!("the plan {} has messages in both queues", first.id)), "{why}");
        assert!(
            matches!(runner.find_plan(FROM, &second.id), Some(PlanState::Shown(_))),
            "nothing was started"
        );
    }
}

/// Uses the permissions that `cp` and `chmod -R g+w` produce.
#[tokio::test]
#[cfg(unix)]
async fn an_unreadable_plan_blocks_sends_unless_another_user_owns_it() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let (first, second) = (send_back_plan("a"), send_back_plan("b"));
    started_plan(&first, None).write_file(folder.path()).unwrap();
    let path = first.file_path(folder.path());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
    runner.keep_plan(second.clone());
    let why = start(&runner, &second.id).unwrap_err();
    let reported = |why: &str, what: &str| {
        assert!(why.contains(what) && why.contains(". Check the file, and fix it (`chmod 600` "), "{why}");
    };
    reported(&why, "other users can write to it (mode 664)");
    assert!(matches!(runner.find_plan(FROM, &second.id), Some(PlanState::Shown(_))), "nothing was started");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    redeliver_dead_letters::files::replace_file(&path, b"{").unwrap();
    reported(&start(&runner, &second.id).unwrap_err(), "EOF while parsing an object");
    if chown(&path, Some(redeliver_testing::planted::ANOTHER_USER), None).is_ok() {
        start(&runner, &second.id).unwrap();
    }
}

#[tokio::test]
async fn a_plan_is_saved_before_it_runs_and_its_failure_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    // A killed deletion leaves no message in both queues.
    started_plan(&plan(PlanAction::Delete, "z"), None).write_file(folder.path()).unwrap();
    let (plan, other) = (send_back_plan("a"), send_back_plan("b"));
    runner.keep_plan(plan.clone());
    runner.keep_plan(other.clone());
    start(&runner, &plan.id).unwrap();
    assert_eq!(runner.started_plans(FROM).started.len(), 2);
    if runner.running_id().is_some() {
        assert_eq!(start(&runner, &plan.id), Ok(()), "a second click");
    }
    while runner.running_id().is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let Some(PlanState::Ended(ended)) = runner.find_plan(FROM, &plan.id) else {
        panic!("expected an ended plan")
    };
    let outcome = ended.outcome.unwrap();
    assert_eq!((outcome.ending.as_str(), outcome.finished), ("failed", false));
    assert!(outcome.remarks[0].contains("no connection to http://127.0.0.1:9"), "{outcome:?}");
}

#[tokio::test]
async fn a_failed_run_with_a_journal_may_have_messages_in_both_queues() {
    for has_journal in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
        let plan = send_back_plan("a");
        runner.keep_plan(plan.clone());
        if has_journal {
            redeliver_dead_letters::files::replace_file(&plan.journal_path(folder.path()), b"").unwrap();
        }
        start(&runner, &plan.id).unwrap();
        while runner.running_id().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let outcome = runner.started_plans(FROM).started.remove(0).outcome.unwrap();
        assert_eq!((outcome.ending.as_str(), outcome.in_both_queues), ("failed", has_journal));
    }
}

#[test]
fn a_plan_for_another_source_queue_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let to = "arn:aws:sqs:eu-central-1:999999999999:orders".to_owned();
    let elsewhere =
        plan(PlanAction::SendBack { to, edit: None, program: None, new_id: false, max_generation: 3 }, "a");
    started_plan(&elsewhere, None).write_file(folder.path()).unwrap();
    let why = format!(
        "the plan {} sends to arn:aws:sqs:eu-central-1:999999999999:orders, but the source queue here is \
         arn:aws:sqs:eu-central-1:123456789012:orders: create a new plan, or start the console with --to for that \
         queue",
        elsewhere.id
    );
    assert_eq!((start(&runner, &elsewhere.id), runner.running_id()), (Err(why), None));
}

#[test]
fn settings_changed_by_another_tab_are_reported_and_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let plan = send_back_plan("a");
    let stored = RedrivePace { rate: Some(20), ..RedrivePace::default() };
    let paused = Some(PlanOutcome::default());
    StartedPlan { outcome: paused, ..StartedPlan::new(plan.clone(), stored) }
        .write_file(folder.path())
        .unwrap();
    let wanted = StartRequest { pace: RedrivePace::default(), shown: Some(RedrivePace::default()) };
    let refused = start_with_request(&runner, &plan.id, wanted).unwrap_err();
    assert_eq!(
        refused.why.to_string(),
        "another tab changed the settings to at most 20 messages per second, 90 s of watching, and a stop at more than \
         20 %, so nothing was done"
    );
    assert_eq!((refused.see, runner.running_id()), (Some(plan.id.clone()), None));
    assert_eq!(runner.started_plans(FROM).started[0].pace, stored);
    let seen = StartRequest { pace: RedrivePace::default(), shown: Some(stored) };
    assert!(start_with_request(&runner, &plan.id, seen).is_ok());
    assert_eq!(
        runner.started_plans(FROM).started[0].pace,
        RedrivePace::default(),
        "the settings of this tab"
    );
}

#[tokio::test]
async fn a_blocked_plan_links_to_the_plan_that_blocks_it() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let (first, second) = (send_back_plan("a"), send_back_plan("b"));
    started_plan(&first, None).write_file(folder.path()).unwrap();
    runner.keep_plan(second.clone());
    let refused = start_with_request(&runner, &second.id, StartRequest::default()).unwrap_err();
    assert_eq!(refused.see, Some(first.id));
}

#[test]
fn a_continued_plan_blocks_others_and_cannot_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let (plan, other) = (send_back_plan("a"), send_back_plan("b"));
    started_plan(&plan, Some(PlanOutcome::default())).write_file(folder.path()).unwrap();
    // The listener accepts connections but never responds, so the run continues until the end of the test.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    start_against_endpoint(&endpoint, &runner, &plan.id, StartRequest::default()).unwrap();
    assert_eq!(runner.running_id(), Some(plan.id.clone()));
    assert_eq!(
        runner.started_plans(FROM).started[0].outcome,
        None,
        "messages might be in both queues from now on"
    );
    let next = Arc::new(PlanRunner::new(folder.path().to_owned()));
    next.keep_plan(other.clone());
    let refused = start_with_request(&next, &other.id, StartRequest::default()).unwrap_err();
    assert_eq!(refused.see, Some(plan.id.clone()));
    let refused = runner.cancel_plan(FROM, &plan.id).unwrap_err();
    assert_eq!(refused.to_string(), "This plan is running: pause it first.");
    assert!(plan.file_path(folder.path()).exists());
}

#[test]
fn a_plan_is_cancelled_only_if_it_has_sent_and_deleted_nothing() {
    use redeliver_dead_letters::redrive::JournalEntry;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runner = Arc::new(PlanRunner::new(folder.to_owned()));
    let cancel = |id: &str| runner.cancel_plan(FROM, id).map_err(|error| error.to_string());
    let shown = send_back_plan("shown");
    runner.keep_plan(shown.clone());
    assert_eq!((cancel(&shown.id), runner.find_plan(FROM, &shown.id).is_some()), (Ok(()), false));
    assert_eq!(cancel(&shown.id), Ok(()), "a second click");

    let to = FROM.replace("-final-dlq", "");
    let intent = || JournalEntry::Intent {
        sqs_message_id: "s".to_owned(),
        message_id: "m".to_owned(),
        old_message_id: None,
        generation: 1,
        original_body: None,
    };
    let run = || JournalEntry::Run { at: "1970-01-01T00:00:00Z".to_owned() };
    let sent = || JournalEntry::Sent { sqs_message_id: "s".to_owned(), sent_as: "t".to_owned(), sends: 1 };
    let refused = || JournalEntry::NotSent { sqs_message_id: "s".to_owned(), code: "c".to_owned(), sends: 0 };
    for (name, entries, can) in [
        ("no run", Vec::new(), true),
        ("refused", vec![run(), intent(), refused()], true),
        ("killed", vec![run(), intent()], false),
        ("sent", vec![run(), intent(), sent()], false),
    ] {
        let plan = send_back_plan(name);
        started_plan(&plan, None).write_file(folder).unwrap();
        let journal = plan.journal_path(folder);
        RedriveJournal::open(&journal, &plan.id, FROM, &to).unwrap().write_entries(&entries).unwrap();
        assert_eq!(cancel(&plan.id).is_ok(), can, "{name}");
        assert_eq!((plan.file_path(folder).exists(), journal.exists()), (!can, !can), "{name}");
    }
    let busy = send_back_plan("busy");
    started_plan(&busy, None).write_file(folder).unwrap();
    let _another_console = RedriveJournal::open(&busy.journal_path(folder), &busy.id, FROM, &to).unwrap();
    assert!(cancel(&busy.id).unwrap_err().contains("is in use"));

    let deletion = plan(PlanAction::Delete, "d");
    started_plan(&deletion, None).write_file(folder).unwrap();
    redeliver_dead_letters::files::replace_file(&deletion.next_backup_path(folder), b"").unwrap();
    assert_eq!(
        cancel(&deletion.id).unwrap_err(),
        "This plan has deleted messages, or may have, so it cannot be cancelled."
    );
    let restore = plan(PlanAction::Restore { to: to.clone(), deletion: deletion.id.clone() }, "d");
    started_plan(&restore, None).write_file(folder).unwrap();
    assert_eq!((cancel(&restore.id), restore.file_path(folder).exists()), (Ok(()), false), "nothing is sent");
    started_plan(&restore, None).write_file(folder).unwrap();
    let mut journal = RedriveJournal::open(&restore.journal_path(folder), &restore.id, FROM, &to).unwrap();
    journal.write_entries(&[run(), intent(), sent()]).unwrap();
    drop(journal);
    assert_eq!(
        cancel(&restore.id).unwrap_err(),
        "This plan has restored messages, or may have, so it cannot be cancelled."
    );
    assert!(restore.file_path(folder).exists());
}

/// Starts an endpoint that responds to every request as SQS would for an empty source queue.
fn start_sqs_stub() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let attributes = serde_json::json!({
        "QueueArn": FROM.replace("-final-dlq", ""),
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
    });
    let body =
        serde_json::json!({ "QueueUrl": format!("{endpoint}/orders"), "Attributes": attributes }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut reader = BufReader::new(&stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            reader.read_exact(&mut vec![0; length.parse().unwrap()]).unwrap();
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            (&stream).write_all(answer.as_bytes()).unwrap();
        }
    });
    endpoint
}

/// Without the claims, `redeliver redrive` would resend messages that the restore has already sent from the second
/// backup.
#[tokio::test]
async fn a_restore_claims_each_backup_so_other_commands_cannot_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let runner = Arc::new(PlanRunner::new(folder.path().to_owned()));
    let deletion = plan(PlanAction::Delete, "a");
    let backups = [(); 2].map(|()| {
        let backup = deletion.next_backup_path(folder.path());
        redeliver_dead_letters::files::replace_file(&backup, b"").unwrap();
        backup
    });
    let to = FROM.replace("-final-dlq", "");
    let restore = plan(PlanAction::Restore { to: to.clone(), deletion: deletion.id }, "a");
    runner.keep_plan(restore.clone());
    start_against_endpoint(&start_sqs_stub(), &runner, &restore.id, StartRequest::default()).unwrap();
    while runner.running_id().is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let outcome = runner.started_plans(FROM).started.remove(0).outcome.unwrap();
    assert!(outcome.finished, "{outcome:?}");
    for journal in backups.map(|backup| redrive_journal_path(&backup)) {
        let open = |id: &str| {
            RedriveJournal::open(&journal, id, FROM, &to).map(drop).map_err(|error| error.to_string())
        };
        assert!(journal.exists(), "{}", journal.display());
        assert_eq!(open(&restore.id), Ok(()));
        assert!(open("of redrive FILE").unwrap_err().contains("belongs to another redrive"));
    }
}

/// A journal left behind would block every restore to another queue.
#[test]
fn a_cancelled_restore_leaves_no_journal_next_to_its_backups() {
    use redeliver_operator::dead_letter_source::claim_backups;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runner = Arc::new(PlanRunner::new(folder.to_owned()));
    let deletion = plan(PlanAction::Delete, "d");
    for _run in 1..=3 {
        redeliver_dead_letters::files::replace_file(&deletion.next_backup_path(folder), b"").unwrap();
    }
    let backups = deletion.backup_paths(folder);
    let to = FROM.replace("-final-dlq", "");
    let restore =
        |to: &str| plan(PlanAction::Restore { to: to.to_owned(), deletion: deletion.id.clone() }, "d");
    let (first, second) = (restore(&to), restore(&format!("{to}-2")));
    started_plan(&first, None).write_file(folder).unwrap();
    drop(RedriveJournal::open(&first.journal_path(folder), &first.id, FROM, &to).unwrap());
    claim_backups(&backups, &first.id, FROM, &to).unwrap();
    // The last journal belongs to `redrive FILE`.
    let others = redeliver_operator::file_journals::redrive_journal_path(&backups[2]);
    std::fs::remove_file(&others).unwrap();
    drop(RedriveJournal::open(&others, "other", "file:", &to).unwrap());

    let refused = claim_backups(&backups, &second.id, FROM, &format!("{to}-2")).unwrap_err().to_string();
    assert!(refused.contains(&format!("belongs to another redrive, to {to}, ")), "{refused}");
    assert!(!refused.contains("--journal"), "the console has no such option: {refused}");
    runner.cancel_plan(FROM, &first.id).unwrap();
    assert_eq!(claim_backups(&backups[..2], &second.id, FROM, &format!("{to}-2")).map_err(|_| ()), Ok(()));
    assert!(others.exists(), "it records messages sent by another redrive");
}

/// If another redrive's journal prevented the cancellation, the plan could be neither carried out nor cancelled.
#[test]
fn a_cancelled_restore_keeps_the_journal_of_another_redrive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let runner = Arc::new(PlanRunner::new(folder.to_owned()));
    let deletion = plan(PlanAction::Delete, "d");
    redeliver_dead_letters::files::replace_file(&deletion.next_backup_path(folder), b"").unwrap();
    let to = FROM.replace("-final-dlq", "");
    let restore = plan(PlanAction::Restore { to: to.clone(), deletion: deletion.id }, "d");
    started_plan(&restore, None).write_file(folder).unwrap();
    let journal = restore.journal_path(folder);
    drop(RedriveJournal::open(&journal, "of redrive FILE", "file:", &to).unwrap());
    let begun = std::fs::read(&journal).unwrap();

    assert_eq!(runner.cancel_plan(FROM, &restore.id).map_err(|error| error.to_string()), Ok(()));
    assert!(runner.find_plan(FROM, &restore.id).is_none(), "the plan is gone");
    assert_eq!(std::fs::read(&journal).unwrap(), begun, "it records messages sent by the other redrive");
}

#[test]
fn a_run_estimates_its_remaining_time_only_while_it_is_working() {
    let at = redeliver_testing::dead_letters::at_seconds;
    let mut live = RunProgress { before: 100, ..RunProgress::default() };
    live.apply_progress(RedriveProgress::Sent(50), at(0));
    live.apply_progress(RedriveProgress::Sent(60), at(10));
    assert_eq!(live.remaining_seconds(1000, at(10)), Some(840), "1 per second");
    live.apply_progress(RedriveProgress::Watching(Duration::from_secs(60)), at(10));
    assert_eq!(live.remaining_seconds(1000, at(70)), None);
    live.apply_progress(RedriveProgress::Sent(70), at(100));
    live.apply_progress(RedriveProgress::Sent(170), at(110));
    assert_eq!(live.remaining_seconds(1000, at(110)), Some(73), "10 per second: the wait is not counted");
}
