use std::path::Path;
use std::time::Duration;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content, OutgoingMessage, Timestamp};
use redeliver_core::ports::{
    Clock as _, QueueDepth as _, QueueSender as _, QueueService as _, QueueSettings,
};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};
use serde_json::{Value, json};

use super::*;
use crate::Filter;
use crate::files::{ALREADY_EXISTS, replace_file};

/// Creates a queue with 60 messages `{"n":0..60}`, each with a binary attribute.
fn set_up_queue() -> (VirtualClock, EmbeddedSqs, EmbeddedQueue) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 7);
    let queue = clock.block_on(async {
        let queue = sqs.create_queue("dlq", &QueueSettings::default()).await.unwrap();
        let bytes = Attribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(vec![0, 255]) };
        let messages: Vec<_> = (0..60)
            .map(|n| {
                let attributes = Attributes::from([("bytes".to_owned(), bytes.clone())]);
                let content =
                    Content { body: json!({ "n": n }).to_string(), attributes, ..Content::default() };
                OutgoingMessage::new(content).unwrap()
            })
            .collect();
        for batch in pack_batches(&messages) {
            queue.send_batch(batch).await;
        }
        queue
    });
    (clock, sqs, queue)
}

fn read_lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn pick_by_filter(filter: &str) -> Pick {
    Pick::with_filter(Filter::new(filter).unwrap())
}

fn apply(world: &(VirtualClock, EmbeddedSqs, EmbeddedQueue), filter: &str, path: &Path) -> PurgeReport {
    let (clock, _, queue) = world;
    let mut backup = ArchiveFile::create(path).unwrap();
    clock.block_on(Purge::new(queue, clock, &pick_by_filter(filter)).apply(&mut backup)).unwrap()
}

