//! Lambda from a compiled function's point of view: the Runtime API on loopback, with one process that is kept, stopped
//! or replaced.
//!
//! "Using the Lambda runtime API for custom runtimes" in the AWS Lambda Developer Guide.

mod environment;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::sleep;

use environment::RuntimeProcess;

use crate::sqs::REGION;

/// A Lambda function: a program, its environment variables, and at most one execution environment at a time.
pub struct LambdaFunction {
    name: String,
    program: PathBuf,
    variables: BTreeMap<String, String>,
    environment: AsyncMutex<Option<RuntimeProcess>>,
    output: Arc<Mutex<Vec<OutputLine>>>,
    in_flight: watch::Sender<bool>,
    kill: Notify,
}

/// The outcome of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationOutcome {
    /// The function's response.
    Response(Value),
    /// The function reported an error during an invocation or at startup.
    Error(Value),
    /// The process ended.
    Died,
    /// The function's timeout passed; its process was killed.
    TimedOut,
}

/// A line of a function's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// True for standard error.
    pub is_stderr: bool,
    /// The line without its line ending.
    pub text: String,
}

impl LambdaFunction {
    /// Creates a function. Its process starts on the first invocation, with only `variables` and Lambda's own
    /// variables in its environment.
    #[must_use]
    pub fn new(
        name: &str,
        program: PathBuf,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Arc<Self> {
        let variables = lambda_variables(name).into_iter().chain(variables).collect();
        Arc::new(Self {
            name: name.to_owned(),
            program,
            variables,
            environment: AsyncMutex::new(None),
            output: Arc::default(),
            in_flight: watch::Sender::new(false),
            kill: Notify::new(),
        })
    }

    /// Invokes the function with `event`; one invocation at a time. `timeout` does not include process startup.
    ///
    /// # Panics
    /// If the program cannot be run.
    pub async fn invoke(&self, event: &Value, timeout: Duration) -> InvocationOutcome {
        let mut slot = self.environment.lock().await;
        if slot.as_mut().is_none_or(RuntimeProcess::has_ended) {
            *slot = Some(RuntimeProcess::start(&self.program, &self.variables, &self.output));
        }
        let Some(environment) = slot.as_mut() else {
            return InvocationOutcome::Died;
        };
        let outcome = tokio::select! {
            biased;
            () = self.kill.notified() => InvocationOutcome::Died,
            outcome = environment.invoke(event, timeout, &self.in_flight, self.arn()) => outcome,
        };
        self.in_flight.send_replace(false);
        // Lambda replaces the environment of a function that died or timed out.
        if matches!(outcome, InvocationOutcome::Died | InvocationOutcome::TimedOut)
            && let Some(environment) = slot.take()
        {
            environment.kill().await;
        }
        outcome
    }

    /// Waits until an invocation has run for `delay`, and kills the process (SIGKILL).
    ///
    /// # Panics
    /// Never: the function outlives its own channel.
    pub async fn kill_mid_invocation(&self, delay: Duration) {
        let mut in_flight = self.in_flight.subscribe();
        in_flight.wait_for(|in_flight| *in_flight).await.expect("the sender is a field of self");
        sleep(delay).await;
        self.kill_process();
    }

    /// Kills the process of the current invocation (SIGKILL), even during startup. The outcome is
    /// [`InvocationOutcome::Died`].
    pub fn kill_process(&self) {
        self.kill.notify_waiters();
    }

    /// Terminates the process (SIGTERM), as Lambda does for a function with an extension, and returns its exit code.
    pub async fn terminate_process(&self) -> Option<i32> {
        let mut environment = self.environment.lock().await.take()?;
        environment.terminate().await
    }

    /// Returns the id of the running process, if any.
    pub async fn process_id(&self) -> Option<u32> {
        self.environment.lock().await.as_ref().and_then(RuntimeProcess::process_id)
    }

    /// Returns all output so far.
    ///
    /// # Panics
    /// If a reader panicked.
    #[must_use]
    pub fn output_lines(&self) -> Vec<OutputLine> {
        self.output.lock().expect("no reader panics").clone()
    }

    /// Returns the function's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn arn(&self) -> String {
        format!("arn:aws:lambda:{REGION}:000000000000:function:{}", self.name)
    }
}

/// Returns the variables that Lambda sets ("Defined runtime environment variables" in the AWS Lambda Developer Guide).
fn lambda_variables(name: &str) -> [(String, String); 11] {
    [
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_LAMBDA_FUNCTION_NAME", name),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/tests"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "tests"),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("_HANDLER", name),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}
