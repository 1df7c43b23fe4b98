//! The retry loops that `redeliver local` can run.

use std::fmt;

use super::{ASYNC_RETRY, Strategy, StrategyDefinition};

/// A retry loop, as named by `--strategy`. The variants differ in what calls the target first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryLoop {
    /// The message-processor reads the source queue and calls the target; its strategy retries failed messages.
    MessageProcessor(Strategy),
    /// Lambda invokes the target asynchronously, and sends a record of each failure to the retry queue; the
    /// async-retry-handler invokes the target again.
    AsyncRetry,
}

impl RetryLoop {
    /// Returns all loops, in the order shown by `--help`.
    pub fn all() -> impl Iterator<Item = Self> {
        Strategy::ALL.iter().copied().map(Self::MessageProcessor).chain([Self::AsyncRetry])
    }

    /// Returns the loop's queues, its default policy, and the policies that it rejects.
    #[must_use]
    pub const fn definition(self) -> &'static StrategyDefinition {
        match self {
            Self::MessageProcessor(strategy) => strategy.definition(),
            Self::AsyncRetry => &ASYNC_RETRY,
        }
    }

    /// Returns the message-processor's strategy, if the loop has one.
    #[must_use]
    pub const fn strategy(self) -> Option<Strategy> {
        match self {
            Self::MessageProcessor(strategy) => Some(strategy),
            Self::AsyncRetry => None,
        }
    }

    /// Returns the loop with this name, if any.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|retry_loop| retry_loop.definition().name == name)
    }
}

impl Default for RetryLoop {
    fn default() -> Self {
        Self::MessageProcessor(Strategy::default())
    }
}

impl From<Strategy> for RetryLoop {
    fn from(strategy: Strategy) -> Self {
        Self::MessageProcessor(strategy)
    }
}

impl fmt::Display for RetryLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.definition().name)
    }
}
