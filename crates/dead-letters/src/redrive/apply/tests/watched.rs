//! Watching the pilot: the observed failures, and the duration.

use futures_util::future::{Either, select};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::plain::PlainMessages;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Queue as _, RedriveSettings as RedrivePolicy};

use super::*;

/// Foreign messages have only their SQS message ids. A run that did not recognize them would redrive them in an endless
/// loop.
#[test]
fn foreign_messages_that_sqs_moves_again_stop_a_redrive() {
    let letter = |n: usize| Content { body: format!("order {n}"), ..Content::default() };
    let mut world = World::new((0..100).map(letter).collect());
    let redrive = RedrivePolicy { target_arn: world.dlq.arn().to_owned(), max_receive_count: 1 };
    let settings = QueueSettings {
        redrive: Some(redrive),
        visibility: VisibilitySeconds::new(1).unwrap(),
        ..QueueSettings::default()
    };
    world.source = world.clock.block_on(world.sqs.create_queue("moving", &settings)).unwrap();
    let schema = MessageSchema::default().with_plain(PlainMessages::default());
    let plan = RedrivePlan { schema, ..unfiltered_plan() };
    let (redrive, mut journal) = (world.redrive(&plan), world.journal());
    let failing_reader = async {
        loop {
            world.clock.sleep(Duration::from_secs(2)).await;
            let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
            while world.source.receive(request).await.is_ok_and(|messages| !messages.is_empty()) {}
        }
    };
    let report = world.clock.block_on(async {
        match select(pin!(redrive.apply(&mut journal)), pin!(failing_reader)).await {
            Either::Left((report, _)) => report.unwrap(),
            Either::Right(((), _)) => unreachable!("it reads on"),
        }
    });
    assert_eq!((report.sent, report.returned_count()), (50, 50), "{report:?}");
    assert_eq!(RedriveOutcome::from_report(&report, u64::MAX), RedriveOutcome::Stopped);
}

#[test]
fn pilot_messages_that_wait_for_a_retry_stop_a_redrive() {
    let world = World::new((0..500).map(dead_letter).collect());
    let plan = unfiltered_plan();
    // The default policy: five re-sends with delays of up to 900 s before a message is dead-lettered again.
    let report =
        world.apply_with_consumer(&plan, async |messages| world.resend(&world.source, messages, 900).await);
    assert_eq!(
        (report.sent, RedriveOutcome::from_report(&report, u64::MAX)),
        (50, RedriveOutcome::Stopped),
        "{report:?}"
    );
    assert_eq!(world.depths(), (450, 50));
}

#[test]
fn the_last_pilot_check_is_made_even_after_a_late_one() {
    let mut world = World::new((0..500).map(dead_letter).collect());
    // The check at 10 s takes a second.
    world.limits.watch = Duration::from_millis(10_500);
    let plan = unfiltered_plan();
    let report =
        world.apply_with_consumer(&plan, async |messages| world.resend(&world.source, messages, 900).await);
    assert_eq!((report.sent, report.early_end, world.depths()), (50, Some(EarlyEnd::Stopped), (450, 50)));
    assert_eq!(report.pilot_result.map(|watched| (watched.seconds, watched.waiting)), Some((10, Some(50))));
}

#[test]
fn a_successful_pilot_does_not_stop_a_redrive() {
    let world = World::new((0..500).map(dead_letter).collect());
    let plan = unfiltered_plan();
    let report = world.apply_with_consumer(&plan, async |_| ());
    assert_eq!(
        (report.sent, RedriveOutcome::from_report(&report, u64::MAX)),
        (500, RedriveOutcome::Done),
        "{report:?}"
    );
}

#[test]
fn the_report_has_the_result_of_the_pilot() {
    let world = World::new((0..100).map(dead_letter).collect());
    let plan = unfiltered_plan();
    // Of the first ten messages, one is given up and three wait for a retry; the rest succeed.
    let mut taken = 0;
    let report = world.apply_with_consumer(&plan, async |mut messages| {
        taken += messages.len();
        if taken == messages.len() {
            world.resend(&world.dlq, vec![messages.remove(0)], 0).await;
            world.resend(&world.source, messages.drain(..3).collect(), 900).await;
        }
    });
    let reported = serde_json::json!({ "seconds": 90, "sent": 50, "came_back": 1, "waiting": 3 });
    assert_eq!((report.sent, report.to_json()["watched"].clone()), (100, reported));
    assert_eq!(RedriveOutcome::from_report(&report, u64::MAX), RedriveOutcome::Left);
}

