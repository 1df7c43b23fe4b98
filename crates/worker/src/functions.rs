//! The functions that a process runs, and their names.

use std::collections::BTreeSet;

use clap::ValueEnum;
use redeliver_core::strategy::Role;

/// One of the three functions, in the order of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FunctionName {
    /// Polls `SOURCE_QUEUE_URL` and calls the target
    MessageProcessor,
    /// Polls `INTERMEDIATE_DLQ_URL` and schedules retries
    FailedMessageProcessor,
    /// Polls `ANNOTATION_QUEUE_URL` and writes final records
    FinalDlqAnnotator,
}

impl FunctionName {
    /// Returns the function's name without a prefix, such as `message-processor`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MessageProcessor => redeliver_message_processor::NAME,
            Self::FailedMessageProcessor => redeliver_failed_message_processor::NAME,
            Self::FinalDlqAnnotator => redeliver_final_dlq_annotator::NAME,
        }
    }

    /// Returns the role of the queue that the function polls. With the strategy `ordered`, the annotator polls a second
    /// one.
    pub(crate) const fn polled_role(self) -> Role {
        match self {
            Self::MessageProcessor => Role::Source,
            Self::FailedMessageProcessor => Role::IntermediateDlq,
            Self::FinalDlqAnnotator => Role::Annotation,
        }
    }
}

/// The functions that a process runs.
#[derive(Clone, Debug)]
pub struct WorkerFunctions {
    names: BTreeSet<FunctionName>,
    prefix: Option<String>,
}

impl WorkerFunctions {
    /// Creates the set of functions, without duplicates. In logs and metrics, `prefix-` precedes their names.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = FunctionName>, prefix: Option<String>) -> Self {
        Self { names: names.into_iter().collect(), prefix }
    }

    /// Iterates over the functions in the order of the loop.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FunctionName> {
        self.names.iter().copied()
    }

    pub(crate) fn has_function(&self, function: FunctionName) -> bool {
        self.names.contains(&function)
    }

    /// Returns a function's name in logs and metrics.
    pub(crate) fn full_name(&self, function: FunctionName) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}-{}", function.as_str()),
            None => function.as_str().to_owned(),
        }
    }

    /// Returns the service name of this process, without `redeliver-`.
    pub(crate) fn service_name(&self) -> String {
        match self.iter().collect::<Vec<_>>()[..] {
            [function] => self.full_name(function),
            _ => self.prefix.clone().unwrap_or_else(|| "work".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_one_function_is_named_after_it() {
        use FunctionName::{FinalDlqAnnotator, MessageProcessor};
        let service = |names: &[FunctionName], prefix: Option<&str>| {
            WorkerFunctions::new(names.iter().copied(), prefix.map(str::to_owned)).service_name()
        };
        assert_eq!(service(&[MessageProcessor, MessageProcessor], None), "message-processor");
        assert_eq!(service(&[MessageProcessor], Some("orders")), "orders-message-processor");
        assert_eq!(service(&[MessageProcessor, FinalDlqAnnotator], Some("orders")), "orders");
        assert_eq!(service(&[MessageProcessor, FinalDlqAnnotator], None), "work");
    }
}
