//! What is looked for on a thread of its own, while pages show what was seen last: a redrive takes hours, and a look at
//! a large queue keeps a processor busy.

use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_operator::Failure;
use redeliver_operator::lock::lock;

/// What was seen last, and whether another look is under way.
#[derive(Debug)]
pub(super) struct Latest<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    seen: Option<Arc<T>>,
    failed: Option<String>,
    is_running: bool,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { seen: None, failed: None, is_running: false }) }
    }
}

impl<T: Send + Sync + 'static> Latest<T> {
    pub(super) fn seen(&self) -> Option<Arc<T>> {
        self.state().seen.clone()
    }

    /// Why nothing newer can be seen.
    pub(super) fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().is_running
    }

    /// Starts to look, unless a look is under way: two at once would hide messages from one another.
    pub(super) fn begin<F: Future<Output = ()>>(self: &Arc<Self>, look: impl FnOnce() -> F + Send + 'static) {
        if std::mem::replace(&mut self.state().is_running, true) {
            return;
        }
        let latest = Arc::clone(self);
        thread(look, move || latest.state().is_running = false);
    }

    /// What a look has found. If it has failed, what was seen before is shown on, with the reason.
    pub(super) fn tell(&self, looked: Result<T, Failure>) {
        let mut state = self.state();
        match looked {
            Ok(seen) => {
                state.seen = Some(Arc::new(seen));
                state.failed = None;
            }
            Err(error) => state.failed = Some(error.to_string()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }
}

/// Work on a thread of its own; the page answers meanwhile. It has ended when `at_end` is called: also after a panic,
/// and if there is no thread to be had.
pub(super) fn thread<F: Future<Output = ()>>(
    work: impl FnOnce() -> F + Send + 'static,
    at_end: impl Fn() + Send + 'static,
) {
    let at_end = AtEnd(at_end);
    let run = move || {
        let _at_end = at_end;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(work());
        }
    };
    let _dropped_if_there_is_no_thread = std::thread::Builder::new().spawn(run);
}

struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_panics_has_ended_too() {
        for panics in [false, true] {
            let (ended, end) = mpsc::channel();
            let work = move || async move { assert!(!panics, "as planned") };
            thread(work, move || ended.send(()).unwrap());
            assert_eq!(end.recv(), Ok(()));
            assert_eq!(end.recv(), Err(mpsc::RecvError), "once");
        }
    }

    #[test]
    fn what_was_seen_stays_while_another_look_is_under_way_and_after_one_that_failed() {
        let latest = Arc::new(Latest::default());
        latest.tell(Ok(1));
        latest.tell(Err("no".into()));
        assert_eq!((latest.seen().as_deref(), latest.failed().as_deref()), (Some(&1), Some("no")));
        let (go_on, waits) = mpsc::channel::<()>();
        latest.begin(move || async move { assert!(waits.recv().is_err(), "until it is let go") });
        latest.begin(|| async { unreachable!("one is under way") });
        assert!(latest.is_running() && latest.seen().is_some());
        drop(go_on);
        while latest.is_running() {
            std::thread::yield_now();
        }
        latest.tell(Ok(2));
        assert_eq!((latest.seen().as_deref(), latest.failed()), (Some(&2), None));
    }
}
