//! The processes that run the user's function, started by the first call and restarted if they exit or hang.

use std::io;
use std::mem;
use std::num::NonZeroU16;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use redeliver_core::deliver::time_until;
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use super::answer::FunctionResponse;
use super::exception::Exception;
use super::process::{FunctionProcess, OutputReader, RuntimeCommand};
use super::runtime_api::{InvocationTask, RuntimeApi, RuntimeEvent, Upstream};
use super::{FunctionInvocation, FunctionRuntime, lock};
use crate::SystemClock;

/// The time limit for functions to exit after SIGTERM, as in Lambda's Shutdown phase ("Understanding the Lambda
/// execution environment lifecycle").
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The processes that run one command.
///
/// Each process handles one invocation at a time, as in Lambda. Dropping a call in progress kills its process; the next
/// call starts a new one.
#[derive(Debug)]
pub struct Processes {
    command: RuntimeCommand,
    /// The time limit for each call outside Lambda.
    time_limit: Option<Duration>,
    output: Option<OutputReader>,
    upstream: Option<Upstream>,
    /// One permit per process that can run.
    permits: Semaphore,
    processes_max: u32,
    pub(super) idle: Mutex<Vec<RunningFunction>>,
    lambda: Mutex<LambdaInvocation>,
    restored: watch::Sender<bool>,
}

/// Data about the Lambda invocation in progress.
#[derive(Clone, Debug, Default)]
struct LambdaInvocation {
    function_arn: String,
    trace_id: Option<String>,
}

/// The exit of a function's process.
#[derive(Debug)]
pub struct FunctionExit {
    /// `None` if the system does not report it.
    pub status: Option<ExitStatus>,
    /// The error that the process reported during startup.
    init_error: Option<Bytes>,
    /// True if the process had received the task.
    received_task: bool,
}

/// A process with its Runtime API.
#[derive(Debug)]
pub(super) struct RunningFunction {
    process: FunctionProcess,
    api: RuntimeApi,
    is_ready: bool,
    /// True if the process has a task and has not responded.
    is_busy: bool,
    /// The time of the last response; `None` once the process requests the next task.
    pub(super) answered_at: Option<Timestamp>,
    init_error: Option<Bytes>,
}

/// The maximum time that a process may keep working after its response, for example to send traces or collect garbage.
const AFTER_ANSWER_MAX: Duration = Duration::from_secs(30);

/// A process in use by a call. If the call is dropped, a process that is still starting is kept for the next call. The
/// process is killed if it is busy, or if it has not requested a task long after its response.
#[derive(Debug)]
struct ProcessLease<'a> {
    function: Option<RunningFunction>,
    idle: &'a Mutex<Vec<RunningFunction>>,
    _permit: SemaphorePermit<'a>,
}

impl ProcessLease<'_> {
    fn process_mut(&mut self) -> &mut RunningFunction {
        self.function.as_mut().expect("the lease has a process until it ends")
    }
}

impl Drop for ProcessLease<'_> {
    fn drop(&mut self) {
        lock(self.idle)
            .extend(self.function.take().filter(|function| !function.is_busy && !function.is_stuck()));
    }
}

impl Processes {
    /// Creates a pool that runs `command` in up to `processes_max` concurrent processes.
    #[must_use]
    pub fn new(command: RuntimeCommand, processes_max: NonZeroU16) -> Self {
        Self {
            command,
            time_limit: None,
            output: None,
            upstream: None,
            permits: Semaphore::new(usize::from(processes_max.get())),
            processes_max: processes_max.get().into(),
            idle: Mutex::default(),
            lambda: Mutex::default(),
            restored: watch::Sender::new(false),
        }
    }

    /// Forwards the requests that redeliver does not serve (extensions, telemetry) to Lambda's Runtime API at this
    /// `HOST:PORT`. Without it, the response to such requests is 404.
    #[must_use]
    pub fn with_runtime_api(self, runtime_api: Option<&str>) -> Self {
        Self { upstream: runtime_api.and_then(Upstream::new), ..self }
    }

