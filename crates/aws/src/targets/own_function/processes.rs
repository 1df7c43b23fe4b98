//! The processes of a user's function: started with the first call, and again after one has ended or hung.

use std::io;
use std::mem;
use std::num::NonZeroU16;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use redeliver_core::deliver::until;
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use rustix::process::Signal;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;
use uuid::Uuid;

use super::answer::{Answer, exception};
use super::process::{Command, Process};
use super::runtime_api::{RuntimeApi, Said, Task, Upstream};
use super::{Event, Runtime, lock};
use crate::SystemClock;

/// The time for a function that is told to end: Lambda's Shutdown phase has no more ("Understanding the Lambda execution
/// environment lifecycle").
const END_PATIENCE: Duration = Duration::from_secs(2);

/// The processes of one command.
///
/// Each has one invocation at a time, as in Lambda. Dropping a call that is under way kills its process, since nobody
/// waits for its answer any more; the next call starts a new one.
#[derive(Debug)]
pub struct Processes {
    command: Command,
    /// For each call, where no invocation of Lambda's ends.
    time_limit: Option<Duration>,
    upstream: Option<Upstream>,
    /// One for each process that may run.
    places: Semaphore,
    most: u32,
    pub(super) idle: Mutex<Vec<Running>>,
    lambda: Mutex<Around>,
    restored: watch::Sender<bool>,
}

/// Lambda's invocation around ours.
#[derive(Clone, Debug, Default)]
struct Around {
    function_arn: String,
    trace_id: Option<String>,
}

/// The end of a function's process.
#[derive(Debug)]
pub struct Ended {
    /// `None` if the system does not say.
    pub status: Option<ExitStatus>,
    /// Its own words, if it could not begin.
    init_error: Option<Bytes>,
    /// It had the task.
    took: bool,
}

/// A process, and its Runtime API.
#[derive(Debug)]
pub(super) struct Running {
    process: Process,
    api: RuntimeApi,
    is_ready: bool,
    /// It has been given a task, and has not answered.
    is_busy: bool,
    init_error: Option<Bytes>,
}

/// A process while a call has it. If the call is broken off, one that is still starting is kept for the next call, and
/// one that is at work is dropped, and so killed.
#[derive(Debug)]
struct Lease<'a> {
    function: Option<Running>,
    idle: &'a Mutex<Vec<Running>>,
    _place: SemaphorePermit<'a>,
}

impl Lease<'_> {
    fn function(&mut self) -> &mut Running {
        self.function.as_mut().expect("it is there until the lease ends")
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        lock(self.idle).extend(self.function.take().filter(|function| !function.is_busy));
    }
}

impl Processes {
    /// The function that `command` runs, in `most` processes at the same time at most.
    #[must_use]
    pub fn new(command: Command, most: NonZeroU16) -> Self {
        Self {
            command,
            time_limit: None,
            upstream: None,
            places: Semaphore::new(usize::from(most.get())),
            most: most.get().into(),
            idle: Mutex::default(),
            lambda: Mutex::default(),
            restored: watch::Sender::new(false),
        }
    }

    /// In Lambda, whose Runtime API is at this address.
    #[must_use]
    pub fn in_lambda(self, runtime_api: Option<&str>) -> Self {
        Self { upstream: runtime_api.and_then(Upstream::new), ..self }
    }

