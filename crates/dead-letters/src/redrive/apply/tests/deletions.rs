//! Messages that were sent but are still in the DLQ: the next tool would send them again.

use std::collections::BTreeSet;

use futures_util::join;
use redeliver_testing::altered::Alteration;

use super::*;
use crate::{DeletionError, INITIAL_VISIBILITY_TIMEOUT};

impl World {
    fn fail_deletions(&self, when: FaultTrigger, injection: Injection) {
        let (action, scope) = (SqsAction::DeleteMessageBatch, FaultScope::Entry);
        self.sqs.set_faults(FaultPlan::new(3).with_rule(FaultRule {
            action,
            queue: None,
            scope,
            when,
            injection,
        }));
    }
}

/// Returns the numbers of messages sent, only deleted, and not deleted, and the outcome.
fn summarize(report: &RedriveReport) -> (u64, u64, Option<u64>, RedriveOutcome) {
    (
        report.sent,
        report.deleted_only,
        report.to_json()["not_deleted"].as_u64(),
        RedriveOutcome::from_report(report, u64::MAX),
    )
}

#[test]
fn a_redrive_without_permission_to_delete_stops_after_a_few_sends() {
    let world = World::new((0..200).map(dead_letter).collect());
    world.fail_deletions(FaultTrigger::Chance(1.0), Injection::Sender);
    let first = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!(summarize(&first), (20, 0, Some(20), RedriveOutcome::NotDeleted));
    assert_eq!(first.pilot_result, None, "a run that does not continue is not watched");
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (0, 0, Some(20), RedriveOutcome::NotDeleted),
        "and the next run sends none"
    );
    assert_eq!(world.depths(), (200, 20));
    world.sqs.set_faults(FaultPlan::new(3));
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (180, 20, Some(0), RedriveOutcome::Done)
    );
    assert_eq!(world.depths(), (0, 200));
}

#[test]
fn undeleted_messages_from_earlier_runs_are_counted() {
    let mut world = World::new((0..200).map(dead_letter).collect());
    world.limits.max = 200;
    world.limits.watch = Duration::ZERO;
    world
        .fail_deletions(FaultTrigger::Numbers((1..=200).filter(|n| n % 10 > 0).collect()), Injection::Sender);
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (200, 0, Some(180), RedriveOutcome::NotDeleted)
    );
    world.fail_deletions(FaultTrigger::Chance(1.0), Injection::Sender);
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (0, 0, Some(180), RedriveOutcome::NotDeleted)
    );
}

#[test]
fn isolated_failed_deletions_are_retried_in_the_same_run() {
    let world = World::new((0..30).map(dead_letter).collect());
    world.fail_deletions(FaultTrigger::Numbers(vec![2, 5]), Injection::Sender);
    assert_eq!(summarize(&world.apply(&unfiltered_plan()).unwrap()), (30, 2, Some(0), RedriveOutcome::Done));
    assert_eq!(world.depths(), (0, 30));
}

#[test]
fn scattered_failed_deletions_do_not_end_a_redrive() {
    let world = World::new((0..200).map(dead_letter).collect());
    world.fail_deletions(FaultTrigger::Numbers((1..=20).map(|n| n * 10).collect()), Injection::Sender);
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (200, 20, Some(0), RedriveOutcome::Done)
    );
    assert_eq!(world.depths(), (0, 200));
}

#[test]
fn a_sent_message_that_another_program_holds_is_not_deleted() {
    let world = World::new(vec![dead_letter(1)]);
    world.fail_deletions(FaultTrigger::Chance(1.0), Injection::Sender);
    assert_eq!(
        summarize(&world.apply(&unfiltered_plan()).unwrap()),
        (1, 0, Some(1), RedriveOutcome::NotDeleted)
    );
    world.sqs.set_faults(FaultPlan::new(3));
    let request =
        ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: Some(VisibilitySeconds::MAX) };
    let held = world.clock.block_on(world.dlq.receive(request)).unwrap();
    assert_eq!(
        RedriveOutcome::from_report(&world.apply(&unfiltered_plan()).unwrap(), u64::MAX),
        RedriveOutcome::NotSeen
    );
    assert_eq!(world.journal().undeleted_ids().collect::<Vec<_>>(), [&*held[0].sqs_message_id]);
}

const RESPONSE_DELAY: Duration = Duration::from_millis(16_500);

/// A queue that executes requests immediately, but responds late.
struct LateResponses<'a> {
    queue: &'a EmbeddedQueue,
    clock: &'a VirtualClock,
}

impl Alteration for LateResponses<'_> {
    fn inner_queue(&self) -> &EmbeddedQueue {
        self.queue
    }

    async fn run_request<T: Send>(&self, request: impl Future<Output = T> + Send) -> T {
        let answer = request.await;
        self.clock.sleep(RESPONSE_DELAY).await;
        answer
    }
}

#[test]
fn a_message_received_elsewhere_before_its_deletion_is_not_deleted() {
    let mut world = World::new((0..106).map(dead_letter).collect());
    // One message per second, and none can be hidden beyond the initial two minutes: the last two are sent before that
    // time is up, and the responses arrive half a second or more after it.
    world.limits = RedriveLimits { rate: Some(1), watch: Duration::ZERO, ..NO_LIMITS };
    world.inject_fault(
        SqsAction::ChangeMessageVisibilityBatch,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Throttled,
    );
    let source = AlteredQueue(LateResponses { queue: &world.source, clock: &world.clock });
    let plan = unfiltered_plan();
    let RedriveJob { dlq, clock, plan, can_come_back, limits, interrupted, progress, .. } =
        world.redrive(&plan);
    let redrive =
        RedriveJob { dlq, source: &source, clock, plan, can_come_back, limits, interrupted, progress };
    let somebody_else = async {
        clock.sleep(RESPONSE_DELAY + INITIAL_VISIBILITY_TIMEOUT + Duration::from_millis(200)).await;
        let request = ReceiveOptions {
            max_messages: 10,
            wait: Duration::ZERO,
            visibility: Some(VisibilitySeconds::MAX),
        };
        world.dlq.receive(request).await.unwrap()
    };
    let mut journal = world.journal();
    let (report, held) = clock.block_on(async { join!(redrive.apply(&mut journal), somebody_else) });
    assert_eq!((held.len(), world.depths()), (2, (2, 106)), "SQS reports all of them as deleted");
    let report = report.unwrap();
    assert_eq!(summarize(&report), (106, 0, Some(2), RedriveOutcome::NotDeleted));
    assert_eq!(report.why_not_deleted, Some(DeletionError::VisibleToOthers));
    let not_deleted: BTreeSet<_> = journal.undeleted_ids().collect();
    assert_eq!(not_deleted, held.iter().map(|message| &*message.sqs_message_id).collect());
}
