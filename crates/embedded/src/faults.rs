//! Faults on purpose: the n-th request, or each one by a seeded chance.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redeliver_core::ports::{EntryError, Fault};

/// What a client asks of the service: one request each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    ChangeMessageVisibilityBatch,
    CreateQueue,
    DeleteMessageBatch,
    DeleteQueue,
    GetQueueAttributes,
    ReceiveMessage,
    SendMessageBatch,
}

impl Action {
    /// Its name in the Amazon SQS API Reference.
    #[must_use]
    pub const fn name(self) -> &'static str {
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

/// How a request or an entry fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Injection {
    /// Refused: too many requests.
    Throttled,
    /// The service failed and did nothing.
    Service,
    Sender,
    /// No answer, because the request got lost: nothing was done.
    LostRequest,
    /// No answer, because the answer got lost: it *was* done.
    LostAnswer,
}

impl Injection {
    /// Whether the request took effect all the same.
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Self::LostAnswer)
    }

    /// What the client sees.
    #[must_use]
    pub fn error(self) -> EntryError {
        let (fault, code) = match self {
            Self::Throttled => (Fault::Throttled, "RequestThrottled"),
            Self::Service => (Fault::Service, "InternalError"),
            Self::Sender => (Fault::Sender, "InvalidParameterValue"),
            Self::LostRequest | Self::LostAnswer => (Fault::NoAnswer, "RequestTimeout"),
        };
        EntryError::new(fault, code)
    }
}

/// What a rule makes fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    Request,
    /// Single entries of batches, the others being done.
    Entry,
}

/// Which of the requests or entries that a rule matches are to fail.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Those with these numbers, counted from 1 by this rule.
    Numbers(Vec<u64>),
    /// Each with this probability, 0.0..=1.0.
    Chance(f64),
}

/// One way to fail.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    pub action: Action,
    /// Of which queue, by ARN; `None`: of any.
    pub queue: Option<String>,
    pub scope: Scope,
    pub when: When,
    pub injection: Injection,
}

/// The faults of a run; none by default. Same seed, same rules and same requests, same faults.
#[derive(Debug)]
pub struct FaultPlan {
    rules: Vec<(FaultRule, u64)>,
    rng: StdRng,
}

impl FaultPlan {
    /// A plan without rules, whose chances will come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), rng: StdRng::seed_from_u64(seed) }
    }

    /// Adds a rule. If several hit, the first one added decides.
    #[must_use]
    pub fn with(mut self, rule: FaultRule) -> Self {
        self.rules.push((rule, 0));
        self
    }

    /// How the next request or entry of this kind fails, if it does. Every matching rule counts it.
    pub(crate) fn next(&mut self, scope: Scope, action: Action, queue: &str) -> Option<Injection> {
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
                When::Numbers(numbers) => numbers.contains(count),
                When::Chance(probability) => self.rng.random::<f64>() < *probability,
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
