//! Tests which calls a breaker permits, and how long it holds messages.

mod rate;

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use crate::testing::at;
use CallOutcome::{Answer, Fault, Refusal, Unavailable};

fn at_second(seconds: f64) -> Timestamp {
    at(0) + chrono::TimeDelta::milliseconds((seconds * 1000.0).round() as i64)
}

/// Returns the caller for message `number` of this key, on its first call.
fn caller(key: &str, number: u128) -> Caller {
    Caller {
        message_id: Uuid::from_u128(number << 64),
        key: Some(CircuitKey::from_text(key)),
        failures: 0,
        held_seconds: 0,
        calls_before: 0,
    }
}

/// Returns an outage that started at `since`, with enough first failures to open the circuit in a new environment.
fn outage(since: f64) -> Outage {
    Outage { since: at_second(since), first_failures: 10 }
}

fn caller_without_key(number: u128) -> Caller {
    Caller { key: None, ..caller("", number) }
}

/// An environment whose calls take no time.
#[derive(Default)]
struct Environment {
    breaker: Breaker,
    messages: u128,
}

impl Environment {
    /// Requests a call for a new message of this key, and records its outcome.
    fn call(&mut self, key: &str, outcome: CallOutcome, seconds: f64) -> Result<Option<CircuitChange>, Hold> {
        self.messages += 1;
        self.call_for(caller(key, self.messages), outcome, seconds)
    }

    fn call_for(
        &mut self,
        caller: Caller,
        outcome: CallOutcome,
        seconds: f64,
    ) -> Result<Option<CircuitChange>, Hold> {
        match self.breaker.request_call(caller, Patience::Over, at_second(seconds)) {
            Permission::Call(permit) => Ok(self.breaker.record_outcome(permit, outcome, at_second(seconds))),
            Permission::Hold(hold) => Err(hold),
            Permission::Wait => panic!("a message without patience must not wait"),
        }
    }

    /// Returns the permit for a message at its hold limit.
    fn permit_overdue_call(&mut self, caller: Caller, seconds: f64) -> Permit {
        match self.breaker.request_overdue_call(caller, Duration::ZERO, at_second(seconds)) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    /// Counts the key's calls until the circuit opens.
    fn count_calls_to_open(&mut self, key: &str) -> u32 {
        for calls in 1..1000 {
            if let Some(CircuitChange::Opened { .. }) = self.call(key, Fault, 0.0).unwrap() {
                return calls;
            }
        }
        panic!("a thousand outages in a row do not open the circuit");
    }

    fn is_held(&mut self, key: &str, seconds: f64) -> bool {
        self.messages += 1;
        match self.breaker.request_call(caller(key, self.messages), Patience::Over, at_second(seconds)) {
            Permission::Call(permit) => {
                self.breaker.give_back(permit, at_second(seconds));
                false
            }
            Permission::Hold(_) => true,
            Permission::Wait => panic!("a message without patience must not wait"),
        }
    }

    /// Creates an environment where this key's circuit opened at second 0.
    fn with_open_circuit(key: &str) -> Self {
        let mut environment = Self::default();
        assert_eq!(environment.count_calls_to_open(key), 10);
        environment
    }
}

mod evidence {
    use super::*;

    #[test]
    fn the_failures_needed_to_open_a_circuit_depend_on_the_usual_failure_rate() {
        assert_eq!(Environment::default().count_calls_to_open("a"), 10, "unknown target");
        let mut good = Environment::default();
        (0..300).for_each(|_| assert_eq!(good.call("a", Answer, 0.0), Ok(None)));
        assert_eq!(good.count_calls_to_open("a"), 6, "at most one in twenty");
        let mut bad = Environment::default();
        for number in 0..600 {
            bad.call("a", if number % 2 == 0 { Fault } else { Answer }, 0.0).unwrap();
        }
        assert!((24..=27).contains(&bad.count_calls_to_open("a")), "one in two");
    }

