//! This process and its children.

pub use system::{Group, block_debuggers, disable_core_dumps, shield_from_interrupts};

#[cfg(unix)]
mod system {
    use std::io;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, setrlimit};

    /// Prevents this process from leaving a core file when it crashes.
    pub fn disable_core_dumps() {
        let _best_effort = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    }

    /// On Linux, prevents debuggers of the same user from attaching to this process (`PR_SET_DUMPABLE` in prctl(2)).
    pub fn block_debuggers() {
        #[cfg(target_os = "linux")]
        let _best_effort =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }

    /// Keeps the terminal's Ctrl-C from reaching the command's process.
    pub fn shield_from_interrupts(command: &mut Command) {
        command.process_group(0);
    }

    /// The environment variable that marks the processes in a group: children inherit it, even in new sessions.
    const MARK: &str = "REDELIVER_PROCESS_GROUP";

    /// A process and all processes that it has started.
    ///
    /// The system's process group does not include processes that started a new session (`setsid`), as daemons do. On
    /// Linux, [`Group::kill`] kills these, too: all processes with the group's mark in their environment, and their
    /// descendants.
    #[derive(Debug)]
    pub struct Group {
        mark: String,
        leader: Option<Pid>,
    }

    impl Group {
        /// Makes a command start in a new group. `mark` must be unique, since it identifies the processes in the group.
        ///
        /// # Errors
        /// Never fails on Unix.
        pub fn prepare_command(command: &mut Command, mark: String) -> io::Result<Self> {
            command.process_group(0).env(MARK, &mark);
            Ok(Self { mark, leader: None })
        }

        /// Sets the process id of the group's leader, once the command has started.
        #[must_use]
        pub fn with_leader(self, id: u32) -> Self {
            Self { leader: Pid::from_raw(id.cast_signed()), ..self }
        }

        /// Sends SIGTERM to the process group.
        pub fn terminate(&self) {
            if let Some(leader) = self.leader {
                let _may_have_ended = kill_process_group(leader, Signal::TERM);
            }
        }

        /// Kills the process group and, on Linux, the daemons that it has started.
        pub fn kill(&self) {
            #[cfg(target_os = "linux")]
            super::marked::kill_marked(&format!("{MARK}={}", self.mark));
            if let Some(leader) = self.leader {
                let _may_have_ended = kill_process_group(leader, Signal::KILL);
            }
        }
    }
}

/// Processes with a mark in their environment.
#[cfg(target_os = "linux")]
mod marked {
    use std::collections::HashSet;
    use std::fs;
    use std::os::fd::OwnedFd;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    struct ScannedProcess {
        id: Pid,
        parent: Option<Pid>,
        /// Refers to this process even after its id is reused.
        handle: OwnedFd,
        is_marked: bool,
    }

    /// Kills the processes with this variable in their environment, and their descendants.
    pub(super) fn kill_marked(variable: &str) {
        let mut killed = HashSet::new();
        loop {
            let mut new = with_descendants(find_processes(variable));
            new.retain(|process| killed.insert(process.id));
            // The next scan finds the processes that were started during this one: a child inherits its parent's
            // environment.
            if new.is_empty() {
                return;
            }
            for process in new {
                let _may_have_ended = pidfd_send_signal(process.handle, Signal::KILL);
            }
        }
    }

