//! Sending a backup restores messages exactly as a redrive does.

use std::fs;
use std::path::{Path, PathBuf};

use redeliver_core::failure::Stage;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::message::metadata::GENERATION_MAX;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{
    Attribute, AttributeValue, Attributes, Content, OutgoingMessage, ReceivedMessage,
};
use redeliver_core::ports::{Queue as _, QueueSender as _, QueueService as _, QueueSettings, ReceiveOptions};
use redeliver_dead_letters::purge::Purge;
use redeliver_dead_letters::redrive::{
    self, RedriveJob, RedriveLimits, RedriveOutcome, RedrivePlan, RedriveReport,
};
use redeliver_dead_letters::{ArchiveFile, ArchivedMessage, BackupReader, Pick};
use redeliver_embedded::EmbeddedQueue;
use redeliver_testing::dead_letters::received_message;
use tempfile::TempDir;

use super::*;
use crate::dead_letter_source::{claim_backups, open_backups};
use crate::file_journals::{check_not_started, redrive_journal_path};

/// A source queue, a DLQ with dead letters, and a directory for the backup and the journal.
struct PurgeWorld {
    world: World,
    dlq: EmbeddedQueue,
    directory: TempDir,
}

impl PurgeWorld {
    fn new(dead_letters: Vec<Content>) -> Self {
        let world = World::new();
        let dlq = world.clock.block_on(async {
            let dlq = world.sqs.create_queue("dlq", &QueueSettings::default()).await.unwrap();
            let messages: Vec<_> =
                dead_letters.into_iter().map(|content| OutgoingMessage::new(content).unwrap()).collect();
            for batch in pack_batches(&messages) {
                assert!(dlq.send_batch(batch).await.iter().all(Result::is_ok));
            }
            dlq
        });
        Self { world, dlq, directory: tempfile::tempdir().unwrap() }
    }

    /// Purges the entire DLQ to a backup, and returns the backup's path.
    fn purge(&self) -> PathBuf {
        let path = self.directory.path().join("backup.jsonl");
        let mut backup = ArchiveFile::create(&path).unwrap();
        let all = Pick::default();
        let purging = Purge::new(&self.dlq, &self.world.clock, &all).apply(&mut backup);
        let purged = self.world.clock.block_on(purging).unwrap();
        assert_eq!(purged.deleted, purged.picked);
        path
    }

    /// Runs `redeliver send --backup` with a journal.
    fn send(&self, backup: &Path) -> Summary {
        let form = || LineFormat::Backup(Box::new(BackupReader::new(MessageSchema::default(), "arn:source")));
        let path = self.directory.path().join("backup.jsonl.sent");
        let (mut journal, confirmed) = journal::open_journal(&path, backup, "arn:source", &form()).unwrap();
        let rules = LineRules { form: form(), confirmed, ..LineRules::default() };
        let input = fs::read_to_string(backup).unwrap();
        self.world.send_with_rules(&input, rules, Some(&mut journal), pending())
    }

    /// Runs `redeliver redrive --apply`.
    fn redrive(&self) {
        let redrive = RedriveJob {
            dlq: &self.dlq,
            source: &self.world.queue,
            clock: &self.world.clock,
            plan: &RedrivePlan { max_generation: 3, ..RedrivePlan::default() },
            can_come_back: true,
            limits: RedriveLimits {
                rate: None,
                max: u64::MAX,
                stop_after_failures_percent: 20,
                watch: Duration::ZERO,
            },
            interrupted: &|| false,
            progress: &|_| {},
        };
        let path = self.directory.path().join("redrive.jsonl");
        let mut journal = redrive::RedriveJournal::open(&path, "plan", "dlq", "source").unwrap();
        self.world.clock.block_on(redrive.apply(&mut journal)).unwrap();
    }

    /// Receives all messages from the source queue, as its consumers would.
    fn receive_all(&self) -> Vec<(String, Attributes, Option<String>, Option<String>)> {
        self.world.sqs.set_faults(Default::default());
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        let mut all = Vec::new();
        self.world.clock.block_on(async {
            loop {
                let messages = self.world.queue.receive(request).await.unwrap();
                if messages.is_empty() {
                    return;
                }
                all.extend(messages.into_iter().map(|message| {
                    let ReceivedMessage { body, attributes, message_group_id, trace_header, .. } = message;
                    (body, attributes, message_group_id, trace_header)
                }));
            }
        });
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

fn attribute(data_type: &str, value: AttributeValue) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value }
}

