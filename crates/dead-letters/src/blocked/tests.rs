use redeliver_core::arrival::Arrival;
use redeliver_core::blocked::create_blocked_notice;
use redeliver_core::failure::Stage;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Content, OutgoingMessage, ReceiveTimes, Timestamp};
use redeliver_core::ports::{
    QueueDepth as _, QueueSender as _, QueueService as _, QueueSettings, ReceiveOptions,
};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use super::*;

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    source: EmbeddedQueue,
    blocked: EmbeddedQueue,
}

/// A backup in memory, or one that fails.
#[derive(Default)]
struct MemoryBackup {
    bodies: Vec<String>,
    /// The number of messages that it stores before it fails; `None` for no limit.
    capacity: Option<usize>,
}

impl BackupWriter for MemoryBackup {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), DeadLetterError> {
        if self.capacity == Some(self.bodies.len()) {
            return Err("the disk is full".into());
        }
        self.bodies.extend(records.iter().map(|record| record.message.body.clone()));
        Ok(())
    }
}

async fn send(queue: &EmbeddedQueue, content: Content) {
    let message = OutgoingMessage::new(content).unwrap();
    for batch in pack_batches(std::slice::from_ref(&message)) {
        assert!(queue.send_batch(batch).await.iter().all(Result::is_ok));
    }
}

/// Creates two groups, each with an invalid message that blocks it and a message behind it.
fn world() -> World {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 7);
    let (source, blocked) = clock.block_on(async {
        let source = sqs.create_queue("source.fifo", &QueueSettings::default()).await.unwrap();
        (source, sqs.create_queue("blocked", &QueueSettings::default()).await.unwrap())
    });
    let world = World { clock, sqs, source, blocked };
    for (n, body) in ["a first", "b first", "a second", "b second"].into_iter().enumerate() {
        let content = Content {
            body: body.to_owned(),
            message_group_id: Some(body[..1].to_owned()),
            deduplication_id: Some(n.to_string()),
            ..Content::default()
        };
        world.clock.block_on(send(&world.source, content));
    }
    world.sleep(60);
    world.block_groups();
    world.sleep(60);
    world
}

impl World {
    fn sleep(&self, seconds: u64) {
        self.clock.block_on(self.clock.sleep(Duration::from_secs(seconds)));
    }

    /// Receives the first message of each group.
    fn receive(&self, visibility: u64) -> Vec<ReceivedMessage> {
        let visibility = VisibilitySeconds::new(visibility);
        let request = ReceiveOptions { max_messages: 1, wait: Duration::ZERO, visibility };
        let next = || self.clock.block_on(self.source.receive(request)).unwrap().pop();
        std::iter::from_fn(next).collect()
    }

    /// Returns the body of the first message of each group.
    fn next_bodies(&self) -> Vec<String> {
        self.receive(30).into_iter().map(|message| message.body).collect()
    }

    /// Acts as a message-processor for the first message of each group.
    fn block_groups(&self) {
        for record in self.receive(43_020) {
            let times = ReceiveTimes::new(&record, self.clock.now());
            let refused =
                Arrival::from_record(record, self.clock.now()).accept(&MessageSchema::default(), None);
            let verdict = refused.unwrap_err().give_up(Stage::MessageProcessor, None, self.clock.now());
            let notice = create_blocked_notice(verdict, times).unwrap();
            let content = notice.message.as_ref().unwrap().content().clone();
            self.clock.block_on(send(&self.blocked, content));
        }
    }

    fn unblock(
        &self,
        names: &[&str],
        decision: UnblockDecision<'_, MemoryBackup>,
    ) -> Result<UnblockReport, DeadLetterError> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let unblocked = unblock_groups(&self.blocked, &self.source, &self.clock, &names, decision);
        self.clock.block_on(unblocked)
    }

    fn notice_count(&self) -> u64 {
        self.clock.block_on(self.blocked.depth()).unwrap().total()
    }

    fn inject_fault(&self, queue: &EmbeddedQueue, action: SqsAction, injection: Injection) {
        let rule = FaultRule {
            action,
            queue: Some(queue.arn().to_owned()),
            scope: FaultScope::Request,
            when: FaultTrigger::Chance(1.0),
            injection,
        };
        self.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    }
}

