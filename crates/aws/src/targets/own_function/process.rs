//! A process that runs the user's function. It executes the runtime's command and uses our Runtime API.

use std::ffi::OsString;
use std::io::PipeReader;
use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{env, io, thread};

use redeliver_platform::process::Group;
use tokio::process::{self, Child};
use uuid::Uuid;

use crate::settings::aws_variable;

/// The command that starts a function's runtime, a client of Lambda's Runtime API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeCommand {
    /// The program.
    pub program: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// Additional environment variables.
    pub variables: Vec<(&'static str, OsString)>,
}

impl RuntimeCommand {
    /// Creates the command from the words that Lambda passes to a wrapper script, or that the user wrote. Returns
    /// `None` if there are no words.
    #[must_use]
    pub fn new(words: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = words.into_iter();
        let program = words.next()?;
        Some(Self { program, arguments: words.collect(), variables: Vec::new() })
    }

    /// Adds the variables that runtimes expect from Lambda, unless they are set ("Defined runtime environment
    /// variables"). The handler is the last word of the command, as with AWS's runtime interface clients; the Node.js
    /// client reads it from a variable.
    #[must_use]
    pub fn with_lambda_variables(self, function_name: &str) -> Self {
        let folder = env::current_dir().unwrap_or_default();
        let variables: [(_, OsString); 7] = [
            ("AWS_LAMBDA_FUNCTION_NAME", function_name.into()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST".into()),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024".into()),
            ("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{function_name}").into()),
            ("AWS_LAMBDA_LOG_STREAM_NAME", function_name.into()),
            ("LAMBDA_TASK_ROOT", folder.into()),
            ("_HANDLER", self.arguments.last().cloned().unwrap_or_default()),
        ];
        let missing = variables.into_iter().filter(|(name, _)| aws_variable(name).is_none());
        Self { variables: missing.collect(), ..self }
    }

    /// Runs the command through another wrapper script ("Modifying the runtime environment", Wrapper scripts).
    #[must_use]
    pub fn with_wrapper(mut self, wrapper: Option<String>) -> Self {
        if let Some(wrapper) = wrapper {
            let program = std::mem::replace(&mut self.program, wrapper.into());
            self.arguments.insert(0, program);
        }
        self
    }
}

/// A function that reads the output of a process to the end, in a separate thread.
pub type OutputReader = fn(PipeReader);

/// The time limit for the remaining output of a process. The pipe closes when the last process that holds it exits. On
/// Linux, all of them have been killed; elsewhere, a daemon may survive.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process in its own group. Dropping it kills the group, including its children.
#[derive(Debug)]
pub(super) struct FunctionProcess {
    child: Child,
    /// `None` once the group has been killed, since its id may then belong to another process.
    group: Option<Group>,
    /// Disconnected once all output has been read.
    output: Option<Receiver<()>>,
}

impl FunctionProcess {
    /// Starts the process. Without `output`, it inherits our standard output and error.
    pub(super) fn start(
        command: &RuntimeCommand,
        runtime_api: SocketAddr,
        output: Option<OutputReader>,
    ) -> io::Result<Self> {
        let mut process = process::Command::new(&command.program);
        process.args(&command.arguments).stdin(Stdio::null()).kill_on_drop(true);
        let group = Group::prepare_command(process.as_std_mut(), Uuid::new_v4().to_string())?;
        process.envs(command.variables.iter().map(|(name, value)| (name, value)));
        process.env("AWS_LAMBDA_RUNTIME_API", runtime_api.to_string());
        // With this variable, the process would start redeliver again.
        process.env_remove("AWS_LAMBDA_EXEC_WRAPPER");
        let output = output.map(|read| redirect_output(&mut process, read)).transpose()?;
        let child = process.spawn()?;
        let group = child.id().map(|id| group.with_leader(id));
        Ok(Self { child, group, output })
    }

    /// Waits for the process to end, and kills the rest of its group.
    pub(super) async fn wait_for_exit(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.kill();
        status
    }

    /// Asks the group's processes to exit.
    pub(super) fn terminate(&self) {
        self.group.iter().for_each(Group::terminate);
    }

    /// Kills the group, and waits until its output has been read.
    fn kill(&mut self) {
        let Some(group) = self.group.take() else { return };
        group.kill();
        if let Some(output) = self.output.take() {
            let _disconnected = output.recv_timeout(OUTPUT_TIMEOUT);
        }
    }
}

impl Drop for FunctionProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Redirects all output of a command to one pipe, which keeps its order, and starts the thread that reads it.
fn redirect_output(process: &mut process::Command, read: OutputReader) -> io::Result<Receiver<()>> {
    let (reader, writer) = io::pipe()?;
    process.stdout(writer.try_clone()?).stderr(writer);
    let (done, is_done) = mpsc::channel();
    thread::Builder::new().name("function-output".to_owned()).spawn(move || {
        read(reader);
        drop(done);
    })?;
    Ok(is_done)
}
