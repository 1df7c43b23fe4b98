//! Breakers as seen by a target, and the cost to its messages.

mod model;

use std::time::Duration;

use chrono::TimeDelta;

use super::*;
use crate::handler::ErrorType;
use crate::testing::at;

const ID: Uuid = Uuid::from_u128(7);
const MESSAGE: Uuid = Uuid::from_u128(0x6f1c_0d3e_8a55_4c8e_9a3f_2b1d_7e5f_9a01);

fn breaker() -> Breaker {
    Breaker::new(CircuitBreaker::default())
}

fn moment() -> Timestamp {
    at(0)
}

fn after(seconds: f64) -> Timestamp {
    moment() + Duration::from_secs_f64(seconds)
}

/// A call that ends at once.
fn call(breaker: &mut Breaker, met: CallOutcome, now: Timestamp) -> Option<Change> {
    of_tenant(breaker, met, None, now)
}

fn of_tenant(
    breaker: &mut Breaker,
    met: CallOutcome,
    tenant: Option<&str>,
    now: Timestamp,
) -> Option<Change> {
    let Permission::Call(permit) = breaker.ask(now) else { panic!("it is not called at {now}") };
    breaker.record(permit, met, ID, tenant.map(Tenant::of), now)
}

/// A breaker that has met ten outages.
fn open() -> Breaker {
    let mut breaker = breaker();
    let changes: Vec<_> = (0..10).filter_map(|_| call(&mut breaker, CallOutcome::Outage, moment())).collect();
    let [Change::Opened { calls: 10, outages: 10, .. }] = changes[..] else { panic!("{changes:?}") };
    breaker
}

/// Asks every 0.1 s until a call is permitted, up to a limit.
fn seconds_to_probe(breaker: &mut Breaker, from: f64) -> (f64, Permit) {
    for tenths in 0..=3000 {
        let seconds = from + f64::from(tenths) / 10.0;
        if let Permission::Call(permit) = breaker.ask(after(seconds)) {
            return (seconds, permit);
        }
    }
    panic!("no probe in 300 s");
}

#[test]
fn ten_calls_of_which_eight_meet_an_outage_open_it_and_nine_do_not() {
    let mut nine = breaker();
    for _ in 0..9 {
        assert_eq!(call(&mut nine, CallOutcome::Outage, moment()), None);
    }
    assert!(matches!(nine.ask(moment()), Permission::Call(_)));
    for (answers, opens) in [(2, true), (3, false)] {
        let mut ten = breaker();
        let changes: Vec<_> = (0..10)
            .filter_map(|call_number| {
                call(
                    &mut ten,
                    if call_number < answers { CallOutcome::Answer } else { CallOutcome::Outage },
                    moment(),
                )
            })
            .collect();
        let expected = [Change::Opened { calls: 10, outages: 8, probe_in: Duration::from_millis(14_224) }];
        assert_eq!(changes, &expected[..usize::from(opens)], "{answers}");
        assert_eq!(ten.open_since(), opens.then_some(moment()));
    }
}

#[test]
fn a_third_of_the_calls_failing_never_opens_it() {
    let mut breaker = breaker();
    for second in 0..600 {
        for number in 0..10 {
            let met = if number < 3 { CallOutcome::Outage } else { CallOutcome::Answer };
            assert_eq!(call(&mut breaker, met, after(second.into())), None);
        }
    }
}

/// Nine outages and then an answer at once; a tenth outage `seconds` later.
fn tenth_outage(seconds: f64) -> Option<Change> {
    let mut breaker = breaker();
    for _ in 0..9 {
        assert_eq!(call(&mut breaker, CallOutcome::Outage, moment()), None);
    }
    assert_eq!(call(&mut breaker, CallOutcome::Answer, moment()), None);
    call(&mut breaker, CallOutcome::Outage, after(seconds))
}

