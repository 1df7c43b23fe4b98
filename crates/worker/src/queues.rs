//! Checks the queues before the first receive: they must be distinct, and configured as the functions require.

use std::collections::BTreeMap;

use redeliver_core::decide::QueueTimes;
use redeliver_core::strategy::{RedriveEdge, Role, Strategy};
use thiserror::Error;

use crate::queue_name::QueueName;
use redeliver_operator::queues::RedrivePolicy;

/// This process's retry settings for failed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetrySetup {
    pub(crate) strategy: Strategy,
    pub(crate) max_attempts: u32,
    /// The source queue's times according to the settings, if failed messages remain on it.
    pub(crate) queue_times: Option<QueueTimes>,
}

/// The retry settings to assume if another process runs the message-processor: failed messages are handed off.
pub(crate) const ASSUMED_RETRIES: RetrySetup =
    RetrySetup { strategy: Strategy::DelayedResend, max_attempts: 0, queue_times: None };

/// The queues named in the environment.
#[derive(Clone, Debug)]
pub(crate) struct NamedQueues {
    pub(crate) urls: BTreeMap<Role, String>,
    /// `None` if another process runs the message-processor.
    pub(crate) retrying: Option<RetrySetup>,
    /// The time limit for one batch, in seconds.
    pub(crate) invocation: u64,
}

/// The reasons why queues cannot be used.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{}", .0.iter().map(|problem| format!("- {problem}")).collect::<Vec<_>>().join("\n"))]
pub(crate) struct UnusableQueues(Vec<String>);

#[derive(Debug, Default)]
struct QueueFindings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl NamedQueues {
    /// Checks that the queues are distinct.
    pub(crate) fn check_distinct(&self) -> Result<(), UnusableQueues> {
        let mut same = Vec::new();
        for (index, (role, url)) in self.urls.iter().enumerate() {
            for (other, its_url) in self.urls.iter().take(index) {
                if QueueName::from_url(its_url) == QueueName::from_url(url) {
                    same.push(format!(
                        "{} and {} name the same queue ({url}): set each to a queue of its own",
                        other.setting_name(),
                        role.setting_name()
                    ));
                }
            }
        }
        if same.is_empty() { Ok(()) } else { Err(UnusableQueues(same)) }
    }

    /// Checks the attributes of the polled queues, and returns the warnings. A missing attribute is not checked.
    pub(crate) fn check_attributes(
        &self,
        polled: &BTreeMap<Role, BTreeMap<String, String>>,
    ) -> Result<Vec<String>, UnusableQueues> {
        let mut findings = QueueFindings::default();
        for (role, attributes) in polled {
            self.check_visibility(*role, attributes, &mut findings);
            if let (Role::Source, Some(RetrySetup { queue_times: Some(queue_times), .. })) =
                (role, &self.retrying)
            {
                self.check_source_attributes(attributes, queue_times, &mut findings);
            }
            self.check_redrive(*role, attributes, &mut findings);
        }
        if findings.errors.is_empty() { Ok(findings.warnings) } else { Err(UnusableQueues(findings.errors)) }
    }

    fn role_url(&self, role: Role) -> &str {
        self.urls.get(&role).map_or("", String::as_str)
    }

    fn check_visibility(
        &self,
        role: Role,
        attributes: &BTreeMap<String, String>,
        findings: &mut QueueFindings,
    ) {
        let Self { invocation, .. } = self;
        if let Some(visibility) =
            attribute_seconds(attributes, "VisibilityTimeout").filter(|seconds| seconds < invocation)
        {
            findings.errors.push(format!(
                "{}: its visibility timeout is {visibility} s, and a batch may take {invocation} s (--invocation), so \
                 messages would come back while they are being handled; set it to {} s, six times the time of a batch, or \
                 lower --invocation",
                self.role_url(role),
                (invocation * 6).min(43_200)
            ));
        }
    }

    /// Checks that the source queue's attributes match the settings, since failed messages remain on it.
    fn check_source_attributes(
        &self,
        attributes: &BTreeMap<String, String>,
        queue_times: &QueueTimes,
        findings: &mut QueueFindings,
    ) {
        let settings = [
            (
                "VISIBILITY_TIMEOUT_SECONDS",
                "VisibilityTimeout",
                u64::from(queue_times.visibility_timeout.get()),
            ),
            ("RETENTION_SECONDS", "MessageRetentionPeriod", queue_times.retention.as_secs()),
        ];
        for (setting, name, expected) in settings {
            if let Some(seconds) = attribute_seconds(attributes, name).filter(|seconds| *seconds != expected)
            {
                let url = self.role_url(Role::Source);
                findings.errors.push(format!("{url}: {name} is {seconds}; set {setting} to {seconds}, too"));
            }
        }
    }