/// Returns the n-th dead letter, with `text` in its data and attributes of all types.
fn dead_letter(n: usize, text: &str) -> Content {
    let body = format!(
        "{{\"metadata\":{{\"message_id\":\"{n:08}-0000-4000-8000-000000000000\",\n \"retry_attempt\":5, \"tenant\":\"a\"}},\
         \"data\":{{\"n\":{n}, \"x\":1.50,\"text\":{}}}}}",
        serde_json::Value::from(text)
    );
    let producer = Attributes::from([
        ("tenant".to_owned(), Attribute::string("t1")),
        ("ErrorType".to_owned(), Attribute::string("the producer's own")),
        ("n".to_owned(), attribute("Number.int", AttributeValue::Text("-4.50".to_owned()))),
        ("bytes".to_owned(), attribute("Binary.png", AttributeValue::Binary(vec![0, 255, 10]))),
    ]);
    let record = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause { error_type: "Panic".to_owned(), message: "down".to_owned(), ..Cause::default() },
        attempts: Some(5),
        redrive_generation: None,
        held_seconds: None,
        redrive_count: None,
        first_sent_time: None,
        dead_lettered_at: "1970-01-01T00:00:00.000000Z".to_owned(),
        died_at: None,
        source_queue_arn: None,
        sqs_message_id: "m".to_owned(),
        fingerprint: "0000000000000000".to_owned(),
        folded_attributes: Default::default(),
    };
    let reason = DeadLetterReason::RetryAttemptExceeded;
    let annotation =
        Annotation { reason: reason.into(), details: "Max retry attempts 5 exceeded".to_owned(), record };
    let attributes = annotate_attributes(&producer, body.len(), &annotation);
    assert!(attributes.contains_key("DeadLetter"));
    Content { body, attributes, message_group_id: Some("g".to_owned()), ..Content::default() }
}

#[test]
fn restoring_a_purge_sends_the_same_bytes_as_a_redrive() {
    let all = || {
        let folded =
            Attributes::from([("ErrorType".to_owned(), Attribute::string("RETRY_ATTEMPT_EXCEEDED"))]);
        let without_document = Content { attributes: folded, ..dead_letter(30, "plain") };
        let with_special_characters = dead_letter(31, "\"\\é\u{7f}😀\u{2028}\t\r\n");
        (0..30)
            .map(|n| dead_letter(n, "x"))
            .chain([without_document, with_special_characters])
            .collect::<Vec<_>>()
    };
    let redriven = PurgeWorld::new(all());
    redriven.redrive();
    let expected = redriven.receive_all();
    assert_eq!(expected.len(), 32);
    assert!(expected[0].0.contains("\"redrive_generation\":1") && !expected[0].0.contains("retry_attempt"));
    assert_eq!(expected[0].1.keys().collect::<Vec<_>>(), ["ErrorType", "bytes", "n", "tenant"]);

    let purged = PurgeWorld::new(all());
    let summary = purged.send(&purged.purge());
    assert_eq!(summary, Summary { sent: 32, ..Summary::default() });
    assert_eq!(purged.receive_all(), expected);
}

/// `cat a.jsonl b.jsonl` can produce such a file. Without the check, each message would be processed twice.
#[test]
fn a_dead_letter_listed_twice_in_the_file_is_sent_once() {
    let purging = PurgeWorld::new((0..4).map(|n| dead_letter(n, "x")).collect());
    let backup = purging.purge();
    let once = fs::read_to_string(&backup).unwrap();
    let twice = format!("{once}{once}nonsense\nnonsense\n");
    redeliver_dead_letters::files::replace_file(&backup, twice.as_bytes()).unwrap();
    assert_eq!(purging.send(&backup), Summary { sent: 4, repeated: 4, invalid: 2, ..Summary::default() });
    assert_eq!(purging.receive_all().len(), 4);
    let again = purging.send(&backup);
    assert_eq!(again, Summary { sent_before: 4, repeated: 4, invalid: 2, ..Summary::default() });
    assert_eq!(purging.receive_all().len(), 0, "nothing is sent again");
}

