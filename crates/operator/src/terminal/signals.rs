//! Signals that ask the process to stop: SIGTERM from a container runtime, Ctrl-C from a person.

use std::sync::mpsc;
use std::{io, thread};

use redeliver_aws::Stop;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::stderr;

/// The signals of this process, from [`Signals::listen`] on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next signal.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    }
}

/// Requests a stop at the first signal, and prints `remark`. The second signal ends the program.
///
/// A thread of its own listens, since a run in virtual time never yields to a runtime.
pub fn interrupted(remark: &'static str) -> io::Result<Stop> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let stop = Stop::default();
    let wish = stop.clone();
    let (listening, listens) = mpsc::channel();
    thread::spawn(move || {
        runtime.block_on(async {
            let mut signals = match Signals::listen() {
                Ok(signals) => signals,
                Err(error) => return drop(listening.send(Err(error))),
            };
            let _ = listening.send(Ok(()));
            signals.next().await;
            // Before the remark: someone who has read it may rely on the request.
            wish.request();
            stderr::remark(remark);
            signals.next().await;
            std::process::exit(130);
        });
    });
    listens.recv().map_err(io::Error::other)??;
    Ok(stop)
}
