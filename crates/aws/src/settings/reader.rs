//! Reads variables and collects what is wrong with all of them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

/// Everything that is missing or wrong, a line each.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the function cannot start; its environment variables are not right:\n{}", .0.join("\n"))]
pub struct SettingsError(pub(super) Vec<String>);

impl SettingsError {
    /// What is wrong with either, each line once: for programs that read the settings of several functions.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        let mut seen = BTreeSet::new();
        self.0.retain(|line| seen.insert(line.clone()));
        self
    }
}

/// Where a variable's value comes from.
type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

pub(super) struct Reader<'a> {
    lookup: Box<Lookup<'a>>,
    wrong: Vec<String>,
}

impl<'a> Reader<'a> {
    #[expect(clippy::disallowed_methods, reason = "the one door to the environment")]
    pub(super) fn of_environment() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    pub(super) fn new(lookup: impl Fn(&str) -> Option<String> + 'a) -> Self {
        Self { lookup: Box::new(lookup), wrong: Vec::new() }
    }

    /// A variable that is set to the empty string is not set.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    pub(super) fn required(&mut self, name: &str, remedy: &str) -> Option<String> {
        let value = self.optional(name);
        if value.is_none() {
            self.wrong.push(format!("- {name} is missing: {remedy}"));
        }
        value
    }

    /// Notes what is wrong with a variable's value, if anything.
    pub(super) fn check<T, E: Display>(&mut self, name: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.wrong.push(format!("- {name} {error}"))).ok()
    }

    pub(super) fn queue_url(&mut self, name: &str) -> Option<String> {
        let url = self.required(name, "set it to the queue's URL")?;
        let checked = if url.ends_with(".fifo") {
            Err("is a FIFO queue's URL: FIFO queues cannot delay single messages; use a standard queue")
        } else if !(url.starts_with("https://") || url.starts_with("http://")) {
            Err("is not a queue's URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)")
        } else {
            Ok(url)
        };
        self.check(name, checked)
    }

    pub(super) fn number<N: FromStr + PartialOrd + Display>(
        &mut self,
        name: &str,
        range: RangeInclusive<N>,
    ) -> Option<N> {
        let value = self.optional(name)?.parse().ok().filter(|number| range.contains(number));
        self.check(
            name,
            value.ok_or_else(|| format!("is not a whole number from {} to {}", range.start(), range.end())),
        )
    }

    #[cfg(feature = "targets")]
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let value = match self.optional(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err("is neither true nor false"),
        };
        self.check(name, value).unwrap_or(false)
    }

    /// The settings, if nothing is wrong with any of them.
    pub(super) fn read<T>(mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Result<T, SettingsError> {
        match read(&mut self) {
            Some(settings) if self.wrong.is_empty() => Ok(settings),
            _ => Err(SettingsError(self.wrong)),
        }
    }
}
