//! Tests of a breaker's calls to its target, and of the cost to messages.

mod rate;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use crate::testing::at;
use CallOutcome::{Answer, Fault, Refusal, Unavailable};

fn after(seconds: f64) -> Timestamp {
    at(0) + chrono::TimeDelta::milliseconds((seconds * 1000.0).round() as i64)
}

/// Message `number` of a key, at its first call.
fn caller(key: &str, number: u128) -> Caller {
    Caller {
        message_id: Uuid::from_u128(number << 64),
        key: Some(CircuitKey::from_text(key)),
        failures: 0,
        held_seconds: 0,
        calls_before: 0,
    }
}

/// An outage since then, with a run of first failures that suffices in a new environment.
fn outage(since: f64) -> Outage {
    Outage { since: after(since), first_failures: 10 }
}

fn without_key(number: u128) -> Caller {
    Caller { key: None, ..caller("", number) }
}

/// An environment whose calls take no time.
#[derive(Default)]
struct Environment {
    breaker: Breaker,
    messages: u128,
}

impl Environment {
    /// Requests a call for a new message of this key, with the outcome `met`.
    fn call(&mut self, key: &str, met: CallOutcome, seconds: f64) -> Result<Option<CircuitChange>, Hold> {
        self.messages += 1;
        self.call_for(caller(key, self.messages), met, seconds)
    }

    fn call_for(
        &mut self,
        caller: Caller,
        met: CallOutcome,
        seconds: f64,
    ) -> Result<Option<CircuitChange>, Hold> {
        match self.breaker.request_call(caller, Patience::Over, after(seconds)) {
            Permission::Call(permit) => Ok(self.breaker.record_outcome(permit, met, after(seconds))),
            Permission::Hold(hold) => Err(hold),
            Permission::Wait => panic!("a message whose patience is over does not wait"),
        }
    }

    /// The permit of a message at its hold limit.
    fn overdue(&mut self, caller: Caller, seconds: f64) -> Permit {
        match self.breaker.request_overdue_call(caller, Duration::ZERO, after(seconds)) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    /// Number of the key's calls until the circuit opens.
    fn calls_to_open(&mut self, key: &str) -> u32 {
        for calls in 1..1000 {
            if let Some(CircuitChange::Opened { .. }) = self.call(key, Fault, 0.0).unwrap() {
                return calls;
            }
        }
        panic!("a thousand outages in a row do not open it");
    }

    fn is_held(&mut self, key: &str, seconds: f64) -> bool {
        self.messages += 1;
        match self.breaker.request_call(caller(key, self.messages), Patience::Over, after(seconds)) {
            Permission::Call(permit) => {
                self.breaker.give_back(permit, after(seconds));
                false
            }
            Permission::Hold(_) => true,
            Permission::Wait => panic!("a message whose patience is over does not wait"),
        }
    }

    /// An environment where this key's circuit opened at 0.
    fn open(key: &str) -> Self {
        let mut environment = Self::default();
        assert_eq!(environment.calls_to_open(key), 10);
        environment
    }
}

mod evidence {
    use super::*;

    #[test]
    fn the_failures_that_open_a_circuit_depend_on_the_usual_failure_rate() {
        assert_eq!(Environment::default().calls_to_open("a"), 10, "not known");
        let mut good = Environment::default();
        (0..300).for_each(|_| assert_eq!(good.call("a", Answer, 0.0), Ok(None)));
        assert_eq!(good.calls_to_open("a"), 6, "one in twenty at most");
        let mut bad = Environment::default();
        for number in 0..600 {
            bad.call("a", if number % 2 == 0 { Fault } else { Answer }, 0.0).unwrap();
        }
        assert!((24..=27).contains(&bad.calls_to_open("a")), "half");
    }

    /// A day of calls, ten per second. Otherwise, messages would be held although every second call succeeds.
    #[test]
    fn a_target_that_fails_half_of_its_calls_for_a_day_is_not_down() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut environment = Environment::default();
        for number in 0..864_000 {
            let met = if random.next_u32() % 2 == 0 { Fault } else { Answer };
            assert_eq!(environment.call("a", met, f64::from(number) / 10.0), Ok(None), "call {number}");
        }
    }

    #[test]
    fn the_evidence_for_an_outage_does_not_depend_on_the_call_rate() {
        let mut environment = Environment::default();
        let changes: Vec<_> = (0..10)
            .filter_map(|minute| environment.call("a", Fault, f64::from(minute) * 60.0).unwrap())
            .collect();
        assert!(matches!(changes[..], [CircuitChange::Opened { outages: 10, .. }]), "{changes:?}");
    }

