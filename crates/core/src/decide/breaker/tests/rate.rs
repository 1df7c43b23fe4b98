//! The rate that a target accepts: several environments find it, and keys share it.

use super::*;
use crate::decide::breaker::rate::RateLimit;

/// A target that accepts `capacity` calls per second.
struct Target {
    capacity: u32,
    second: u32,
    taken: u32,
    refused: u32,
}

impl Target {
    fn with_capacity(capacity: u32) -> Self {
        Self { capacity, second: 0, taken: 0, refused: 0 }
    }

    fn call(&mut self, tick: u32) -> CallOutcome {
        if tick / TICKS_PER_SECOND != self.second {
            (self.second, self.taken) = (tick / TICKS_PER_SECOND, 0);
        }
        if self.taken < self.capacity {
            self.taken += 1;
            return Answer;
        }
        self.refused += 1;
        Refusal(None)
    }
}

/// Ticks per second.
const TICKS_PER_SECOND: u32 = 20;

/// Lets each environment request as many calls as possible in these ticks. Returns the number of answered calls per
/// environment.
fn drive_ticks<const N: usize>(
    environments: &mut [Environment; N],
    target: &mut Target,
    ticks: std::ops::Range<u32>,
) -> [u32; N] {
    let mut answered = [0; N];
    for tick in ticks {
        for turn in 0..N {
            // The order changes each time, so that no environment is always first at the end of a second.
            let index = (turn + (tick + tick / TICKS_PER_SECOND) as usize) % N;
            let environment = &mut environments[index];
            environment.messages += 1;
            let asks = caller("", environment.messages);
            let now = at_second(f64::from(tick) / f64::from(TICKS_PER_SECOND));
            if let Permission::Call(permit) = environment.breaker.request_call(asks, Patience::Over, now) {
                let outcome = target.call(tick);
                answered[index] += u32::from(outcome == Answer);
                environment.breaker.record_outcome(permit, outcome, now);
            }
        }
    }
    answered
}

const TICKS_PER_MINUTE: u32 = 60 * TICKS_PER_SECOND;

#[test]
fn unequal_environments_converge_and_use_the_targets_capacity() {
    let mut environments: [Environment; 4] = Default::default();
    // One environment starts alone; the others follow later.
    let mut target = Target::with_capacity(10);
    let [alone] = {
        let [first, ..] = &mut environments;
        let mut only = [std::mem::take(first)];
        let answered = drive_ticks(&mut only, &mut target, 0..5 * TICKS_PER_MINUTE);
        [environments[0]] = only;
        answered
    };
    assert!(alone > 2400, "{alone} of 3000");
    drive_ticks(&mut environments, &mut target, 5 * TICKS_PER_MINUTE..25 * TICKS_PER_MINUTE);
    target.refused = 0;
    let answered = drive_ticks(&mut environments, &mut target, 25 * TICKS_PER_MINUTE..265 * TICKS_PER_MINUTE);
    let total: u32 = answered.iter().sum();
    assert!(total > 144_000 * 8 / 10, "{answered:?}: {total} of 144,000");
    let (least, most) = (answered.iter().min().unwrap(), answered.iter().max().unwrap());
    assert!(*most < 2 * least, "{answered:?}");
    assert!(target.refused < total / 20, "{} refused of {total}", target.refused);
}

