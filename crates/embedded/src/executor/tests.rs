use std::cell::RefCell;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{join3, pending, select};

use super::*;

fn clock() -> VirtualClock {
    VirtualClock::new(Timestamp::UNIX_EPOCH)
}

fn elapsed(clock: &VirtualClock) -> i64 {
    (clock.now() - Timestamp::UNIX_EPOCH).num_seconds()
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_hour_of_sleep_takes_no_time_and_moves_the_clock_by_an_hour() {
    let clock = clock();
    clock.block_on(clock.sleep(HOUR));
    assert_eq!(elapsed(&clock), 3600);
}

#[test]
fn timers_fire_by_time_and_ties_in_registration_order() {
    let clock = clock();
    let fired = RefCell::new(Vec::new());
    let sleeper = |name: &'static str, seconds: u64| {
        let (clock, fired) = (&clock, &fired);
        async move {
            clock.sleep(Duration::from_secs(seconds)).await;
            fired.borrow_mut().push((name, elapsed(clock)));
        }
    };
    clock.block_on(join3(sleeper("late", 3), sleeper("first", 2), sleeper("second", 2)));
    assert_eq!(fired.into_inner(), [("first", 2), ("second", 2), ("late", 3)]);
}

#[test]
fn a_dropped_sleep_does_not_advance_time() {
    let clock = clock();
    let stuck = futures_executor::block_on(clock.run(async {
        let short = Box::pin(clock.sleep(Duration::from_secs(1)));
        let long = Box::pin(clock.sleep(HOUR));
        select(short, long).await;
        pending::<()>().await;
    }));
    let at = Timestamp::UNIX_EPOCH + Duration::from_secs(1);
    assert_eq!(stuck, Err(StuckError { at }), "not an hour later");
}

#[test]
fn a_wait_without_a_timer_or_hold_is_a_stuck_error() {
    let clock = clock();
    let stuck = futures_executor::block_on(clock.run(async {
        clock.sleep(HOUR).await;
        pending::<()>().await;
    }));
    let stuck = stuck.expect_err("no event wakes the future");
    assert_eq!(stuck.at, Timestamp::UNIX_EPOCH + HOUR);
    assert!(stuck.to_string().contains("no timer is set and nothing holds the clock"), "{stuck}");
}

#[test]
fn time_stops_while_real_work_holds_it() {
    let clock = clock();
    let (answer, answered) = one_shot_channel();
    let during = clock.block_on(async {
        let real_work = async {
            let hold = clock.hold_time();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                answer.wake_with(7);
            });
            let value = answered.await;
            let at = elapsed(&clock);
            drop(hold);
            (value, at)
        };
        let (result, ()) = futures_util::future::join(real_work, clock.sleep(HOUR)).await;
        result
    });
    assert_eq!(during, (7, 0), "the timer of an hour must not fire during the work");
    assert_eq!(elapsed(&clock), 3600);
}

#[test]
fn a_hold_dropped_by_another_thread_lets_time_continue() {
    let clock = clock();
    let hold = clock.hold_time();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(hold);
    });
    clock.block_on(clock.sleep(HOUR));
    assert_eq!(elapsed(&clock), 3600);
}

#[test]
#[should_panic(expected = "already running a future")]
fn two_concurrent_runs_are_rejected() {
    let clock = clock();
    clock.block_on(async { clock.run(async {}).await.expect("not reached") });
}

#[test]
fn a_dropped_run_releases_the_clock() {
    let clock = clock();
    let hold = clock.hold_time();
    let mut abandoned = Box::pin(clock.run(pending::<()>()));
    assert!(abandoned.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop((abandoned, hold));
    clock.block_on(clock.sleep(HOUR));
}

/// Creates a one-shot channel, which stands in for a socket.
fn one_shot_channel() -> (OneShotSender, impl Future<Output = u32>) {
    let slot: Arc<Mutex<(Option<u32>, Option<Waker>)>> = Arc::default();
    let sender = OneShotSender(Arc::clone(&slot));
    let receiver = poll_fn(move |context| {
        let mut slot = slot.lock().unwrap();
        slot.1 = Some(context.waker().clone());
        slot.0.map_or(Poll::Pending, Poll::Ready)
    });
    (sender, receiver)
}

struct OneShotSender(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

impl OneShotSender {
    fn wake_with(self, value: u32) {
        let mut slot = self.0.lock().unwrap();
        slot.0 = Some(value);
        let waker = slot.1.take();
        drop(slot);
        waker.expect("the receiver waits").wake();
    }
}