    /// Limits the time of each call, for use outside Lambda.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self }
    }

    /// Redirects the standard output and error of each process to a pipe, which `read` consumes. By default, each
    /// process inherits our standard output and error.
    #[must_use]
    pub fn with_output(self, read: OutputReader) -> Self {
        Self { output: Some(read), ..self }
    }

    /// Returns the command's program.
    #[must_use]
    pub fn program_name(&self) -> String {
        self.command.program.display().to_string()
    }

    /// Starts a process and waits until it is ready. Returns `Ok(Err(_))` if the process exits before it is ready.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub async fn start_first_process(&self) -> io::Result<Result<(), FunctionExit>> {
        let mut function = self.start_process(true).await?;
        let began = function.wait_until_ready().await;
        if began.is_ok() {
            lock(&self.idle).push(function);
        }
        Ok(began)
    }

    /// Stops all processes: with SIGTERM once their calls have ended, and with SIGKILL after at most 2 s.
    pub async fn stop_all(&self) {
        let all = async {
            let _permits = self.permits.acquire_many(self.processes_max).await;
            let idle = mem::take(&mut *lock(&self.idle));
            idle.iter().for_each(|function| function.process.terminate());
            for mut function in idle {
                let _ = function.process.wait_for_exit().await;
            }
        };
        // Dropping the remaining processes kills them.
        let _ = timeout(SHUTDOWN_TIMEOUT, all).await;
    }

    async fn start_process(&self, reports_init: bool) -> io::Result<RunningFunction> {
        let api = RuntimeApi::start(self.upstream.clone(), reports_init, self.restored.subscribe()).await?;
        let process = FunctionProcess::start(&self.command, api.address, self.output)?;
        Ok(RunningFunction {
            process,
            api,
            is_ready: false,
            is_busy: false,
            answered_at: None,
            init_error: None,
        })
    }

    async fn lease_process(&self) -> io::Result<ProcessLease<'_>> {
        let permit = self.permits.acquire().await.map_err(io::Error::other)?;
        let idle = lock(&self.idle).pop();
        let function = match idle {
            Some(function) => function,
            None => self.start_process(false).await?,
        };
        Ok(ProcessLease { function: Some(function), idle: &self.idle, _permit: permit })
    }

    /// Sets the ARN and the trace id of the Lambda invocation for subsequent calls to the function.
    pub fn set_invocation(&self, function_arn: &str, trace_id: Option<&str>) {
        let trace_id = trace_id.map(str::to_owned);
        *lock(&self.lambda) = LambdaInvocation { function_arn: function_arn.to_owned(), trace_id };
    }

    /// Reports that Lambda has restored the snapshot, and waits until the function is ready again.
    pub async fn resume_after_restore(&self) {
        self.restored.send_replace(true);
        let idle = mem::take(&mut *lock(&self.idle));
        for mut function in idle {
            function.is_ready = false;
            // If the process exited instead, the next call detects that.
            let _ = function.wait_until_ready().await;
            lock(&self.idle).push(function);
        }
    }

    fn new_task(&self, event: FunctionInvocation<'_>, end: Timestamp) -> InvocationTask {
        let LambdaInvocation { function_arn, trace_id } = lock(&self.lambda).clone();
        let request_id = event.request_id;
        let mut headers = HeaderMap::new();
        let mut insert = |name, value: Option<&str>| {
            // A value that is invalid in a header cannot be a trace id, so it is omitted.
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        insert("lambda-runtime-aws-request-id", Some(&request_id));
        insert("lambda-runtime-deadline-ms", Some(&end.timestamp_millis().to_string()));
        insert("lambda-runtime-invoked-function-arn", Some(&function_arn));
        insert("lambda-runtime-trace-id", event.trace_id.or(trace_id.as_deref()));
        insert("lambda-runtime-client-context", event.client_context);
        InvocationTask { request_id, event: event.json.into(), headers }
    }

    async fn run_task(&self, task: InvocationTask, end: Timestamp) -> Result<FunctionResponse, HandlerError> {
        let not_startable = |error| {
            let details = format_args!("the function cannot be started: {error}");
            HandlerError::unavailable("Runtime.NotStarted", details)
        };
        // An idle process may have exited since its last call, so a second attempt is made.
        for _ in 0..2 {
            let begins = async {
                let mut lease = self.lease_process().await.map_err(not_startable)?;
                let began = lease.process_mut().wait_until_ready().await;
                Ok((lease, began))
            };
            // A startup that takes longer is not interrupted; the next call uses its process.
            let begun = timeout(time_until(SystemClock.now(), end), begins).await;
            let (mut lease, began) = begun.map_err(|_| HandlerError::not_started())??;
            let answered = match began {
                Ok(()) => self.limit_time(end, lease.process_mut().execute_task(&task)).await?,
                Err(ended) => Err(ended),
            };
            let ended = match answered {
                Ok(answer) => return Ok(answer),
                Err(ended) => ended,
            };
            lease.function = None;
            if ended.received_task {
                return Err(ended.call_error());
            }
            if ended.init_error.is_some() {
                return Err(ended.startup_error());
            }
        }
        let details = "the function's process exited before it requested an invocation";
        Err(HandlerError::unavailable("Runtime.ExitError", details))
    }

    /// Limits the response time outside Lambda. In Lambda, the message-processor drops the call at its deadline.
    async fn limit_time<T>(
        &self,
        end: Timestamp,
        answer: impl Future<Output = T>,
    ) -> Result<T, HandlerError> {
        if self.time_limit.is_none() {
            return Ok(answer.await);
        }
        let answered = timeout(time_until(SystemClock.now(), end), answer).await;
        answered.map_err(|_| HandlerError::transient("Timeout", "the function did not answer in time"))
    }
}

