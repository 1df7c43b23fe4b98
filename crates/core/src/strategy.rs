//! The strategies: how a message that failed comes back. What each needs, by its name, is said here and nowhere else.

use std::fmt;
use std::time::Duration;

use crate::async_retry;
use crate::policy::{Policy, PolicyError};
use crate::schema::Violation;

/// How a message that failed comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// It is handed off to the intermediate DLQ and sent again with a delay.
    #[default]
    DelayedResend,
    /// It is sent again with a delay by the function that called it; what that cannot do goes by the intermediate DLQ.
    DirectResend,
    /// It stays on the source queue, hidden for the delay; each retry is a receive.
    Visibility,
    /// What failed is an asynchronous invocation of a Lambda function, and Lambda's record of it goes to the retry
    /// queue.
    AsyncRetry,
}

/// What a queue is to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Where producers send; or Lambda, its records of failed invocations.
    Source,
    /// Where failed messages wait for their retry to be scheduled.
    IntermediateDlq,
    /// Where verdicts wait for the annotator.
    Annotation,
    /// Where final records are read.
    FinalDlq,
}

impl Role {
    /// In the order of the loop.
    pub const ALL: [Self; 4] = [Self::Source, Self::IntermediateDlq, Self::Annotation, Self::FinalDlq];

    /// For people.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::IntermediateDlq => "intermediate DLQ",
            Self::Annotation => "annotation",
            Self::FinalDlq => "final DLQ",
        }
    }

    /// The setting that names the queue.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Source => "SOURCE_QUEUE_URL",
            Self::IntermediateDlq => "INTERMEDIATE_DLQ_URL",
            Self::Annotation => "ANNOTATION_QUEUE_URL",
            Self::FinalDlq => "FINAL_DLQ_URL",
        }
    }
}

/// A queue that a strategy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededQueue {
    /// What it is for.
    pub role: Role,
    /// What its name ends with.
    pub name: &'static str,
    /// How long it keeps a message.
    pub retention: Duration,
    /// Where SQS moves what nobody deletes; nothing is moved out of the final DLQ.
    pub redrive: Option<Redrive>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// The queue that messages are moved to.
    pub to: Role,
    /// After so many receives: `maxReceiveCount`.
    pub receives: u16,
}

/// How long the source queue keeps a message. The others keep theirs for as long as SQS can.
pub const SOURCE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
const RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);

/// Receives of a queue whose function does not count them: a deployment that is broken for an hour must neither end all
/// retries nor dead-letter everything.
const RECEIVES: u16 = 100;
/// Beyond the attempts of a policy, and beyond the receives that a moved message brings along: for what goes wrong.
const SPARE_RECEIVES: u16 = 10;
/// `maxReceiveCount` is 1..=1000 ("CreateQueue", Amazon SQS API Reference), and the annotation queue's is ten more than
/// this.
const RECEIVES_MAX: u16 = 990;

impl Strategy {
    pub const ALL: [Self; 4] = [Self::DelayedResend, Self::DirectResend, Self::Visibility, Self::AsyncRetry];

