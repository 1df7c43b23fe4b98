//! Signals that ask the process to stop: SIGTERM from a container runtime, Ctrl-C from a person.

pub use system::Signals;

#[cfg(unix)]
mod system {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// The signals of this process, from [`Signals::listen`] on.
    #[derive(Debug)]
    pub struct Signals {
        terminate: Signal,
        interrupt: Signal,
    }

    impl Signals {
        /// Listens from now on.
        ///
        /// # Errors
        /// If the system refuses a handler.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            })
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
}

#[cfg(windows)]
mod system {
    use std::io;

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    /// The signals of this process, from [`Signals::listen`] on.
    #[derive(Debug)]
    pub struct Signals {
        interrupt: CtrlC,
        interrupt_group: CtrlBreak,
        close: CtrlClose,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        /// Listens from now on.
        ///
        /// # Errors
        /// If the system refuses a handler.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: ctrl_c()?,
                interrupt_group: ctrl_break()?,
                close: ctrl_close()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        /// The name of the next signal.
        pub async fn next(&mut self) -> &'static str {
            tokio::select! {
                Some(()) = self.interrupt.recv() => "CTRL_C_EVENT",
                Some(()) = self.interrupt_group.recv() => "CTRL_BREAK_EVENT",
                Some(()) = self.close.recv() => "CTRL_CLOSE_EVENT",
                Some(()) = self.shutdown.recv() => "CTRL_SHUTDOWN_EVENT",
                else => std::future::pending().await,
            }
        }
    }
}