#[test]
fn what_ended_half_a_minute_ago_does_not_count_if_an_answer_has_followed() {
    assert_eq!(tenth_outage(30.0), None, "the nine are too old");
    let just_in_time = tenth_outage(29.9);
    assert!(matches!(just_in_time, Some(Change::Opened { calls: 11, outages: 10, .. })), "{just_in_time:?}");
}

#[test]
fn few_calls_open_it_too_if_none_of_them_was_answered() {
    let mut breaker = breaker();
    for hour in 0..9 {
        assert_eq!(call(&mut breaker, CallOutcome::Outage, after(3600.0 * f64::from(hour))), None);
    }
    let tenth = call(&mut breaker, CallOutcome::Outage, after(9.0 * 3600.0));
    assert!(matches!(tenth, Some(Change::Opened { calls: 10, outages: 10, .. })), "{tenth:?}");
}

#[test]
fn a_target_that_hangs_opens_it_however_few_calls_are_made_at_once() {
    // Calls as long as the window, and a pause after each for the hand-off and the next batch.
    let (took, pause) = (30.0, 20.0);
    for at_once in [1, 3, 9] {
        let mut breaker = breaker();
        let (mut now, mut calls) = (0.0, 0);
        while breaker.open_since().is_none() {
            assert!(calls < 20, "{at_once} at once: not open after {calls} calls");
            let permits: Vec<_> = (0..at_once).map(|_| breaker.ask(after(now))).collect();
            now += took;
            for permit in permits {
                let Permission::Call(permit) = permit else { panic!("it is closed") };
                calls += u32::from(breaker.open_since().is_none());
                let _ = breaker.record(permit, CallOutcome::Outage, ID, None, after(now));
            }
            now += pause;
        }
        assert_eq!(calls, 10, "{at_once} at once");
    }
}

#[test]
fn a_busy_flow_tells_of_an_outage_by_its_last_fifty_calls() {
    let mut breaker = breaker();
    for _ in 0..1000 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, moment()), None);
    }
    let until_it_opens = (1..).find(|_| call(&mut breaker, CallOutcome::Outage, moment()).is_some());
    assert_eq!(until_it_opens, Some(40));
    let mut all_of_them = Breaker::new(CircuitBreaker { failure_rate: 1.0, ..CircuitBreaker::default() });
    assert_eq!(call(&mut all_of_them, CallOutcome::Answer, moment()), None);
    let until_it_opens = (1..).find(|_| call(&mut all_of_them, CallOutcome::Outage, moment()).is_some());
    assert_eq!(until_it_opens, Some(50));
}

#[test]
fn of_two_tenants_with_as_many_outages_the_one_with_fewer_calls_counts_whatever_their_names() {
    for (poisoned, ailing) in [("a", "b"), ("b", "a")] {
        let mut breaker = breaker();
        for _ in 0..4 {
            assert_eq!(of_tenant(&mut breaker, CallOutcome::Answer, Some(ailing), moment()), None);
        }
        // Sixteen outages of twenty calls in all; eight of twelve without the poisoned tenant's.
        for tenant in [poisoned, ailing].repeat(8) {
            assert_eq!(
                of_tenant(&mut breaker, CallOutcome::Outage, Some(tenant), moment()),
                None,
                "{poisoned}"
            );
        }
    }
}

