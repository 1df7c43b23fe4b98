//! Ctrl-C in virtual time. A run that waits for nothing real never gives its thread back to the runtime, so another thread listens.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use futures_util::task::AtomicWaker;
use tokio::runtime::Builder;

use crate::signals::Signals;

#[derive(Default)]
struct Came {
    flag: AtomicBool,
    waker: AtomicWaker,
}

/// Completes at a signal that comes from now on; at the second one the program ends.
///
/// # Errors
/// If signals cannot be listened for.
pub(super) fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let came = Arc::new(Came::default());
    let tell = Arc::clone(&came);
    let (listening, listens) = mpsc::channel();
    thread::spawn(move || {
        runtime.block_on(async {
            let mut signals = match Signals::listen() {
                Ok(signals) => signals,
                Err(error) => return drop(listening.send(Err(error))),
            };
            let _ = listening.send(Ok(()));
            signals.next().await;
            crate::tell::remark(
                "interrupted: waiting for the calls that are under way; Ctrl-C again does not wait",
            );
            tell.flag.store(true, Ordering::Release);
            tell.waker.wake();
            signals.next().await;
            std::process::exit(130);
        });
    });
    listens.recv().map_err(io::Error::other)??;
    Ok(poll_fn(move |context| {
        // First the waker: a signal between the two lines wakes it.
        came.waker.register(context.waker());
        if came.flag.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }))
}