    /// Otherwise, after a blip in the morning, random failures would hold messages for the rest of the day.
    #[test]
    fn half_of_the_evidence_opens_a_circuit_within_a_minute_of_an_outage() {
        // Eleven of twelve calls failed, of its key and of the target as a whole.
        for (later, failures) in [(3.0, 50), (61.0, 99)] {
            let mut environment = Environment::open("a");
            let closed = environment.call("a", Answer, 6.0).unwrap();
            assert!(matches!(closed, Some(CircuitChange::Closed { probes: 1, .. })), "{closed:?}");
            // Each call waits until the slow start has a token for it.
            let mut changes = (0..120_u32)
                .map(|number| environment.call("a", Fault, 6.0 + later + f64::from(number)).unwrap());
            let calls = changes.position(|change| matches!(change, Some(CircuitChange::Opened { .. })));
            assert_eq!(calls, Some(failures - 1), "{later}");
        }
    }

    /// Otherwise, three messages that always fail, alone in a queue, would wait for a day.
    #[test]
    fn messages_that_failed_before_open_no_circuit() {
        let mut environment = Environment::default();
        for number in 0..100 {
            let again = Caller { failures: 1 + number, ..caller("a", number.into()) };
            assert_eq!(environment.call_for(again, Fault, 0.0), Ok(None));
        }
        assert_eq!(environment.calls_to_open("a"), 10, "nor do they count later");
    }

    #[test]
    fn an_outage_confirmed_only_by_failed_messages_ends_early() {
        let mut environment = Environment::open("a");
        let again = Caller { failures: 1, ..caller("a", 1) };
        let ask = |environment: &mut Environment, seconds| {
            environment.breaker.request_call(again, Patience::Over, after(seconds))
        };
        // Its failed probes confirm nothing.
        let mut seconds = 0.0;
        while seconds < 300.0 {
            match ask(&mut environment, seconds) {
                Permission::Call(permit) => {
                    assert!(permit.is_probe() && permit.may_be_held(Fault));
                    environment.breaker.record_outcome(permit, Fault, after(seconds));
                }
                other => assert!(matches!(other, Permission::Hold(_)), "{other:?}"),
            }
            seconds += 1.0;
        }
        let Permission::Call(permit) = ask(&mut environment, 300.0) else { panic!("it is held after 300 s") };
        assert!(!permit.may_be_held(Fault), "its failure spends an attempt");
        // A first call that fails confirms the outage.
        let mut confirmed = 301.0;
        while environment.call("a", Fault, confirmed).is_err() {
            confirmed += 1.0;
        }
        assert!(matches!(ask(&mut environment, confirmed + 1.0), Permission::Hold(_)));
        // Current for three times the period over which it was confirmed.
        let believed = 4.0 * confirmed;
        let is_probe =
            |permission| matches!(permission, Permission::Call(permit) if permit.may_be_held(Fault));
        assert!(is_probe(ask(&mut environment, believed - 0.1)));
        let later = ask(&mut environment, believed);
        assert!(matches!(&later, Permission::Call(permit) if !permit.may_be_held(Fault)), "{later:?}");
    }
}

mod keys {
    use super::*;

    #[test]
    fn an_outage_of_a_key_holds_no_other_key() {
        let mut environment = Environment::default();
        (0..10).for_each(|_| assert_eq!(environment.call("b", Answer, 0.0), Ok(None)));
        for number in 0..50 {
            let a = environment.call("a", Fault, 0.1);
            assert!(number < 20 || a.is_err(), "{number}: {a:?}");
        }
        (0..29).for_each(|_| assert_eq!(environment.call("b", Answer, 0.2), Ok(None)));
    }

