//! The first signal requests a stop; the second ends the command.

use std::sync::mpsc;
use std::{io, thread};

use redeliver_aws::Stop;
use tokio::runtime::Builder;

pub use redeliver_platform::signals::{Signal, Signals};

use crate::ExitCode;
use crate::terminal::stderr;

/// Requests a stop on the first SIGINT or SIGTERM, and prints `remark`. The second signal ends the program with exit
/// code 130.
///
/// A separate thread listens, since a run in virtual time never yields to a runtime.
pub fn stop_on_signal(remark: &'static str) -> io::Result<Stop> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let stop = Stop::default();
    let requested = stop.clone();
    let (ready_sender, ready) = mpsc::channel();
    thread::spawn(move || {
        runtime.block_on(async {
            let mut signals = match Signals::listen() {
                Ok(signals) => signals,
                Err(error) => return drop(ready_sender.send(Err(error))),
            };
            let _ = ready_sender.send(Ok(()));
            signals.next().await;
            // The stop is requested before the remark is printed, since readers of the remark may rely on it.
            requested.request();
            stderr::remark(remark);
            signals.next().await;
            std::process::exit(ExitCode::Interrupted.number().into());
        });
    });
    ready.recv().map_err(io::Error::other)??;
    Ok(stop)
}
