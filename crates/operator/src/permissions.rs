//! The least-privilege IAM policy for each command. All policies are derived from a single table, `PERMISSIONS`.

use std::collections::BTreeMap;

use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use serde_json::{Value, json};

use crate::queues::{AwsConnection, OpenQueue, QueueSelection};
use crate::{CommandFailure, UsageError};

/// A command in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PolicyCommand {
    Audit,
    Redrive,
    Purge,
    Unblock,
    Send,
    Pause,
    Resume,
    Status,
    Preflight,
    Fleet,
    Console,
    /// `cargo xtask cdk deploy`
    Deploy,
}

/// The resource that a permission applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ResourceKind {
    Dlq,
    Source,
    /// The queue with the notices about blocked groups, if the deployment has one.
    Blocked,
    /// All queues of the deployment.
    Queues,
    /// A queue's own KMS key; without one, no permission is needed.
    DlqKey,
    SourceKey,
    BlockedKey,
    Mappings,
    CdkRoles,
    /// `*`: IAM cannot restrict these actions to a resource.
    Everything,
}

use PolicyCommand::{
    Audit, Console, Deploy, Fleet, Pause, Preflight, Purge, Redrive, Resume, Send, Status, Unblock,
};

/// Each permission, and the commands that need it.
const PERMISSIONS: &[(&str, ResourceKind, &[PolicyCommand])] = &[
    ("sqs:GetQueueAttributes", ResourceKind::Dlq, &[Audit, Redrive, Purge]),
    ("sqs:ReceiveMessage", ResourceKind::Dlq, &[Audit, Redrive, Purge, Console]),
    ("sqs:ChangeMessageVisibility", ResourceKind::Dlq, &[Audit, Redrive, Purge, Console]),
    ("sqs:DeleteMessage", ResourceKind::Dlq, &[Redrive, Purge, Console]),
    ("kms:Decrypt", ResourceKind::DlqKey, &[Audit, Redrive, Purge, Console]),
    ("sqs:GetQueueAttributes", ResourceKind::Source, &[Redrive, Unblock, Send]),
    ("sqs:ChangeMessageVisibility", ResourceKind::Source, &[Unblock]),
    ("sqs:DeleteMessage", ResourceKind::Source, &[Unblock]),
    ("sqs:SendMessage", ResourceKind::Source, &[Redrive, Send, Console]),
    ("kms:Decrypt", ResourceKind::SourceKey, &[Redrive, Unblock, Send, Console]),
    ("kms:GenerateDataKey", ResourceKind::SourceKey, &[Redrive, Send, Console]),
    ("sqs:GetQueueAttributes", ResourceKind::Blocked, &[Unblock]),
    ("sqs:ReceiveMessage", ResourceKind::Blocked, &[Unblock, Status, Console]),
    ("sqs:ChangeMessageVisibility", ResourceKind::Blocked, &[Unblock, Status, Console]),
    ("sqs:DeleteMessage", ResourceKind::Blocked, &[Unblock]),
    ("kms:Decrypt", ResourceKind::BlockedKey, &[Unblock, Status, Console]),
    ("sqs:GetQueueAttributes", ResourceKind::Queues, &[Pause, Resume, Status, Preflight, Console, Deploy]),
    ("sqs:GetQueueUrl", ResourceKind::Queues, &[Preflight, Deploy]),
    ("lambda:GetEventSourceMapping", ResourceKind::Mappings, &[Pause, Resume, Console]),
    ("lambda:UpdateEventSourceMapping", ResourceKind::Mappings, &[Pause, Resume, Console]),
    (
        "lambda:ListEventSourceMappings",
        ResourceKind::Everything,
        &[Redrive, Pause, Resume, Status, Preflight, Fleet, Console, Deploy],
    ),
    ("cloudwatch:GetMetricData", ResourceKind::Everything, &[Redrive, Pause, Resume, Status, Fleet, Console]),
    ("cloudwatch:DescribeAlarms", ResourceKind::Everything, &[Fleet, Console]),
    ("lambda:ListFunctions", ResourceKind::Everything, &[Fleet]),
    ("events:ListSubscribers", ResourceKind::Everything, &[Fleet]),
    ("events:DescribeSubscriber", ResourceKind::Everything, &[Fleet]),
    ("sqs:ListQueues", ResourceKind::Everything, &[Fleet]),
    ("sqs:GetQueueAttributes", ResourceKind::Everything, &[Fleet]),
    ("lambda:GetAccountSettings", ResourceKind::Everything, &[Preflight, Deploy]),
    ("sts:AssumeRole", ResourceKind::CdkRoles, &[Deploy]),
];

/// The names used in a policy: a deployment's names, or placeholders in capitals.
#[derive(Clone, Debug)]
pub struct PolicyNames {
    /// The partition in a queue's ARN, `arn:PARTITION:sqs:REGION:ACCOUNT:NAME`.
    partition: String,
    region: String,
    account: String,
    queues: BTreeMap<Role, String>,
    /// The id, ARN or alias of each queue's key, as in `KmsMasterKeyId`.
    keys: BTreeMap<Role, String>,
    /// The stack, or the prefix of the queue names, by which to find the deployment.
    lookup: DeploymentLookup,
}

#[derive(Clone, Debug)]
enum DeploymentLookup {
    Stack(String),
    Names(String),
}

