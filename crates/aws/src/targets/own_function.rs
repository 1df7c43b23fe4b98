//! A user's own function, in any language, as the target: its runtime is our child, and we are its Runtime API.

mod answer;
mod event;
mod process;
mod runtime_api;

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

use answer::{Answer, exception, outcome, outcomes, returned};
pub use process::Command;
use process::Process;
use runtime_api::{RuntimeApi, Said, Task, Upstream};
use rustix::process::Signal;

use super::invoke::client_context;
use crate::SystemClock;
use crate::lambda::{Diagnostic, Guest};

/// What the handler gets in one invocation: `HANDLER_EVENT`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandlerEvent {
    /// An SQS event with one record.
    #[default]
    Record,
    /// An SQS event with all records that may be called.
    Batch,
}

impl HandlerEvent {
    /// Calls to begin at the same time: a function has one invocation at a time, of one record or of all.
    #[must_use]
    pub const fn concurrency(self) -> NonZeroUsize {
        match self {
            Self::Record => NonZeroUsize::MIN,
            Self::Batch => NonZeroUsize::MAX,
        }
    }
}

/// The user's function: started with the first call, and again after it has ended or hung.
///
/// Each of its processes has one invocation at a time, as in Lambda. Dropping a call that is under way kills the process:
/// what it would still do nobody waits for, and the next call starts it anew.
#[derive(Debug)]
pub struct OwnFunction {
    command: Command,
    handler_event: HandlerEvent,
    /// For each call, where no invocation of Lambda's ends.
    time_limit: Option<Duration>,
    upstream: Option<Upstream>,
    /// One for each process that may run.
    places: Semaphore,
    idle: Mutex<Vec<Running>>,
    /// Records whose calls began together, in one invocation.
    together: Mutex<Vec<Waiting>>,
    lambda: Mutex<Around>,
    restored: watch::Sender<bool>,
}

/// Lambda's invocation around ours.
#[derive(Clone, Debug, Default)]
struct Around {
    function_arn: String,
    trace_id: Option<String>,
}

/// A record of an invocation that is about to begin.
#[derive(Debug)]
struct Waiting {
    sqs_message_id: String,
    record: String,
    answer: oneshot::Sender<Result<(), HandlerError>>,
}

/// How a function ended.
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
struct Running {
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

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        lock(self.idle).extend(self.function.take().filter(|function| !function.is_busy));
    }
}

impl OwnFunction {
    /// The function that `command` runs, in up to `processes` at the same time.
    #[must_use]
    pub fn new(command: Command, handler_event: HandlerEvent, processes: NonZeroUsize) -> Self {
        Self {
            command,
            handler_event,
            time_limit: None,
            upstream: None,
            places: Semaphore::new(processes.get().min(Semaphore::MAX_PERMITS)),
            idle: Mutex::default(),
            together: Mutex::default(),
            lambda: Mutex::default(),
            restored: watch::Sender::new(false),
        }
    }

    /// In Lambda, whose Runtime API is at this address.
    #[must_use]
    pub fn in_lambda(self, runtime_api: Option<String>) -> Self {
        Self { upstream: runtime_api.map(Upstream::new), ..self }
    }