    /// Checks the redrive policy for messages that a function could not handle.
    fn check_redrive(&self, role: Role, attributes: &BTreeMap<String, String>, findings: &mut QueueFindings) {
        // The source DLQ has no DLQ of its own, which would have to be a FIFO queue as well.
        if role == Role::SourceDlq {
            return;
        }
        let url = self.role_url(role);
        if !attributes.contains_key("RedrivePolicy") {
            findings.warnings.push(format!(
                "{url} has no redrive policy: a message that its function can neither handle nor pass on comes back forever"
            ));
            return;
        }
        let (Some(DlqRule { to, receives, why }), Some(policy)) =
            (self.redrive_rule(role), RedrivePolicy::from_attributes(attributes))
        else {
            return;
        };
        let (arn, next) = (policy.dead_letter_target_arn.as_deref().unwrap_or_default(), self.role_url(to));
        if !next.is_empty()
            && QueueName::from_arn(arn).is_some_and(|name| !name.may_be_same(&QueueName::from_url(next)))
        {
            findings.errors.push(format!(
                "{url}: SQS moves messages out of it to {arn}, which is not the queue of {variable} ({next}); name that queue in its \
                 redrive policy, or set {variable} to the queue that the policy names",
                variable = to.setting_name()
            ));
        }
        let Some(count) = policy.max_receive_count() else { return };
        let remedy = format!("set the maxReceiveCount of its redrive policy to {receives}");
        if count < receives {
            let problem =
                format!("{url}: SQS moves a message out of it after {count} receives, and {why}; {remedy}");
            // The strategy `visibility` needs fewer receives, and the strategy can be unknown here.
            let is_sure = !(role == Role::Annotation && self.retrying.is_none());
            if is_sure {
                findings.errors.push(problem);
            } else {
                findings.warnings.push(format!(
                    "{problem}, or with STRATEGY=visibility to twenty more than the policy's max_attempts"
                ));
            }
        } else if role == Role::Source
            && to == Role::IntermediateDlq
            && self.retrying.is_some()
            && count > receives
        {
            findings.warnings.push(format!(
                "{url}: SQS delivers a message {count} times before it moves it, so one that the message-processor could not \
                 hand off is sent to the target again without the policy's delay; {remedy}"
            ));
        }
    }

    /// Returns the rule for a queue's redrive policy; `None` for the final DLQ, which has no DLQ, and for queues that
    /// the strategy does not need.
    fn redrive_rule(&self, role: Role) -> Option<DlqRule> {
        let RetrySetup { strategy, max_attempts, .. } = self.retrying.unwrap_or(ASSUMED_RETRIES);
        let queues = strategy.definition().queues(max_attempts);
        let RedriveEdge { to, receives } = queues.iter().find(|queue| queue.role == role)?.redrive?;
        let why = match (role, to) {
            (Role::Source, Role::IntermediateDlq) => String::new(),
            (Role::Source, Role::SourceDlq) => "each retry and each hold is a receive".to_owned(),
            (Role::Source, _) => {
                "each retry is a receive, and ten more than the policy's max_attempts are reserved for failures"
                    .to_owned()
            }
            (Role::IntermediateDlq, _) => {
                "a temporarily broken failed-message-processor would end its retries".to_owned()
            }
            (Role::SourceDlq | Role::Blocked | Role::Annotation | Role::FinalDlq, _) => {
                let before =
                    queues.iter().filter_map(|queue| queue.redrive.filter(|redrive| redrive.to == role));
                let receives_before = before.map(|redrive| redrive.receives).max().unwrap_or(0);
                format!(
                    "a moved message keeps up to {receives_before} receives, so it would reach the final DLQ without its reason"
                )
            }
        };
        Some(DlqRule { to, receives: receives.into(), why })
    }
}

/// The queue to which SQS must move messages, and the minimum number of receives before it does.
struct DlqRule {
    to: Role,
    receives: u64,
    /// The consequence of fewer receives.
    why: String,
}

fn attribute_seconds(attributes: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    attributes.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests;
