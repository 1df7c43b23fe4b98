//! Information missing from `status` because a service did not provide it.

use std::fmt::{Display, Formatter, Result};

use serde::{Serialize, Serializer};

/// Information that is missing because a service rejected a request or did not respond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub service: QueriedService,
    /// The missing information, such as `outages`.
    pub missing: &'static str,
    /// The affected queues, functions or addresses.
    pub about: Vec<String>,
    /// The action and the service's reason.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueriedService {
    Lambda,
    Sqs,
    CloudWatch,
    Container,
}

impl QueriedService {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lambda => "Lambda",
            Self::Sqs => "SQS",
            Self::CloudWatch => "CloudWatch",
            Self::Container => "A container",
        }
    }
}

impl Problem {
    /// Adds a problem. Queues and functions with the same problem share one entry.
    pub fn record_problem(problems: &mut Vec<Self>, new: Self) {
        let is_same = |known: &&mut Self| {
            (known.service, known.missing, &known.why) == (new.service, new.missing, &new.why)
        };
        match problems.iter_mut().find(is_same) {
            Some(known) => known.about.extend(new.about),
            None => problems.push(new),
        }
    }
}

impl Display for Problem {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let Self { missing, about, why, .. } = self;
        if about.is_empty() {
            return write!(formatter, "{missing}: {why}");
        }
        write!(formatter, "{missing} of {}: {why}", about.join(", "))
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
