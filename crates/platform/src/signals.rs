//! Signals that stop the process: SIGTERM from a container runtime, Ctrl-C from a person.

pub use system::Signals;

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub name: &'static str,
    /// True for Ctrl-C; false for a request from the system or a container runtime.
    pub is_interrupt: bool,
}

impl Signal {
    const fn interrupt(name: &'static str) -> Self {
        Self { name, is_interrupt: true }
    }

    const fn terminate(name: &'static str) -> Self {
        Self { name, is_interrupt: false }
    }
}

#[cfg(unix)]
mod system {
    use std::io;

    use tokio::signal::unix::{self, SignalKind, signal};

    use super::Signal;

    /// The signals that this process has received since [`Signals::listen`].
    #[derive(Debug)]
    pub struct Signals {
        terminate: unix::Signal,
        interrupt: unix::Signal,
    }

    impl Signals {
        /// Installs the handlers. From then on, these signals no longer end the process.
        ///
        /// # Errors
        /// The system refuses a handler.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
        }

        /// Waits for the next signal.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                Some(()) = self.terminate.recv() => Signal::terminate("SIGTERM"),
                Some(()) = self.interrupt.recv() => Signal::interrupt("SIGINT"),
                else => std::future::pending().await,
            }
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    use super::Signal;

    /// The signals that this process has received since [`Signals::listen`].
    #[derive(Debug)]
    pub struct Signals {
        interrupt: CtrlC,
        interrupt_group: CtrlBreak,
        close: CtrlClose,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        /// Installs the handlers. From then on, these signals no longer end the process.
        ///
        /// # Errors
        /// The system refuses a handler.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: ctrl_c()?,
                interrupt_group: ctrl_break()?,
                close: ctrl_close()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        /// Waits for the next signal.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                Some(()) = self.interrupt.recv() => Signal::interrupt("CTRL_C_EVENT"),
                Some(()) = self.interrupt_group.recv() => Signal::interrupt("CTRL_BREAK_EVENT"),
                Some(()) = self.close.recv() => Signal::terminate("CTRL_CLOSE_EVENT"),
                Some(()) = self.shutdown.recv() => Signal::terminate("CTRL_SHUTDOWN_EVENT"),
                else => std::future::pending().await,
            }
        }
    }
}
