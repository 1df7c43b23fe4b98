//! Runs background tasks on separate threads while pages show the last result: a redrive can take hours, and reading a
//! large queue keeps a processor busy.

use std::sync::{Arc, Mutex, MutexGuard};

use redeliver_core::lock;
use redeliver_operator::CommandFailure;

/// The last result of a task, and the state of the current run.
#[derive(Debug)]
pub(crate) struct BackgroundTask<T> {
    state: Mutex<BackgroundTaskState<T>>,
}

#[derive(Debug)]
struct BackgroundTaskState<T> {
    seen: Option<Arc<T>>,
    failed: Option<String>,
    is_running: bool,
}

impl<T> Default for BackgroundTask<T> {
    fn default() -> Self {
        Self { state: Mutex::new(BackgroundTaskState { seen: None, failed: None, is_running: false }) }
    }
}

impl<T: Send + Sync + 'static> BackgroundTask<T> {
    pub(crate) fn last_result(&self) -> Option<Arc<T>> {
        self.lock_state().seen.clone()
    }

    /// Returns the error of the last run, if it failed.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock_state().failed.clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock_state().is_running
    }

    /// Starts the task unless it is running: two concurrent readings would hide messages from each other.
    pub(crate) fn start_task<F: Future<Output = ()>>(
        self: &Arc<Self>,
        task: impl FnOnce() -> F + Send + 'static,
    ) {
        if std::mem::replace(&mut self.lock_state().is_running, true) {
            return;
        }
        let last_seen = Arc::clone(self);
        spawn_task(task, move || last_seen.lock_state().is_running = false);
    }

    /// Publishes a result. After an error, the previous result is kept, together with the error.
    pub(crate) fn publish_result(&self, result: Result<T, CommandFailure>) {
        let mut state = self.lock_state();
        match result {
            Ok(seen) => {
                state.seen = Some(Arc::new(seen));
                state.failed = None;
            }
            Err(error) => state.failed = Some(error.to_string()),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, BackgroundTaskState<T>> {
        lock(&self.state)
    }
}

/// Runs a task on a separate thread. Calls `at_end` when it ends, even after a panic or if no thread can be created.
pub(crate) fn spawn_task<F: Future<Output = ()>>(
    work: impl FnOnce() -> F + Send + 'static,
    at_end: impl Fn() + Send + 'static,
) {
    let at_end = EndCallback(at_end);
    let run = move || {
        let _at_end = at_end;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(work());
        }
    };
    let _ignored = std::thread::Builder::new().spawn(run);
}

struct EndCallback<F: Fn()>(F);

impl<F: Fn()> Drop for EndCallback<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panicking_task_calls_at_end() {
        for panics in [false, true] {
            let (ended, end) = mpsc::channel();
            let work = move || async move { assert!(!panics, "as planned") };
            spawn_task(work, move || ended.send(()).unwrap());
            assert_eq!(end.recv(), Ok(()));
            assert_eq!(end.recv(), Err(mpsc::RecvError), "once");
        }
    }

    #[test]
    fn the_last_result_is_kept_while_a_task_runs_and_after_a_failure() {
        let last_seen = Arc::new(BackgroundTask::default());
        last_seen.publish_result(Ok(1));
        last_seen.publish_result(Err("no".into()));
        assert_eq!(
            (last_seen.last_result().as_deref(), last_seen.last_error().as_deref()),
            (Some(&1), Some("no"))
        );
        let (release, released) = mpsc::channel::<()>();
        last_seen
            .start_task(move || async move { assert!(released.recv().is_err(), "it waits for the test") });
        last_seen.start_task(|| async { unreachable!("a task is running") });
        assert!(last_seen.is_running() && last_seen.last_result().is_some());
        drop(release);
        while last_seen.is_running() {
            std::thread::yield_now();
        }
        last_seen.publish_result(Ok(2));
        assert_eq!((last_seen.last_result().as_deref(), last_seen.last_error()), (Some(&2), None));
    }
}
