//! Injected faults, for requests selected by number, or for each request with a seeded probability.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redeliver_core::ports::{EntryError, Fault};

/// The SQS actions that the service supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SqsAction {
    ChangeMessageVisibilityBatch,
    CreateQueue,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    ReceiveMessage,
    SendMessageBatch,
}

impl SqsAction {
    /// Returns the action's name in the Amazon SQS API Reference.
    #[must_use]
    pub const fn api_name(self) -> &'static str {
        match self {
            Self::ChangeMessageVisibilityBatch => "ChangeMessageVisibilityBatch",
            Self::CreateQueue => "CreateQueue",
            Self::DeleteMessageBatch => "DeleteMessageBatch",
            Self::DeleteQueue => "DeleteQueue",
            Self::GetQueueAttributes => "GetQueueAttributes",
            Self::ReceiveMessage => "ReceiveMessage",
            Self::SendMessageBatch => "SendMessageBatch",
        }
    }
}

/// A fault injected into a request or a batch entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Injection {
    /// Too many requests.
    Throttled,
    /// The service failed, and the request had no effect.
    Service,
    /// The request is invalid: a retry would fail in the same way.
    Sender,
    /// No response because the request was lost: it had no effect.
    LostRequest,
    /// No response because the response was lost, although the request took effect.
    LostResponse,
}

impl Injection {
    /// Returns true if the request still takes effect.
    #[must_use]
    pub const fn takes_effect(self) -> bool {
        matches!(self, Self::LostResponse)
    }

    /// Returns the error that the client receives.
    #[must_use]
    pub fn to_error(self) -> EntryError {
        let (fault, code) = match self {
            Self::Throttled => (Fault::Throttled, "RequestThrottled"),
            Self::Service => (Fault::Service, "InternalError"),
            Self::Sender => (Fault::Sender, "InvalidParameterValue"),
            Self::LostRequest | Self::LostResponse => (Fault::NoAnswer, "RequestTimeout"),
        };
        EntryError::new(fault, code)
    }
}

/// The scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultScope {
    Request,
    /// Individual entries in a batch; the other entries succeed.
    Entry,
}

/// Selects the requests or entries that fail, among those that match a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultTrigger {
    /// The requests or entries with these numbers; each rule counts from 1.
    Numbers(Vec<u64>),
    /// Each request or entry, with this probability, 0.0..=1.0.
    Chance(f64),
}

/// A rule that injects a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    pub action: SqsAction,
    /// The ARN of the queue; `None` for every queue.
    pub queue: Option<String>,
    pub scope: FaultScope,
    pub when: FaultTrigger,
    pub injection: Injection,
}

/// The faults to inject in a run; none by default. The same seed, rules and requests produce the same faults.
#[derive(Debug)]
pub struct FaultPlan {
    rules: Vec<(FaultRule, u64)>,
    rng: StdRng,
}

impl FaultPlan {
    /// Creates a plan without rules; `seed` seeds the random faults.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), rng: StdRng::seed_from_u64(seed) }
    }

    /// Adds a rule. If several rules match a request, all of them count it, and the first one that triggers determines
    /// the fault.
    #[must_use]
    pub fn with_rule(mut self, rule: FaultRule) -> Self {
        self.rules.push((rule, 0));
        self
    }

    /// Returns the fault for the next request or entry of this kind, if any. Every matching rule counts it.
    pub(crate) fn next_fault(
        &mut self,
        scope: FaultScope,
        action: SqsAction,
        queue: &str,
    ) -> Option<Injection> {
        let mut hit = None;
        for (rule, count) in &mut self.rules {
            let matches = rule.scope == scope
                && rule.action == action
                && rule.queue.as_deref().is_none_or(|arn| arn == queue);
            if !matches {
                continue;
            }
            *count += 1;
            let fails = match &rule.when {
                FaultTrigger::Numbers(numbers) => numbers.contains(count),
                FaultTrigger::Chance(probability) => self.rng.random::<f64>() < *probability,
            };
            if fails {
                hit = hit.or(Some(rule.injection));
            }
        }
        hit
    }
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::new(0)
    }
}
