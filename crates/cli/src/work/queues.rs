//! What the queues must be, checked before anything is received: each its own, and wired as the functions need them.

use std::collections::BTreeMap;

use redeliver_core::decision::QueueTimes;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// `maxReceiveCount` is 1..=1000 ("CreateQueue", Amazon SQS API Reference), and the annotation queue has ten more than this.
const RECEIVES_MAX: u64 = 990;
/// A broken failed-message-processor must not end all retries within the hour.
const RECEIVES_OF_INTERMEDIATE_DLQ: u64 = 100;

/// A queue of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// Where producers send.
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
    pub(super) const ALL: [Self; 4] = [Self::Source, Self::IntermediateDlq, Self::Annotation, Self::FinalDlq];

    /// The variable that names the queue.
    pub(super) const fn variable(self) -> &'static str {
        match self {
            Self::Source => "SOURCE_QUEUE_URL",
            Self::IntermediateDlq => "INTERMEDIATE_DLQ_URL",
            Self::Annotation => "ANNOTATION_QUEUE_URL",
            Self::FinalDlq => "FINAL_DLQ_URL",
        }
    }
}

/// What the message-processor does with a message that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// It is handed off.
    HandedOff,
    /// It stays on the source queue, of which this is told; each retry is a receive.
    Hidden { told: QueueTimes, max_attempts: u32 },
    /// Nobody here knows: another process has the message-processor.
    Elsewhere,
}

/// The queues that the environment names, and what is done with them.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    pub(super) urls: BTreeMap<Role, String>,
    pub(super) failed: Failed,
    /// What a batch may take, in seconds.
    pub(super) invocation: u64,
}

/// A queue cannot be used as it is: nothing is received.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{}", .0.iter().map(|problem| format!("- {problem}")).collect::<Vec<_>>().join("\n"))]
pub(super) struct Unusable(Vec<String>);