#[test]
fn one_tenants_failures_open_it_for_the_others_only_if_nobody_shows_otherwise() {
    let calls = |of_others: &[CallOutcome]| {
        let mut breaker = breaker();
        for met in of_others {
            assert_eq!(of_tenant(&mut breaker, *met, Some("healthy"), moment()), None);
        }
        (1..=40).find(|_| of_tenant(&mut breaker, CallOutcome::Outage, Some("poisoned"), moment()).is_some())
    };
    assert_eq!(calls(&[CallOutcome::Answer]), None);
    assert_eq!(calls(&[CallOutcome::Answer, CallOutcome::Outage]), None);
    assert_eq!(calls(&[CallOutcome::Outage, CallOutcome::Outage]), Some(8), "the others fail, too");
    assert_eq!(calls(&[]), Some(10), "there are no others");
    let mut nobodys = breaker();
    assert_eq!(call(&mut nobodys, CallOutcome::Answer, moment()), None);
    let opens =
        (0..40).any(|_| of_tenant(&mut nobodys, CallOutcome::Outage, Some("poisoned"), moment()).is_some());
    assert!(!opens, "a message without a tenant is another one's");
    let mut no_tenants = breaker();
    assert_eq!(call(&mut no_tenants, CallOutcome::Answer, moment()), None);
    assert_eq!((1..=40).find(|_| call(&mut no_tenants, CallOutcome::Outage, moment()).is_some()), Some(9));
    let mut one_tenant = breaker();
    assert_eq!(of_tenant(&mut one_tenant, CallOutcome::Answer, Some("healthy"), moment()), None);
    let opens = (1..=40).find(|_| call(&mut one_tenant, CallOutcome::Outage, moment()).is_some());
    assert_eq!(opens, Some(9), "messages without a tenant are not one tenant's");
}

#[test]
fn the_tenant_that_is_left_out_is_the_one_with_the_most_outages_not_the_one_that_fails_most_often() {
    let mut breaker =
        Breaker::new(CircuitBreaker { minimum_calls: 4, failure_rate: 0.6, ..CircuitBreaker::default() });
    assert_eq!(call(&mut breaker, CallOutcome::Answer, moment()), None);
    assert_eq!(of_tenant(&mut breaker, CallOutcome::Answer, Some("large"), moment()), None);
    assert_eq!(of_tenant(&mut breaker, CallOutcome::Outage, Some("small"), moment()), None);
    // Five of seven calls in all; one of two without the large tenant's, four of six without the small one's.
    for _ in 0..4 {
        assert_eq!(of_tenant(&mut breaker, CallOutcome::Outage, Some("large"), moment()), None);
    }
}

#[test]
fn one_tenants_failures_do_not_open_it_again_while_it_starts_slowly() {
    let mut breaker = open();
    let (at, probe) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    // The levels 2, 4, 8 and 16, and the first call of the last one.
    for _ in 0..31 {
        assert_eq!(of_tenant(&mut breaker, CallOutcome::Answer, Some("healthy"), after(at)), None);
    }
    for _ in 0..31 {
        assert_eq!(of_tenant(&mut breaker, CallOutcome::Outage, Some("poisoned"), after(at)), None);
    }
    assert_eq!(breaker.open_since(), None);
}

#[test]
fn an_open_one_makes_one_call_in_an_interval_that_doubles_to_two_minutes() {
    let mut breaker = open();
    let (mut from, mut waits) = (0.0, Vec::new());
    for _ in 0..6 {
        let (at, permit) = seconds_to_probe(&mut breaker, from);
        assert_eq!(breaker.ask(after(at)), Permission::Wait, "one at a time");
        let failed = breaker.record(permit, CallOutcome::Outage, ID, None, after(at));
        assert!(matches!(failed, Some(Change::ProbeFailed { .. })));
        assert_eq!(breaker.ask(after(at)), Permission::Hold);
        waits.push(at - from);
        from = at;
    }
    let nominal = [15.0, 30.0, 60.0, 120.0, 120.0, 120.0];
    for (wait, nominal) in waits.iter().zip(nominal) {
        assert!((nominal * 0.75..=nominal + 0.1).contains(wait), "{waits:?}");
    }
    assert_eq!(breaker.open_since(), Some(moment()));
}