impl PolicyNames {
    /// Creates placeholders in capitals for the queues of the default strategy, and for any others that the command
    /// needs.
    #[must_use]
    pub fn with_placeholders(command: PolicyCommand) -> Self {
        let queue = |role: &Role| {
            let name = role.display_name().to_uppercase().replace(' ', "_");
            (*role, format!("arn:aws:sqs:REGION:ACCOUNT:{name}"))
        };
        let has = |role: &&Role| match role {
            Role::SourceDlq => false,
            Role::Blocked => command == Unblock,
            _ => true,
        };
        Self {
            partition: "aws".to_owned(),
            region: "REGION".to_owned(),
            account: "ACCOUNT".to_owned(),
            queues: Role::ALL.iter().filter(has).map(queue).collect(),
            keys: BTreeMap::new(),
            lookup: DeploymentLookup::Stack("STACK".to_owned()),
        }
    }

    /// Reads a deployment's names from its queues. This requires the permissions that `redeliver status` needs on them.
    ///
    /// # Errors
    /// If the queues cannot be read, or if they are named by `--queue` and therefore have no roles.
    pub async fn for_deployment(
        command: PolicyCommand,
        queues: &QueueSelection,
        connection: &AwsConnection,
    ) -> Result<Self, CommandFailure> {
        let mut names = Self::with_placeholders(command);
        let open = queues.open_queues(connection).await?;
        names.queues.clear();
        for OpenQueue { role, known } in &open {
            let Some(role) = *role else {
                return Err(UsageError::new("name a deployment: --stack, or --prefix and --stage").into());
            };
            let arn = known.queue.arn();
            if let [_, partition, _, region, account, _] = arn.split(':').collect::<Vec<_>>()[..] {
                names.partition = partition.to_owned();
                names.region = region.to_owned();
                names.account = account.to_owned();
            }
            names.queues.insert(role, arn.to_owned());
            // Every user of the queue may use the AWS managed key.
            if let Some(key) = known.attributes.get("KmsMasterKeyId").filter(|key| *key != "alias/aws/sqs") {
                names.keys.insert(role, key.clone());
            }
        }
        let name = queues.deployment_name().unwrap_or_default();
        names.lookup = if queues.selects_by_stack() {
            DeploymentLookup::Stack(name)
        } else {
            DeploymentLookup::Names(name)
        };
        Ok(names)
    }

    /// Lists the resources, with a condition for a key that is known only by its alias.
    fn list_resources(&self, on: ResourceKind) -> Vec<(String, Option<Value>)> {
        let arn = |service: &str, rest: &str| {
            format!("arn:{}:{service}:{}:{}:{rest}", self.partition, self.region, self.account)
        };
        let queue = |role| self.queues.get(&role).cloned().map(|arn| (arn, None));
        let key = |role| {
            self.keys.get(&role).map(|key| match key.as_str() {
                arn if arn.starts_with("arn:") => (arn.to_owned(), None),
                alias if alias.starts_with("alias/") => {
                    let condition = json!({ "ForAnyValue:StringEquals": { "kms:ResourceAliases": alias } });
                    (arn("kms", "key/*"), Some(condition))
                }
                id => (arn("kms", &format!("key/{id}")), None),
            })
        };
        match on {
            ResourceKind::Dlq => queue(Role::FinalDlq).into_iter().collect(),
            ResourceKind::Source => queue(Role::Source).into_iter().collect(),
            ResourceKind::Blocked => queue(Role::Blocked).into_iter().collect(),
            ResourceKind::Queues => self.queues.values().map(|arn| (arn.clone(), None)).collect(),
            ResourceKind::DlqKey => key(Role::FinalDlq).into_iter().collect(),
            ResourceKind::SourceKey => key(Role::Source).into_iter().collect(),
            ResourceKind::BlockedKey => key(Role::Blocked).into_iter().collect(),
            ResourceKind::Mappings => vec![(arn("lambda", "event-source-mapping:*"), None)],
            ResourceKind::CdkRoles => {
                vec![(format!("arn:{}:iam::{}:role/cdk-*", self.partition, self.account), None)]
            }
            ResourceKind::Everything => vec![("*".to_owned(), None)],
        }
    }

    /// Returns the permission needed to find the deployment.
    fn discovery_permission(&self) -> (&'static str, String) {
        let Self { partition, region, account, .. } = self;
        match &self.lookup {
            DeploymentLookup::Stack(name) => (
                "cloudformation:DescribeStacks",
                format!("arn:{partition}:cloudformation:{region}:{account}:stack/{name}/*"),
            ),
            DeploymentLookup::Names(name) => {
                ("sqs:GetQueueUrl", format!("arn:{partition}:sqs:{region}:{account}:{name}-*"))
            }
        }
    }
}

/// Builds the least-privilege IAM policy for a command as JSON, with one statement per resource.
#[must_use]
pub fn build_policy(command: PolicyCommand, names: &PolicyNames) -> Value {
    let mut permissions = Vec::new();
    for (action, on, commands) in PERMISSIONS {
        if commands.contains(&command) {
            permissions.extend(
                names
                    .list_resources(*on)
                    .into_iter()
                    .map(|(resource, condition)| (*action, resource, condition)),
            );
        }
    }
    if command != Fleet {
        let (action, resource) = names.discovery_permission();
        permissions.push((action, resource, None));
    }
    // One statement per resource, to keep the policy short.
    let mut statements: Vec<(String, Option<Value>, Vec<&str>)> = Vec::new();
    for (action, resource, condition) in permissions {
        match statements.iter_mut().find(|(on, when, _)| (on, when) == (&resource, &condition)) {
            Some((_, _, actions)) if actions.contains(&action) => {}
            Some((_, _, actions)) => actions.push(action),
            None => statements.push((resource, condition, vec![action])),
        }
    }
    let statements = statements.into_iter().map(|(resource, condition, actions)| {
        let mut statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resource });
        if let Some(condition) = condition {
            statement["Condition"] = condition;
        }
        statement
    });
    json!({ "Version": "2012-10-17", "Statement": statements.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests;
