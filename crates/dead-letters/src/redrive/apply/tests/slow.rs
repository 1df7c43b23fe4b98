//! A slow redrive finishes in one run, and holds its messages throughout.

use futures_util::future::{Either, select};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Fault, QueueDepth, QueueSender, UnreadableMessage, VisibilityControl,
};

use super::*;

/// A queue whose responses take a while to read, and are lost if not read within half a minute, as with the AWS SDK
/// client and 250 KB messages.
struct ExpiringResponses<'a> {
    queue: &'a EmbeddedQueue,
    clock: &'a VirtualClock,
}

impl QueueSender for ExpiringResponses<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.queue.send_batch(batch).await
    }
}

impl VisibilityControl for ExpiringResponses<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl QueueDepth for ExpiringResponses<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

impl Queue for ExpiringResponses<'_> {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let requested_at = self.clock.now();
        let messages = self.queue.receive(request).await?;
        self.clock.sleep(Duration::from_millis(50)).await;
        if self.clock.now() - requested_at > chrono::TimeDelta::seconds(30) {
            return Err(EntryError { fault: Fault::NoAnswer, code: "Timeout".to_owned() });
        }
        Ok(messages)
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        self.queue.take_unreadable()
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        self.queue.delete_batch(handles).await
    }

    fn arn(&self) -> &str {
        self.queue.arn()
    }

    fn url(&self) -> &str {
        self.queue.url()
    }
}

#[test]
fn a_redrive_at_one_message_per_second_finishes_in_one_run() {
    let mut world = World::new((0..300).map(dead_letter).collect());
    world.limits.rate = Some(1);
    let dlq = ExpiringResponses { queue: &world.dlq, clock: &world.clock };
    let plan = unfiltered_plan();
    let RedriveJob { source, clock, plan, can_come_back, limits, interrupted, progress, .. } =
        world.redrive(&plan);
    let redrive = RedriveJob { dlq: &dlq, source, clock, plan, can_come_back, limits, interrupted, progress };
    let report = clock.block_on(redrive.apply(&mut world.journal())).unwrap();
    assert_eq!(
        (report.sent, report.covers_whole_dlq(), report.to_json()["possible_copies"].as_u64()),
        (300, true, Some(0))
    );
    assert_eq!(world.depths(), (0, 300));
}

#[test]
fn messages_held_by_a_killed_redrive_are_visible_within_two_minutes() {
    let mut world = World::new((0..300).map(dead_letter).collect());
    world.limits.rate = Some(1);
    let plan = unfiltered_plan();
    {
        let (redrive, mut journal) = (world.redrive(&plan), world.journal());
        let killed = world.clock.sleep(Duration::from_secs(240));
        world.clock.block_on(async {
            let Either::Right(_) = select(Box::pin(redrive.apply(&mut journal)), Box::pin(killed)).await
            else {
                panic!("it should be slow");
            };
        });
    }
    let depth = world.clock.block_on(world.dlq.depth()).unwrap();
    assert!(depth.in_flight > 0, "it held something: {depth:?}");
    world.clock.block_on(world.clock.sleep(Duration::from_secs(120)));
    let depth = world.clock.block_on(world.dlq.depth()).unwrap();
    assert_eq!(depth.in_flight, 0, "{depth:?}");
}

/// If the run kept waiting, it would last as long as the other program, possibly for hours.
#[test]
fn a_redrive_waits_once_for_a_message_that_another_program_holds() {
    let mut world = World::new((0..161).map(dead_letter).collect());
    world.limits = RedriveLimits { rate: Some(1), watch: Duration::ZERO, ..NO_LIMITS };
    world.inject_fault(
        SqsAction::ChangeMessageVisibilityBatch,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Sender,
    );
    let request =
        ReceiveOptions { max_messages: 1, wait: Duration::ZERO, visibility: Some(VisibilitySeconds::MAX) };
    assert_eq!(world.clock.block_on(world.dlq.receive(request)).unwrap().len(), 1);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, RedriveOutcome::from_report(&report, u64::MAX)), (160, RedriveOutcome::NotSeen));
}

#[test]
fn large_messages_are_sent_one_after_another() {
    let large_letter = |n| Content { body: dead_letter(n).body + &" ".repeat(900_000), ..dead_letter(n) };
    let mut world = World::new((0..30).map(large_letter).collect());
    world.limits.watch = Duration::ZERO;
    let plan = unfiltered_plan();
    let (redrive, mut journal) = (world.redrive(&plan), world.journal());
    let too_long = world.clock.sleep(Duration::from_secs(600));
    let ended = world.clock.block_on(select(Box::pin(redrive.apply(&mut journal)), Box::pin(too_long)));
    let Either::Left((report, _)) = ended else { panic!("it waits in vain: {:?}", world.depths()) };
    assert_eq!((report.unwrap().sent, world.depths()), (30, (0, 30)));
}