#[test]
fn refusals_lower_the_rate_once_a_second_and_answers_raise_it() {
    let mut environment = Environment::default();
    (0..40).for_each(|number| {
        assert_eq!(environment.call("a", Answer, 1.0 + f64::from(number) / 20.0), Ok(None))
    });
    let permits: Vec<_> = (0..5)
        .map(|number| {
            match environment.breaker.request_call(caller("a", 100 + number), Patience::Over, at_second(3.0))
            {
                Permission::Call(permit) => permit,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    for permit in permits {
        assert_eq!(environment.breaker.record_outcome(permit, Refusal(None), at_second(3.1)), None);
    }
    // The rate was 20 per second before. Five refusals of concurrent calls count as one.
    let rate = |environment: &Environment| {
        environment.breaker.keys.get(Some(CircuitKey::from_text("a"))).unwrap().limited_rate().unwrap()
    };
    assert!((rate(&environment) - 15.6).abs() < 0.01, "{}", rate(&environment));
    let held = environment.call("a", Answer, 3.1).unwrap_err();
    assert_eq!((held.reason, held.outage.since), (HoldReason::RateLimited, at_second(3.1)));
    let before = rate(&environment);
    assert_eq!(environment.call("a", Answer, 5.0), Ok(None));
    assert!((rate(&environment) - before - 0.005 * before.sqrt()).abs() < 1e-4);
    assert_eq!(environment.call("a", Refusal(None), 6.0), Ok(None));
    assert!((rate(&environment) - before * 0.78).abs() < 0.02, "{}", rate(&environment));
}

fn rate(environment: &Environment, key: &str) -> f32 {
    environment.breaker.keys.get(Some(CircuitKey::from_text(key))).unwrap().limited_rate().unwrap()
}

/// A rate measured in a busy hour would overload a target that refuses calls in a quiet hour.
#[test]
fn the_first_refusal_limits_calls_to_the_answer_rate_of_the_last_second() {
    let mut environment = Environment::default();
    (0..40).for_each(|number| {
        assert_eq!(environment.call("a", Answer, 1.0 + f64::from(number) / 20.0), Ok(None))
    });
    assert_eq!(environment.call("a", Answer, 60.0), Ok(None));
    assert_eq!(environment.call("a", Refusal(None), 60.0), Ok(None));
    assert!((rate(&environment, "a") - 0.78).abs() < 1e-4, "{}", rate(&environment, "a"));
}

#[test]
fn the_first_refusal_ends_a_slow_start() {
    let mut environment = Environment::with_open_circuit("a");
    assert!(matches!(environment.call("a", Answer, 10.0), Ok(Some(CircuitChange::Closed { .. }))));
    assert_eq!(environment.call("a", Answer, 11.0), Ok(None));
    assert!((rate(&environment, "a") - 3.0).abs() < 1e-4, "{}", rate(&environment, "a"));
    assert_eq!(environment.call("a", Refusal(None), 12.0), Ok(None));
    assert!((rate(&environment, "a") - 2.34).abs() < 1e-4, "{}", rate(&environment, "a"));
    assert_eq!(environment.call("a", Answer, 14.0), Ok(None));
    let grown = 2.34 + 0.005 * 2.34_f32.sqrt();
    assert!((rate(&environment, "a") - grown).abs() < 1e-4, "{}", rate(&environment, "a"));
}

#[test]
fn a_rate_limit_that_is_no_longer_needed_is_dropped() {
    let mut environment = Environment::default();
    assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
    assert!(environment.is_held("a", 0.1));
    for second in 2..=40 {
        let _ = environment.call("a", Answer, f64::from(second) * 2.0);
    }
    (0..100).for_each(|_| assert_eq!(environment.call("a", Answer, 90.0), Ok(None)));
}

#[test]
fn after_an_outage_the_rate_doubles_each_second() {
    let mut environment = Environment::with_open_circuit("");
    let mut target = Target::with_capacity(1000);
    let _ = environment.call("", Answer, 10.0);
    let mut only = [environment];
    let seconds: Vec<u32> = (10..16)
        .map(|second| {
            drive_ticks(
                &mut only,
                &mut target,
                second * TICKS_PER_SECOND + 1..(second + 1) * TICKS_PER_SECOND,
            )[0]
        })
        .collect();
    assert!(seconds.windows(2).all(|pair| pair[1] >= pair[0]), "{seconds:?}");
    assert!(seconds[0] <= 8 && seconds[5] == TICKS_PER_SECOND - 1, "{seconds:?}: one call per tick");
}

/// Calling the target for all messages at the same time would overload it again.
#[test]
fn a_held_message_waits_its_turn_for_up_to_4_percent_of_the_limits_age() {
    let mut environment = Environment::default();
    (0..10).for_each(|_| assert_eq!(environment.call("a", Answer, 0.0), Ok(None)));
    let _ = environment.call("a", Refusal(None), 0.0);
    let mut hold_seconds = |number: u128, seconds: f64| {
        environment.call_for(caller("a", 1000 + number), Fault, seconds).unwrap_err().delay.as_secs_f64()
    };
    for number in 0..40_u128 {
        assert!((hold_seconds(number, 0.0) - 1.0).abs() < 0.01, "one second at first");
    }
    // The burst at a rate of 7.8 calls per second.
    (0..2).for_each(|number| assert!(environment.call_for(caller("a", number), Fault, 500.0).is_ok()));
    let mut hold_seconds = |number: u128| {
        environment.call_for(caller("a", 1000 + number), Fault, 500.0).unwrap_err().delay.as_secs_f64()
    };
    for number in 0..100_u128 {
        // Moments are hundredths of a second, and each slot is rounded down to a moment.
        let place = f64::from(u32::try_from(number).unwrap() + 1) * 0.12;
        let delay = hold_seconds(number);
        assert!((delay - place.max(1.0)).abs() < 0.001, "{number}: {delay}");
    }
    let longest: Vec<_> = (100..400).map(hold_seconds).collect();
    assert!(longest[200..].iter().all(|delay| (15.0..=20.0).contains(delay)), "{longest:?}");
}

/// Without fair shares, one tenant's backlog would delay all others.
#[test]
fn the_busiest_key_leaves_the_other_keys_their_share() {
    let mut environment = Environment::default();
    let mut target = Target::with_capacity(10);
    let (mut quiet, mut noisy, mut quiet_asked) = (0, 0, 0);
    for tick in 0..10 * TICKS_PER_MINUTE {
        let seconds = f64::from(tick) / f64::from(TICKS_PER_SECOND);
        // The noisy key requests a call in every tick. The quiet key requests one per second, after the noisy key.
        for (key, asks) in [("noisy", true), ("quiet", tick % TICKS_PER_SECOND == 7)] {
            if !asks {
                continue;
            }
            environment.messages += 1;
            let asking = caller(key, environment.messages);
            let counted = tick > 2 * TICKS_PER_MINUTE;
            quiet_asked += u32::from(counted && key == "quiet");
            if let Permission::Call(permit) =
                environment.breaker.request_call(asking, Patience::Over, at_second(seconds))
            {
                let outcome = target.call(tick);
                environment.breaker.record_outcome(permit, outcome, at_second(seconds));
                if counted && outcome == Answer {
                    *(if key == "quiet" { &mut quiet } else { &mut noisy }) += 1;
                }
            }
        }
    }
    assert!(quiet * 100 >= quiet_asked * 95, "{quiet} of {quiet_asked}");
    assert!(noisy > 480 * 6, "{noisy}: uses what the other key leaves");
}

/// Returns an environment with two refused keys, where the target's rate is limited to 0.78 calls per second.
fn environment_with_limited_target() -> Environment {
    let mut environment = Environment::default();
    assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
    assert_eq!(environment.call("b", Refusal(None), 0.1), Ok(None));
    assert!(environment.breaker.target.is_limited());
    environment
}

/// Producers choose the keys, so keys must neither fill the memory nor slow down each message.
#[test]
fn shares_are_tracked_for_at_most_64_keys() {
    let mut environment = environment_with_limited_target();
    for number in 0..1000 {
        let _ = environment.call(&number.to_string(), Answer, 0.1);
    }
    assert_eq!(environment.breaker.shares.len(), 64);
}

/// If calls kept their weight, a tenant would leave tokens unused because of a burst in the morning.
#[test]
fn a_call_loses_half_its_weight_after_ten_seconds() {
    let (mut clock, mut shares) = (MomentClock::default(), RateShares::default());
    let [busy, other] = ["busy", "other"].map(|key| Some(CircuitKey::from_text(key)));
    let begin = clock.moment_at(at_second(0.0));
    shares.add_user(busy);
    shares.add_user(other);
    assert!(!shares.exceeds_share(busy, begin), "no call yet");
    (0..20).for_each(|_| shares.count_call(busy));
    (0..12).for_each(|_| shares.count_call(other));
    assert!(shares.exceeds_share(busy, clock.moment_at(at_second(9.9))), "20 of 32");
    assert!(shares.exceeds_share(busy, clock.moment_at(at_second(10.0))), "10 of 16");
    (0..6).for_each(|_| shares.count_call(other));
    assert!(!shares.exceeds_share(busy, clock.moment_at(at_second(30.0))), "2.5 of 5.5");
}

/// If faded calls counted, the equal share would be computed for all keys ever seen.
#[test]
fn a_key_whose_calls_have_faded_has_no_share() {
    let (mut clock, mut shares) = (MomentClock::default(), RateShares::default());
    let [busy, gone] = ["busy", "gone"].map(|key| Some(CircuitKey::from_text(key)));
    for (key, calls) in [(gone, 1), (busy, 100)] {
        shares.add_user(key);
        (0..calls).for_each(|_| shares.count_call(key));
    }
    assert!(shares.exceeds_share(busy, clock.moment_at(at_second(0.0))), "100 of 101");
    assert!(shares.exceeds_share(busy, clock.moment_at(at_second(30.0))), "12.5 of 12.6");
    assert_eq!(shares.len(), 2);
    assert!(!shares.exceeds_share(busy, clock.moment_at(at_second(40.0))), "no other key is left");
    assert_eq!(shares.len(), 1);
}

/// A limit that only grows is useless, and a message beyond it would be held.
#[test]
fn a_slow_start_ends_at_64_calls_per_second() {
    let now = MomentClock::default().moment_at(at_second(0.0));
    let mut limit = RateLimit::after_outage(now, now, 0);
    let answers = (1..).find(|_| limit.record_answer(now));
    assert_eq!((answers, limit.per_second()), (Some(62), 64.0));
    let mut refused = RateLimit::after_outage(now, now, 0);
    assert!(refused.record_refusal(0, 1, now.plus_seconds(1.0)));
    let second = now.plus_seconds(1.0);
    assert!((0..100).all(|_| !refused.record_answer(second)), "a refusal ends a slow start");
}

/// If the slot stayed taken, each call that was not made would delay the messages that wait for a slot.
#[test]
fn a_returned_slot_is_free_again() {
    let mut limited_key = Environment::default();
    let _ = limited_key.call("a", Refusal(None), 0.0);
    for (mut environment, key) in [(limited_key, "a"), (environment_with_limited_target(), "c")] {
        let request_call = |environment: &mut Environment, number| {
            environment.breaker.request_call(caller(key, number), Patience::Over, at_second(3.0))
        };
        let Permission::Call(permit) = request_call(&mut environment, 100) else { panic!("{key}: no slot") };
        assert!(matches!(request_call(&mut environment, 101), Permission::Hold(_)), "{key}: only one slot");
        environment.breaker.give_back(permit, at_second(3.0));
        assert!(matches!(request_call(&mut environment, 102), Permission::Call(_)), "{key}");
    }
}

/// A target that counts calls per second would refuse a burst.
#[test]
fn an_idle_minute_does_not_accumulate_slots() {
    let mut limited_key = Environment::default();
    let _ = limited_key.call("a", Refusal(None), 0.0);
    for (mut environment, [first, second]) in
        [(limited_key, ["a", "a"]), (environment_with_limited_target(), ["c", "d"])]
    {
        assert_eq!(environment.call(first, Fault, 60.0), Ok(None), "0.78 calls per second");
        assert!(environment.is_held(second, 60.0), "{second}");
        assert_eq!(environment.call(second, Fault, 61.3), Ok(None));
    }
}

/// If the time of the last decrease blocked further ones, refused calls would have no effect until the clock catches
/// up.
#[test]
fn refusals_lower_the_rate_even_if_the_clock_is_set_back() {
    let mut environment = Environment::default();
    assert_eq!(environment.call("a", Refusal(None), 3600.0), Ok(None));
    let overdue = environment.permit_overdue_call(caller("a", 100), 0.0);
    environment.breaker.record_outcome(overdue, Refusal(None), at_second(0.0));
    let lowered = 0.78 * 0.6;
    assert!((rate(&environment, "a") - lowered).abs() < 1e-4, "{}", rate(&environment, "a"));
}

/// If steps shorter than a moment were lost, all messages would be received every second, and most of them held again.
#[test]
fn holds_at_a_rate_above_100_per_second_keep_their_order() {
    let mut environment = Environment::default();
    (0..400).for_each(|_| assert_eq!(environment.call("a", Answer, 0.0), Ok(None)));
    assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
    assert!((rate(&environment, "a") - 312.0).abs() < 1e-3);
    // Calls use up the burst first. Their messages have failed before, so these calls are not evidence of an outage.
    let failed_caller = |number| Caller { failures: 1, ..caller("a", number) };
    let delays: Vec<_> = (0..3000)
        .filter_map(|number| environment.call_for(failed_caller(number), Fault, 1000.0).err())
        .map(|hold| hold.delay.as_secs_f64())
        .collect();
    for (number, delay) in (1_u32..).zip(&delays) {
        let place = (f64::from(number) / 312.0).max(1.0);
        assert!((delay - place).abs() <= 0.02, "{number}: {delay}, expected {place}");
    }
    assert!(delays.len() > 2900, "{}", delays.len());
}

/// A moment has four bytes. At its last value, time would stop, and a limited rate would have no further slots.
#[test]
fn a_process_that_runs_for_years_keeps_calling() {
    let mut environment = Environment::default();
    let years = 2.0 * 365.0 * 86_400.0;
    for seconds in [0.0, years, 2.0 * years] {
        assert_eq!(environment.call("a", Refusal(None), seconds), Ok(None));
        let called =
            (1..=600).filter(|later| environment.call("a", Answer, seconds + f64::from(*later)).is_ok());
        assert!(called.count() > 300, "{seconds}");
    }
}

#[test]
fn refusals_for_one_key_do_not_limit_other_keys() {
    let mut environment = Environment::default();
    for number in 0..600 {
        let seconds = f64::from(number) / 10.0;
        let _ = environment.call("limited", Refusal(None), seconds);
        assert_eq!(environment.call("healthy", Answer, seconds), Ok(None), "{seconds}");
    }
    assert!(environment.is_held("limited", 60.0));
}

#[test]
fn several_keys_refused_together_limit_the_target() {
    let mut environment = Environment::default();
    assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
    assert!(!environment.is_held("c", 0.5));
    assert_eq!(environment.call("b", Refusal(None), 1.5), Ok(None));
    assert!(environment.is_held("c", 1.6));
}

/// If refusals far apart limited the target, two tenants with separate limits would slow down all others, however
/// rarely they reach those limits.
#[test]
fn refusals_far_apart_limit_only_their_own_keys() {
    for (answers, seconds, is_limited) in
        [(20, 5.0, false), (19, 5.0, true), (20, 4.9, true), (0, 3600.0, true), (20, 3600.0, false)]
    {
        let mut environment = Environment::default();
        assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
        (0..answers).for_each(|_| assert_eq!(environment.call("healthy", Answer, 1.0), Ok(None)));
        assert_eq!(environment.call("b", Refusal(None), seconds), Ok(None));
        assert_eq!(environment.is_held("c", seconds), is_limited, "{answers} {seconds}");
    }
}

/// If only the rate limit held the key's messages, they would be received every second while the key is down.
#[test]
fn a_key_that_is_down_is_held_as_down_even_if_the_target_is_busy() {
    let mut environment = Environment::default();
    assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
    assert_eq!(environment.call("b", Refusal(None), 1.5), Ok(None));
    // The target's rate is limited now. Key `c` requests its call first each time, so it gets a slot.
    let mut seconds = 2.0;
    while environment.breaker.open_since(Some(CircuitKey::from_text("c"))).is_none() {
        let _ = environment.call("c", Fault, seconds);
        let _ = environment.call("healthy", Answer, seconds + 1.0);
        seconds += 4.0;
        assert!(seconds < 400.0, "the circuit never opens");
    }
    let opened = environment.breaker.open_since(Some(CircuitKey::from_text("c"))).unwrap();
    let later = opened + Duration::from_secs(90);
    let hold = environment.breaker.hold_after_call(caller("c", 1), Fault, later).unwrap();
    assert_eq!((hold.reason, hold.outage.since), (HoldReason::Down, opened));
}

#[test]
fn messages_wait_for_a_slot_while_others_run_or_in_a_new_batch() {
    let mut environment = Environment::default();
    let _ = environment.call("a", Refusal(None), 0.0);
    let _ = environment.call_for(caller_without_key(1), Refusal(None), 10.0);
    let mut request_call =
        |caller, patience| environment.breaker.request_call(caller, patience, at_second(10.1));
    assert_eq!(request_call(caller_without_key(2), Patience::OthersRun), Permission::Wait);
    assert_eq!(request_call(caller_without_key(2), Patience::NewBatch), Permission::Wait);
    assert!(matches!(request_call(caller_without_key(2), Patience::Over), Permission::Hold(_)));
}

/// All keys share the function's time.
#[test]
fn a_message_waits_for_its_keys_slot_only_while_others_run() {
    let mut environment = Environment::default();
    let _ = environment.call("a", Refusal(None), 10.0);
    let mut request_call =
        |patience| environment.breaker.request_call(caller("a", 2), patience, at_second(10.1));
    assert_eq!(request_call(Patience::OthersRun), Permission::Wait);
    assert!(matches!(request_call(Patience::NewBatch), Permission::Hold(_)));
}
