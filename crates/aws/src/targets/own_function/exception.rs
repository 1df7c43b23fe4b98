//! An exception in an invocation error, in the formats that AWS's runtimes use.

use std::fmt::Write as _;

use redeliver_core::handler::{ErrorType, HandlerError};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lambda::FromObject;

/// The maximum number of causes listed in an error's details.
const CAUSES_MAX: usize = 3;

/// The maximum number of wrappers around the record's own exception.
const CARRIERS_MAX: usize = 8;

/// The size limit for a stack trace; a larger one is ignored. An endless recursion in Python or Java has a thousand
/// frames, about 200 KB; a response of 6 MB can contain two million frames.
const STACK_TRACE_BYTES_MAX: usize = 512 << 10;

/// The size limit for a cause. Each cause in a chain is parsed again as part of each exception that wraps it.
const CAUSE_BYTES_MAX: usize = 256 << 10;

/// .NET exceptions that only wrap another exception, from a task or a reflective call.
const NET_CARRIERS: [&str; 2] = ["AggregateException", "TargetInvocationException"];

/// Java exceptions that only wrap another exception. Java's runtime sends no causes. Unless the code sets another
/// message, the wrapper's message is the cause's `toString`: its class and message (`Throwable`, "Throwable(Throwable
/// cause)").
const JAVA_CARRIERS: [&str; 4] = [
    "java.io.UncheckedIOException",
    "java.lang.RuntimeException",
    "java.util.concurrent.CompletionException",
    "java.util.concurrent.ExecutionException",
];

/// The first line of a Python traceback.
const TRACEBACK: &str = "Traceback (most recent call last):\n";

/// The lines between chained Python tracebacks. The last traceback is that of the thrown exception.
const CHAINED: [&str; 2] = [
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n",
];

/// An exception. Python, Java, Go, Ruby and .NET send `stackTrace`; Node.js sends `trace`. .NET nests causes, and
/// `causes` contains the causes of its `AggregateException`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exception {
    error_type: Option<String>,
    error_message: Option<String>,
    #[serde(alias = "trace")]
    stack_trace: Option<Box<RawValue>>,
    cause: Option<Box<RawValue>>,
    causes: Option<Box<RawValue>>,
    /// The location, if it was found in a traceback or in the wrapper's stack trace.
    #[serde(skip)]
    place: Option<String>,
}

/// A line of a stack trace.
#[derive(Deserialize)]
#[serde(untagged)]
enum Frame {
    Text(String),
    /// A frame from a Go panic.
    Go {
        path: String,
        line: i64,
        label: String,
    },
}

impl Exception {
    pub(super) fn from_json(text: &[u8]) -> Self {
        serde_json::from_slice(text).map(|FromObject(exception)| exception).unwrap_or_default()
    }

    /// Returns the record's own exception, without wrappers from a batch processor, a task or a reflective call. The
    /// invocation must have only one record, since an exception does not identify its record.
    pub(super) fn into_innermost(self) -> Self {
        let mut exception = self;
        for _ in 0..CARRIERS_MAX {
            let Some(inner) = exception.inner_exception() else { break };
            exception = inner;
        }
        exception
    }

    fn inner_exception(&self) -> Option<Self> {
        let full_name = self.error_type.as_deref()?;
        if JAVA_CARRIERS.contains(&full_name) {
            return self.exception_in_message();
        }
        let name = full_name.rsplit('.').next()?;
        // Powertools for AWS Lambda (Python) includes the record's traceback in the message.
        if name == "BatchProcessingError" {
            return Self::from_traceback(self.error_message.as_deref()?);
        }
        if !NET_CARRIERS.contains(&name) {
            return None;
        }
        let read = |text| {
            serde_json::from_str(text_within_limit(text, CAUSE_BYTES_MAX)?)
                .ok()
                .map(|FromObject(exception)| exception)
        };
        let causes = self.causes.as_deref().and_then(|text| text_within_limit(text, CAUSE_BYTES_MAX));
        let causes = causes.and_then(|text| serde_json::from_str(text).ok());
        let causes: Vec<Box<RawValue>> = causes.unwrap_or_default();
        match &*causes {
            // Of several causes, any might be the relevant one.
            [_, _, ..] => None,
            [only] => read(only),
            [] => read(self.cause.as_deref()?),
        }
    }

    /// Returns the exception whose class and message make up this exception's message. The location of the inner
    /// exception is unknown, so this exception's location in the function's code is used.
    fn exception_in_message(&self) -> Option<Self> {
        let message = self.error_message.as_deref()?;
        let (class, text) = message.split_once(": ").unwrap_or((message, ""));
        // If an exception has no message, the runtime sends its class as the message.
        if !is_java_class(class) || Some(message) == self.error_type.as_deref() {
            return None;
        }
        let place =
            self.place.clone().or_else(|| self.stack_frames().into_iter().find_map(Frame::class_path_text));
        let (error_type, error_message) = (Some(class.to_owned()), Some(text.to_owned()));
        Some(Self { error_type, error_message, place, ..Self::default() })
    }

    /// Returns the last exception in the output of Python's `traceback.format_exception`.
    fn from_traceback(text: &str) -> Option<Self> {
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
        // The module is removed, since the runtime also sends class names without it.
        let name = name.rsplit('.').next().filter(|name| !name.is_empty() && !name.contains(' '))?;
        let message = std::iter::once(message).chain(lines).collect::<Vec<_>>().join("\n");
        let (error_type, error_message) = (Some(name.to_owned()), Some(message.trim_end().to_owned()));
        Some(Self { error_type, error_message, place, ..Self::default() })
    }

