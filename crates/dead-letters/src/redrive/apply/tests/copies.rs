//! Possible copies and send rates if SQS rejects requests, is slow, or returns no more messages.

use std::sync::Mutex;

use redeliver_core::ports::QueueDepth;

use super::*;
use redeliver_testing::altered::FullQueue;

/// Injects a fault into each entry of the batch requests to one queue.
fn fail_entries(world: &World, queue: &EmbeddedQueue, action: SqsAction, injection: Injection) {
    let queue = Some(queue.arn().to_owned());
    let rule =
        FaultRule { action, queue, scope: FaultScope::Entry, when: FaultTrigger::Chance(1.0), injection };
    world.sqs.set_faults(FaultPlan::new(3).with_rule(rule));
}

impl World {
    fn clear_faults(&self) {
        self.sqs.set_faults(FaultPlan::new(3));
    }

    /// Runs the redrive to completion, and also returns the time at which each round ended, in milliseconds since the
    /// first one.
    fn apply_with_times(&self, source: &(impl QueueSender + QueueDepth)) -> (RedriveReport, Vec<i64>) {
        let rounds = Mutex::new(Vec::new());
        let plan = unfiltered_plan();
        let RedriveJob { dlq, clock, can_come_back, limits, interrupted, .. } = self.redrive(&plan);
        let progress = |progress| {
            if matches!(progress, RedriveProgress::Sent(_)) {
                rounds.lock().unwrap().push(clock.now());
            }
        };
        let redrive = RedriveJob {
            dlq,
            source,
            clock,
            plan: &plan,
            can_come_back,
            limits,
            interrupted,
            progress: &progress,
        };
        let report = clock.block_on(redrive.apply(&mut self.journal())).unwrap();
        let rounds = rounds.into_inner().unwrap();
        let since_first = rounds.iter().map(|at| (*at - rounds[0]).num_milliseconds()).collect();
        (report, since_first)
    }
}

#[test]
fn unanswered_sends_count_as_possible_copies_and_refused_ones_do_not() {
    for (injection, copies) in
        [(Injection::LostRequest, 5), (Injection::LostResponse, 5), (Injection::Sender, 0)]
    {
        let world = World::new((0..5).map(dead_letter).collect());
        fail_entries(&world, &world.source, SqsAction::SendMessageBatch, injection);
        let first = world.apply(&unfiltered_plan()).unwrap();
        // Delivery itself retries a send without a response.
        assert_eq!(
            (first.sent, first.staying_count(), first.possible_copies),
            (0, 5, copies),
            "{injection:?}"
        );
        assert_eq!(world.depths().0, 5);
        world.clear_faults();
        let second = world.apply(&unfiltered_plan()).unwrap();
        assert_eq!((second.sent, second.possible_copies), (5, copies), "{injection:?}");
        assert_eq!(world.depths().0, 0);
    }
}

#[test]
fn a_sent_message_that_stays_in_the_dlq_is_not_sent_again() {
    for injection in [Injection::Sender, Injection::Throttled, Injection::LostRequest] {
        let world = World::new((0..10).map(dead_letter).collect());
        fail_entries(&world, &world.dlq, SqsAction::DeleteMessageBatch, injection);
        let sent_counts = |report: RedriveReport| (report.sent, report.deleted_only, report.possible_copies);
        assert_eq!(sent_counts(world.apply(&unfiltered_plan()).unwrap()), (10, 0, 0), "{injection:?}");
        assert_eq!(sent_counts(world.apply(&unfiltered_plan()).unwrap()), (0, 0, 0), "{injection:?}");
        assert_eq!(world.depths(), (10, 10));
        world.clear_faults();
        assert_eq!(sent_counts(world.apply(&unfiltered_plan()).unwrap()), (0, 10, 0), "{injection:?}");
        assert_eq!(world.depths(), (0, 10));
    }
}

#[test]
fn rounds_start_a_second_apart_despite_slow_or_refused_sends() {
    let mut world = World::new((0..40).map(dead_letter).collect());
    world.limits.rate = Some(10);
    let slow = slow_queue(&world.source, &world.clock);
    let (report, rounds) = world.apply_with_times(&slow);
    assert_eq!((report.sent, rounds), (40, vec![0, 1000, 2000, 3000]));

    let mut world = World::new((0..40).map(dead_letter).collect());
    world.limits.rate = Some(10);
    fail_entries(&world, &world.source, SqsAction::SendMessageBatch, Injection::Sender);
    let (report, rounds) = world.apply_with_times(&world.source);
    assert_eq!((report.sent, report.staying_count(), rounds), (0, 40, vec![0, 1000, 2000, 3000]));
}