#[test]
fn a_pilot_is_watched_for_the_configured_time_and_zero_means_no_pilot() {
    for (seconds, waited) in [(0, 0), (5, 5), (90, 90), (900, 900)] {
        let mut world = World::new((0..100).map(dead_letter).collect());
        world.limits.watch = Duration::from_secs(seconds);
        let plan = unfiltered_plan();
        let sent = std::cell::RefCell::new(Vec::new());
        let progress = |progress| {
            if let RedriveProgress::Sent(count @ (50 | 100)) = progress {
                sent.borrow_mut().push((count, world.clock.now()));
            }
        };
        let redrive = RedriveJob { progress: &progress, ..world.redrive(&plan) };
        let report = world.clock.block_on(redrive.apply(&mut world.journal())).unwrap();
        let [(50, first), (100, second)] = sent.borrow()[..] else { panic!("{sent:?}") };
        // Reading the DLQ takes at most two seconds: the last long polls return nothing.
        let waits = waited..=waited + 4 + 2 * i64::from(seconds > 15);
        assert!(waits.contains(&(second - first).num_seconds()), "{seconds}: {}", second - first);
        assert_eq!(report.pilot_result.map(|watched| watched.seconds), (seconds > 0).then_some(seconds));
    }
}

#[test]
fn an_interrupted_redrive_stops_watching_its_pilot_within_a_second() {
    let world = World::new((0..100).map(dead_letter).collect());
    let plan = unfiltered_plan();
    let began = std::cell::Cell::new(None);
    let interrupted =
        || began.get().is_some_and(|began| world.clock.now() >= began + Duration::from_secs(20));
    let progress = |progress| {
        if matches!(progress, RedriveProgress::Watching(_)) && began.get().is_none() {
            began.set(Some(world.clock.now()));
        }
    };
    let redrive = RedriveJob { interrupted: &interrupted, progress: &progress, ..world.redrive(&plan) };
    let report = world.clock.block_on(redrive.apply(&mut world.journal())).unwrap();
    assert_eq!(
        (report.sent, RedriveOutcome::from_report(&report, u64::MAX)),
        (50, RedriveOutcome::Interrupted)
    );
    let watched = world.clock.now() - began.get().unwrap();
    assert!((20..=22).contains(&watched.num_seconds()), "{watched}");
}

#[test]
fn messages_delayed_before_the_pilot_do_not_count_as_its_failures() {
    let world = World::new((0..500).map(dead_letter).collect());
    let delay = DelaySeconds::new(900).unwrap();
    world.put(&world.source, (600..640).map(|n| Content { delay, ..dead_letter(n) }).collect());
    let plan = unfiltered_plan();
    let report = world.apply_with_consumer(&plan, async |_| ());
    assert_eq!(
        (report.sent, RedriveOutcome::from_report(&report, u64::MAX)),
        (500, RedriveOutcome::Done),
        "{report:?}"
    );
}

#[test]
fn delayed_messages_count_only_at_the_end_of_the_pilot() {
    let world = World::new((0..500).map(dead_letter).collect());
    let plan = unfiltered_plan();
    // More than 20 % wait at the first check, after 5 seconds, and succeed by the last one.
    let mut retried = 0;
    let report = world.apply_with_consumer(&plan, async |messages| {
        if retried < 20 {
            retried += messages.len();
            world.resend(&world.source, messages, 30).await;
        }
    });
    assert_eq!(
        (retried, report.sent, RedriveOutcome::from_report(&report, u64::MAX)),
        (20, 500, RedriveOutcome::Done),
        "{report:?}"
    );
}

#[test]
fn a_pilot_with_a_known_result_is_not_watched_any_longer() {
    // The input: how many of the 50 messages return, after how many seconds, and the allowed percentage. The expected
    // result: the time of the last check in seconds, and the number of messages sent.
    for (back, after, percent, known_after, sent) in [
        (50, 0, 20, 5, 50),
        (50, 7, 20, 10, 50),
        (11, 7, 20, 10, 50),
        (11, 30, 20, 40, 50),
        (10, 0, 20, 90, 100),
        // Any number of failures is allowed; all have returned, so nothing is left to wait for.
        (50, 0, 100, 5, 100),
    ] {
        let mut world = World::new((0..100).map(dead_letter).collect());
        world.limits.stop_after_failures_percent = percent;
        let mut left = back;
        let plan = unfiltered_plan();
        let report = world.apply_with_consumer(&plan, async |messages| {
            let failed: Vec<_> = messages.into_iter().take(left).collect();
            left -= failed.len();
            world.resend(&world.dlq, failed, after).await;
        });
        let watched = report.pilot_result.map(|watched| (watched.seconds, watched.came_back));
        assert_eq!(
            (watched, report.sent),
            (Some((known_after, back as u64)), sent),
            "{back} after {after} s"
        );
        let stopped = sent == 50;
        assert_eq!(
            report.early_end == Some(EarlyEnd::Stopped),
            stopped,
            "{back} after {after} s: {report:?}"
        );
        let died: Vec<_> = report.died_again.iter().map(|died| (died.count, died.examples.len())).collect();
        assert_eq!(died, [(back as u64, 3)], "each is counted once, however often it was seen");
        assert_eq!(report.died_again[0].headline, "No error is recorded");
    }
}