    /// As settings and the command line have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DelayedResend => "delayed-resend",
            Self::DirectResend => "direct-resend",
            Self::Visibility => "visibility",
            Self::AsyncRetry => "async-retry",
        }
    }

    /// The strategy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// In a line, for people.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::DelayedResend => "It is handed off to the intermediate DLQ and sent again with a delay",
            Self::DirectResend => "It is sent again with a delay by the function that called it",
            Self::Visibility => "It stays on the source queue, hidden for the delay",
            Self::AsyncRetry => {
                "Each line is the payload of an asynchronous invocation; of a failure Lambda's record goes to the retry queue"
            }
        }
    }

    /// The retry policy whose members count if a policy does not have them, as JSON.
    #[must_use]
    pub const fn default_policy(self) -> &'static str {
        match self {
            Self::DelayedResend | Self::DirectResend => "{}",
            // Each receive is an attempt, so that to hold a message is not free there.
            Self::Visibility => r#"{"circuit_breaker":false}"#,
            Self::AsyncRetry => async_retry::DEFAULT_POLICY,
        }
    }

    /// Reads a policy for this strategy: what is absent is as in its default policy.
    ///
    /// # Errors
    /// As [`Policy::from_json`] and [`Strategy::check`].
    pub fn policy(self, text: &str) -> Result<Policy, PolicyError> {
        let policy = Policy::from_json_over(self.default_policy(), text)?;
        self.check(&policy).map(|()| policy)
    }

    /// Whether the strategy can follow a policy. How long SQS can hide a message is not looked at: that depends on the
    /// queue.
    ///
    /// # Errors
    /// All members that it cannot follow.
    pub fn check(self, policy: &Policy) -> Result<(), PolicyError> {
        let wrong: Vec<_> = match self {
            Self::DelayedResend | Self::DirectResend => Vec::new(),
            Self::Visibility => {
                [uncountable(policy), paced(policy), redriven(policy)].into_iter().flatten().collect()
            }
            Self::AsyncRetry => [held(policy), immediate(policy), paced(policy), redriven(policy)]
                .into_iter()
                .flatten()
                .collect(),
        };
        if wrong.is_empty() { Ok(()) } else { Err(PolicyError::NotForStrategy(wrong)) }
    }

    /// The queues, for a policy with so many attempts; a dead-letter queue before the queue whose messages end there.
    #[must_use]
    pub fn queues(self, max_attempts: u32) -> Vec<NeededQueue> {
        let moved = |to, receives| Some(Redrive { to, receives });
        let before_annotation = match self {
            Self::DelayedResend | Self::DirectResend | Self::AsyncRetry => RECEIVES,
            // Ten more than the policy spends.
            Self::Visibility => u16::try_from(max_attempts)
                .unwrap_or(u16::MAX)
                .saturating_add(SPARE_RECEIVES)
                .min(RECEIVES_MAX),
        };
        // A moved message brings its receives along. Ten failed annotations more: the raw message is better than none.
        let annotation = moved(Role::FinalDlq, before_annotation + SPARE_RECEIVES);
        let explained = moved(Role::Annotation, before_annotation);
        let mut queues = vec![
            NeededQueue { role: Role::FinalDlq, name: "final-dlq", retention: RETENTION, redrive: None },
            NeededQueue {
                role: Role::Annotation,
                name: "annotation",
                retention: RETENTION,
                redrive: annotation,
            },
        ];
        let source = |name, retention, redrive| NeededQueue { role: Role::Source, name, retention, redrive };
        match self {
            Self::DelayedResend | Self::DirectResend => {
                let (role, name) = (Role::IntermediateDlq, "intermediate-dlq");
                queues.push(NeededQueue { role, name, retention: RETENTION, redrive: explained });
                // One: what the message-processor could not send on itself is retried by the policy, not at once.
                queues.push(source("source", SOURCE_RETENTION, moved(Role::IntermediateDlq, 1)));
            }
            Self::Visibility => queues.push(source("source", SOURCE_RETENTION, explained)),
            Self::AsyncRetry => queues.push(source("retry", RETENTION, explained)),
        }
        queues
    }
}

fn immediate(policy: &Policy) -> Option<Violation> {
    let rule = "but what becomes of an asynchronous invocation is not known within this one: remove it";
    policy.immediate.map(|_| Violation::new("/immediate", rule))
}

fn held(policy: &Policy) -> Option<Violation> {
    let rule = "but Lambda has called the function before this one sees it: remove it";
    policy.circuit_breaker.as_ref().map(|_| Violation::new("/circuit_breaker", rule))
}

/// Without an intermediate DLQ nothing comes back that SQS moved.
fn redriven(policy: &Policy) -> Option<Violation> {
    let rule = "which is for the strategies delayed-resend and direct-resend: remove it";
    policy.max_redrives.map(|_| Violation::new("/max_redrives", rule))
}

/// If nothing is sent to a source queue again, nothing can be paced.
fn paced(policy: &Policy) -> Option<Violation> {
    let rule = "which is for the strategies delayed-resend and direct-resend: remove it";
    policy.max_redelivery_per_second.map(|_| Violation::new("/max_redelivery_per_second", rule))
}