    /// Where no invocation of Lambda's ends a call.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self }
    }

    /// Calls to begin at the same time.
    #[must_use]
    pub const fn concurrency(&self) -> NonZeroUsize {
        self.handler_event.concurrency()
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

    /// Tells the function to end, and waits until it has.
    pub async fn end(&self) {
        let idle = mem::take(&mut *lock(&self.idle));
        for mut function in idle {
            function.process.signal(Signal::TERM);
            let _ = function.process.ended().await;
        }
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

    /// Calls the handler with an event of any kind.
    ///
    /// # Errors
    /// What became of it, if it has not answered.
    async fn call(
        &self,
        event: String,
        headers: Headers<'_>,
        end: Timestamp,
    ) -> Result<Answer, HandlerError> {
        let Some(limit) = self.time_limit else {
            return self.answer(self.task(event, headers, end)).await;
        };
        let task = self.task(event, headers, SystemClock.now() + limit);
        let too_late = |_| Err(HandlerError::transient("Timeout", "the function did not answer in time"));
        timeout(limit, self.answer(task)).await.unwrap_or_else(too_late)
    }

    async fn answer(&self, task: Task) -> Result<Answer, HandlerError> {
        // One that ended between two calls is started again for this one; one that has just been started is not.
        for _ in 0..2 {
            let mut lease = self.lease().await.map_err(|error| {
                let details = format_args!("the function cannot be started: {error}");
                HandlerError::unavailable("Runtime.NotStarted", details)
            })?;
            let function = lease.function.as_mut().expect("it is there until the lease ends");
            let answered = match function.ready().await {
                Ok(()) => function.answer(&task).await,
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
}

/// What stands beside an event.
#[derive(Clone, Copy, Debug, Default)]
struct Headers<'a> {
    trace_id: Option<&'a str>,
    client_context: Option<&'a str>,
}

impl OwnFunction {
    fn task(&self, event: String, given: Headers<'_>, end: Timestamp) -> Task {
        let Around { function_arn, trace_id } = lock(&self.lambda).clone();
        let request_id = Uuid::new_v4().to_string();
        let mut headers = HeaderMap::new();
        let mut insert = |name, value: Option<&str>| {
            // What cannot stand in a header was no trace of anybody's.
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        insert("lambda-runtime-aws-request-id", Some(&request_id));
        insert("lambda-runtime-deadline-ms", Some(&end.timestamp_millis().to_string()));
        insert("lambda-runtime-invoked-function-arn", Some(&function_arn));
        insert("lambda-runtime-trace-id", given.trace_id.or(trace_id.as_deref()));
        insert("lambda-runtime-client-context", given.client_context);
        Task { request_id, event: event.into(), headers }
    }

    async fn call_one(&self, invocation: &Invocation<'_>) -> Result<(), HandlerError> {
        let client_context = client_context(invocation.message);
        let headers = Headers {
            trace_id: invocation.record.trace_header.as_deref(),
            client_context: client_context.as_deref(),
        };
        let event = event::event([&*event::record(invocation)]);
        let answer = self.call(event, headers, invocation.end).await?;
        outcome(&answer, &invocation.record.sqs_message_id)
    }

    /// All calls that begin at the same time make one invocation, and the first of them makes it.
    async fn call_together(&self, invocation: &Invocation<'_>) -> Result<(), HandlerError> {
        let (answer, answered) = oneshot::channel();
        let sqs_message_id = invocation.record.sqs_message_id.clone();
        let is_first = {
            let mut together = lock(&self.together);
            together.push(Waiting { sqs_message_id, record: event::record(invocation), answer });
            together.len() == 1
        };
        if is_first {
            // The others have their turn before this one goes on.
            tokio::task::yield_now().await;
            let records = mem::take(&mut *lock(&self.together));
            self.call_all(records, invocation.end).await;
        }
        let broken_off = || HandlerError::transient("Timeout", "the invocation was broken off");
        answered.await.unwrap_or_else(|_| Err(broken_off()))
    }

    async fn call_all(&self, records: Vec<Waiting>, end: Timestamp) {
        let event = event::event(records.iter().map(|waiting| &*waiting.record));
        let ids: Vec<_> = records.iter().map(|waiting| &*waiting.sqs_message_id).collect();
        let outcomes = match self.call(event, Headers::default(), end).await {
            Ok(answer) => outcomes(&answer, &ids),
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        };
        for (waiting, outcome) in records.into_iter().zip(outcomes) {
            // Who waited for it may have been broken off.
            let _ = waiting.answer.send(outcome);
        }
    }
}

impl Handler for OwnFunction {
    /// The body is the event, as in an asynchronous invocation.
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        let answer = self.call(message.body.clone(), Headers::default(), Timestamp::MAX_UTC).await?;
        outcome(&answer, "")
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        match self.handler_event {
            HandlerEvent::Record => self.call_one(&invocation).await,
            HandlerEvent::Batch => self.call_together(&invocation).await,
        }
    }
}

impl Guest for OwnFunction {
    fn invoked(&self, function_arn: &str, trace_id: Option<&str>) {
        let around = Around { function_arn: function_arn.to_owned(), trace_id: trace_id.map(str::to_owned) };
        *lock(&self.lambda) = around;
    }

    async fn other_event(&self, event: &str, end: Timestamp) -> Option<Result<Box<RawValue>, Diagnostic>> {
        let failed = |error: HandlerError| Diagnostic {
            error_type: error.error_type.name().into_owned(),
            error_message: error.details,
        };
        let answered = self.call(event.to_owned(), Headers::default(), end).await;
        Some(answered.and_then(returned).map_err(failed))
    }

    async fn restored(&self) {
        self.restored.send_replace(true);
        let idle = mem::take(&mut *lock(&self.idle));
        for mut function in idle {
            function.is_ready = false;
            // If it has ended instead, its next call finds that.
            let _ = function.ready().await;
            lock(&self.idle).push(function);
        }
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

    /// What it says next, or its end.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
