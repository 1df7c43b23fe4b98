//! This process and its children.

use std::process::ExitStatus;
use std::time::Duration;

pub use system::{Group, apart, leave_no_core_file, limit_memory, own_program, refuse_debuggers};

/// `USER_HZ`, in which proc(5) counts: 100 on whatever Linux Rust's standard library is for.
const TICKS_PER_SECOND: u64 = 100;

/// True if a process ended because its stack or its memory was full.
#[must_use]
pub fn was_full(status: ExitStatus) -> bool {
    system::was_full(status)
}

/// The processor time that a process has used, where the system says so: proc_pid_stat(5).
#[must_use]
pub fn processor_time(id: u32) -> Option<Duration> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name, in brackets, may have blanks and brackets.
    let mut numbers = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || numbers.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS_PER_SECOND))
}

/// The place of our own program. It is looked up once.
#[cfg(not(target_os = "linux"))]
fn own_path() -> std::io::Result<&'static std::path::Path> {
    static PROGRAM: std::sync::OnceLock<std::path::PathBuf> = std::sync::OnceLock::new();
    if PROGRAM.get().is_none() {
        let _set_by_another = PROGRAM.set(std::env::current_exe()?);
    }
    PROGRAM.get().map(std::path::PathBuf::as_path).ok_or_else(|| std::io::Error::other("it is not known"))
}

/// Our own program, whatever has become of its file since it was started.
#[cfg(target_os = "linux")]
fn own_path() -> std::io::Result<&'static std::path::Path> {
    Ok(std::path::Path::new("/proc/self/exe"))
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::{Command, ExitStatus};

    use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, setrlimit};

    /// Our own program, to be started once more.
    ///
    /// # Errors
    /// If its place is not known.
    pub fn own_program() -> io::Result<Command> {
        let mut command = Command::new(super::own_path()?);
        command.arg0("redeliver");
        Ok(command)
    }

    /// Keeps a command out of the terminal's group: Ctrl-C does not end it.
    pub fn apart(command: &mut Command) {
        command.process_group(0);
    }

    pub(super) fn was_full(status: ExitStatus) -> bool {
        [Signal::SEGV, Signal::ABORT].into_iter().any(|signal| status.signal() == Some(signal.as_raw()))
    }

    /// Limits the address space of this process for good. Some systems, such as macOS, know no such limit.
    pub fn limit_memory(bytes: u64) {
        limit(Resource::As, bytes);
    }

    /// A crash of this process leaves no core file.
    pub fn leave_no_core_file() {
        limit(Resource::Core, 0);
    }

    fn limit(resource: Resource, most: u64) {
        let now = getrlimit(resource).maximum;
        let most = Some(now.map_or(most, |now| now.min(most)));
        let _not_known_here = setrlimit(resource, Rlimit { current: most, maximum: most });
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
            apart(command);
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

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_what_a_full_stack_or_memory_ends_with_is_blamed_on_it() {
            for (status, is_full) in
                [(6, true), (11, true), (9, false), (15, false), (0, false), (1 << 8, false)]
            {
                assert_eq!(was_full(ExitStatus::from_raw(status)), is_full, "{status}");
            }
        }

        #[test]
        #[cfg(target_os = "linux")]
        fn processor_time_is_that_of_the_process() {
            use std::time::Duration;
            let taken = || crate::process::processor_time(std::process::id()).unwrap();
            let before = taken();
            while taken() < before + Duration::from_millis(20) {}
            assert_eq!(crate::process::processor_time(0), None);
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::os::windows::process::CommandExt as _;
    use std::process::{Command, ExitStatus};

    /// "Process Creation Flags": the group does not get Ctrl-C.
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
    /// The exit codes of a full stack, and of Rust's abort when memory is full ("NTSTATUS Values").
    const FULL: [u32; 2] = [0xC000_00FD, 0xC000_0409];

    /// Our own program, to be started once more.
    ///
    /// # Errors
    /// If its place is not known.
    pub fn own_program() -> io::Result<Command> {
        super::own_path().map(Command::new)
    }

    /// Keeps Ctrl-C from a command.
    pub fn apart(command: &mut Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    pub(super) fn was_full(status: ExitStatus) -> bool {
        status.code().is_some_and(|code| FULL.contains(&code.cast_unsigned()))
    }

    /// Does nothing: only a job object could.
    pub fn limit_memory(_: u64) {}

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