/// Each retry is a receive. SQS would move the message before the last one, and its verdict would be lost.
fn uncountable(&Policy { max_attempts, .. }: &Policy) -> Option<Violation> {
    let most = RECEIVES_MAX - SPARE_RECEIVES;
    let rule = format!(
        "which is {max_attempts}: use at most {most} with the strategy visibility, since each retry is a receive, ten \
         are to spare on the source queue and ten on the annotation queue, and SQS counts to 1000"
    );
    (max_attempts > most.into()).then(|| Violation::new("/max_attempts", rule))
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    /// `NAME → NAME of the next queue after so many receives`, from the source on.
    fn way(strategy: Strategy, max_attempts: u32) -> String {
        let queues = strategy.queues(max_attempts);
        let name = |role| queues.iter().find(|queue| queue.role == role).expect("it is needed").name;
        let steps = queues.iter().rev().map(|queue| match queue.redrive {
            Some(Redrive { to, receives }) => format!("{} -{receives}-> {}", queue.name, name(to)),
            None => queue.name.to_owned(),
        });
        steps.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn each_strategy_has_its_queues_and_a_moved_message_has_receives_left_in_the_next_one() {
        let way_of = |strategy| way(strategy, 5);
        for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
            assert_eq!(
                way_of(strategy),
                "source -1-> intermediate-dlq, intermediate-dlq -100-> annotation, annotation -110-> final-dlq, final-dlq"
            );
        }
        assert_eq!(
            way_of(Strategy::Visibility),
            "source -15-> annotation, annotation -25-> final-dlq, final-dlq"
        );
        assert_eq!(
            way_of(Strategy::AsyncRetry),
            "retry -100-> annotation, annotation -110-> final-dlq, final-dlq"
        );
    }

    #[derive(Deserialize)]
    struct Vector {
        name: String,
        strategy: String,
        policy: Value,
        refused: Vec<String>,
    }

    #[test]
    fn each_strategy_takes_and_refuses_the_policies_of_the_vectors() {
        let vectors: Vec<Vector> =
            serde_json::from_str(include_str!("../../../schemas/vectors/strategies.json")).unwrap();
        for Vector { name, strategy, policy, refused } in vectors {
            let found = match Strategy::named(&strategy).unwrap().policy(&policy.to_string()) {
                Ok(_) => Vec::new(),
                Err(PolicyError::NotForStrategy(members)) => {
                    members.into_iter().map(|Violation { pointer, .. }| pointer).collect()
                }
                Err(wrong) => panic!("{name}: {wrong}"),
            };
            assert_eq!(found, refused, "{name}");
        }
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let refused = |strategy: Strategy, text| strategy.policy(text).unwrap_err().to_string();
        let paced = "has /max_redelivery_per_second, which is for the strategies delayed-resend and direct-resend: remove it";
        assert_eq!(
            refused(Strategy::Visibility, r#"{"max_attempts":981,"max_redelivery_per_second":5}"#),
            format!(
                "has /max_attempts, which is 981: use at most 980 with the strategy visibility, since each retry is a \
                 receive, ten are to spare on the source queue and ten on the annotation queue, and SQS counts to \
                 1000; {paced}"
            )
        );
        assert_eq!(
            refused(
                Strategy::AsyncRetry,
                r#"{"immediate":{"max_attempts":1,"delay_ms":5},"max_redelivery_per_second":5}"#
            ),
            format!(
                "has /immediate, but what becomes of an asynchronous invocation is not known within this one: remove \
                 it; {paced}"
            )
        );
    }

    #[test]
    fn no_queue_counts_further_than_sqs_does() {
        for max_attempts in [980, 981, 1000, 100_000, u32::MAX] {
            assert_eq!(
                way(Strategy::Visibility, max_attempts),
                "source -990-> annotation, annotation -1000-> final-dlq, final-dlq",
                "{max_attempts}"
            );
        }
    }

    #[test]
    fn the_source_queue_keeps_a_week_and_the_others_two() {
        for strategy in Strategy::ALL {
            for NeededQueue { role, name, retention, .. } in strategy.queues(5) {
                let days = if role == Role::Source && name == "source" { 7 } else { 14 };
                assert_eq!(retention, Duration::from_secs(days * 24 * 3600), "{strategy} {name}");
            }
        }
    }

    #[test]
    fn a_strategy_is_known_by_its_name_alone() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::named(strategy.name()), Some(strategy));
        }
        assert_eq!(Strategy::named("Visibility"), None);
        assert_eq!(Strategy::default().to_string(), "delayed-resend");
    }
}
