//! An exception as AWS's runtimes describe it in an invocation error.

use std::fmt::Write as _;

use redeliver_core::handler::{ErrorType, HandlerError};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lambda::Object;

/// Maximum number of an exception's causes in the details of an error.
const CAUSES_MAX: usize = 3;

/// Exceptions of Java and .NET that only carry another one, from a task or a reflective call.
const CARRIERS: [&str; 5] = [
    "AggregateException",
    "CompletionException",
    "ExecutionException",
    "InvocationTargetException",
    "TargetInvocationException",
];

/// The first line of a traceback in Python.
const TRACEBACK: &str = "Traceback (most recent call last):\n";

/// The lines between the tracebacks of a chain in Python; the last one is the exception that was thrown.
const CHAINED: [&str; 2] = [
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n",
];

/// With `stackTrace` by Python, Java, Ruby and .NET, with `trace` by Node.js. .NET and Java nest causes; `causes` are those
/// of .NET's `AggregateException`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exception {
    error_type: Option<String>,
    error_message: Option<String>,
    #[serde(alias = "trace")]
    stack_trace: Option<Box<RawValue>>,
    cause: Option<Box<RawValue>>,
    causes: Option<Box<RawValue>>,
    /// The place, if it was only in a traceback.
    #[serde(skip)]
    place: Option<String>,
}

impl Exception {
    pub(super) fn read(text: &[u8]) -> Self {
        serde_json::from_slice(text).map(|Object(exception)| exception).unwrap_or_default()
    }

    /// The record's own exception, without those that a batch processor, a task or a reflective call put around it. Only
    /// for an invocation with one record: an exception does not say which record it is about.
    pub(super) fn unwrapped(self) -> Self {
        match self.inner() {
            Some(inner) => inner.unwrapped(),
            None => self,
        }
    }

    fn inner(&self) -> Option<Self> {
        let name = self.error_type.as_deref()?.rsplit('.').next()?;
        // Powertools for AWS Lambda (Python) has the record's traceback in its message.
        if name == "BatchProcessingError" {
            return Self::in_traceback(self.error_message.as_deref()?);
        }
        if !CARRIERS.contains(&name) {
            return None;
        }
        let read = |text: &RawValue| serde_json::from_str(text.get()).ok().map(|Object(exception)| exception);
        let causes = self.causes.as_deref().and_then(|text| serde_json::from_str(text.get()).ok());
        let causes: Vec<Box<RawValue>> = causes.unwrap_or_default();
        match &*causes {
            // Several causes may all matter.
            [_, _, ..] => None,
            [only] => read(only),
            [] => read(self.cause.as_deref()?),
        }
    }

    /// The exception that a text of Python's `traceback.format_exception` ends with.
    fn in_traceback(text: &str) -> Option<Self> {
        let begins =
            |separator: &str| text.rfind(&format!("{separator}{TRACEBACK}")).map(|at| at + separator.len());
        let begin = CHAINED.into_iter().filter_map(begins).max().or_else(|| text.find(TRACEBACK))?;
        let mut lines = text[begin + TRACEBACK.len()..].lines();
        let (mut place, mut thrown) = (None, None);
        for line in lines.by_ref() {
            if !line.starts_with(' ') {
                thrown = Some(line);
                break;
            }
            if line.starts_with("  File \"") {
                place = Some(line.trim().to_owned());
            }
        }
        let thrown = thrown?;
        let (name, message) = thrown.split_once(": ").unwrap_or((thrown.trim_end_matches(':'), ""));
        // As the runtime names a class: without its module.
        let name = name.rsplit('.').next().filter(|name| !name.is_empty() && !name.contains(' '))?;
        let message = std::iter::once(message).chain(lines).collect::<Vec<_>>().join("\n");
        let (error_type, error_message) = (Some(name.to_owned()), Some(message.trim_end().to_owned()));
        Some(Self { error_type, error_message, place, ..Self::default() })
    }

    /// The place where it was thrown. Python lists the innermost call last, the others list it first, Node.js after the
    /// message.
    fn place(&self) -> Option<String> {
        if self.place.is_some() {
            return self.place.clone();
        }
        let frames: Vec<String> = serde_json::from_str(self.stack_trace.as_ref()?.get()).ok()?;
        let is_pythons = |frame: &String| frame.trim_start().starts_with("File \"");
        let is_nodes = |frame: &&String| frame.trim_start().starts_with("at ");
        let frame = if frames.first().is_some_and(is_pythons) {
            frames.last()
        } else {
            frames.iter().find(is_nodes).or(frames.first())
        };
        let line = frame?.trim().lines().next()?;
        Some(line.trim_start_matches("at ").to_owned())
    }

    /// The error of the message.
    pub(super) fn into_error(self) -> HandlerError {
        let mut details = self.error_message.clone().unwrap_or_default();
        if let Some(place) = self.place() {
            let _ = write!(details, " (at {place})");
        }
        let mut cause = self.cause;
        for _ in 0..CAUSES_MAX {
            let Some(text) = cause else { break };
            // Ruby and Node.js omit them.
            let Self { error_type, error_message, cause: next, .. } = Self::read(text.get().as_bytes());
            let (name, message) = (error_type.unwrap_or_default(), error_message.unwrap_or_default());
            let _ = write!(details, "; caused by {name}: {message}");
            cause = next;
        }
        let error_type = self.error_type.filter(|name| !name.is_empty());
        HandlerError::transient(
            error_type.map_or(ErrorType::Named("Runtime.UnknownReason"), ErrorType::FromTarget),
            details,
        )
    }
}