    /// Limits each call, where no invocation of Lambda's ends it.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self }
    }

    /// The program of its command.
    #[must_use]
    pub fn program(&self) -> String {
        self.command.program.display().to_string()
    }

    /// Starts it, and waits until it has begun.
    ///
    /// # Errors
    /// The program cannot be run.
    pub async fn begin(&self) -> io::Result<Result<(), Ended>> {
        let mut function = self.start(true).await?;
        let began = function.ready().await;
        if began.is_ok() {
            lock(&self.idle).push(function);
        }
        Ok(began)
    }

    /// Tells the function to end when its calls are over, and waits until it has.
    pub async fn end(&self) {
        let all = async {
            let _places = self.places.acquire_many(self.most).await;
            let idle = mem::take(&mut *lock(&self.idle));
            idle.iter().for_each(|function| function.process.signal(Signal::TERM));
            for mut function in idle {
                let _ = function.process.ended().await;
            }
        };
        // What has not ended by then is dropped, and so killed.
        let _ = timeout(END_PATIENCE, all).await;
    }

    async fn start(&self, reports_init: bool) -> io::Result<Running> {
        let api = RuntimeApi::start(self.upstream.clone(), reports_init, self.restored.subscribe()).await?;
        let process = Process::start(&self.command, api.address)?;
        Ok(Running { process, api, is_ready: false, is_busy: false, init_error: None })
    }

    async fn lease(&self) -> io::Result<Lease<'_>> {
        let place = self.places.acquire().await.map_err(io::Error::other)?;
        let idle = lock(&self.idle).pop();
        let function = match idle {
            Some(function) => function,
            None => self.start(false).await?,
        };
        Ok(Lease { function: Some(function), idle: &self.idle, _place: place })
    }

    /// Takes the ARN and the trace of Lambda's invocation in which the next calls are made.
    pub fn invoked(&self, function_arn: &str, trace_id: Option<&str>) {
        let around = Around { function_arn: function_arn.to_owned(), trace_id: trace_id.map(str::to_owned) };
        *lock(&self.lambda) = around;
    }

    /// Lambda has restored its snapshot; returns when the function is ready for invocations again.
    pub async fn restored(&self) {
        self.restored.send_replace(true);
        let idle = mem::take(&mut *lock(&self.idle));
        for mut function in idle {
            function.is_ready = false;
            // If it has ended instead, its next call finds that.
            let _ = function.ready().await;
            lock(&self.idle).push(function);
        }
    }

    fn task(&self, event: Event<'_>, end: Timestamp) -> Task {
        let Around { function_arn, trace_id } = lock(&self.lambda).clone();
        let request_id = event.request_id.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let mut headers = HeaderMap::new();
        let mut insert = |name, value: Option<&str>| {
            // A text that cannot stand in a header is no trace id.
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        insert("lambda-runtime-aws-request-id", Some(&request_id));
        insert("lambda-runtime-deadline-ms", Some(&end.timestamp_millis().to_string()));
        insert("lambda-runtime-invoked-function-arn", Some(&function_arn));
        insert("lambda-runtime-trace-id", event.trace_id.or(trace_id.as_deref()));
        insert("lambda-runtime-client-context", event.client_context);
        Task { request_id, event: event.json.into(), headers }
    }

    async fn answer(&self, task: Task, end: Timestamp) -> Result<Answer, HandlerError> {
        let not_startable = |error| {
            let details = format_args!("the function cannot be started: {error}");
            HandlerError::unavailable("Runtime.NotStarted", details)
        };
        // One that ended between two calls is started again for this one; one that has just been started is not.
        for _ in 0..2 {
            let begins = async {
                let mut lease = self.lease().await.map_err(not_startable)?;
                let began = lease.function().ready().await;
                Ok((lease, began))
            };
            // One that takes longer to start goes on with that, and is there for the next call.
            let begun = timeout(until(SystemClock.now(), end), begins).await;
            let (mut lease, began) = begun.map_err(|_| HandlerError::not_started())??;
            let answered = match began {
                Ok(()) => self.in_time(end, lease.function().answer(&task)).await?,
                Err(ended) => Err(ended),
            };
            let ended = match answered {
                Ok(answer) => return Ok(answer),
                Err(ended) => ended,
            };
            lease.function = None;
            if ended.took {
                return Err(ended.in_a_call());
            }
            if ended.init_error.is_some() {
                return Err(ended.at_its_start());
            }
        }
        let details = "the function's process ends before it takes an invocation";
        Err(HandlerError::unavailable("Runtime.ExitError", details))
    }

    /// Limits an answer's time outside Lambda. In Lambda the message-processor drops the call at its deadline.
    async fn in_time<T>(&self, end: Timestamp, answer: impl Future<Output = T>) -> Result<T, HandlerError> {
        if self.time_limit.is_none() {
            return Ok(answer.await);
        }
        let answered = timeout(until(SystemClock.now(), end), answer).await;
        answered.map_err(|_| HandlerError::transient("Timeout", "the function did not answer in time"))
    }
}

impl Runtime for Processes {
    async fn call(&self, event: Event<'_>) -> Result<Answer, HandlerError> {
        let end = self.time_limit.map_or(event.end, |limit| SystemClock.now() + limit);
        self.answer(self.task(event, end), end).await
    }
}

impl Running {
    /// Until it asks for an invocation.
    async fn ready(&mut self) -> Result<(), Ended> {
        while !self.is_ready {
            self.heard().await?;
        }
        Ok(())
    }

    async fn answer(&mut self, task: &Task) -> Result<Answer, Ended> {
        let Task { request_id, event, headers } = task;
        let task = Task { request_id: request_id.clone(), event: event.clone(), headers: headers.clone() };
        let mut took = false;
        self.is_busy = true;
        // It has room for one, and has had none since the last answer.
        let _ = self.api.tasks.send(task).await;
        loop {
            match self.heard().await {
                Ok(Some(Said::Took)) => took = true,
                Ok(Some(Said::Answered(answer))) => {
                    self.is_busy = false;
                    return Ok(answer);
                }
                Ok(_) => {}
                Err(ended) => return Err(Ended { took, ..ended }),
            }
        }
    }

    /// The function's next report, or its end.
    async fn heard(&mut self) -> Result<Option<Said>, Ended> {
        tokio::select! {
            // What it has said before its end counts.
            biased;
            said = self.api.said.recv() => {
                match &said {
                    Some(Said::Ready) => self.is_ready = true,
                    Some(Said::InitError(error)) => self.init_error = Some(error.clone()),
                    _ => {}
                }
                Ok(said)
            }
            status = self.process.ended() => {
                Err(Ended { status: status.ok(), init_error: self.init_error.take(), took: false })
            }
        }
    }
}

impl Ended {
    /// As the system words it: `exit status: 1`, `signal: 11 (SIGSEGV)`.
    #[must_use]
    pub fn how(&self) -> String {
        self.status.map_or_else(|| "for an unknown reason".to_owned(), |status| status.to_string())
    }

    fn in_a_call(&self) -> HandlerError {
        HandlerError::transient(
            "Runtime.Exited",
            format_args!("the function's process ended: {}", self.how()),
        )
    }

    /// No message's fault: the function is down.
    fn at_its_start(self) -> HandlerError {
        let error = exception(&self.init_error.unwrap_or_default());
        HandlerError::unavailable(error.error_type, error.details)
    }
}