    /// A day of calls, ten per second. If the breaker opened, messages would be held although half of the calls
    /// succeed.
    #[test]
    fn a_day_of_calls_that_fail_half_the_time_does_not_open_a_circuit() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut environment = Environment::default();
        for number in 0..864_000 {
            let outcome = if random.next_u32() % 2 == 0 { Fault } else { Answer };
            assert_eq!(environment.call("a", outcome, f64::from(number) / 10.0), Ok(None), "call {number}");
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

    /// If the lower threshold lasted longer, random failures would hold messages for the rest of the day after a blip
    /// in the morning.
    #[test]
    fn half_the_evidence_suffices_within_a_minute_of_an_outage() {
        // For the key and for the target as a whole, eleven of twelve calls failed.
        for (later, failures) in [(3.0, 50), (61.0, 99)] {
            let mut environment = Environment::with_open_circuit("a");
            let closed = environment.call("a", Answer, 6.0).unwrap();
            assert!(matches!(closed, Some(CircuitChange::Closed { probes: 1, .. })), "{closed:?}");
            // Each call waits until the slow start has a token for it.
            let mut changes = (0..120_u32)
                .map(|number| environment.call("a", Fault, 6.0 + later + f64::from(number)).unwrap());
            let calls = changes.position(|change| matches!(change, Some(CircuitChange::Opened { .. })));
            assert_eq!(calls, Some(failures - 1), "{later}");
        }
    }

    /// If previously failed messages opened a circuit, three messages that always fail and are alone in their queue
    /// would be held for a day.
    #[test]
    fn previously_failed_messages_do_not_open_a_circuit() {
        let mut environment = Environment::default();
        for number in 0..100 {
            let failed_caller = Caller { failures: 1 + number, ..caller("a", number.into()) };
            assert_eq!(environment.call_for(failed_caller, Fault, 0.0), Ok(None));
        }
        assert_eq!(environment.count_calls_to_open("a"), 10, "they do not count later either");
    }

    #[test]
    fn an_outage_confirmed_only_by_previously_failed_messages_ends_early() {
        let mut environment = Environment::with_open_circuit("a");
        let failed_caller = Caller { failures: 1, ..caller("a", 1) };
        let request_call = |environment: &mut Environment, seconds| {
            environment.breaker.request_call(failed_caller, Patience::Over, at_second(seconds))
        };
        // Failed probes with this message confirm nothing.
        let mut seconds = 0.0;
        while seconds < 300.0 {
            match request_call(&mut environment, seconds) {
                Permission::Call(permit) => {
                    assert!(permit.is_probe() && permit.may_be_held(Fault));
                    environment.breaker.record_outcome(permit, Fault, at_second(seconds));
                }
                other => assert!(matches!(other, Permission::Hold(_)), "{other:?}"),
            }
            seconds += 1.0;
        }
        let Permission::Call(permit) = request_call(&mut environment, 300.0) else {
            panic!("still held after 300 s")
        };
        assert!(!permit.may_be_held(Fault), "its failure spends an attempt");
        // A failed first call confirms the outage.
        let mut confirmed = 301.0;
        while environment.call("a", Fault, confirmed).is_err() {
            confirmed += 1.0;
        }
        assert!(matches!(request_call(&mut environment, confirmed + 1.0), Permission::Hold(_)));
        // The outage counts as current for three times the period over which it was confirmed.
        let current_until = 4.0 * confirmed;
        let is_probe =
            |permission| matches!(permission, Permission::Call(permit) if permit.may_be_held(Fault));
        assert!(is_probe(request_call(&mut environment, current_until - 0.1)));
        let later = request_call(&mut environment, current_until);
        assert!(matches!(&later, Permission::Call(permit) if !permit.may_be_held(Fault)), "{later:?}");
    }
}

mod keys {
    use super::*;

    #[test]
    fn an_outage_of_one_key_does_not_hold_other_keys() {
        let mut environment = Environment::default();
        (0..10).for_each(|_| assert_eq!(environment.call("b", Answer, 0.0), Ok(None)));
        for number in 0..50 {
            let a = environment.call("a", Fault, 0.1);
            assert!(number < 20 || a.is_err(), "{number}: {a:?}");
        }
        (0..29).for_each(|_| assert_eq!(environment.call("b", Answer, 0.2), Ok(None)));
    }

    #[test]
    fn a_new_environment_holds_only_the_key_of_the_held_message() {
        let mut environment = Environment::default();
        environment.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            at_second(100.0),
            at_second(110.0),
        );
        let Permission::Call(probe) =
            environment.breaker.request_call(caller("a", 2), Patience::Over, at_second(110.0))
        else {
            panic!("the first message of key a must be a probe")
        };
        assert!(probe.is_probe());
        let waits = environment.breaker.request_call(caller("a", 3), Patience::Over, at_second(110.0));
        assert_eq!(waits, Permission::Wait, "waits for the probe");
        assert!(!environment.is_held("b", 110.0));
        environment.breaker.record_outcome(probe, Fault, at_second(110.3));
        assert!(environment.is_held("a", 110.4));
        assert!(!environment.is_held("b", 110.4));
    }