#[test]
fn a_dlq_named_by_mistake_is_refused_before_a_journal_is_started() {
    let purging = PurgeWorld::new(vec![dead_letter(1, "x")]);
    let backup = fs::read(purging.purge()).unwrap();
    let check = |queue: &str| {
        let first_line = backup.split(|byte| *byte == b'\n').next().unwrap();
        BackupReader::new(MessageSchema::default(), queue).check_queue(first_line)
    };
    assert_eq!(check("arn:source"), Ok(()));
    let refused = check(purging.dlq.arn()).unwrap_err();
    assert!(
        refused.ends_with("name the source queue, so that it is handled again; nothing was sent"),
        "{refused}"
    );
}

#[test]
fn a_partly_sent_backup_is_completed_without_duplicates() {
    let large = "\"".repeat(400_000);
    let purging =
        PurgeWorld::new((0..20).map(|n| dead_letter(n, if n == 3 { &large } else { "x" })).collect());
    let backup = purging.purge();
    let longest = fs::read_to_string(&backup).unwrap().lines().map(str::len).max().unwrap();
    assert!(longest > redeliver_core::limits::MESSAGE_BYTES_MAX, "{longest}: longer than any message");
    purging.world.inject_fault(FaultScope::Entry, FaultTrigger::Numbers(vec![2, 15]), Injection::Sender);
    let first = purging.send(&backup);
    assert_eq!((first.sent, first.unconfirmed, first.exit_code()), (18, 2, ExitCode::PartlyDone));
    purging.world.sqs.set_faults(Default::default());
    let second = purging.send(&backup);
    assert_eq!((second.sent, second.sent_before, second.exit_code()), (2, 18, ExitCode::Done));
    let sent: std::collections::BTreeSet<_> =
        purging.receive_all().into_iter().map(|message| message.0).collect();
    assert_eq!(sent.len(), 20);
    assert_eq!(purging.send(&backup), Summary { sent_before: 20, ..Summary::default() });
}

/// Returns a backup line.
fn backup_line(content: Content, queue_arn: &str) -> String {
    backup_line_with_id(1, content, queue_arn)
}

/// Returns a backup line with the n-th SQS message id.
fn backup_line_with_id(n: u32, content: Content, queue_arn: &str) -> String {
    let message = ReceivedMessage {
        queue_arn: queue_arn.to_owned(),
        ..received_message(&content.body, content.attributes, n)
    };
    serde_json::to_string(&ArchivedMessage::new(&message)).unwrap()
}

#[test]
fn invalid_backup_lines_are_reported_without_their_values() {
    let good = backup_line(dead_letter(1, "x"), "arn:dlq");
    let lines = [
        r#"{"sqs_message_id":["CANARY"]}"#.to_owned(),
        "CANARY".to_owned(),
        good.replacen("1970-01-01T00:00:00.000000Z", "CANARY", 1),
        backup_line_with_id(2, Content { body: "CANARY".to_owned(), ..Content::default() }, "arn:dlq"),
        backup_line_with_id(3, dead_letter(1, "x"), "arn:source"),
        backup_line_with_id(
            4,
            Content {
                body: dead_letter(1, "x").body.replace("\"retry", "\"redrive_generation\":100,\"retry"),
                ..dead_letter(1, "x")
            },
            "arn:dlq",
        ),
        good,
    ];
    let world = World::new();
    let form = LineFormat::Backup(Box::new(BackupReader::new(MessageSchema::default(), "arn:source")));
    let rules = LineRules { form, ..LineRules::default() };
    let summary =
        world.send_with_rules(&lines.join("\n"), rules, None::<&mut SendJournal<Vec<u8>>>, pending());
    assert_eq!((summary.sent, summary.invalid), (1, 6));
    let problems = world.take_problems();
    let foreign = "not a line of `audit --save` or `purge --backup`";
    for (problem, expected) in problems.iter().zip([
        format!("1: {foreign}: it is JSON, but not a dead letter; messages are sent without --backup"),
        format!("2: {foreign}: it is not valid JSON at column 1"),
        format!("3: {foreign}: one of its times or attributes was changed"),
        "4: would be dead-lettered again immediately: not JSON".to_owned(),
        "5: was read from this same queue".to_owned(),
        "6: was sent back 100 times already".to_owned(),
    ]) {
        assert!(problem.starts_with(&expected) && !problem.contains("CANARY"), "{expected}: {problem}");
    }
}