    #[test]
    fn a_new_environment_holds_only_the_key_that_a_held_message_names() {
        let mut environment = Environment::default();
        environment.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            after(100.0),
            after(110.0),
        );
        let Permission::Call(probe) =
            environment.breaker.request_call(caller("a", 2), Patience::Over, after(110.0))
        else {
            panic!("the first message of a is a probe")
        };
        assert!(probe.is_probe());
        let waits = environment.breaker.request_call(caller("a", 3), Patience::Over, after(110.0));
        assert_eq!(waits, Permission::Wait, "for the probe");
        assert!(!environment.is_held("b", 110.0));
        environment.breaker.record_outcome(probe, Fault, after(110.3));
        assert!(environment.is_held("a", 110.4));
        assert!(!environment.is_held("b", 110.4));
    }

    /// Otherwise, each new environment would hold poison messages as if the outage had just been confirmed.
    #[test]
    fn a_report_confirms_the_outage_at_its_send_time() {
        for (arrives, is_believed) in [(399.0, true), (400.0, false)] {
            let mut environment = Environment::default();
            environment.breaker.apply_report(
                Some(CircuitKey::from_text("a")),
                outage(0.0),
                after(100.0),
                after(arrives),
            );
            let again = Caller { failures: 1, ..caller("a", 2) };
            match environment.breaker.request_call(again, Patience::Over, after(arrives)) {
                Permission::Call(permit) => assert_eq!(permit.may_be_held(Fault), is_believed, "{arrives}"),
                other => panic!("{arrives}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_report_of_too_few_failures_or_from_before_an_answer_opens_nothing() {
        let mut few = Environment::default();
        let nine = Outage { first_failures: 9, ..outage(0.0) };
        few.breaker.apply_report(Some(CircuitKey::from_text("a")), nine, after(1.0), after(2.0));
        assert_eq!(few.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        let opened = few.call("a", Fault, 3.0);
        assert!(
            matches!(opened, Ok(Some(CircuitChange::Opened { outages: 10, .. }))),
            "it continues to count: {opened:?}"
        );
        assert_eq!(
            few.breaker.open_since(Some(CircuitKey::from_text("a"))),
            Some(after(0.0)),
            "the outage's own beginning"
        );
        let mut answered = Environment::default();
        answered.call("b", Answer, 10.0).unwrap();
        answered.breaker.apply_report(Some(CircuitKey::from_text("a")), outage(0.0), after(9.0), after(39.9));
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        answered.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            after(39.0),
            after(40.1),
        );
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), Some(after(0.0)));
        // The last answer may have been for this key, which has no circuit before its first failure.
        let mut healthy = Environment::default();
        healthy.call("a", Answer, 10.0).unwrap();
        healthy.call("a", Fault, 20.0).unwrap();
        for reported in [9.0, 10.0] {
            healthy.breaker.apply_report(
                Some(CircuitKey::from_text("a")),
                outage(0.0),
                after(reported),
                after(100.0),
            );
            assert_eq!(healthy.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        }
        // Held before the target was found to be up again.
        answered.call("a", Answer, 40.2).unwrap();
        answered.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            after(40.0),
            after(100.0),
        );
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
    }

    #[test]
    fn several_keys_show_that_the_target_is_down_and_one_probe_stands_for_all() {
        let mut environment = Environment::default();
        let changes: Vec<_> =
            (0..10).map(|number| environment.call(["a", "b"][number % 2], Fault, 0.0).unwrap()).collect();
        assert_eq!(changes[..9], [None; 9]);
        assert!(matches!(changes[9], Some(CircuitChange::Opened { outages: 10, .. })), "{changes:?}");
        assert!(environment.is_held("c", 0.5));
        assert!(matches!(environment.call("c", Answer, 2.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(!environment.is_held("a", 3.0));
    }

    /// The key's `Retry-After` applies, and the outage holds the message at least as long as any other.
    #[test]
    fn messages_of_a_key_are_held_by_its_retry_after_and_the_outage() {
        for (held_seconds, least, most) in [(0, 290.0, 320.0), (1000, 365.0, 365.0)] {
            let mut environment = Environment::default();
            environment.call("a", Refusal(Some(Duration::from_secs(300))), 0.0).unwrap();
            let opens = |n: usize| environment.call(["b", "c"][n % 2], Fault, 10.0).unwrap().is_some();
            assert!((0..10).any(opens), "the target as a whole is down");
            let of = |key| Caller { held_seconds, ..caller(key, 99) };
            let Err(Hold { reason, delay, .. }) = environment.call_for(of("a"), Fault, 10.0) else {
                panic!("it is called")
            };
            assert_eq!(reason, HoldReason::Down);
            assert!((least..=most).contains(&delay.as_secs_f64()), "{delay:?}");
            let Err(other) = environment.call_for(of("b"), Fault, 10.0) else { panic!("it is called") };
            assert!(other.delay <= delay, "{other:?}");
        }
    }

    /// A burst of new keys must not fill the memory even if all were seen at the same time.
    #[test]
    fn keys_that_are_all_seen_at_one_moment_have_10_000_circuits_at_most() {
        let mut environment = Environment::default();
        let one = Outage { first_failures: 1, ..outage(0.0) };
        for number in 0..10_100 {
            environment.breaker.apply_report(
                Some(CircuitKey::from_text(&format!("{number}"))),
                one,
                after(1.0),
                after(2.0),
            );
        }
        assert_eq!(environment.breaker.keys.len(), 10_000);
    }

    /// A busy target is not down: its rate limit must not count as the start of a later outage.
    #[test]
    fn a_report_without_failures_opens_no_circuit() {
        let mut environment = Environment::default();
        let busy = Outage { first_failures: 0, ..outage(0.0) };
        environment.breaker.apply_report(Some(CircuitKey::from_text("a")), busy, after(100.0), after(110.0));
        assert_eq!((0..10).filter_map(|_| environment.call("a", Fault, 200.0).unwrap()).count(), 1);
        assert_eq!(environment.breaker.open_since(Some(CircuitKey::from_text("a"))), Some(after(200.0)));
    }

    #[test]
    fn messages_without_a_key_are_held_alone_like_a_key() {
        let mut environment = Environment::default();
        for number in 0..10 {
            environment.call_for(without_key(number), Fault, 0.0).unwrap();
        }
        let held = environment.call_for(without_key(11), Fault, 0.5);
        assert!(matches!(held, Err(Hold { reason: HoldReason::Down, .. })), "{held:?}");
        assert!(!environment.is_held("a", 0.5));
    }

    /// Producers choose the keys, so keys must not fill the memory.
    #[test]
    fn at_most_ten_thousand_keys_are_kept_and_the_oldest_go() {
        let mut environment = Environment::default();
        for number in 0..30_000 {
            environment.call(&number.to_string(), Fault, f64::from(number) / 100.0).unwrap();
            // An answer for another key, so that the target is not down.
            environment.call("healthy", Answer, f64::from(number) / 100.0).unwrap();
        }
        assert!(
            (9000..=10_000).contains(&environment.breaker.keys.len()),
            "{}",
            environment.breaker.keys.len()
        );
        assert!(
            environment.breaker.keys.allocated_bytes() <= 1 << 20,
            "{}",
            environment.breaker.keys.allocated_bytes()
        );
        assert!(environment.breaker.keys.get(Some(CircuitKey::from_text("29999"))).is_some());
        assert!(environment.breaker.keys.get(Some(CircuitKey::from_text("0"))).is_none());
    }

    /// Otherwise, after a burst of new keys, its messages would be called, and spend their attempts.
    #[test]
    fn a_key_that_is_down_survives_new_keys_while_its_messages_arrive() {
        let mut environment = Environment::open("down");
        for number in 0..30_000 {
            let seconds = f64::from(number) / 100.0;
            environment.call(&number.to_string(), Fault, seconds).unwrap();
            environment.call("healthy", Answer, seconds).unwrap();
            if number % 1000 == 0 {
                let _ = environment.call("down", Fault, seconds);
            }
        }
        assert_eq!(environment.breaker.open_since(Some(CircuitKey::from_text("down"))), Some(after(0.0)));
    }
}

mod open {
    use super::*;

    #[test]
    fn probe_intervals_grow_with_the_outages_age() {
        let mut environment = Environment::open("");
        let mut probes = Vec::new();
        for second in 0..7200 {
            let seconds = f64::from(second);
            match environment.call("", Fault, seconds) {
                Ok(_) => probes.push(second),
                Err(hold) => assert_eq!((hold.reason, hold.outage.since), (HoldReason::Down, after(0.0))),
            }
        }
        // One or two seconds apart, until thirty calls have failed.
        assert!(probes[..20].windows(2).all(|pair| (1..=2).contains(&(pair[1] - pair[0]))), "{probes:?}");
        let intervals: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            intervals.iter().rev().take(5).all(|interval| (450..=601).contains(interval)),
            "{intervals:?}"
        );
        assert!(probes.len() <= 45, "{}", probes.len());
    }

    #[test]
    fn holds_grow_with_the_time_that_the_message_was_held_before() {
        let mut environment = Environment::open("");
        let longest =
            [(0, 2.0), (2, 4.0), (20, 22.0), (100, 50.0), (600, 225.0), (2100, 750.0), (86_400, 750.0)];
        for (held_seconds, seconds) in longest {
            let held = Caller { held_seconds, ..caller("", 1) };
            let hold = environment.call_for(held, Fault, 0.5).unwrap_err();
            assert!((hold.delay.as_secs_f64() - seconds).abs() < 0.01, "{held_seconds}: {hold:?}");
        }
    }

    /// The messages have keys, but a single probe represents all of them.
    #[test]
    fn a_target_with_keys_is_probed_every_two_minutes_at_least() {
        let mut environment = Environment::default();
        (0..10).for_each(|number| assert!(environment.call(["a", "b"][number % 2], Fault, 0.0).is_ok()));
        let mut last = 0;
        for second in 1..7200 {
            if environment.call("c", Fault, f64::from(second)).is_ok() {
                assert!(second - last <= 121, "{last} to {second}");
                last = second;
            }
        }
    }

    #[test]
    fn a_target_without_keys_is_probed_every_two_minutes_at_least() {
        let mut environment = Environment::default();
        (0..10).for_each(|number| assert!(environment.call_for(without_key(number), Fault, 0.0).is_ok()));
        let mut last = 0;
        for second in 1..7200 {
            if environment.call_for(without_key(100), Fault, f64::from(second)).is_ok() {
                assert!(second - last <= 121, "{last} to {second}");
                last = second;
            }
        }
    }

    #[test]
    fn nothing_is_called_before_a_retry_after_is_over() {
        let mut environment = Environment::default();
        let refused = Refusal(Some(Duration::from_secs(800)));
        assert_eq!(environment.call("a", refused, 0.0), Ok(None));
        for second in 1..800 {
            let hold = environment.call("a", Answer, f64::from(second)).unwrap_err();
            let left = 800.0 - f64::from(second);
            let delay = hold.delay.as_secs_f64();
            assert!((left - 0.02..=left * 1.1 + 32.0).contains(&delay), "{second}: {hold:?}");
            assert_eq!(hold.reason, HoldReason::RateLimited);
        }
        assert_eq!(environment.call("b", Answer, 1.0), Ok(None), "the other keys do not wait");
        assert_eq!(environment.call("a", Answer, 801.0), Ok(None));
    }

    #[test]
    fn a_retry_after_of_the_targets_probe_counts_for_the_messages_of_all_keys() {
        let mut environment = Environment::default();
        (0..10).for_each(|number| assert!(environment.call(["a", "b"][number % 2], Fault, 0.0).is_ok()));
        let refused = Refusal(Some(Duration::from_secs(300)));
        let failed = environment.call("c", refused, 2.0);
        assert_eq!(failed, Ok(Some(CircuitChange::ProbeFailed { probe_in: Duration::from_secs(300) })));
        for second in [3_u32, 100, 301] {
            let hold = environment.call("d", Answer, f64::from(second)).unwrap_err();
            assert!(hold.delay >= Duration::from_secs((302 - second).into()), "{second}: {hold:?}");
        }
        assert!(matches!(environment.call("d", Answer, 302.0), Ok(Some(CircuitChange::Closed { .. }))));
    }

    /// A target with a `Retry-After` of a day is called again after 900 s; a meaningless value does not permit a call
    /// now.
    #[test]
    fn a_retry_after_counts_for_900_s_at_most() {
        for asked in [Duration::from_secs(86_400), Duration::MAX] {
            let mut environment = Environment::open("a");
            let failed = environment.call("a", Refusal(Some(asked)), 2.0);
            assert_eq!(failed, Ok(Some(CircuitChange::ProbeFailed { probe_in: Duration::from_secs(900) })));
            let hold = environment.call("a", Answer, 3.0).unwrap_err();
            assert_eq!(hold.delay, Duration::from_secs(900));
            assert!(matches!(environment.call("a", Answer, 902.0), Ok(Some(CircuitChange::Closed { .. }))));
        }
    }

    #[test]
    fn the_answer_to_an_earlier_call_does_not_end_a_retry_after() {
        let mut environment = Environment::default();
        let ask = |environment: &mut Environment, number| match environment.breaker.request_call(
            caller("a", number),
            Patience::Over,
            after(0.0),
        ) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        };
        let (earlier, refused) = (ask(&mut environment, 1), ask(&mut environment, 2));
        environment.breaker.record_outcome(refused, Refusal(Some(Duration::from_secs(60))), after(0.0));
        environment.breaker.record_outcome(earlier, Answer, after(1.0));
        assert!(environment.call("a", Answer, 1.0).unwrap_err().delay >= Duration::from_secs(59));
    }

    /// One tenant's quota must not hold all tenants after a blip.
    #[test]
    fn a_keys_retry_after_holds_no_other_key_when_the_target_goes_down() {
        let mut environment = Environment::default();
        (0..9).for_each(|number| assert_eq!(environment.call(["a", "b"][number % 2], Fault, 0.0), Ok(None)));
        let opened = environment.call("b", Refusal(Some(Duration::from_secs(600))), 0.0);
        assert!(matches!(opened, Ok(Some(CircuitChange::Opened { .. }))), "{opened:?}");
        assert!(environment.is_held("b", 10.0));
        assert!(matches!(environment.call("c", Answer, 10.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(environment.is_held("b", 599.0));
        assert_eq!(environment.call("b", Answer, 600.1), Ok(None));
    }

    /// For example, the body is too large: the target is up.
    #[test]
    fn a_retry_after_about_one_message_holds_that_message_alone() {
        let mut environment = Environment::default();
        let later = CallOutcome::Later(Duration::from_secs(900));
        for number in 1..=100 {
            assert_eq!(environment.call("a", later, 0.0), Ok(None), "{number}");
        }
        let hold = environment.breaker.hold_after_call(caller("a", 1), later, after(0.0)).unwrap();
        assert_eq!((hold.reason, hold.delay), (HoldReason::NotNow, Duration::from_secs(900)));
        assert_eq!(hold.outage, Outage { since: after(0.0), first_failures: 0 });
        // Limited by the message's own calls, since it may have waited for hours in an earlier outage.
        let waited = Caller { held_seconds: 3000, ..caller("a", 1) };
        let soon = CallOutcome::Later(Duration::from_secs(1));
        let hold = environment.breaker.hold_after_call(waited, soon, after(0.0)).unwrap();
        assert_eq!(hold.delay, Duration::from_secs(2));
        assert!(!environment.is_held("a", 0.0));
    }

    #[test]
    fn messages_at_their_hold_limit_wait_for_the_rate_within_their_grace() {
        let mut environment = Environment::default();
        assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
        let overdue = Caller { held_seconds: 86_400, ..caller("a", 2) };
        let mut ask = |grace, seconds| {
            environment.breaker.request_overdue_call(overdue, Duration::from_secs(grace), after(seconds))
        };
        let Permission::Hold(hold) = ask(900, 0.5) else { panic!("the rate is used up") };
        assert_eq!(hold.reason, HoldReason::RateLimited);
        assert!(matches!(ask(1, 0.5), Permission::Hold(hold) if hold.delay <= Duration::from_secs(1)));
        assert!(matches!(ask(0, 0.5), Permission::Call(_)), "its grace is over");
        let Permission::Call(permit) = ask(900, 30.0) else { panic!("there is a place") };
        environment.breaker.give_back(permit, after(30.0));
        let again = environment.breaker.request_overdue_call(overdue, Duration::from_secs(900), after(30.0));
        assert!(matches!(again, Permission::Call(_)), "a place that was not used is free again");
    }

    /// The target's circuit has not recorded it: this call was running when the target was found to be down.
    #[test]
    fn a_keys_retry_after_in_a_target_outage_stops_only_its_own_probe() {
        let mut environment = Environment::default();
        let Permission::Call(running) =
            environment.breaker.request_call(caller("a", 100), Patience::Over, after(0.0))
        else {
            panic!("it is closed")
        };
        (0..10).for_each(|number| assert!(environment.call(["b", "c"][number % 2], Fault, 0.0).is_ok()));
        environment.breaker.record_outcome(running, Refusal(Some(Duration::from_secs(800))), after(0.0));
        let failed_before = Caller { failures: 1, ..caller("a", 101) };
        for second in [1.0, 299.0, 301.0, 799.0] {
            assert!(environment.is_held("a", second), "{second}");
            let hold = environment.call_for(failed_before, Answer, second);
            assert!(hold.is_err(), "{second}: though nothing confirms the outage: {hold:?}");
        }
        assert!(matches!(environment.call("b", Answer, 799.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(environment.is_held("a", 799.0));
        assert_eq!(environment.call("a", Answer, 800.1), Ok(None));
    }

    #[test]
    fn a_message_at_its_hold_limit_waits_for_a_retry_after_too() {
        let mut environment = Environment::default();
        assert_eq!(environment.call("a", Refusal(Some(Duration::from_secs(800))), 0.0), Ok(None));
        let overdue = Caller { held_seconds: 86_400, ..caller("a", 2) };
        for (second, least, most) in [(1.0, 799.0, 879.0), (790.0, 10.0, 11.1), (799.9, 1.0, 1.1)] {
            let grace = Duration::from_secs(900);
            let asked = environment.breaker.request_overdue_call(overdue, grace, after(second));
            let Permission::Hold(hold) = asked else { panic!("the target said when") };
            assert!((least..=most).contains(&hold.delay.as_secs_f64()), "{second}: {hold:?}");
        }
        let grace = Duration::from_secs(60);
        let asked = environment.breaker.request_overdue_call(overdue, grace, after(1.0));
        assert!(matches!(asked, Permission::Hold(hold) if hold.delay == grace), "not for ever");
        let _: Permit = environment.overdue(overdue, 1.0);
        let _: Permit = environment.overdue(Caller { key: Some(CircuitKey::from_text("b")), ..overdue }, 1.0);
        let _: Permit = environment.overdue(overdue, 800.1);
    }

    #[test]
    fn a_clock_set_back_delays_probes_by_15_minutes_at_most() {
        let mut environment = Environment::open("a");
        for second in 1..3000 {
            let _ = environment.call("a", Fault, f64::from(second));
        }
        // Two hours back; the probe was due at 3000 s at the earliest.
        assert!(environment.is_held("a", -7200.0 + 3000.0));
        assert!(matches!(
            environment.call("a", Answer, -7200.0 + 3901.0),
            Ok(Some(CircuitChange::Closed { .. }))
        ));
    }

    #[test]
    fn a_clock_set_back_limits_a_retry_after_to_900_s() {
        let Breaker { mut clock, mut target, .. } = Breaker::default();
        target.record_retry_after(900.0, 1, clock.moment_at(after(0.0)));
        let mut must_wait = |seconds| target.must_wait(clock.moment_at(after(-7200.0 + seconds)));
        assert_eq!([0.0, 899.0, 901.0].map(&mut must_wait), [true, true, false]);
    }

    /// Otherwise, a poison message would be held until the clock reaches its earlier time.
    #[test]
    fn a_clock_set_back_does_not_prolong_an_unconfirmed_outage() {
        let mut environment = Environment::open("a");
        let back = -7200.0;
        assert!(environment.is_held("a", back));
        let again = Caller { failures: 1, ..caller("a", 1) };
        let mut ask =
            |seconds| environment.breaker.request_call(again, Patience::Over, after(back + seconds));
        assert!(matches!(ask(299.0), Permission::Hold(_)));
        assert!(matches!(ask(300.0), Permission::Call(permit) if !permit.may_be_held(Fault)));
    }

    #[test]
    fn a_probe_that_was_not_made_is_free_again() {
        let mut environment = Environment::open("a");
        let ask = |environment: &mut Environment| {
            environment.breaker.request_call(caller("a", 99), Patience::Over, after(2.0))
        };
        let Permission::Call(permit) = ask(&mut environment) else { panic!("no probe after two seconds") };
        assert_eq!(ask(&mut environment), Permission::Wait);
        environment.breaker.give_back(permit, after(2.0));
        assert!(matches!(ask(&mut environment), Permission::Call(_)));
    }

    /// Otherwise, two probes would run at once.
    #[test]
    fn a_probe_of_an_earlier_outage_that_was_not_made_frees_no_later_one() {
        let mut environment = Environment::open("a");
        let ask = |environment: &mut Environment, seconds| {
            environment.breaker.request_call(caller("a", 99), Patience::Over, after(seconds))
        };
        let Permission::Call(earlier) = ask(&mut environment, 2.0) else { panic!("no probe") };
        let overdue = environment.overdue(caller("a", 1), 2.0);
        assert!(
            environment.breaker.record_outcome(overdue, Answer, after(2.0)).is_some(),
            "the target is back"
        );
        let mut seconds = 3.0;
        while environment.breaker.open_since(Some(CircuitKey::from_text("a"))).is_none() {
            environment.call("a", Fault, seconds).unwrap();
            seconds += 1.0;
        }
        let Permission::Call(later) = ask(&mut environment, seconds + 1.0) else { panic!("no probe") };
        environment.breaker.give_back(earlier, after(seconds + 1.0));
        assert_eq!(ask(&mut environment, seconds + 1.0), Permission::Wait);
        environment.breaker.give_back(later, after(seconds + 1.0));
        assert!(matches!(ask(&mut environment, seconds + 1.0), Permission::Call(_)));
    }

    /// A queue with one message per hour has no other message for a probe.
    #[test]
    fn a_message_that_failed_before_is_a_probe_in_a_new_environment() {
        let mut environment = Environment::default();
        environment.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            after(40_000.0),
            after(40_750.0),
        );
        let again = Caller { failures: 5, held_seconds: 40_000, ..caller("a", 1) };
        assert!(matches!(
            environment.call_for(again, Answer, 40_750.0),
            Ok(Some(CircuitChange::Closed { .. }))
        ));
    }

    #[test]
    fn a_call_from_before_the_opening_changes_no_circuit() {
        let mut environment = Environment::default();
        let early = |environment: &mut Environment, number| match environment.breaker.request_call(
            caller("a", number),
            Patience::Over,
            after(0.0),
        ) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        };
        let (answered, failed) = (early(&mut environment, 100), early(&mut environment, 101));
        environment.calls_to_open("a");
        assert_eq!(environment.breaker.record_outcome(answered, Answer, after(0.5)), None);
        assert_eq!(environment.breaker.record_outcome(failed, Fault, after(0.5)), None);
        assert!(environment.is_held("a", 0.6));
    }

    #[test]
    fn an_overdue_call_is_made_and_its_answer_closes_the_circuit() {
        let mut environment = Environment::open("a");
        let failed = environment.overdue(caller("a", 1), 0.1);
        assert!(!failed.may_be_held(Fault));
        assert_eq!(environment.breaker.record_outcome(failed, Fault, after(0.1)), None);
        assert!(environment.is_held("a", 0.2));
        let answered = environment.overdue(caller("a", 1), 0.3);
        let closed = environment.breaker.record_outcome(answered, Answer, after(0.3));
        assert!(matches!(closed, Some(CircuitChange::Closed { probes: 0, .. })), "{closed:?}");
    }

    /// Each key may have a separate limit.
    #[test]
    fn no_probe_of_the_target_is_made_with_a_key_that_asked_for_a_delay() {
        let mut environment = Environment::default();
        for number in 0..10 {
            environment.call(["a", "b"][number % 2], Fault, 0.0).unwrap();
        }
        let overdue = environment.overdue(caller("a", 1), 0.5);
        environment.breaker.record_outcome(overdue, Refusal(Some(Duration::from_secs(800))), after(0.5));
        assert!(environment.is_held("a", 5.0));
        let probed = environment.call("b", Answer, 5.0);
        assert!(matches!(probed, Ok(Some(CircuitChange::Closed { .. }))), "{probed:?}");
    }

    #[test]
    fn a_fault_that_opened_the_circuit_is_held_with_it_and_nothing_else() {
        let mut environment = Environment::default();
        assert_eq!(environment.breaker.hold_after_call(caller("a", 1), Fault, after(0.0)), None);
        environment.calls_to_open("a");
        let hold = environment.breaker.hold_after_call(caller("a", 1), Fault, after(0.0)).unwrap();
        assert_eq!((hold.reason, hold.outage), (HoldReason::Down, outage(0.0)));
        assert_eq!(environment.breaker.hold_after_call(caller("b", 1), Fault, after(0.0)), None);
    }
}

/// Calls that ended in "not now" or another failure.
mod failed_calls {
    use super::*;

    fn delay(environment: &mut Environment, caller: Caller, met: CallOutcome) -> Option<f64> {
        environment.breaker.hold_after_call(caller, met, after(0.0)).map(|hold| hold.delay.as_secs_f64())
    }

    /// Otherwise, a queue with one message per hour would lose every message in an outage.
    #[test]
    fn not_now_is_held_from_the_first_call_on_in_any_environment() {
        for failures in [0, 1, 1000] {
            let caller = Caller { failures, ..caller("a", 1) };
            for met in [Unavailable, Refusal(None)] {
                assert!(delay(&mut Environment::default(), caller, met).is_some(), "{met:?}");
            }
            assert_eq!(delay(&mut Environment::default(), caller, Fault), None);
        }
        let hold =
            Environment::default().breaker.hold_after_call(caller("a", 1), Unavailable, after(7.0)).unwrap();
        assert_eq!((hold.reason, hold.outage.since), (HoldReason::NotNow, after(7.0)));
    }

    /// The message has waited for hours in a past outage, and its call fails at random.
    #[test]
    fn a_called_message_is_held_by_the_number_of_its_own_calls() {
        let mut environment = Environment::default();
        for (calls_before, longest) in [(0, 2.0), (1, 6.0), (2, 18.0), (5, 486.0), (6, 750.0)] {
            let caller = Caller { calls_before, held_seconds: 40_000, ..caller("a", 1) };
            let held = delay(&mut environment, caller, Unavailable).unwrap();
            assert!((held - longest).abs() < 0.01, "{calls_before}: {held}");
        }
        let young = Caller { calls_before: 5, held_seconds: 10, ..caller("a", 1) };
        assert_eq!(delay(&mut environment, young, Unavailable), Some(12.0));
    }

    #[test]
    fn a_first_fault_within_a_minute_of_an_outage_is_held() {
        let mut environment = Environment::open("a");
        environment.call("a", Answer, 2.0).unwrap();
        let hold = |environment: &mut Environment, failures, seconds| {
            environment.breaker.hold_after_call(Caller { failures, ..caller("a", 1) }, Fault, after(seconds))
        };
        assert!(hold(&mut environment, 0, 61.9).is_some());
        assert_eq!(hold(&mut environment, 1, 61.9), None, "it may be the message's own fault");
        assert_eq!(hold(&mut environment, 0, 62.1), None);
    }

    /// Otherwise, the breaker would remain open for a target that fails most of its calls.
    #[test]
    fn the_first_failures_of_an_outage_may_have_been_chance() {
        let mut environment = Environment::open("a");
        for second in [2.0, 4.0, 6.0] {
            environment.call("a", Fault, second).unwrap();
        }
        environment.call("a", Answer, 8.0).unwrap();
        // Twelve of 13 calls failed, and one of six in the prior.
        let share =
            environment.breaker.keys.get(Some(CircuitKey::from_text("a"))).unwrap().evidence.failure_share();
        assert!((share - (12.0 + 1.0) / (13.0 + 6.0)).abs() < 1e-6, "{share}");
    }
}

proptest! {
    /// No message starves: regardless of the past, a target that answers receives every message within a few minutes.
    #[test]
    fn a_target_that_is_back_is_called_again(
        trouble in prop::collection::vec((0..4_u8, 0..3_u8, 0..60_u8), 1..200),
    ) {
        let mut environment = Environment::default();
        let mut seconds = 0.0;
        for (met, key, later) in trouble {
            seconds += f64::from(later) / 4.0;
            let met = [Answer, Fault, Refusal(None), Refusal(Some(Duration::from_secs(30)))][usize::from(met)];
            let _ = environment.call(["a", "b", "c"][usize::from(key)], met, seconds);
        }
        let age = seconds;
        for key in ["a", "b", "c"] {
            let mut waited = 0.0;
            while let Err(hold) = environment.call(key, Answer, seconds + waited) {
                waited += hold.delay.as_secs_f64().ceil();
                prop_assert!(waited <= 2.0 * age + 60.0, "{key}: {waited} after {age}");
            }
        }
    }

    /// A target that answers every call is never limited.
    #[test]
    fn answers_alone_open_no_circuit(keys in prop::collection::vec(0..5_u8, 1..100)) {
        let mut environment = Environment::default();
        for (second, key) in keys.iter().enumerate() {
            let second = u32::try_from(second).unwrap();
            prop_assert_eq!(environment.call(&key.to_string(), Answer, f64::from(second) / 50.0), Ok(None));
        }
    }
}