    /// If receiving the report confirmed the outage, each new environment would hold poison messages again.
    #[test]
    fn a_report_confirms_the_outage_as_of_its_send_time() {
        for (arrives, is_believed) in [(399.0, true), (400.0, false)] {
            let mut environment = Environment::default();
            environment.breaker.apply_report(
                Some(CircuitKey::from_text("a")),
                outage(0.0),
                at_second(100.0),
                at_second(arrives),
            );
            let failed_caller = Caller { failures: 1, ..caller("a", 2) };
            match environment.breaker.request_call(failed_caller, Patience::Over, at_second(arrives)) {
                Permission::Call(permit) => assert_eq!(permit.may_be_held(Fault), is_believed, "{arrives}"),
                other => panic!("{arrives}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_weak_or_outdated_report_does_not_open_a_circuit() {
        let mut few = Environment::default();
        let nine = Outage { first_failures: 9, ..outage(0.0) };
        few.breaker.apply_report(Some(CircuitKey::from_text("a")), nine, at_second(1.0), at_second(2.0));
        assert_eq!(few.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        let opened = few.call("a", Fault, 3.0);
        assert!(
            matches!(opened, Ok(Some(CircuitChange::Opened { outages: 10, .. }))),
            "counting continues: {opened:?}"
        );
        assert_eq!(
            few.breaker.open_since(Some(CircuitKey::from_text("a"))),
            Some(at_second(0.0)),
            "the start of the reported outage"
        );
        let mut answered = Environment::default();
        answered.call("b", Answer, 10.0).unwrap();
        answered.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            at_second(9.0),
            at_second(39.9),
        );
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        answered.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            at_second(39.0),
            at_second(40.1),
        );
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), Some(at_second(0.0)));
        // The last answer may have been for this key, which has no circuit before its first failure.
        let mut healthy = Environment::default();
        healthy.call("a", Answer, 10.0).unwrap();
        healthy.call("a", Fault, 20.0).unwrap();
        for reported in [9.0, 10.0] {
            healthy.breaker.apply_report(
                Some(CircuitKey::from_text("a")),
                outage(0.0),
                at_second(reported),
                at_second(100.0),
            );
            assert_eq!(healthy.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
        }
        // The message was held before the target was found to be up again.
        answered.call("a", Answer, 40.2).unwrap();
        answered.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            at_second(40.0),
            at_second(100.0),
        );
        assert_eq!(answered.breaker.open_since(Some(CircuitKey::from_text("a"))), None);
    }

