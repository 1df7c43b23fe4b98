//! Reads variables and collects all problems.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use redeliver_core::ports::is_fifo;
use thiserror::Error;

/// All missing and invalid variables, one per line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the function cannot start; its environment variables are invalid:\n{}", .0.join("\n"))]
pub struct SettingsError(pub(super) Vec<String>);

impl SettingsError {
    /// Merges the lines of both errors without duplicates, for programs that read the settings of several functions.
    #[must_use]
    pub fn merge_with(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        let mut seen = BTreeSet::new();
        self.0.retain(|line| seen.insert(line.clone()));
        self
    }
}

/// The kind of queue that a setting requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    Standard,
    Fifo,
}

/// A function that looks up a variable's value.
type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The environment variables of a process.
pub struct Variables<'a>(Box<Lookup<'a>>);

impl<'a> Variables<'a> {
    #[expect(clippy::disallowed_methods, reason = "only this function reads the environment")]
    pub fn from_env() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    pub(crate) fn new(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self(Box::new(lookup))
    }

    /// Returns the value, if it is set and not empty.
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

/// An error that the reader has already recorded.
#[derive(Debug)]
pub(super) struct RecordedError;

pub(super) struct SettingsReader<'a> {
    pub(super) variables: Variables<'a>,
    problems: Vec<String>,
}

impl<'a> SettingsReader<'a> {
    pub(super) fn from_env() -> Self {
        Self { variables: Variables::from_env(), problems: Vec::new() }
    }

    #[cfg(test)]
    pub(super) fn new(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { variables: Variables::new(lookup), problems: Vec::new() }
    }

    /// Returns the value, if it is set and not empty.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        self.variables.optional(name)
    }

    pub(super) fn required(&mut self, name: &str, remedy: &str) -> Option<String> {
        let value = self.optional(name);
        if value.is_none() {
            self.problems.push(format!("- {name} is missing: {remedy}"));
        }
        value
    }

    /// Returns a valid value, or records the problem.
    pub(super) fn check_value<T, E: Display>(&mut self, name: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.problems.push(format!("- {name} {error}"))).ok()
    }

    pub(super) fn queue_url(&mut self, name: &str) -> Option<String> {
        self.queue_url_of_kind(name, QueueKind::Standard)
    }

    /// Reads the URL of a queue of this kind.
    pub(super) fn queue_url_of_kind(&mut self, name: &str, kind: QueueKind) -> Option<String> {
        let url = self.required(name, "set it to the queue's URL")?;
        let checked = if kind == QueueKind::Fifo && !is_fifo(&url) {
            Err("is not the URL of a FIFO queue, which ends in .fifo: only a FIFO queue keeps an order")
        } else if kind == QueueKind::Standard && is_fifo(&url) {
            Err(
                "is a FIFO queue's URL: FIFO queues cannot delay individual messages; use a standard queue, or \
                 set STRATEGY=ordered for a FIFO source queue",
            )
        } else if !(url.starts_with("https://") || url.starts_with("http://")) {
            Err("is not a queue's URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)")
        } else {
            Ok(url)
        };
        self.check_value(name, checked)
    }

    pub(super) fn read_number<N: FromStr + PartialOrd + Display>(
        &mut self,
        name: &str,
        range: RangeInclusive<N>,
    ) -> Option<N> {
        let value = self.optional(name)?.parse().ok().filter(|number| range.contains(number));
        self.check_value(
            name,
            value.ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end())),
        )
    }

    pub(super) fn read_flag(&mut self, name: &str) -> bool {
        let value = match self.optional(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("must be true or false"),
        };
        self.check_value(name, value).unwrap_or(false)
    }

    /// Returns the settings, or all recorded problems.
    pub(super) fn read_settings<T>(
        mut self,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Result<T, SettingsError> {
        match read(&mut self) {
            Some(settings) if self.problems.is_empty() => Ok(settings),
            _ => Err(SettingsError(self.problems)),
        }
    }
}