impl FunctionRuntime for Processes {
    async fn run_handler(&self, event: FunctionInvocation<'_>) -> Result<FunctionResponse, HandlerError> {
        let end = self.time_limit.map_or(event.end, |limit| SystemClock.now() + limit);
        self.run_task(self.new_task(event, end), end).await
    }
}

impl RunningFunction {
    fn is_stuck(&self) -> bool {
        self.answered_at.is_some_and(|at| time_until(at, SystemClock.now()) > AFTER_ANSWER_MAX)
    }

    /// Waits until the process requests an invocation.
    async fn wait_until_ready(&mut self) -> Result<(), FunctionExit> {
        while !self.is_ready {
            self.next_event().await?;
        }
        Ok(())
    }

    async fn execute_task(&mut self, task: &InvocationTask) -> Result<FunctionResponse, FunctionExit> {
        let InvocationTask { request_id, event, headers } = task;
        let task =
            InvocationTask { request_id: request_id.clone(), event: event.clone(), headers: headers.clone() };
        let mut received_task = false;
        self.is_busy = true;
        // Does not wait: the channel has room for one task, and is empty after a response.
        let _ = self.api.tasks.send(task).await;
        loop {
            match self.next_event().await {
                Ok(Some(RuntimeEvent::TaskReceived)) => (received_task, self.is_ready) = (true, false),
                Ok(Some(RuntimeEvent::Answered(answer))) => {
                    self.is_busy = false;
                    // Until its next request, the process may still be working, or it may exit. A streaming function
                    // may already have sent that request.
                    self.answered_at = (!self.is_ready).then(|| SystemClock.now());
                    return Ok(answer);
                }
                Ok(_) => {}
                Err(ended) => return Err(FunctionExit { received_task, ..ended }),
            }
        }
    }

    /// Waits for the function's next event, or for its exit.
    async fn next_event(&mut self) -> Result<Option<RuntimeEvent>, FunctionExit> {
        tokio::select! {
            // Events before the exit take precedence.
            biased;
            event = self.api.events.recv() => {
                match &event {
                    Some(RuntimeEvent::Ready) => (self.is_ready, self.answered_at) = (true, None),
                    Some(RuntimeEvent::InitError(error)) => self.init_error = Some(error.clone()),
                    _ => {}
                }
                Ok(event)
            }
            status = self.process.wait_for_exit() => {
                Err(FunctionExit { status: status.ok(), init_error: self.init_error.take(), received_task: false })
            }
        }
    }
}

impl FunctionExit {
    /// Returns the system's description of the exit, such as `exit status: 1` or `signal: 11 (SIGSEGV)`.
    #[must_use]
    pub fn describe_exit(&self) -> String {
        self.status.map_or_else(|| "for an unknown reason".to_owned(), |status| status.to_string())
    }

    fn call_error(&self) -> HandlerError {
        HandlerError::transient(
            "Runtime.Exited",
            format_args!("the function's process ended: {}", self.describe_exit()),
        )
    }

    /// Returns the error for a call whose process reported an error during startup and exited. The function is down, so
    /// no message is at fault.
    fn startup_error(self) -> HandlerError {
        let error = Exception::from_json(&self.init_error.unwrap_or_default()).into_error();
        HandlerError::unavailable(error.error_type, error.details)
    }
}