#[test]
fn environments_that_open_at_the_same_moment_probe_at_different_ones() {
    // 75 to 100 s, then 150 to 200 s: two environments that draw nearly the same once do not stay together.
    let settings = CircuitBreaker {
        minimum_calls: 1,
        failure_rate: 1.0,
        probe_interval: Duration::from_secs(100),
        probe_interval_max: Duration::from_secs(600),
        ..CircuitBreaker::default()
    };
    for (id, milliseconds) in [
        (ID, [94_827, 170_660]),
        (MESSAGE, [89_653, 183_396]),
        (Uuid::max(), [99_350, 195_584]),
        (Uuid::from_u128(0x0b6f_2b1e_3f0d_4f6a_9c61_7d1a_5e4c_8b92), [91_390, 159_863]),
    ] {
        let [first, second] = milliseconds.map(Duration::from_millis);
        let mut breaker = Breaker::new(settings.clone());
        let Permission::Call(permit) = breaker.ask(moment()) else { panic!("it is closed") };
        let opened = breaker.record(permit, CallOutcome::Outage, id, None, moment());
        assert_eq!(opened, Some(Change::Opened { calls: 1, outages: 1, probe_in: first }));
        let due = moment() + first;
        assert_eq!(breaker.ask(due - TimeDelta::milliseconds(1)), Permission::Hold);
        let Permission::Call(probe) = breaker.ask(due) else { panic!("{id}") };
        let failed = breaker.record(probe, CallOutcome::Outage, id, None, due);
        assert_eq!(failed, Some(Change::ProbeFailed { probe_in: second }));
    }
}

#[test]
fn an_answered_probe_closes_it_and_the_calls_come_back_by_twos() {
    let mut breaker = open();
    let (at, permit) = seconds_to_probe(&mut breaker, 0.0);
    let closed = breaker.record(permit, CallOutcome::Answer, ID, None, after(at));
    let open_for = Duration::from_millis(14_300);
    assert_eq!(closed, Some(Change::Closed { open_for, probes: 1 }));
    assert_eq!(breaker.open_since(), None);
    for level in [2, 4, 8, 16, 32] {
        let permits: Vec<_> = (0..level)
            .map(|_| match breaker.ask(after(at)) {
                Permission::Call(permit) => permit,
                other => panic!("{other:?} at {level}"),
            })
            .collect();
        assert_eq!(breaker.ask(after(at)), Permission::Wait, "{level} at once");
        for permit in permits {
            assert_eq!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)), None);
        }
    }
    let permits: Vec<_> = (0..100).map(|_| breaker.ask(after(at))).collect();
    assert!(permits.iter().all(|permission| matches!(permission, Permission::Call(_))));
}

#[test]
fn a_slow_start_that_fails_opens_it_again_and_the_target_is_left_alone_for_longer() {
    let mut breaker = open();
    let (at, permit) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)).is_some());
    for _ in 0..9 {
        assert_eq!(call(&mut breaker, CallOutcome::Outage, after(at)), None, "never below minimum_calls");
    }
    let tenth = call(&mut breaker, CallOutcome::Outage, after(at));
    let Some(Change::Opened { calls: 10, outages: 10, probe_in }) = tenth else { panic!("{tenth:?}") };
    assert!((22.5..=30.0).contains(&probe_in.as_secs_f64()), "{probe_in:?}");
    // Half of a level may fail: a target that comes back with some failures is back.
    let (at, permit) = seconds_to_probe(&mut breaker, at);
    assert!(matches!(
        breaker.record(permit, CallOutcome::Answer, ID, None, after(at)),
        Some(Change::Closed { .. })
    ));
    for number in 0..62 {
        let met = if number % 2 == 0 { CallOutcome::Outage } else { CallOutcome::Answer };
        assert_eq!(call(&mut breaker, met, after(at)), None, "{number}");
    }
}

#[test]
fn a_level_of_a_slow_start_that_meets_an_outage_is_made_again() {
    let at_once = |breaker: &mut Breaker, at| {
        let permits: Vec<_> = std::iter::from_fn(|| match breaker.ask(after(at)) {
            Permission::Call(permit) => Some(permit),
            _ => None,
        })
        .take(100)
        .collect();
        let count = permits.len();
        permits.into_iter().for_each(|permit| breaker.give_back(permit));
        count
    };
    let mut breaker = open();
    let (at, permit) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)).is_some());
    let mut seen = vec![at_once(&mut breaker, at)];
    for level in [
        [CallOutcome::Outage; 2],
        [CallOutcome::Outage, CallOutcome::Answer],
        [CallOutcome::Outage; 2],
        [CallOutcome::Outage; 2],
    ] {
        level.into_iter().for_each(|met| assert_eq!(call(&mut breaker, met, after(at)), None));
        seen.push(at_once(&mut breaker, at));
    }
    // Half of the second level failed, which is less than the policy's share.
    assert_eq!(seen, [2, 2, 4, 4, 4]);
    // The last level, too: 26 of its 32 calls fail, 26 of the newest fifty.
    for _ in 0..28 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    assert_eq!(at_once(&mut breaker, at), 32);
    for number in 0..32 {
        let met = if number < 6 { CallOutcome::Answer } else { CallOutcome::Outage };
        assert_eq!(call(&mut breaker, met, after(at)), None);
    }
    assert_eq!(at_once(&mut breaker, at), 32);
}

