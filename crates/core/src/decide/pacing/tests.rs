use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::decide::backoff;
use crate::policy::Policy;

fn rate(per_second: f64) -> RedeliveryRate {
    RedeliveryRate::new(per_second).unwrap()
}

fn seconds(seconds: u64) -> DelaySeconds {
    DelaySeconds::new(seconds).unwrap()
}

fn key(id: u128) -> Key {
    Key { message_id: Uuid::from_u128(id), generation: 0, attempt: 1 }
}

fn fixed(seconds: u64) -> RangeInclusive<RetryDelay> {
    let delay = RetryDelay::new(seconds).unwrap();
    delay..=delay
}

/// Lowest and highest delay, and the pace of delays of 0.
fn window(waiting: u64, per_second: f64) -> (u16, u16, Pace) {
    let window = Window::of(waiting, rate(per_second));
    (window.low.get(), window.high.get(), window.pace(&fixed(0)))
}

#[test]
fn the_window_s_middle_is_what_little_s_law_asks_for() {
    assert_eq!(window(0, 10.0), (0, 0, Pace::Own));
    assert_eq!(window(1, 10.0), (0, 1, Pace::Stretched), "never less than the rate asks for");
    assert_eq!(window(3000, 10.0), (0, 600, Pace::Stretched), "300 s");
    assert_eq!(window(4500, 10.0), (0, 900, Pace::Stretched), "450 s, as wide as it can be");
    assert_eq!(window(6000, 10.0), (300, 900, Pace::Stretched), "600 s");
    assert_eq!(window(6750, 10.0), (450, 900, Pace::Stretched), "675 s, the longest");
    assert_eq!(window(6751, 10.0), (450, 900, Pace::NotHeld));
    assert_eq!(window(u64::MAX, 0.01), (450, 900, Pace::NotHeld));
    assert_eq!(window(2, 0.01), (0, 400, Pace::Stretched), "one message every 100 s");
    assert_eq!(window(1_000_000, 100_000.0), (0, 20, Pace::Stretched));
}

#[test]
fn a_delay_whose_own_mean_is_long_enough_is_left_as_it_is() {
    let busy = Window::of(3000, rate(10.0));
    assert_eq!(busy.pace(&fixed(300)), Pace::Own);
    assert_eq!(busy.pace(&fixed(299)), Pace::Stretched);
    let drawn = |low, high| RetryDelay::new(low).unwrap()..=RetryDelay::new(high).unwrap();
    assert_eq!(busy.pace(&drawn(0, 600)), Pace::Own);
    assert_eq!(busy.pace(&drawn(0, 599)), Pace::Stretched);
    let too_busy = Window::of(8000, rate(10.0));
    assert_eq!(too_busy.pace(&fixed(900)), Pace::Own, "8.9 a second come back, whatever the window could do");
    assert_eq!(too_busy.pace(&fixed(700)), Pace::NotHeld);
}

#[test]
fn a_rate_has_bounds() {
    for refused in [0.0, -1.0, 0.009, 100_000.1, f64::NAN, f64::INFINITY] {
        assert_eq!(RedeliveryRate::new(refused), None, "{refused}");
    }
    assert_eq!(rate(0.01).per_second().to_string(), "0.01");
}

#[test]
fn the_target_s_own_delay_is_a_floor() {
    let busy = Window::of(6000, rate(10.0));
    for id in 0..1000 {
        let stretched = busy.stretched(seconds(700), key(id));
        assert!(stretched >= seconds(700) && stretched <= DelaySeconds::MAX);
    }
}

#[test]
fn messages_of_a_fixed_delay_are_spread_over_the_window() {
    let busy = Window::of(4500, rate(10.0));
    let mut quarters = [0; 4];
    for id in 0..4000 {
        let delay = busy.stretched(DelaySeconds::ZERO, key(id)).get();
        quarters[usize::from(delay.min(899) / 225)] += 1;
    }
    // Keyed, so the same on every machine.
    assert_eq!(quarters, [989, 998, 1024, 989]);
}

proptest! {
    #[test]
    fn a_delay_only_grows_and_never_beyond_the_longest(
        own in 0u64..=900, waiting: u64, per_second in 0.01..100_000.0f64, id: u128,
    ) {
        let delay = Window::of(waiting, rate(per_second)).stretched(seconds(own), key(id));
        prop_assert!(delay >= seconds(own));
        prop_assert!(delay <= DelaySeconds::MAX);
    }

    #[test]
    fn more_that_wait_never_shorten_a_delay(
        own in 0u64..=900, waiting in 0u64..1_000_000, more in 0u64..1_000_000, per_second in 0.01..1000.0f64, id: u128,
    ) {
        let delay = |waiting| Window::of(waiting, rate(per_second)).stretched(seconds(own), key(id));
        prop_assert!(delay(waiting) <= delay(waiting + more));
    }

    /// With 450 or fewer messages waiting for each message a second the default policy holds the rate by itself:
    /// nothing is stretched.
    #[test]
    fn a_uniform_delay_that_holds_the_rate_is_left_as_it_is(waiting in 0u64..=4500, id: u128) {
        let own = backoff::delay(&Policy::default(), key(id));
        let own = seconds(own.get().into());
        prop_assert_eq!(Window::of(waiting, rate(10.0)).stretched(own, key(id)), own);
    }
}