/// What is wrong with a queue, and what is only worth a word.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Queues {
    /// Checks that each queue is one of its own.
    ///
    /// # Errors
    /// Those that are the same.
    pub(super) fn check_distinct(&self) -> Result<(), Unusable> {
        let mut same = Vec::new();
        for (index, (role, url)) in self.urls.iter().enumerate() {
            for (other, its_url) in self.urls.iter().take(index) {
                if Name::of_url(its_url) == Name::of_url(url) {
                    same.push(format!(
                        "{} and {} name the same queue ({url}): set each to a queue of its own",
                        other.variable(),
                        role.variable()
                    ));
                }
            }
        }
        if same.is_empty() { Ok(()) } else { Err(Unusable(same)) }
    }

    /// Checks the queues that are polled by what SQS says of them; what it does not say cannot be checked.
    ///
    /// # Errors
    /// All that would lose reasons, end retries or show a message again while it is handled. Else what is worth a warning.
    pub(super) fn check(
        &self,
        polled: &BTreeMap<Role, BTreeMap<String, String>>,
    ) -> Result<Vec<String>, Unusable> {
        let mut findings = Findings::default();
        for (role, attributes) in polled {
            self.check_visibility(*role, attributes, &mut findings);
            if let (Role::Source, Failed::Hidden { told, .. }) = (role, &self.failed) {
                self.check_hiding(attributes, told, &mut findings);
            }
            self.check_redrive(*role, attributes, &mut findings);
        }
        if findings.errors.is_empty() { Ok(findings.warnings) } else { Err(Unusable(findings.errors)) }
    }

    fn url(&self, role: Role) -> &str {
        self.urls.get(&role).map_or("", String::as_str)
    }

    fn check_visibility(&self, role: Role, attributes: &BTreeMap<String, String>, findings: &mut Findings) {
        let Self { invocation, .. } = self;
        if let Some(visibility) =
            seconds(attributes, "VisibilityTimeout").filter(|seconds| seconds < invocation)
        {
            findings.errors.push(format!(
                "{}: its visibility timeout is {visibility} s, and a batch may take {invocation} s (--invocation), so \
                 messages would come back while they are being handled; set the visibility timeout to {} s, which is six times \
                 as much, or give less time to a batch",
                self.url(role),
                (invocation * 6).min(43_200)
            ));
        }
    }

    /// Messages that fail stay on this queue: what the settings say of it must be so.
    fn check_hiding(
        &self,
        attributes: &BTreeMap<String, String>,
        told: &QueueTimes,
        findings: &mut Findings,
    ) {
        let settings = [
            ("VISIBILITY_TIMEOUT_SECONDS", "VisibilityTimeout", u64::from(told.visibility_timeout.get())),
            ("RETENTION_SECONDS", "MessageRetentionPeriod", told.retention.as_secs()),
        ];
        for (setting, name, told) in settings {
            if let Some(seconds) = seconds(attributes, name).filter(|seconds| *seconds != told) {
                let url = self.url(Role::Source);
                findings.errors.push(format!("{url}: its {name} is {seconds}; set {setting} to that"));
            }
        }
    }

    /// Where SQS moves what a function could not handle, and when.
    fn check_redrive(&self, role: Role, attributes: &BTreeMap<String, String>, findings: &mut Findings) {
        let url = self.url(role);
        let Some(policy) = attributes.get("RedrivePolicy") else {
            findings.warnings.push(format!(
                "{url} has no redrive policy: a message that its function can neither handle nor hand on comes back for ever"
            ));
            return;
        };
        let (Some(Rule { to, receives, why }), Ok(policy)) =
            (self.rule(role), serde_json::from_str::<RedrivePolicy>(policy))
        else {
            return;
        };
        let (arn, next) = (&policy.dead_letter_target_arn, self.url(to));
        if !next.is_empty() && Name::of_arn(arn).is_some_and(|name| !name.may_be(&Name::of_url(next))) {
            findings.errors.push(format!(
                "{url}: SQS moves messages out of it to {arn}, which is not the queue of {variable} ({next}); name that queue in its \
                 redrive policy, or set {variable} to the queue that the policy names",
                variable = to.variable()
            ));
        }
        let Some(count) = policy.receives() else { return };
        let remedy = format!("set the maxReceiveCount of its redrive policy to {receives}");
        if count < receives {
            let problem =
                format!("{url}: SQS moves a message out of it after {count} receives, and {why}; {remedy}");
            // With the strategy visibility fewer may do, and whether it is that one is not known here.
            let is_sure = !(role == Role::Annotation && self.failed == Failed::Elsewhere);
            if is_sure {
                findings.errors.push(problem);
            } else {
                findings.warnings.push(format!(
                    "{problem}, or with STRATEGY=visibility to twenty more than the policy's max_attempts"
                ));
            }
        } else if role == Role::Source && self.failed == Failed::HandedOff && count > receives {
            findings.warnings.push(format!(
                "{url}: SQS hands a message out {count} times before it moves it, so one that the message-processor could not hand off \
                 calls the target again without the policy's delay; {remedy}"
            ));
        }
    }

    /// `None` where nothing is known, and for the final DLQ, which nobody polls.
    fn rule(&self, role: Role) -> Option<Rule> {
        let hidden = match &self.failed {
            Failed::Hidden { max_attempts, .. } => Some((u64::from(*max_attempts) + 10).min(RECEIVES_MAX)),
            Failed::HandedOff | Failed::Elsewhere => None,
        };
        let before_annotation = hidden.unwrap_or(RECEIVES_OF_INTERMEDIATE_DLQ);
        Some(match (role, hidden) {
            (Role::Source, None) => Rule { to: Role::IntermediateDlq, receives: 1, why: String::new() },
            (Role::Source, Some(receives)) => Rule {
                to: Role::Annotation,
                receives,
                why: "each retry is one, and ten more than the policy's max_attempts are for what goes wrong"
                    .to_owned(),
            },
            (Role::IntermediateDlq, _) => Rule {
                to: Role::Annotation,
                receives: before_annotation,
                why: "a failed-message-processor that is broken for a while would end its retries".to_owned(),
            },
            (Role::Annotation, _) => Rule {
                to: Role::FinalDlq,
                receives: before_annotation + 10,
                why: format!(
                    "a moved message brings up to {before_annotation} along, so it would reach the final DLQ without its reason"
                ),
            },
            (Role::FinalDlq, _) => return None,
        })
    }
}

/// Where SQS must move messages, and after how many receives at least.
struct Rule {
    to: Role,
    receives: u64,
    /// What fewer receives would do.
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    #[serde(default)]
    dead_letter_target_arn: String,
    max_receive_count: Value,
}

impl RedrivePolicy {
    /// A number, or a text with one.
    fn receives(&self) -> Option<u64> {
        self.max_receive_count.as_u64().or_else(|| self.max_receive_count.as_str()?.parse().ok())
    }
}

/// A queue's name, and its account where that is known. Both are in its URL and in its ARN; what else is in a URL (the host of a
/// VPC endpoint, of a legacy endpoint, of an emulator) tells queues apart that are one.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    account: Option<&'a str>,
    name: &'a str,
}

impl<'a> Name<'a> {
    /// `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`
    fn of_url(url: &'a str) -> Self {
        let mut segments = url.trim_end_matches('/').rsplit('/');
        let name = segments.next().unwrap_or(url);
        let is_account = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        Self { account: segments.next().filter(is_account), name }
    }

    /// `arn:aws:sqs:REGION:ACCOUNT:NAME`
    fn of_arn(arn: &'a str) -> Option<Self> {
        match arn.split(':').collect::<Vec<_>>()[..] {
            ["arn", _, _, _, account, name] => Some(Self { account: Some(account), name }),
            _ => None,
        }
    }

    /// Whether nothing tells them apart.
    fn may_be(&self, other: &Self) -> bool {
        let accounts = self.account.zip(other.account);
        self.name == other.name && accounts.is_none_or(|(one, other)| one == other)
    }
}

fn seconds(attributes: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    attributes.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests;