    fn stack_frames(&self) -> Vec<Frame> {
        let text =
            self.stack_trace.as_deref().and_then(|text| text_within_limit(text, STACK_TRACE_BYTES_MAX));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Returns the location where the exception was thrown. Python lists the innermost call last. The other runtimes
    /// list it first: Node.js after the message, and Go after the frames that handle the panic.
    fn throw_location(&self) -> Option<String> {
        if self.place.is_some() {
            return self.place.clone();
        }
        let frames = self.stack_frames();
        let is_python_frame =
            |frame: &Frame| frame.as_text().is_some_and(|text| text.trim_start().starts_with("File \""));
        let is_node_frame =
            |frame: &&Frame| frame.as_text().is_some_and(|text| text.trim_start().starts_with("at "));
        let after_panic =
            frames.iter().skip_while(|frame| !frame.is_panic_frame()).find(|frame| !frame.is_panic_frame());
        let frame = if frames.first().is_some_and(is_python_frame) {
            frames.last()
        } else {
            after_panic.or_else(|| frames.iter().find(is_node_frame)).or(frames.first())
        };
        match frame? {
            Frame::Text(text) => Some(text.trim().lines().next()?.trim_start_matches("at ").to_owned()),
            Frame::Go { path, line, label } => Some(format!("{label} ({path}:{line})")),
        }
    }

    /// Converts the exception into the message's error.
    pub(super) fn into_error(self) -> HandlerError {
        let mut details = self.error_message.clone().unwrap_or_default();
        if let Some(place) = self.throw_location() {
            let _ = write!(details, " (at {place})");
        }
        // Ruby and Node.js send no causes.
        let mut cause = self.cause;
        for _ in 0..CAUSES_MAX {
            let Some(text) = cause.as_deref().and_then(|text| text_within_limit(text, CAUSE_BYTES_MAX))
            else {
                break;
            };
            let Self { error_type, error_message, cause: next, .. } = Self::from_json(text.as_bytes());
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

impl Frame {
    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Go { .. } => None,
        }
    }

    /// Returns the text of a frame from Java's class path. Frames from other classes contain their module, as in
    /// `java.base/java.lang.Thread.run(Thread.java:840)`.
    fn class_path_text(self) -> Option<String> {
        match self {
            Self::Text(text) if !text.split('(').next()?.contains('/') => Some(text),
            _ => None,
        }
    }

    /// True for the Go runtime's frames between a panic and its handler.
    fn is_panic_frame(&self) -> bool {
        let Self::Go { path, label, .. } = self else { return false };
        path.starts_with("runtime/") && label.to_ascii_lowercase().contains("panic")
    }
}

/// Returns the text, unless it exceeds the limit.
fn text_within_limit(text: &RawValue, bytes_max: usize) -> Option<&str> {
    Some(text.get()).filter(|text| text.len() <= bytes_max)
}

/// True for the full name of a class, including its package, as returned by Java's `Class.getName`.
fn is_java_class(name: &str) -> bool {
    let is_name = |segment: &str| {
        segment.starts_with(|first: char| first.is_alphabetic() || "_$".contains(first))
            && segment.chars().all(|char| char.is_alphanumeric() || "_$".contains(char))
    };
    let is_class = |segment: &str| segment.starts_with(char::is_uppercase);
    name.rsplit_once('.')
        .is_some_and(|(package, class)| package.split('.').all(is_name) && is_name(class) && is_class(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_details(stack_trace: &str) -> String {
        let text = format!(r#"{{"errorType":"E","errorMessage":"m","stackTrace":{stack_trace}}}"#);
        Exception::from_json(text.as_bytes()).into_error().details
    }

    /// Python lists the innermost call last.
    #[test]
    fn a_python_recursion_is_located_among_a_thousand_frames() {
        let frame = |line: usize| {
            format!(
                r#""  File \"/var/task/orders.py\", line {line}, in charge\n    return charge({})""#,
                "x".repeat(100)
            )
        };
        let frames: Vec<_> = (1..=1000).map(frame).collect();
        assert_eq!(
            error_details(&format!("[{}]", frames.join(","))),
            r#"m (at File "/var/task/orders.py", line 1000, in charge)"#
        );
    }

    #[test]
    fn an_oversized_stack_trace_or_cause_is_ignored() {
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 4));
        assert_eq!(
            error_details(&format!("[{}]", text(STACK_TRACE_BYTES_MAX))).len(),
            "m (at )".len() + STACK_TRACE_BYTES_MAX - 4
        );
        assert_eq!(error_details(&format!("[{}]", text(STACK_TRACE_BYTES_MAX + 1))), "m");
        let caused = |bytes: usize| {
            let empty = r#"{"errorType":"C","errorMessage":"","data":""}"#;
            let cause =
                empty.replace(r#""data":""#, &format!(r#""data":"{}"#, "x".repeat(bytes - empty.len())));
            let text = format!(r#"{{"errorType":"E","errorMessage":"m","cause":{cause}}}"#);
            Exception::from_json(text.as_bytes()).into_error().details
        };
        assert_eq!(caused(CAUSE_BYTES_MAX), "m; caused by C: ");
        assert_eq!(caused(CAUSE_BYTES_MAX + 1), "m");
    }
}