    /// Lists all processes whose environment is readable, i.e. the user's own.
    fn find_processes(variable: &str) -> Vec<ScannedProcess> {
        let ids = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
            let id = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(id)
        });
        let read = |id: Pid| {
            let handle = pidfd_open(id, PidfdFlags::empty()).ok()?;
            let folder = format!("/proc/{}", id.as_raw_nonzero());
            let environment = fs::read(format!("{folder}/environ")).ok()?;
            let is_marked = environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes());
            let parent = parse_parent(&fs::read_to_string(format!("{folder}/stat")).ok()?);
            Some(ScannedProcess { id, parent, handle, is_marked })
        };
        ids.filter_map(read).collect()
    }

    /// Parses the parent's id from `/proc/PID/stat`. The id follows the program's name, which may contain any
    /// character, and the state.
    fn parse_parent(stat: &str) -> Option<Pid> {
        let (_, fields) = stat.rsplit_once(") ")?;
        Pid::from_raw(fields.split(' ').nth(1)?.parse().ok()?)
    }

    fn with_descendants(mut candidates: Vec<ScannedProcess>) -> Vec<ScannedProcess> {
        let mut found: Vec<_> = candidates.extract_if(.., |process| process.is_marked).collect();
        loop {
            let ids: HashSet<_> = found.iter().map(|process| process.id).collect();
            let children = candidates
                .extract_if(.., |process| process.parent.is_some_and(|parent| ids.contains(&parent)))
                .collect::<Vec<_>>();
            if children.is_empty() {
                return found;
            }
            found.extend(children);
        }
    }

    #[cfg(test)]
    mod tests {
        use std::io::{BufRead as _, BufReader};
        use std::process::{Child, Command, Stdio};

        use super::super::Group;
        use super::*;

        /// Starts a group with two daemons, one of them without the group's environment. Returns the leader, the group,
        /// and the ids of the daemons.
        fn group_with_daemons(mark: &str) -> (Child, Group, Vec<String>) {
            let mut command = Command::new("sh");
            let script = "setsid sleep 1000 & echo $!; env -i setsid sleep 1000 & echo $!; exec sleep 1000";
            let group = Group::prepare_command(command.args(["-c", script]), mark.to_owned()).unwrap();
            let mut leader = command.stdout(Stdio::piped()).spawn().unwrap();
            let ids =
                BufReader::new(leader.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
            let group = group.with_leader(leader.id());
            (leader, group, ids)
        }

        fn is_running(id: &str) -> bool {
            fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        }

        #[test]
        fn killing_a_group_kills_its_daemons_but_not_other_groups() {
            let (mut leader, group, daemons) = group_with_daemons("a-group");
            let (mut other, other_group, other_daemons) = group_with_daemons("a-group-2");
            group.kill();
            leader.wait().unwrap();
            while daemons.iter().any(|id| is_running(id)) {
                std::thread::yield_now();
            }
            assert!(other_daemons.iter().all(|id| is_running(id)));
            assert!(other.try_wait().unwrap().is_none());
            other_group.kill();
            other.wait().unwrap();
        }

        #[test]
        fn the_parent_is_parsed_after_a_process_name_with_brackets_and_spaces() {
            assert_eq!(parse_parent("7 (a) b) S 42 7 7 0 -1"), Pid::from_raw(42));
            assert_eq!(parse_parent("1 (init) S 0 1 1 0 -1"), None);
            assert_eq!(parse_parent(""), None);
        }
    }
}

#[cfg(windows)]
mod system {
    use std::io;
    use std::os::windows::process::CommandExt as _;
    use std::process::Command;

    /// Does nothing: Windows writes no dump of a process unless an administrator enables it.
    pub fn disable_core_dumps() {}

    /// Does nothing.
    pub fn block_debuggers() {}

    /// Keeps the terminal's Ctrl-C from reaching the command's process.
    pub fn shield_from_interrupts(command: &mut Command) {
        const CREATE_NEW_PROCESS_GROUP: u32 = 0x0000_0200;
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    /// A process and all processes that it has started. On Windows, only a job object could end these together, so
    /// groups are not supported.
    #[derive(Debug)]
    pub enum Group {}

    impl Group {
        /// Fails, since groups are not supported.
        ///
        /// # Errors
        /// Always.
        pub fn prepare_command(_: &mut Command, _: String) -> io::Result<Self> {
            Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "Windows cannot end a function together with its child processes; run redeliver in WSL or in a container",
            ))
        }

        /// Returns the group unchanged.
        #[must_use]
        pub fn with_leader(self, _: u32) -> Self {
            self
        }

        /// Does nothing, since the type has no values.
        pub fn terminate(&self) {
            match *self {}
        }

        /// Does nothing, since the type has no values.
        pub fn kill(&self) {
            match *self {}
        }
    }
}
