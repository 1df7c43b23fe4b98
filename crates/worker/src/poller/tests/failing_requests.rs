//! Receives and deletions that SQS rejects, or whose request or response is lost.

use super::*;

#[test]
fn failed_receives_are_reported_and_retried_after_growing_pauses() {
    let world = World::new();
    world.inject_faults(
        SqsAction::ReceiveMessage,
        FaultScope::Request,
        FaultTrigger::Numbers((1..=9).collect()),
        Injection::Throttled,
    );
    let healthy = Mutex::new(Vec::new());
    world.run_poller(world.recording_function(0), async {
        world.send(&["a"]).await;
        for _ in 0..4 {
            world.sleep_seconds(61).await;
            healthy.lock().unwrap().push(world.health.health_report(world.clock.now()).healthy);
        }
    });
    let pauses: Vec<_> = world
        .seen
        .events()
        .into_iter()
        .map(|(_, event)| match event {
            Event::ReceiveFailed { code, pause_seconds } => (code, pause_seconds),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(pauses.len(), 9);
    for ((code, pause), least) in pauses.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0]) {
        assert_eq!(code, "RequestThrottled");
        assert!((least..=2.0 * least).contains(pause), "{pause} is not between {least} and twice that");
    }
    assert_eq!(world.seen.bodies().len(), 1, "it arrived eventually");
    assert_eq!(world.remaining_messages(), 0);
    let healthy = healthy.into_inner().unwrap();
    assert!(!healthy[0] && healthy[3], "{healthy:?}: not while it failed, and again afterwards");
}

#[test]
fn a_stop_ends_the_pause_and_a_success_resets_it() {
    let world = World::new();
    world.inject_faults(
        SqsAction::ReceiveMessage,
        FaultScope::Request,
        FaultTrigger::Numbers(vec![1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12]),
        Injection::LostRequest,
    );
    let ended = world.run_poller(world.recording_function(0), world.sleep_seconds(60));
    assert_eq!(ended, 60);
    let events = world.seen.events();
    let Event::ReceiveFailed { pause_seconds, .. } = &events[3].1 else { panic!("{events:?}") };
    assert!(*pause_seconds <= 1.0, "{pause_seconds}: the pauses start over");
}

#[test]
fn messages_in_a_lost_response_are_received_again() {
    let world = World::new();
    world.inject_faults(
        SqsAction::ReceiveMessage,
        FaultScope::Request,
        FaultTrigger::Numbers(vec![1]),
        Injection::LostResponse,
    );
    world.run_poller(world.recording_function(0), async {
        world.send(&["a"]).await;
        world.sleep_seconds(VISIBILITY_SECONDS + 1).await;
    });
    assert_eq!((world.seen.bodies(), world.remaining_messages()), (timed_bodies(&[(40, "a")]), 0));
}

#[test]
fn a_temporarily_failing_delete_is_retried_entry_by_entry() {
    for injection in
        [Injection::Throttled, Injection::Service, Injection::LostRequest, Injection::LostResponse]
    {
        let world = World::new();
        world.inject_faults(
            SqsAction::DeleteMessageBatch,
            FaultScope::Entry,
            FaultTrigger::Numbers(vec![1, 3]),
            injection,
        );
        world.run_poller(world.recording_function(0), async {
            world.send(&["a", "b", "c"]).await;
            world.sleep_seconds(1).await;
        });
        assert_eq!(world.seen.events(), [], "{injection:?}");
        assert_eq!(
            (world.remaining_messages(), world.request_count(SqsAction::DeleteMessageBatch)),
            (0, 2),
            "{injection:?}"
        );
    }
}

#[test]
fn an_undeletable_record_is_reported_and_received_again() {
    let world = World::new();
    world.inject_faults(
        SqsAction::DeleteMessageBatch,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![2]),
        Injection::Sender,
    );
    world.run_poller(world.recording_function(0), async {
        world.send(&["a", "b"]).await;
        world.sleep_seconds(VISIBILITY_SECONDS + 1).await;
    });
    assert!(matches!(&world.seen.events()[..], [(0, Event::NotDeleted { .. })]), "{:?}", world.seen.events());
    let bodies = world.seen.bodies();
    assert_eq!(bodies[..2], timed_bodies(&[(0, "a"), (0, "b")]));
    assert_eq!(bodies[2].0, 40, "{bodies:?}");
    assert_eq!((bodies.len(), world.remaining_messages()), (3, 0));
}