#[test]
fn picked_messages_are_deleted_and_fully_backed_up() {
    let (world, folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let purged = apply(&world, ".body.n < 15", &path);
    assert_eq!((purged.picked, purged.deleted, purged.coverage.unwrap().complete), (15, 15, true));
    let depth = world.0.block_on(world.2.depth()).unwrap();
    assert_eq!((depth.visible, depth.in_flight), (45, 0));
    let lines = read_lines(&path);
    assert_eq!(lines.len(), 15);
    assert_eq!(lines[0]["attributes"], json!({ "bytes": { "DataType": "Binary", "BinaryValue": "AP8=" } }));
    assert_eq!(lines[0]["sent_at"], "1970-01-01T00:00:00.000000Z");
    assert!(lines.iter().all(|line| line["body"].as_str().unwrap().starts_with(r#"{"n":"#)));
}

#[test]
fn a_purge_dry_run_deletes_nothing() {
    let (clock, _, queue) = set_up_queue();
    let pick = pick_by_filter("true");
    let purged = Purge::new(&queue, &clock, &pick).dry_run();
    let purged = clock.block_on(purged).unwrap();
    assert_eq!((purged.picked, purged.deleted), (60, 0));
    assert_eq!(clock.block_on(queue.depth()).unwrap().visible, 60);
}

/// A backup with room for this number of records.
struct LimitedBackup(usize);

impl BackupWriter for LimitedBackup {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), DeadLetterError> {
        self.0 = self.0.checked_sub(records.len()).ok_or("the disk is full")?;
        Ok(())
    }
}

#[test]
fn a_purge_deletes_only_messages_that_are_in_its_backup() {
    let (clock, _, queue) = set_up_queue();
    let pick = pick_by_filter("true");
    let apply = |room| clock.block_on(Purge::new(&queue, &clock, &pick).apply(&mut LimitedBackup(room)));
    assert_eq!(apply(5).unwrap_err().to_string(), "the disk is full");
    assert_eq!(clock.block_on(queue.depth()).unwrap().visible, 60);
    let purged = apply(25).unwrap();
    assert_eq!((purged.deleted, purged.failed.as_deref()), (20, Some("the disk is full")));
    assert_eq!(clock.block_on(queue.depth()).unwrap().visible, 40);
}

#[test]
fn a_purge_counts_unjudged_messages_and_refuses_a_failing_filter() {
    let ((clock, _, queue), folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let purge_by_filter = |filter: &str, name: &str| {
        let mut backup = ArchiveFile::create(&folder.path().join(name)).unwrap();
        let pick = pick_by_filter(filter);
        let purged = Purge::new(&queue, &clock, &pick).apply(&mut backup);
        clock.block_on(purged).map_err(|error| error.to_string())
    };
    let wrong = purge_by_filter(".body + 1 > 0", "wrong").unwrap_err();
    assert!(wrong.starts_with("the filter `.body + 1 > 0` fails on message "), "{wrong}");
    let judged =
        purge_by_filter("if .body.n == 7 then .body + 1 > 0 else .body.n < 3 end", "judged").unwrap();
    assert_eq!((judged.deleted, judged.not_judged.messages), (3, 1));
    assert_eq!(clock.block_on(queue.depth()).unwrap().visible, 57);
}

#[test]
fn a_purge_deletes_at_most_the_maximum_and_releases_the_others() {
    let ((clock, _, queue), folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let mut backup = ArchiveFile::create(&path).unwrap();
    let pick = pick_by_filter("true");
    let purged = Purge { max: 7, ..Purge::new(&queue, &clock, &pick) }.apply(&mut backup);
    let purged = clock.block_on(purged).unwrap();
    assert_eq!((purged.picked, purged.deleted, purged.max_reached), (7, 7, true));
    let depth = clock.block_on(queue.depth()).unwrap();
    assert_eq!((depth.visible, depth.in_flight, read_lines(&path).len()), (53, 0, 7));
}

#[test]
fn a_purge_dry_run_counts_at_most_the_maximum() {
    let (clock, _, queue) = set_up_queue();
    let pick = pick_by_filter("true");
    let purged = clock.block_on(Purge { max: 7, ..Purge::new(&queue, &clock, &pick) }.dry_run()).unwrap();
    assert_eq!((purged.picked, purged.deleted, purged.max_reached), (7, 0, true));
}

#[test]
fn a_purge_reports_messages_that_it_could_not_delete() {
    let (world, folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let rule = FaultRule {
        action: SqsAction::DeleteMessageBatch,
        queue: None,
        scope: FaultScope::Entry,
        when: FaultTrigger::Numbers(vec![3]),
        injection: Injection::Sender,
    };
    world.1.set_faults(FaultPlan::new(1).with_rule(rule));
    let purged = apply(&world, "true", &path);
    assert_eq!((purged.picked, purged.deleted), (60, 59));
    world.1.set_faults(FaultPlan::new(1));
    let depth = world.0.block_on(async {
        world.0.sleep(Duration::from_secs(1)).await;
        world.2.depth().await
    });
    assert_eq!(depth.unwrap().visible, 1);
    assert_eq!(read_lines(&path).len(), 60, "still in the backup");
}

#[test]
fn a_purge_never_overwrites_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backup.jsonl");
    replace_file(&path, b"precious").unwrap();
    let error = ArchiveFile::create(&path).unwrap_err().to_string();
    assert!(
        error.ends_with("it already exists; name another file, so that nothing is overwritten"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn an_assignment_instead_of_a_comparison_deletes_nothing() {
    let (world, folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let mut backup = ArchiveFile::create(&path).unwrap();
    let pick = pick_by_filter(r#".error_type = "MESSAGE_EXPIRED""#);
    let refused = world.0.block_on(Purge::new(&world.2, &world.0, &pick).apply(&mut backup)).unwrap_err();
    assert!(
        refused.to_string().ends_with("a single `=` changes the message: compare with `==`"),
        "{refused}"
    );
    let depth = world.0.block_on(world.2.depth()).unwrap();
    assert_eq!((depth.visible, depth.in_flight), (60, 0));
}

#[test]
fn a_purge_without_permission_to_delete_ends_early_with_the_reason() {
    let (world, folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let rule = FaultRule {
        action: SqsAction::DeleteMessageBatch,
        queue: None,
        scope: FaultScope::Entry,
        when: FaultTrigger::Chance(1.0),
        injection: Injection::Sender,
    };
    world.1.set_faults(FaultPlan::new(1).with_rule(rule));
    let purged = apply(&world, "true", &path);
    assert_eq!((purged.picked, purged.deleted), (10, 0), "{purged:?}");
    assert!(purged.why_not_deleted.is_some());
}

#[test]
fn a_purge_that_fails_immediately_leaves_no_backup_file_behind() {
    let ((clock, _, queue), folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let purge_on_demand = |filter: &str| {
        let mut backup = ArchiveFile::on_demand(&path)?;
        let pick = pick_by_filter(filter);
        clock.block_on(Purge::new(&queue, &clock, &pick).apply(&mut backup))
    };
    assert!(purge_on_demand(".body").is_err() && !path.exists());
    let nothing = purge_on_demand("false").unwrap();
    assert!(!path.exists());
    assert_eq!((nothing.picked, nothing.deleted), (0, 0));
    let purged = purge_on_demand(".body.n < 15").unwrap();
    assert_eq!((purged.deleted, read_lines(&path).len()), (15, 15));
    assert_eq!(
        purge_on_demand("true").unwrap_err().to_string(),
        format!("{}: {ALREADY_EXISTS}", path.display())
    );
}

#[test]
fn a_purge_deletes_nothing_if_its_backup_file_has_since_been_created() {
    let ((clock, _, queue), folder) = (set_up_queue(), tempfile::tempdir().unwrap());
    let path = folder.path().join("backup.jsonl");
    let mut backup = ArchiveFile::on_demand(&path).unwrap();
    replace_file(&path, b"precious").unwrap();
    let pick = pick_by_filter("true");
    let refused = clock.block_on(Purge::new(&queue, &clock, &pick).apply(&mut backup));
    assert_eq!(refused.unwrap_err().to_string(), format!("{}: {ALREADY_EXISTS}", path.display()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(clock.block_on(queue.depth()).unwrap().visible, 60);
}