#[test]
fn a_level_of_a_slow_start_that_meets_just_the_policys_share_is_made_again() {
    let mut breaker = Breaker::new(CircuitBreaker { failure_rate: 0.5, ..CircuitBreaker::default() });
    assert_eq!((0..10).filter_map(|_| call(&mut breaker, CallOutcome::Outage, moment())).count(), 1);
    let (at, probe) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    for met in [CallOutcome::Outage, CallOutcome::Answer] {
        assert_eq!(call(&mut breaker, met, after(at)), None);
    }
    let asked: Vec<_> = (0..3).map(|_| breaker.ask(after(at))).collect();
    assert!(matches!(asked[..], [Permission::Call(_), Permission::Call(_), Permission::Wait]), "{asked:?}");
}

#[test]
fn what_a_slow_start_has_met_counts_after_it() {
    let mut breaker = open();
    let (at, permit) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)).is_some());
    for _ in 0..62 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    let until_it_opens = (1..).find(|_| call(&mut breaker, CallOutcome::Outage, after(at)).is_some());
    assert_eq!(until_it_opens, Some(40), "of the newest fifty");
}

#[test]
fn a_target_that_flaps_is_probed_as_seldom_as_before() {
    let mut breaker = open();
    let (mut from, mut waits) = (0.0, Vec::new());
    for _ in 0..5 {
        let (at, permit) = seconds_to_probe(&mut breaker, from);
        waits.push(at - from);
        assert!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)).is_some());
        for _ in 0..62 {
            assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
        }
        // It is up for twenty seconds.
        from = at + 20.0;
        let opened = (0..40).filter_map(|_| call(&mut breaker, CallOutcome::Outage, after(from))).count();
        assert_eq!(opened, 1);
    }
    for (wait, nominal) in waits.iter().zip([15.0, 30.0, 60.0, 120.0, 120.0]) {
        assert!((nominal * 0.75..=nominal + 0.1).contains(wait), "{waits:?}");
    }
    // Two minutes later counts as another outage.
    let (at, permit) = seconds_to_probe(&mut breaker, from);
    assert!(breaker.record(permit, CallOutcome::Answer, ID, None, after(at)).is_some());
    for _ in 0..62 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    let opened = (0..10).find_map(|_| call(&mut breaker, CallOutcome::Outage, after(at + 120.0)));
    let Some(Change::Opened { probe_in, .. }) = opened else { panic!("{opened:?}") };
    assert!(probe_in <= Duration::from_secs(15), "{probe_in:?}");
}

#[test]
fn a_new_environment_that_gets_a_held_message_begins_with_a_probe() {
    let mut breaker = breaker();
    breaker.learn(moment(), after(600.0), after(600.0));
    assert_eq!(breaker.open_since(), Some(moment()));
    let Permission::Call(probe) = breaker.ask(after(600.0)) else { panic!("at once") };
    assert_eq!(breaker.ask(after(600.0)), Permission::Wait);
    let failed = breaker.record(probe, CallOutcome::Outage, ID, None, after(600.0));
    let Some(Change::ProbeFailed { probe_in }) = failed else { panic!("{failed:?}") };
    assert!(
        (90.0..=120.0).contains(&probe_in.as_secs_f64()),
        "after ten minutes, no short interval: {probe_in:?}"
    );
    let answered = seconds_to_probe(&mut breaker, 601.0).1;
    let closed = breaker.record(answered, CallOutcome::Answer, ID, None, after(1200.0));
    assert_eq!(closed, Some(Change::Closed { open_for: Duration::from_secs(1200), probes: 2 }));
}

