//! This process and its children.

pub use system::{Group, leave_no_core_file, refuse_debuggers};

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};

    /// A crash of this process leaves no core file.
    pub fn leave_no_core_file() {
        let _not_known_here = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    }

    /// On Linux, no debugger of the same user can attach to this process any more: `PR_SET_DUMPABLE` in prctl(2).
    pub fn refuse_debuggers() {
        #[cfg(target_os = "linux")]
        let _best_effort =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }

    /// A process and all that it has started.
    #[derive(Debug)]
    pub struct Group(Pid);

    impl Group {
        /// Lets a command begin a group of its own.
        ///
        /// # Errors
        /// None here.
        pub fn begin_with(command: &mut Command) -> io::Result<()> {
            command.process_group(0);
            Ok(())
        }

        /// The group that a process has begun.
        #[must_use]
        pub fn of(id: u32) -> Option<Self> {
            Pid::from_raw(id.cast_signed()).map(Self)
        }

        /// Asks all to end.
        pub fn terminate(&self) {
            let _may_have_ended = kill_process_group(self.0, Signal::TERM);
        }

        /// Ends all.
        pub fn kill(&self) {
            let _may_have_ended = kill_process_group(self.0, Signal::KILL);
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::process::Command;

    /// Does nothing: there is none unless an administrator wants it.
    pub fn leave_no_core_file() {}

    /// Does nothing.
    pub fn refuse_debuggers() {}

    /// A process and all that it has started: only a job object could end these together, so there is none.
    #[derive(Debug)]
    pub enum Group {}

    impl Group {
        /// Refused.
        ///
        /// # Errors
        /// Always.
        pub fn begin_with(_: &mut Command) -> io::Result<()> {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "Windows cannot end a function with all that it has started: run redeliver in WSL or in a container",
            ))
        }

        /// None: no process has begun one.
        #[must_use]
        pub fn of(_: u32) -> Option<Self> {
            None
        }

        /// Asks all to end.
        pub fn terminate(&self) {
            match *self {}
        }

        /// Ends all.
        pub fn kill(&self) {
            match *self {}
        }
    }
}