/// Returns the group names, each with its unblocked state and error.
fn summarize_groups(unblocked: &UnblockReport) -> Vec<(&str, bool, Option<&str>)> {
    unblocked
        .groups
        .iter()
        .map(|outcome| (outcome.group.group.as_str(), outcome.unblocked, outcome.error.as_deref()))
        .collect()
}

#[test]
fn blocked_groups_are_listed_with_their_reason_and_start_time() {
    let world = world();
    let listed = world.unblock(&[], UnblockDecision::ListOnly).unwrap();
    assert_eq!(summarize_groups(&listed), [("a", false, None), ("b", false, None)]);
    assert_eq!((listed.coverage.complete, listed.not_found.len()), (true, 0));
    let group = &listed.groups[0].group;
    assert_eq!(
        (group.since.as_str(), group.noticed_at.as_str()),
        ("1970-01-01T00:01:00.000Z", "1970-01-01T00:01:00.000Z")
    );
    assert_eq!(group.error_type, "INVALID_MESSAGE_FORMAT");
    assert!(group.error_details.contains("JSON"), "{}", group.error_details);
    assert_eq!(world.notice_count(), 2, "nothing is consumed");
    assert!(world.receive(0).is_empty(), "both wait");
    let BlockedGroups { groups: again, coverage } =
        world.clock.block_on(list_blocked_groups(&world.blocked, &world.clock)).unwrap();
    assert!(coverage.complete);
    assert_eq!(again.into_iter().map(|group| group.group).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn the_longest_waiting_group_is_listed_first() {
    let world = world();
    let content = Content {
        body: "0 first".to_owned(),
        message_group_id: Some("0".to_owned()),
        deduplication_id: Some("4".to_owned()),
        ..Content::default()
    };
    world.clock.block_on(send(&world.source, content));
    world.block_groups();
    world.sleep(60);
    let listed = world.unblock(&[], UnblockDecision::ListOnly).unwrap();
    assert_eq!(summarize_groups(&listed), [("a", false, None), ("b", false, None), ("0", false, None)]);
}

#[test]
fn a_retried_message_keeps_its_position() {
    let world = world();
    let retried = world.unblock(&["a", "c"], UnblockDecision::Retry).unwrap();
    assert_eq!(summarize_groups(&retried), [("a", true, None)]);
    assert_eq!(retried.not_found, ["c"]);
    let [next] = &world.receive(30)[..] else { panic!("not one message") };
    assert_eq!(next.body, "a first");
    assert_eq!(retried.groups[0].group.message_id, next.sqs_message_id, "an invalid message has no other");
    assert_eq!(world.notice_count(), 1);
}

#[test]
fn a_removed_message_is_backed_up_and_its_group_continues() {
    let world = world();
    let mut backup = MemoryBackup::default();
    let taken = world.unblock(&["b"], UnblockDecision::TakeOut(&mut backup)).unwrap();
    assert_eq!(summarize_groups(&taken), [("b", true, None)]);
    assert_eq!(backup.bodies, ["b first"]);
    assert_eq!(world.next_bodies(), ["b second"]);
    assert_eq!(world.notice_count(), 1);
}

#[test]
fn without_a_backup_no_message_is_removed_from_its_group() {
    let world = world();
    let mut backup = MemoryBackup { capacity: Some(0), ..MemoryBackup::default() };
    let failed = world.unblock(&["b"], UnblockDecision::TakeOut(&mut backup)).unwrap_err();
    assert_eq!(failed.to_string(), "the disk is full");
    let depth = world.clock.block_on(world.blocked.depth()).unwrap();
    assert_eq!((depth.visible, depth.in_flight), (2, 0), "the notices are released");
    world.sleep(60);
    assert_eq!(world.next_bodies(), ["b first"], "the target is called with it once more");
}

#[test]
fn a_message_that_sqs_does_not_delete_keeps_its_notice() {
    let world = world();
    for (injection, says) in [(Injection::Sender, "refused"), (Injection::Throttled, "throttled")] {
        world.inject_fault(&world.source, SqsAction::DeleteMessageBatch, injection);
        let mut backup = MemoryBackup::default();
        let taken = world.unblock(&["b"], UnblockDecision::TakeOut(&mut backup)).unwrap();
        let [("b", false, Some(error))] = summarize_groups(&taken)[..] else { panic!("{taken:?}") };
        assert!(
            error.starts_with(says)
                && error.contains(": the message is in the backup, and comes back within a minute"),
            "{error}"
        );
        assert_eq!((backup.bodies.len(), world.notice_count()), (1, 2));
    }
    world.sqs.set_faults(FaultPlan::new(1));
    world.sleep(60);
    assert_eq!(world.receive(30).len(), 1);
}

/// Creates a world in which the messages were received again after their notices, which invalidates the handles in the
/// notices.
fn world_with_outdated_notice() -> World {
    let world = world();
    world.sleep(43_020 - 60);
    assert_eq!(world.receive(60).len(), 2);
    world
}

#[test]
fn an_outdated_notice_unblocks_nothing() {
    for is_take_out in [false, true] {
        let world = world_with_outdated_notice();
        let mut backup = MemoryBackup::default();
        let decision =
            if is_take_out { UnblockDecision::TakeOut(&mut backup) } else { UnblockDecision::Retry };
        let refused = world.unblock(&["a"], decision).unwrap();
        assert_eq!(summarize_groups(&refused), [("a", false, Some(PROBABLY_VISIBLE_AGAIN))]);
        assert_eq!((backup.bodies.len(), world.notice_count()), (0, 2));
        assert!(world.receive(0).is_empty(), "their receiver still holds the messages");
    }
}

#[test]
fn the_newest_notice_for_a_blocked_group_is_used() {
    let world = world_with_outdated_notice();
    world.sleep(60);
    world.block_groups();
    world.sleep(60);
    assert_eq!(world.notice_count(), 4);
    let retried = world.unblock(&["a"], UnblockDecision::<MemoryBackup>::Retry).unwrap();
    assert_eq!(summarize_groups(&retried), [("a", true, None)]);
    assert_eq!(world.notice_count(), 2, "the earlier notice is deleted as well");
}

#[test]
fn a_notice_stays_after_a_throttled_or_unanswered_request() {
    for (injection, why) in [
        (Injection::Throttled, "throttled (RequestThrottled); run it again"),
        (Injection::LostRequest, "no answer (RequestTimeout); run it again"),
    ] {
        let world = world();
        world.inject_fault(&world.source, SqsAction::ChangeMessageVisibilityBatch, injection);
        let refused = world.unblock(&["a"], UnblockDecision::Retry).unwrap();
        assert_eq!((summarize_groups(&refused), world.notice_count()), (vec![("a", false, Some(why))], 2));
    }
    let world = world();
    let plan = FaultRule {
        action: SqsAction::ChangeMessageVisibilityBatch,
        queue: Some(world.source.arn().to_owned()),
        scope: FaultScope::Request,
        when: FaultTrigger::Numbers(vec![1]),
        injection: Injection::Throttled,
    };
    world.sqs.set_faults(FaultPlan::new(1).with_rule(plan));
    assert_eq!(
        summarize_groups(&world.unblock(&["a"], UnblockDecision::Retry).unwrap()),
        [("a", true, None)],
        "it is tried again"
    );
}

#[test]
fn a_later_backup_failure_still_reports_unblocked_groups() {
    let world = world();
    let mut backup = MemoryBackup { capacity: Some(1), ..MemoryBackup::default() };
    let taken = world.unblock(&[], UnblockDecision::TakeOut(&mut backup)).unwrap();
    assert_eq!(summarize_groups(&taken), [("a", true, None)]);
    assert_eq!(
        (taken.failed.as_deref(), backup.bodies),
        (Some("the disk is full"), vec!["a first".to_owned()])
    );
    assert_eq!(world.notice_count(), 1);
}

#[test]
fn a_notice_that_cannot_be_deleted_is_reported() {
    let world = world();
    world.inject_fault(&world.blocked, SqsAction::DeleteMessageBatch, Injection::Sender);
    let retried = world.unblock(&["a"], UnblockDecision::Retry).unwrap();
    let [("a", true, Some(error))] = summarize_groups(&retried)[..] else { panic!("{retried:?}") };
    assert_eq!(
        error,
        "its notice was not deleted: refused (InvalidParameterValue). It is out of date, and SQS deletes it within 12 hours"
    );
    assert_eq!(world.receive(30).len(), 1);
}