#[test]
fn after_an_outage_that_it_has_learned_of_its_probes_are_as_far_apart_as_that_was_long() {
    // The last quarters of 15 s, 20.001 s and 120 s.
    for (down_for, probe_in) in [(5_000, 13_755), (20_001, 18_341), (7_200_000, 110_038)] {
        let [down_for, probe_in] = [down_for, probe_in].map(Duration::from_millis);
        let (mut breaker, now) = (breaker(), moment() + down_for);
        breaker.learn(moment(), now, now);
        let Permission::Call(probe) = breaker.ask(now) else { panic!("at once") };
        let failed = breaker.record(probe, CallOutcome::Outage, MESSAGE, None, now);
        assert_eq!(failed, Some(Change::ProbeFailed { probe_in }));
    }
}

#[test]
fn an_environment_that_knows_better_does_not_believe_a_held_message() {
    let mut calls = breaker();
    assert_eq!(call(&mut calls, CallOutcome::Answer, moment()), None);
    calls.learn(moment() - TimeDelta::minutes(5), after(29.0), after(29.0));
    assert_eq!(calls.open_since(), None);
    calls.learn(moment() - TimeDelta::minutes(5), after(30.0), after(30.0));
    assert_eq!(calls.open_since(), Some(moment() - TimeDelta::minutes(5)), "its calls say nothing any more");
    let mut open = open();
    open.learn(moment() - TimeDelta::minutes(5), after(1.0), after(1.0));
    assert_eq!(open.open_since(), Some(moment()));
    assert_eq!(open.ask(after(1.0)), Permission::Hold);
    let (at, probe) = seconds_to_probe(&mut open, 1.0);
    assert!(open.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    open.learn(moment(), after(at + 600.0), after(at + 600.0));
    assert_eq!(open.open_since(), None, "it is back, and starts slowly");
    // A forged future time: the target is not down for a negative time.
    let mut forged = breaker();
    forged.learn(after(1e9), moment(), moment());
    assert_eq!(forged.open_since(), Some(moment()));
}

#[test]
fn an_environment_that_found_the_target_back_is_not_told_of_the_outage_before() {
    let mut breaker = open();
    let (at, probe) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    for _ in 0..62 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    // Held earlier, and received minutes later.
    breaker.learn(moment(), after(at), after(at + 600.0));
    assert_eq!(breaker.open_since(), None);
    breaker.learn(moment(), after(at + 0.1), after(at + 600.0));
    assert_eq!(breaker.open_since(), Some(moment()), "somebody held it later than that");
}

#[test]
fn a_call_that_began_before_says_nothing_of_what_is_now() {
    let mut breaker = breaker();
    let permits: Vec<_> = (0..30).map(|_| breaker.ask(moment())).collect();
    let mut permits = permits.into_iter().map(|permission| match permission {
        Permission::Call(permit) => permit,
        other => panic!("{other:?}"),
    });
    let changes: Vec<_> = permits
        .by_ref()
        .take(20)
        .filter_map(|permit| breaker.record(permit, CallOutcome::Outage, ID, None, moment()))
        .collect();
    assert_eq!(changes.len(), 1, "it opens once");
    let late = permits.next().unwrap();
    assert_eq!(breaker.record(late, CallOutcome::Answer, ID, None, after(1.0)), None);
    assert_eq!(breaker.ask(after(1.0)), Permission::Hold, "an old answer is not a probe");
    let (at, probe) = seconds_to_probe(&mut breaker, 1.0);
    let late = permits.next().unwrap();
    assert_eq!(breaker.record(late, CallOutcome::Outage, ID, None, after(at)), None);
    assert_eq!(breaker.ask(after(at)), Permission::Wait, "the probe is still running");
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    permits.for_each(|late| assert_eq!(breaker.record(late, CallOutcome::Outage, ID, None, after(at)), None));
    assert_eq!(breaker.open_since(), None);
}

#[test]
fn calls_of_a_slow_start_say_nothing_once_it_is_closed() {
    let mut breaker = open();
    let (at, probe) = seconds_to_probe(&mut breaker, 0.0);
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, after(at)).is_some());
    for _ in 0..30 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    // The level of 32: calls that begin in it, and end after 32 others.
    let ask = |breaker: &mut Breaker| match breaker.ask(after(at)) {
        Permission::Call(permit) => permit,
        other => panic!("{other:?}"),
    };
    let late: Vec<_> = (0..31).map(|_| ask(&mut breaker)).collect();
    for _ in 0..32 {
        assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
    }
    for permit in late {
        assert_eq!(breaker.record(permit, CallOutcome::Outage, ID, None, after(at)), None);
    }
    let opened = (1..=40).find(|_| call(&mut breaker, CallOutcome::Outage, after(at)).is_some());
    assert_eq!(opened, Some(40), "only calls that began when it was closed count");
}