#[test]
fn a_backup_line_sent_as_a_message_is_refused_with_a_hint() {
    let world = World::new();
    let line = backup_line(dead_letter(1, "x"), "arn:dlq");
    let summary =
        world.send_with_rules(&line, LineRules::default(), None::<&mut SendJournal<Vec<u8>>>, pending());
    assert_eq!((summary.sent, summary.invalid), (0, 1));
    assert_eq!(
        world.take_problems(),
        [
            "1: a dead letter, not a message: `redeliver audit FILE` says why it died, `redeliver redrive FILE` and \
             `redeliver send --backup FILE` send it again"
        ]
    );
}

/// Runs a restore once: a redrive of backups that parks no messages.
fn restore(purging: &PurgeWorld, backups: &[PathBuf]) -> RedriveReport {
    let World { queue, clock, .. } = &purging.world;
    let from = open_backups(backups, "arn:dlq").unwrap();
    let pick = Pick::with_sqs_ids(from.message_ids().unwrap());
    let redrive = RedriveJob {
        dlq: &from,
        source: queue,
        clock,
        plan: &RedrivePlan { pick, max_generation: GENERATION_MAX, ..RedrivePlan::default() },
        can_come_back: false,
        limits: RedriveLimits {
            rate: None,
            max: u64::MAX,
            stop_after_failures_percent: 20,
            watch: Duration::ZERO,
        },
        interrupted: &|| false,
        progress: &|_| {},
    };
    let journal = purging.directory.path().join("restore.jsonl");
    let mut journal = redrive::RedriveJournal::open(&journal, "plan", "arn:dlq", "arn:source").unwrap();
    clock.block_on(redrive.apply(&mut journal)).unwrap()
}

#[test]
fn messages_backed_up_twice_after_a_killed_run_are_restored_once() {
    let purging = PurgeWorld::new((0..12).map(|n| dead_letter(n, "x")).collect());
    let first = purging.purge();
    // The second backup has the messages that the first run backed up but could not delete, and two that it did not
    // reach.
    let text = fs::read_to_string(&first).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let second = purging.directory.path().join("second.jsonl");
    // The first run was killed while writing a line.
    let torn = lines[..10].join("\n") + "\n" + &lines[10][..100];
    redeliver_dead_letters::files::replace_file(&first, torn.as_bytes()).unwrap();
    let rest = lines[7..].join("\n") + "\n";
    redeliver_dead_letters::files::replace_file(&second, rest.as_bytes()).unwrap();
    let backups = [first, second];
    assert_eq!(open_backups(&backups, "arn:dlq").unwrap().message_ids().unwrap().len(), 12);
    // SQS rejects the first ten messages.
    purging.world.inject_fault(FaultScope::Request, FaultTrigger::Numbers(vec![1]), Injection::Sender);
    let report = restore(&purging, &backups);
    let ending = |report: &RedriveReport| RedriveOutcome::from_report(report, u64::MAX);
    assert_eq!((report.sent, report.to_retry, ending(&report)), (2, 10, RedriveOutcome::Left));
    let report = restore(&purging, &backups);
    assert_eq!((report.sent, report.deleted_only, ending(&report)), (10, 2, RedriveOutcome::Done));
    let report = restore(&purging, &backups);
    assert_eq!((report.sent, report.deleted_only, ending(&report)), (0, 12, RedriveOutcome::Done));
    let copies: Vec<_> = purging.world.drain_bodies().into_values().collect();
    assert_eq!(copies, [1; 12]);
}

#[test]
fn a_backup_claimed_by_a_restore_is_rejected_by_other_commands() {
    let purging = PurgeWorld::new(vec![dead_letter(1, "x")]);
    let first = purging.purge();
    let second = purging.directory.path().join("second.jsonl");
    let backups = [first, second.clone()];
    let claim = |id| claim_backups(&backups, id, "arn:dlq", "arn:source");
    claim("plan").unwrap();
    assert!(check_not_started(&redrive_journal_path(&second), "redeliver redrive").is_err());
    claim("plan").expect("the restore continues");
    let error = claim("another plan").unwrap_err().to_string();
    assert!(error.contains("belongs to another redrive"), "{error}");
}

#[test]
fn a_backup_that_another_user_may_have_written_is_not_restored() {
    let purging = PurgeWorld::new(vec![dead_letter(1, "x")]);
    let backup = purging.purge();
    let text = fs::read_to_string(&backup).unwrap();
    redeliver_testing::planted::check_each_planted_file(&backup, &text, |why| {
        let error = open_backups(std::slice::from_ref(&backup), "arn:dlq").unwrap_err();
        assert!(error.to_string().ends_with(why), "{error}");
    });
}
