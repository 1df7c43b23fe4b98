//! Calls, ends and pauses in any order, checked against the promises.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Ask,
    /// A message that has reached its hold limit.
    Overdue,
    /// The longest-running call ends with this outcome, or another one does.
    End {
        which: usize,
        met: CallOutcome,
    },
    GiveBack {
        which: usize,
    },
    Pause {
        milliseconds: u64,
    },
    Learn {
        seconds_ago: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let met = prop_oneof![4 => Just(CallOutcome::Outage), 1 => Just(CallOutcome::Answer)];
    prop_oneof![
        6 => Just(Step::Ask),
        1 => Just(Step::Overdue),
        5 => (0..4_usize, met).prop_map(|(which, met)| Step::End { which, met }),
        1 => (0..4_usize).prop_map(|which| Step::GiveBack { which }),
        3 => prop_oneof![0..2_000_u64, 0..200_000_u64].prop_map(|milliseconds| Step::Pause { milliseconds }),
        1 => (-10..5_000_i64).prop_map(|seconds_ago| Step::Learn { seconds_ago }),
    ]
}

fn settings() -> impl Strategy<Value = CircuitBreaker> {
    (1..=20_u32, 1..=100_u32, 1..=60_u64, 1..=60_u64, 0..=120_u64).prop_map(
        |(minimum_calls, rate, window, interval, more)| CircuitBreaker {
            minimum_calls,
            failure_rate: f64::from(rate) / 100.0,
            window: Duration::from_secs(window),
            probe_interval: Duration::from_secs(interval),
            probe_interval_max: Duration::from_secs(interval + more),
            ..CircuitBreaker::default()
        },
    )
}

/// A breaker, and the observations of an independent watcher.
struct Watched {
    breaker: Breaker,
    settings: CircuitBreaker,
    now: Timestamp,
    running: Vec<(Permit, bool)>,
    /// Ended calls since the breaker was last open, with their outcomes: those in the window, and outages not followed
    /// by an answer.
    ended: Vec<(Timestamp, CallOutcome)>,
    /// Since the breaker was last open: the time when it refused a call, or a probe failed.
    closed_to_calls_at: Option<Timestamp>,
}

impl Watched {
    fn take(&mut self, which: usize) -> Option<(Permit, bool)> {
        (!self.running.is_empty()).then(|| self.running.remove(which % self.running.len()))
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pause { milliseconds } => self.now += Duration::from_millis(*milliseconds),
            Step::Learn { seconds_ago } => {
                let was_open = self.breaker.open_since().is_some();
                self.breaker.learn(self.now - TimeDelta::seconds(*seconds_ago), self.now, self.now);
                if !was_open && self.breaker.open_since().is_some() {
                    self.closed_to_calls_at = None;
                    // Calls still running belong to the previous state.
                    self.running.iter_mut().for_each(|(_, is_probe)| *is_probe = false);
                }
            }
            Step::GiveBack { which } => {
                if let Some((permit, _)) = self.take(*which) {
                    self.breaker.give_back(permit);
                }
            }
            Step::Ask => {
                let is_open = self.breaker.open_since().is_some();
                if let Permission::Call(permit) = self.breaker.ask(self.now) {
                    if is_open {
                        assert!(self.running.iter().all(|(_, is_probe)| !is_probe), "two probes at once");
                        let shortest = self.settings.probe_interval * 3 / 4;
                        let waited = self.closed_to_calls_at.map(|at| until(at, self.now));
                        assert!(waited.is_none_or(|waited| waited >= shortest), "a probe after {waited:?}");
                    }
                    self.running.push((permit, is_open));
                }
            }
            Step::Overdue => self.running.push((self.breaker.call_overdue(), false)),
            Step::End { which, met } => {
                let Some((permit, is_probe)) = self.take(*which) else { return };
                let counts = permit.epoch == self.breaker.epoch;
                let is_overdue = permit.reason == Reason::Overdue;
                let was_open = self.breaker.open_since().is_some();
                let change = self.breaker.record(permit, *met, ID, None, self.now);
                if counts && !was_open {
                    self.ended.push((self.now, *met));
                    let is_answer = |(_, met): &(Timestamp, CallOutcome)| *met == CallOutcome::Answer;
                    let until_answer = self.ended.iter().rposition(is_answer).map_or(0, |at| at + 1);
                    let recent = |at: Timestamp| until(at, self.now) < self.settings.window;
                    let from = self.ended.iter().position(|(at, _)| recent(*at)).unwrap_or(usize::MAX);
                    self.ended.drain(..from.min(until_answer));
                }
                self.check(change, is_probe, is_overdue, *met);
            }
        }
    }

    fn check(&mut self, change: Option<Change>, is_probe: bool, is_overdue: bool, met: CallOutcome) {
        match change {
            Some(Change::Opened { calls, outages, probe_in }) => {
                assert_eq!(met, CallOutcome::Outage, "an answer never opens it");
                assert!(f64::from(outages) / f64::from(calls) >= self.settings.failure_rate);
                let newest = 5 * self.settings.minimum_calls as usize;
                let seen: Vec<_> = self.ended.iter().rev().take(newest).collect();
                let failed = seen.iter().filter(|(_, met)| *met == CallOutcome::Outage).count();
                assert_eq!((seen.len(), failed), (calls as usize, outages as usize));
                assert!(calls >= self.settings.minimum_calls);
                assert!(probe_in <= self.settings.probe_interval_max);
                self.closed_to_calls_at = Some(self.now);
                self.ended.clear();
            }
            Some(Change::ProbeFailed { probe_in }) => {
                assert!(is_probe && met == CallOutcome::Outage);
                assert!(probe_in <= self.settings.probe_interval_max);
                self.closed_to_calls_at = Some(self.now);
            }
            Some(Change::Closed { .. }) => {
                assert!((is_probe || is_overdue) && met == CallOutcome::Answer);
                self.ended.clear();
                self.running.iter_mut().for_each(|(_, is_probe)| *is_probe = false);
            }
            None => {}
        }
    }

    /// The target is up from now on.
    fn heal(&mut self) {
        for (permit, _) in std::mem::take(&mut self.running) {
            let _ = self.breaker.record(permit, CallOutcome::Answer, ID, None, self.now);
        }
        let longest = self.settings.probe_interval_max;
        self.now += longest;
        for _ in 0..64 {
            match self.breaker.ask(self.now) {
                Permission::Call(permit) => {
                    let _ = self.breaker.record(permit, CallOutcome::Answer, ID, None, self.now);
                }
                other => panic!("{other:?} although nothing runs"),
            }
        }
        assert_eq!(self.breaker.open_since(), None);
        let all_at_once = (0..1000).all(|_| matches!(self.breaker.ask(self.now), Permission::Call(_)));
        assert!(all_at_once, "it is not closed after an interval and 64 answers");
    }
}

proptest! {
    #[test]
    fn one_probe_an_interval_never_open_below_minimum_calls_and_always_closed_after_answers(
        settings in settings(),
        steps in vec(step(), 0..400),
    ) {
        let mut watched = Watched {
            breaker: Breaker::new(settings.clone()),
            settings,
            now: moment(),
            running: Vec::new(),
            ended: Vec::new(),
            closed_to_calls_at: None,
        };
        steps.iter().for_each(|step| watched.step(step));
        watched.heal();
    }
}