#[test]
fn messages_that_another_program_holds_are_sent_in_a_later_pass() {
    for sent_before in [false, true] {
        let world = World::new((0..30).map(dead_letter).collect());
        if sent_before {
            fail_entries(&world, &world.dlq, SqsAction::DeleteMessageBatch, Injection::Sender);
            // Two requests: the first deletions are rejected while the second request is sent.
            assert_eq!(world.apply(&unfiltered_plan()).unwrap().sent, 20);
            world.clear_faults();
        }
        // Hidden for two seconds; a pass that finds no more messages ends after its last wait of one second.
        world.clock.block_on(async {
            let request = ReceiveOptions {
                max_messages: 10,
                wait: Duration::ZERO,
                visibility: VisibilitySeconds::new(2),
            };
            for _ in 0..2 {
                assert_eq!(world.dlq.receive(request).await.unwrap().len(), 10);
            }
            world.clock.sleep(Duration::from_millis(800)).await;
        });
        let report = world.apply(&unfiltered_plan()).unwrap();
        let expected = if sent_before { (10, 20) } else { (30, 0) };
        assert_eq!((report.sent, report.deleted_only), expected);
        assert!(report.covers_whole_dlq());
        assert_eq!((report.possible_copies, world.depths()), (0, (0, 30)));
    }
}

#[test]
fn a_redrive_at_the_in_flight_limit_continues_pass_by_pass() {
    let world = World::new((0..100).map(dead_letter).collect());
    let full =
        FullQueue { queue: &world.dlq, in_flight_max: 30, code: "OverLimit", receives: AtomicU32::new(0) };
    let dlq = AlteredQueue(full);
    let plan = unfiltered_plan();
    let RedriveJob { source, clock, plan, can_come_back, limits, interrupted, progress, .. } =
        world.redrive(&plan);
    let redrive = RedriveJob { dlq: &dlq, source, clock, plan, can_come_back, limits, interrupted, progress };
    let report = clock.block_on(redrive.apply(&mut world.journal())).unwrap();
    assert_eq!(
        (report.sent, report.possible_copies, report.covers_whole_dlq()),
        (100, 0, true),
        "{report:?}"
    );
    assert_eq!(world.depths(), (0, 100));
}

#[test]
fn a_dead_letter_that_reappears_before_its_send_is_sent_once() {
    let mut world = World::new((0..160).map(dead_letter).collect());
    world.limits = RedriveLimits { rate: Some(1), watch: Duration::ZERO, ..NO_LIMITS };
    // No message can be hidden beyond the initial two minutes.
    fail_entries(&world, &world.dlq, SqsAction::ChangeMessageVisibilityBatch, Injection::Sender);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.deleted_only, report.possible_copies), (160, 0, 0), "{report:?}");
    assert_eq!(
        (world.depths(), RedriveOutcome::from_report(&report, u64::MAX)),
        ((0, 160), RedriveOutcome::Done),
        "sent messages are gone"
    );
}

#[test]
fn a_message_that_another_program_redrove_is_not_sent() {
    let mut world = World::new((0..160).map(dead_letter).collect());
    world.limits = RedriveLimits { rate: Some(1), watch: Duration::ZERO, ..NO_LIMITS };
    // No message can be hidden beyond the initial two minutes; then the console redrives all visible messages.
    fail_entries(&world, &world.dlq, SqsAction::ChangeMessageVisibilityBatch, Injection::Sender);
    let plan = unfiltered_plan();
    let (redrive, mut journal) = (world.redrive(&plan), world.journal());
    let console = async {
        world.clock.sleep(Duration::from_secs(125)).await;
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        let mut taken = 0;
        while let messages = world.dlq.receive(request).await.unwrap()
            && !messages.is_empty()
        {
            taken += messages.len() as u64;
            let handles: Vec<_> = messages.iter().map(|message| message.receipt_handle.clone()).collect();
            world.dlq.delete_batch(&handles).await;
        }
        taken
    };
    let (report, taken) =
        world.clock.block_on(async { futures_util::join!(redrive.apply(&mut journal), console) });
    assert!(taken > 0, "the test proves nothing");
    assert_eq!((report.unwrap().sent + taken, world.depths().0), (160, 0), "{taken} were taken");
}