#[test]
fn a_call_that_is_not_made_makes_room_for_the_next() {
    let mut breaker = open();
    let (at, probe) = seconds_to_probe(&mut breaker, 0.0);
    breaker.give_back(probe);
    let Permission::Call(probe) = breaker.ask(after(at)) else { panic!("the probe was not made") };
    let closed = breaker.record(probe, CallOutcome::Answer, ID, None, after(at));
    assert!(matches!(closed, Some(Change::Closed { probes: 1, .. })), "{closed:?}");
    for _ in 0..10 {
        let Permission::Call(permit) = breaker.ask(after(at)) else { panic!("none is running") };
        breaker.give_back(permit);
    }
    assert_eq!(call(&mut breaker, CallOutcome::Answer, after(at)), None);
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_the_target_alone_for_long() {
    let mut breaker = open();
    let an_hour_ago = moment() - TimeDelta::hours(1);
    assert_eq!(breaker.ask(an_hour_ago), Permission::Hold);
    assert!(matches!(breaker.ask(an_hour_ago + TimeDelta::seconds(120)), Permission::Call(_)));
}

#[test]
fn an_outage_is_what_the_policy_lists_and_what_a_handler_calls_so() {
    let default = Policy::default();
    let transient = |error_type: &'static str| HandlerError::transient(error_type, "");
    for outage in ["Http.Timeout", "Http.Connect", "Lambda.TooManyRequestsException", "Timeout"] {
        assert_eq!(call_outcome(&default, &transient(outage)), CallOutcome::Outage, "{outage}");
    }
    for (status, expected) in [
        (429, CallOutcome::Outage),
        (500, CallOutcome::Outage),
        (503, CallOutcome::Outage),
        (404, CallOutcome::Answer),
    ] {
        let error = HandlerError::transient(ErrorType::HttpStatus(status), "");
        assert_eq!(call_outcome(&default, &error), expected, "{status}");
    }
    let throttled = transient("HttpStatus.503").retry_after(Duration::from_secs(5));
    assert_eq!(call_outcome(&default, &throttled), CallOutcome::Outage);
    assert_eq!(call_outcome(&default, &transient("Db.Busy")), CallOutcome::Answer, "a handler's own");
    assert_eq!(call_outcome(&default, &HandlerError::unavailable("Db.Down", "")), CallOutcome::Outage);
    let later = HandlerError::unavailable("Db.Down", "").retry_after(Duration::from_secs(5));
    assert_eq!(later.kind, FailureKind::Unavailable(Some(Duration::from_secs(5))));
    assert_eq!(call_outcome(&default, &later), CallOutcome::Outage);
    for not_tried_again in [
        HandlerError::permanent("Http.Refused", ""),
        HandlerError::snooze("Http.NotYet", "", Duration::from_secs(1)),
        transient("Panic"),
    ] {
        assert_eq!(call_outcome(&default, &not_tried_again), CallOutcome::Answer, "{not_tried_again:?}");
    }
    let policy = |text: &str| Policy::from_json(text).unwrap();
    let own = policy(r#"{"circuit_breaker":{"opens_on":["Db.*"]}}"#);
    assert_eq!(
        (call_outcome(&own, &transient("Db.Busy")), call_outcome(&own, &transient("Timeout"))),
        (CallOutcome::Outage, CallOutcome::Answer)
    );
    let given_up = policy(r#"{"non_retryable":["HttpStatus.501"]}"#);
    let error = HandlerError::transient(ErrorType::HttpStatus(501), "");
    assert_eq!(
        call_outcome(&given_up, &error),
        CallOutcome::Answer,
        "a message that is given up is at fault itself"
    );
}

#[test]
fn what_an_overdue_call_meets_counts_and_leaves_the_probes_as_they_are() {
    // Closed: the tenth outage opens it, whichever message it was.
    let mut breaker = breaker();
    for _ in 0..9 {
        assert_eq!(call(&mut breaker, CallOutcome::Outage, moment()), None);
    }
    let tenth = breaker.call_overdue();
    let opened = breaker.record(tenth, CallOutcome::Outage, ID, None, moment());
    assert!(matches!(opened, Some(Change::Opened { calls: 10, outages: 10, .. })), "{opened:?}");
    // Open: an outage is nothing new, and does not delay a probe.
    let (due, probe) = seconds_to_probe(&mut open(), 0.0);
    let mut breaker = open();
    let still_down = breaker.call_overdue();
    assert!(!still_down.is_probe());
    assert_eq!(breaker.record(still_down, CallOutcome::Outage, ID, None, after(due - 0.5)), None);
    let (then, probe_then) = seconds_to_probe(&mut breaker, 0.0);
    assert_eq!((then, &probe_then), (due, &probe));
    // Also while its probe runs: only the probe decides.
    let still_down = breaker.call_overdue();
    assert_eq!(breaker.record(still_down, CallOutcome::Outage, ID, None, after(then)), None);
    assert_eq!(breaker.ask(after(then)), Permission::Wait);
    // An answer shows that the target is back; the probe's later outcome is out of date.
    let answered = breaker.call_overdue();
    let closed = breaker.record(answered, CallOutcome::Answer, ID, None, after(20.0));
    assert_eq!(closed, Some(Change::Closed { open_for: Duration::from_secs(20), probes: 1 }));
    assert_eq!(breaker.record(probe_then, CallOutcome::Outage, ID, None, after(21.0)), None);
    assert_eq!(breaker.open_since(), None);
    // It is not one of the two calls of the slow start, either.
    assert_eq!(call(&mut breaker, CallOutcome::Answer, after(21.0)), None);
    let asked: Vec<_> = (0..3).map(|_| breaker.ask(after(21.0))).collect();
    assert!(matches!(asked[..], [Permission::Call(_), Permission::Call(_), Permission::Wait]), "{asked:?}");
}

#[test]
fn an_overdue_call_takes_no_place_of_a_slow_start() {
    let mut breaker = open();
    let (due, probe) = seconds_to_probe(&mut breaker, 0.0);
    let now = after(due);
    assert!(breaker.record(probe, CallOutcome::Answer, ID, None, now).is_some());
    let overdue: Vec<_> = (0..3).map(|_| breaker.call_overdue()).collect();
    let two: Vec<_> = (0..2).map(|_| breaker.ask(now)).collect();
    assert!(two.iter().all(|asked| matches!(asked, Permission::Call(_))), "{two:?}");
    assert_eq!(breaker.ask(now), Permission::Wait);
    for overdue in overdue {
        assert_eq!(breaker.record(overdue, CallOutcome::Answer, ID, None, now), None);
        assert_eq!(breaker.ask(now), Permission::Wait, "two are still running");
    }
    breaker.give_back(breaker.call_overdue());
    assert_eq!(breaker.ask(now), Permission::Wait);
}