    #[test]
    fn failures_across_keys_open_the_targets_circuit_and_one_probe_closes_it() {
        let mut environment = Environment::default();
        let changes: Vec<_> =
            (0..10).map(|number| environment.call(["a", "b"][number % 2], Fault, 0.0).unwrap()).collect();
        assert_eq!(changes[..9], [None; 9]);
        assert!(matches!(changes[9], Some(CircuitChange::Opened { outages: 10, .. })), "{changes:?}");
        assert!(environment.is_held("c", 0.5));
        assert!(matches!(environment.call("c", Answer, 2.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(!environment.is_held("a", 3.0));
    }

    /// The key's `Retry-After` applies, and the outage holds the message at least as long as it holds any other
    /// message.
    #[test]
    fn a_key_is_held_by_both_its_retry_after_and_the_outage() {
        for (held_seconds, least, most) in [(0, 290.0, 320.0), (1000, 365.0, 365.0)] {
            let mut environment = Environment::default();
            environment.call("a", Refusal(Some(Duration::from_secs(300))), 0.0).unwrap();
            let opens = |n: usize| environment.call(["b", "c"][n % 2], Fault, 10.0).unwrap().is_some();
            assert!((0..10).any(opens), "the target's circuit must open");
            let held_caller = |key| Caller { held_seconds, ..caller(key, 99) };
            let Err(Hold { reason, delay, .. }) = environment.call_for(held_caller("a"), Fault, 10.0) else {
                panic!("must be held")
            };
            assert_eq!(reason, HoldReason::Down);
            assert!((least..=most).contains(&delay.as_secs_f64()), "{delay:?}");
            let Err(other) = environment.call_for(held_caller("b"), Fault, 10.0) else {
                panic!("must be held")
            };
            assert!(other.delay <= delay, "{other:?}");
        }
    }

    /// A burst of new keys must not fill the memory, even if all keys were seen at the same time.
    #[test]
    fn keys_seen_at_the_same_moment_have_at_most_10_000_circuits() {
        let mut environment = Environment::default();
        let one = Outage { first_failures: 1, ..outage(0.0) };
        for number in 0..10_100 {
            environment.breaker.apply_report(
                Some(CircuitKey::from_text(&format!("{number}"))),
                one,
                at_second(1.0),
                at_second(2.0),
            );
        }
        assert_eq!(environment.breaker.keys.len(), 10_000);
    }

    /// A busy target is not down: its rate limit must not count as the start of a later outage.
    #[test]
    fn a_report_without_failures_does_not_open_a_circuit() {
        let mut environment = Environment::default();
        let busy = Outage { first_failures: 0, ..outage(0.0) };
        environment.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            busy,
            at_second(100.0),
            at_second(110.0),
        );
        assert_eq!((0..10).filter_map(|_| environment.call("a", Fault, 200.0).unwrap()).count(), 1);
        assert_eq!(environment.breaker.open_since(Some(CircuitKey::from_text("a"))), Some(at_second(200.0)));
    }

    #[test]
    fn messages_without_a_key_have_their_own_circuit() {
        let mut environment = Environment::default();
        for number in 0..10 {
            environment.call_for(caller_without_key(number), Fault, 0.0).unwrap();
        }
        let held = environment.call_for(caller_without_key(11), Fault, 0.5);
        assert!(matches!(held, Err(Hold { reason: HoldReason::Down, .. })), "{held:?}");
        assert!(!environment.is_held("a", 0.5));
    }

    /// Producers choose the keys, so keys must not fill the memory.
    #[test]
    fn beyond_ten_thousand_keys_the_oldest_are_dropped() {
        let mut environment = Environment::default();
        for number in 0..30_000 {
            environment.call(&number.to_string(), Fault, f64::from(number) / 100.0).unwrap();
            // Calls for another key are answered, so the target is not down.
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

    /// If a burst of new keys evicted the circuit, the target would be called for the key's messages, and they would
    /// spend their attempts.
    #[test]
    fn a_key_that_is_down_is_kept_while_its_messages_arrive() {
        let mut environment = Environment::with_open_circuit("down");
        for number in 0..30_000 {
            let seconds = f64::from(number) / 100.0;
            environment.call(&number.to_string(), Fault, seconds).unwrap();
            environment.call("healthy", Answer, seconds).unwrap();
            if number % 1000 == 0 {
                let _ = environment.call("down", Fault, seconds);
            }
        }
        assert_eq!(environment.breaker.open_since(Some(CircuitKey::from_text("down"))), Some(at_second(0.0)));
    }
}

mod open {
    use super::*;

    #[test]
    fn probe_intervals_grow_with_the_outages_age() {
        let mut environment = Environment::with_open_circuit("");
        let mut probes = Vec::new();
        for second in 0..7200 {
            let seconds = f64::from(second);
            match environment.call("", Fault, seconds) {
                Ok(_) => probes.push(second),
                Err(hold) => assert_eq!((hold.reason, hold.outage.since), (HoldReason::Down, at_second(0.0))),
            }
        }
        // Probes are one or two seconds apart until thirty calls have failed.
        assert!(probes[..20].windows(2).all(|pair| (1..=2).contains(&(pair[1] - pair[0]))), "{probes:?}");
        let intervals: Vec<_> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            intervals.iter().rev().take(5).all(|interval| (450..=601).contains(interval)),
            "{intervals:?}"
        );
        assert!(probes.len() <= 45, "{}", probes.len());
    }

    #[test]
    fn holds_grow_with_the_messages_total_held_time() {
        let mut environment = Environment::with_open_circuit("");
        let longest =
            [(0, 2.0), (2, 4.0), (20, 22.0), (100, 50.0), (600, 225.0), (2100, 750.0), (86_400, 750.0)];
        for (held_seconds, seconds) in longest {
            let held = Caller { held_seconds, ..caller("", 1) };
            let hold = environment.call_for(held, Fault, 0.5).unwrap_err();
            assert!((hold.delay.as_secs_f64() - seconds).abs() < 0.01, "{held_seconds}: {hold:?}");
        }
    }

    /// The messages have keys, but a single probe represents all keys.
    #[test]
    fn a_target_with_keys_is_probed_at_least_every_two_minutes() {
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
    fn a_target_without_keys_is_probed_at_least_every_two_minutes() {
        let mut environment = Environment::default();
        (0..10)
            .for_each(|number| assert!(environment.call_for(caller_without_key(number), Fault, 0.0).is_ok()));
        let mut last = 0;
        for second in 1..7200 {
            if environment.call_for(caller_without_key(100), Fault, f64::from(second)).is_ok() {
                assert!(second - last <= 121, "{last} to {second}");
                last = second;
            }
        }
    }

    #[test]
    fn no_call_is_made_until_a_retry_after_ends() {
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
        assert_eq!(environment.call("b", Answer, 1.0), Ok(None), "other keys do not wait");
        assert_eq!(environment.call("a", Answer, 801.0), Ok(None));
    }

    #[test]
    fn a_retry_after_from_a_target_probe_holds_all_keys() {
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

    /// A target that sends a `Retry-After` of a day is called again after 900 s. A meaningless value does not permit an
    /// immediate call.
    #[test]
    fn a_retry_after_is_limited_to_900_s() {
        for requested in [Duration::from_secs(86_400), Duration::MAX] {
            let mut environment = Environment::with_open_circuit("a");
            let failed = environment.call("a", Refusal(Some(requested)), 2.0);
            assert_eq!(failed, Ok(Some(CircuitChange::ProbeFailed { probe_in: Duration::from_secs(900) })));
            let hold = environment.call("a", Answer, 3.0).unwrap_err();
            assert_eq!(hold.delay, Duration::from_secs(900));
            assert!(matches!(environment.call("a", Answer, 902.0), Ok(Some(CircuitChange::Closed { .. }))));
        }
    }

    #[test]
    fn the_answer_to_an_earlier_call_does_not_end_a_retry_after() {
        let mut environment = Environment::default();
        let request_call = |environment: &mut Environment, number| match environment.breaker.request_call(
            caller("a", number),
            Patience::Over,
            at_second(0.0),
        ) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        };
        let (earlier, refused) = (request_call(&mut environment, 1), request_call(&mut environment, 2));
        environment.breaker.record_outcome(refused, Refusal(Some(Duration::from_secs(60))), at_second(0.0));
        environment.breaker.record_outcome(earlier, Answer, at_second(1.0));
        assert!(environment.call("a", Answer, 1.0).unwrap_err().delay >= Duration::from_secs(59));
    }

    /// One tenant's quota must not hold all tenants after a blip.
    #[test]
    fn a_keys_retry_after_does_not_hold_other_keys_when_the_target_goes_down() {
        let mut environment = Environment::default();
        (0..9).for_each(|number| assert_eq!(environment.call(["a", "b"][number % 2], Fault, 0.0), Ok(None)));
        let opened = environment.call("b", Refusal(Some(Duration::from_secs(600))), 0.0);
        assert!(matches!(opened, Ok(Some(CircuitChange::Opened { .. }))), "{opened:?}");
        assert!(environment.is_held("b", 10.0));
        assert!(matches!(environment.call("c", Answer, 10.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(environment.is_held("b", 599.0));
        assert_eq!(environment.call("b", Answer, 600.1), Ok(None));
    }

    /// The target is up, but this message's body may be too large, for example.
    #[test]
    fn a_retry_after_for_one_message_holds_only_that_message() {
        let mut environment = Environment::default();
        let later = CallOutcome::Later(Duration::from_secs(900));
        for number in 1..=100 {
            assert_eq!(environment.call("a", later, 0.0), Ok(None), "{number}");
        }
        let hold = environment.breaker.hold_after_call(caller("a", 1), later, at_second(0.0)).unwrap();
        assert_eq!((hold.reason, hold.delay), (HoldReason::NotNow, Duration::from_secs(900)));
        assert_eq!(hold.outage, Outage { since: at_second(0.0), first_failures: 0 });
        // The message's own calls limit the hold, since it may have waited for hours in an earlier outage.
        let waited = Caller { held_seconds: 3000, ..caller("a", 1) };
        let soon = CallOutcome::Later(Duration::from_secs(1));
        let hold = environment.breaker.hold_after_call(waited, soon, at_second(0.0)).unwrap();
        assert_eq!(hold.delay, Duration::from_secs(2));
        assert!(!environment.is_held("a", 0.0));
    }

    #[test]
    fn messages_at_their_hold_limit_wait_for_a_slot_during_a_grace_period() {
        let mut environment = Environment::default();
        assert_eq!(environment.call("a", Refusal(None), 0.0), Ok(None));
        let overdue = Caller { held_seconds: 86_400, ..caller("a", 2) };
        let mut request_call = |grace, seconds| {
            environment.breaker.request_overdue_call(overdue, Duration::from_secs(grace), at_second(seconds))
        };
        let Permission::Hold(hold) = request_call(900, 0.5) else { panic!("the rate must be used up") };
        assert_eq!(hold.reason, HoldReason::RateLimited);
        assert!(
            matches!(request_call(1, 0.5), Permission::Hold(hold) if hold.delay <= Duration::from_secs(1))
        );
        assert!(matches!(request_call(0, 0.5), Permission::Call(_)), "the grace is used up");
        let Permission::Call(permit) = request_call(900, 30.0) else { panic!("a slot must be free") };
        environment.breaker.give_back(permit, at_second(30.0));
        let permission =
            environment.breaker.request_overdue_call(overdue, Duration::from_secs(900), at_second(30.0));
        assert!(matches!(permission, Permission::Call(_)), "a returned slot is free again");
    }

    /// The `Retry-After` is not recorded in the target's circuit, because this call was running when the target was
    /// found to be down.
    #[test]
    fn a_keys_retry_after_in_a_target_outage_prevents_only_its_own_probes() {
        let mut environment = Environment::default();
        let Permission::Call(running) =
            environment.breaker.request_call(caller("a", 100), Patience::Over, at_second(0.0))
        else {
            panic!("the circuit must be closed")
        };
        (0..10).for_each(|number| assert!(environment.call(["b", "c"][number % 2], Fault, 0.0).is_ok()));
        environment.breaker.record_outcome(running, Refusal(Some(Duration::from_secs(800))), at_second(0.0));
        let failed_before = Caller { failures: 1, ..caller("a", 101) };
        for second in [1.0, 299.0, 301.0, 799.0] {
            assert!(environment.is_held("a", second), "{second}");
            let hold = environment.call_for(failed_before, Answer, second);
            assert!(hold.is_err(), "{second}: held even without a confirmation: {hold:?}");
        }
        assert!(matches!(environment.call("b", Answer, 799.0), Ok(Some(CircuitChange::Closed { .. }))));
        assert!(environment.is_held("a", 799.0));
        assert_eq!(environment.call("a", Answer, 800.1), Ok(None));
    }

    #[test]
    fn a_message_at_its_hold_limit_also_waits_for_a_retry_after() {
        let mut environment = Environment::default();
        assert_eq!(environment.call("a", Refusal(Some(Duration::from_secs(800))), 0.0), Ok(None));
        let overdue = Caller { held_seconds: 86_400, ..caller("a", 2) };
        for (second, least, most) in [(1.0, 799.0, 879.0), (790.0, 10.0, 11.1), (799.9, 1.0, 1.1)] {
            let grace = Duration::from_secs(900);
            let permission = environment.breaker.request_overdue_call(overdue, grace, at_second(second));
            let Permission::Hold(hold) = permission else {
                panic!("the `Retry-After` must hold the message")
            };
            assert!((least..=most).contains(&hold.delay.as_secs_f64()), "{second}: {hold:?}");
        }
        let grace = Duration::from_secs(60);
        let permission = environment.breaker.request_overdue_call(overdue, grace, at_second(1.0));
        assert!(matches!(permission, Permission::Hold(hold) if hold.delay == grace), "at most the grace");
        let _: Permit = environment.permit_overdue_call(overdue, 1.0);
        let _: Permit =
            environment.permit_overdue_call(Caller { key: Some(CircuitKey::from_text("b")), ..overdue }, 1.0);
        let _: Permit = environment.permit_overdue_call(overdue, 800.1);
    }

    #[test]
    fn a_clock_set_back_delays_probes_by_at_most_15_minutes() {
        let mut environment = Environment::with_open_circuit("a");
        for second in 1..3000 {
            let _ = environment.call("a", Fault, f64::from(second));
        }
        // The clock is set back two hours. The probe was due at 3000 s at the earliest.
        assert!(environment.is_held("a", -7200.0 + 3000.0));
        assert!(matches!(
            environment.call("a", Answer, -7200.0 + 3901.0),
            Ok(Some(CircuitChange::Closed { .. }))
        ));
    }

    #[test]
    fn a_retry_after_lasts_at_most_900_s_if_the_clock_is_set_back() {
        let Breaker { mut clock, mut target, .. } = Breaker::default();
        target.record_retry_after(900.0, 1, clock.moment_at(at_second(0.0)));
        let mut must_wait = |seconds| target.must_wait(clock.moment_at(at_second(-7200.0 + seconds)));
        assert_eq!([0.0, 899.0, 901.0].map(&mut must_wait), [true, true, false]);
    }

    /// If the clock prolonged the outage, a poison message would be held until the clock catches up.
    #[test]
    fn a_clock_set_back_does_not_prolong_an_unconfirmed_outage() {
        let mut environment = Environment::with_open_circuit("a");
        let back = -7200.0;
        assert!(environment.is_held("a", back));
        let failed_caller = Caller { failures: 1, ..caller("a", 1) };
        let mut request_call = |seconds| {
            environment.breaker.request_call(failed_caller, Patience::Over, at_second(back + seconds))
        };
        assert!(matches!(request_call(299.0), Permission::Hold(_)));
        assert!(matches!(request_call(300.0), Permission::Call(permit) if !permit.may_be_held(Fault)));
    }

    #[test]
    fn a_returned_probe_is_granted_again() {
        let mut environment = Environment::with_open_circuit("a");
        let request_call = |environment: &mut Environment| {
            environment.breaker.request_call(caller("a", 99), Patience::Over, at_second(2.0))
        };
        let Permission::Call(permit) = request_call(&mut environment) else {
            panic!("no probe after two seconds")
        };
        assert_eq!(request_call(&mut environment), Permission::Wait);
        environment.breaker.give_back(permit, at_second(2.0));
        assert!(matches!(request_call(&mut environment), Permission::Call(_)));
    }

    /// If returning the earlier probe freed the later one, two probes would run at the same time.
    #[test]
    fn returning_a_probe_from_an_earlier_outage_does_not_free_a_later_probe() {
        let mut environment = Environment::with_open_circuit("a");
        let request_call = |environment: &mut Environment, seconds| {
            environment.breaker.request_call(caller("a", 99), Patience::Over, at_second(seconds))
        };
        let Permission::Call(earlier) = request_call(&mut environment, 2.0) else { panic!("no probe") };
        let overdue = environment.permit_overdue_call(caller("a", 1), 2.0);
        assert!(
            environment.breaker.record_outcome(overdue, Answer, at_second(2.0)).is_some(),
            "the target has recovered"
        );
        let mut seconds = 3.0;
        while environment.breaker.open_since(Some(CircuitKey::from_text("a"))).is_none() {
            environment.call("a", Fault, seconds).unwrap();
            seconds += 1.0;
        }
        let Permission::Call(later) = request_call(&mut environment, seconds + 1.0) else {
            panic!("no probe")
        };
        environment.breaker.give_back(earlier, at_second(seconds + 1.0));
        assert_eq!(request_call(&mut environment, seconds + 1.0), Permission::Wait);
        environment.breaker.give_back(later, at_second(seconds + 1.0));
        assert!(matches!(request_call(&mut environment, seconds + 1.0), Permission::Call(_)));
    }

    /// A queue with one message per hour has no other message for a probe.
    #[test]
    fn a_previously_failed_message_can_probe_in_a_new_environment() {
        let mut environment = Environment::default();
        environment.breaker.apply_report(
            Some(CircuitKey::from_text("a")),
            outage(0.0),
            at_second(40_000.0),
            at_second(40_750.0),
        );
        let failed_caller = Caller { failures: 5, held_seconds: 40_000, ..caller("a", 1) };
        assert!(matches!(
            environment.call_for(failed_caller, Answer, 40_750.0),
            Ok(Some(CircuitChange::Closed { .. }))
        ));
    }

    #[test]
    fn a_call_started_before_the_circuit_opened_does_not_change_it() {
        let mut environment = Environment::default();
        let request_permit = |environment: &mut Environment, number| match environment.breaker.request_call(
            caller("a", number),
            Patience::Over,
            at_second(0.0),
        ) {
            Permission::Call(permit) => permit,
            other => panic!("{other:?}"),
        };
        let (answered, failed) =
            (request_permit(&mut environment, 100), request_permit(&mut environment, 101));
        environment.count_calls_to_open("a");
        assert_eq!(environment.breaker.record_outcome(answered, Answer, at_second(0.5)), None);
        assert_eq!(environment.breaker.record_outcome(failed, Fault, at_second(0.5)), None);
        assert!(environment.is_held("a", 0.6));
    }

    #[test]
    fn an_overdue_call_is_made_and_its_answer_closes_the_circuit() {
        let mut environment = Environment::with_open_circuit("a");
        let failed = environment.permit_overdue_call(caller("a", 1), 0.1);
        assert!(!failed.may_be_held(Fault));
        assert_eq!(environment.breaker.record_outcome(failed, Fault, at_second(0.1)), None);
        assert!(environment.is_held("a", 0.2));
        let answered = environment.permit_overdue_call(caller("a", 1), 0.3);
        let closed = environment.breaker.record_outcome(answered, Answer, at_second(0.3));
        assert!(matches!(closed, Some(CircuitChange::Closed { probes: 0, .. })), "{closed:?}");
    }

    /// Each key may have a separate limit.
    #[test]
    fn a_key_with_a_retry_after_is_not_used_to_probe_the_target() {
        let mut environment = Environment::default();
        for number in 0..10 {
            environment.call(["a", "b"][number % 2], Fault, 0.0).unwrap();
        }
        let overdue = environment.permit_overdue_call(caller("a", 1), 0.5);
        environment.breaker.record_outcome(overdue, Refusal(Some(Duration::from_secs(800))), at_second(0.5));
        assert!(environment.is_held("a", 5.0));
        let probed = environment.call("b", Answer, 5.0);
        assert!(matches!(probed, Ok(Some(CircuitChange::Closed { .. }))), "{probed:?}");
    }

    #[test]
    fn a_fault_causes_a_hold_only_if_its_circuit_is_open() {
        let mut environment = Environment::default();
        assert_eq!(environment.breaker.hold_after_call(caller("a", 1), Fault, at_second(0.0)), None);
        environment.count_calls_to_open("a");
        let hold = environment.breaker.hold_after_call(caller("a", 1), Fault, at_second(0.0)).unwrap();
        assert_eq!((hold.reason, hold.outage), (HoldReason::Down, outage(0.0)));
        assert_eq!(environment.breaker.hold_after_call(caller("b", 1), Fault, at_second(0.0)), None);
    }
}

/// Calls that resulted in "not now" or another failure.
mod failed_calls {
    use super::*;

    fn delay(environment: &mut Environment, caller: Caller, outcome: CallOutcome) -> Option<f64> {
        environment
            .breaker
            .hold_after_call(caller, outcome, at_second(0.0))
            .map(|hold| hold.delay.as_secs_f64())
    }

    /// If "not now" spent an attempt, a queue with one message per hour would lose every message in an outage.
    #[test]
    fn not_now_causes_a_hold_from_the_first_call_in_any_environment() {
        for failures in [0, 1, 1000] {
            let caller = Caller { failures, ..caller("a", 1) };
            for outcome in [Unavailable, Refusal(None)] {
                assert!(delay(&mut Environment::default(), caller, outcome).is_some(), "{outcome:?}");
            }
            assert_eq!(delay(&mut Environment::default(), caller, Fault), None);
        }
        let hold = Environment::default()
            .breaker
            .hold_after_call(caller("a", 1), Unavailable, at_second(7.0))
            .unwrap();
        assert_eq!((hold.reason, hold.outage.since), (HoldReason::NotNow, at_second(7.0)));
    }

    /// The message waited for hours in a past outage, and now its call fails at random.
    #[test]
    fn the_hold_after_a_call_depends_on_the_number_of_earlier_calls() {
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
    fn a_first_fault_within_a_minute_of_an_outage_causes_a_hold() {
        let mut environment = Environment::with_open_circuit("a");
        environment.call("a", Answer, 2.0).unwrap();
        let hold_after_call = |environment: &mut Environment, failures, seconds| {
            environment.breaker.hold_after_call(
                Caller { failures, ..caller("a", 1) },
                Fault,
                at_second(seconds),
            )
        };
        assert!(hold_after_call(&mut environment, 0, 61.9).is_some());
        assert_eq!(hold_after_call(&mut environment, 1, 61.9), None, "the message itself may be the cause");
        assert_eq!(hold_after_call(&mut environment, 0, 62.1), None);
    }

    /// If no failure counted as random, the breaker would stay open for a target that fails most of its calls.
    #[test]
    fn the_first_failures_of_an_outage_count_as_random() {
        let mut environment = Environment::with_open_circuit("a");
        for second in [2.0, 4.0, 6.0] {
            environment.call("a", Fault, second).unwrap();
        }
        environment.call("a", Answer, 8.0).unwrap();
        // Twelve of 13 calls failed, plus one of six in the prior.
        let share =
            environment.breaker.keys.get(Some(CircuitKey::from_text("a"))).unwrap().evidence.failure_share();
        assert!((share - (12.0 + 1.0) / (13.0 + 6.0)).abs() < 1e-6, "{share}");
    }
}

proptest! {
    /// No message starves: whatever happened before, a target that answers receives every message within a few minutes.
    #[test]
    fn a_recovered_target_is_called_again(
        trouble in prop::collection::vec((0..4_u8, 0..3_u8, 0..60_u8), 1..200),
    ) {
        let mut environment = Environment::default();
        let mut seconds = 0.0;
        for (outcome, key, later) in trouble {
            seconds += f64::from(later) / 4.0;
            let outcome = [Answer, Fault, Refusal(None), Refusal(Some(Duration::from_secs(30)))][usize::from(outcome)];
            let _ = environment.call(["a", "b", "c"][usize::from(key)], outcome, seconds);
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
    fn answers_alone_never_open_a_circuit(keys in prop::collection::vec(0..5_u8, 1..100)) {
        let mut environment = Environment::default();
        for (second, key) in keys.iter().enumerate() {
            let second = u32::try_from(second).unwrap();
            prop_assert_eq!(environment.call(&key.to_string(), Answer, f64::from(second) / 50.0), Ok(None));
        }
    }
}
