//! The options that select queues: all queues in a deployment, or individual queues.

use clap::Args;
use futures_util::future::try_join_all;
use redeliver_core::strategy::Role;

use super::deployment::DeploymentSelector;
use super::{AwsConnection, KnownQueue, QueueAddress};
use crate::next_command::option_words;
use crate::terminal::help::CONNECT;
use crate::{CommandFailure, UsageError};

/// The options that select one queue.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true, args = ["queue", "stack", "prefix", "stage"])]
pub struct OneQueue {
    /// The queue: its URL, name or ARN
    #[arg(long, help_heading = CONNECT, value_name = "QUEUE", conflicts_with_all = ["stack", "prefix", "stage"])]
    queue: Option<QueueAddress>,
    #[command(flatten)]
    deployment: DeploymentSelector,
}

/// The options that select the queues of a deployment, or individual queues.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true, args = ["queues", "stack", "prefix", "stage"])]
pub struct QueueSelection {
    /// A queue: its URL, name or ARN; may be repeated
    #[arg(long = "queue", help_heading = CONNECT, value_name = "QUEUE", conflicts_with_all = ["stack", "prefix", "stage"])]
    queues: Vec<QueueAddress>,
    #[command(flatten)]
    deployment: DeploymentSelector,
}

/// The options that name a deployment, all of them optional.
#[derive(Clone, Debug, Default, Args)]
pub struct DeploymentArgs {
    #[command(flatten)]
    deployment: DeploymentSelector,
}

/// The options that name a deployment, at least one of them required.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true, args = ["stack", "prefix", "stage"])]
pub struct NamedDeployment {
    #[command(flatten)]
    deployment: DeploymentSelector,
}

impl NamedDeployment {
    /// Selects the queues of the deployment.
    pub fn all_queues(&self) -> QueueSelection {
        QueueSelection { deployment: self.deployment.clone(), ..QueueSelection::default() }
    }
}

impl DeploymentArgs {
    /// Selects the queues of the deployment, if one is named.
    pub fn all_queues(&self) -> Option<QueueSelection> {
        self.deployment.name()?;
        Some(QueueSelection { deployment: self.deployment.clone(), ..QueueSelection::default() })
    }
}

/// A queue and its role.
#[derive(Clone, Debug)]
pub struct OpenQueue {
    /// `None` if the queue was given by name, in which case its role is unknown.
    pub role: Option<Role>,
    pub known: KnownQueue,
}

impl OneQueue {
    /// Selects a queue in a stack.
    pub fn from_stack(stack: &str) -> Self {
        Self { deployment: DeploymentSelector::from_stack(stack), ..Self::default() }
    }

    /// Selects a queue, or the deployment with this prefix and stage.
    pub fn from_names(queue: Option<QueueAddress>, prefix: Option<String>, stage: Option<String>) -> Self {
        Self { queue, deployment: DeploymentSelector::from_names(prefix, stage) }
    }

    /// Returns the given options, as command-line arguments.
    pub fn to_arguments(&self) -> Vec<String> {
        let queue = self.queue.iter().flat_map(|queue| ["--queue".to_owned(), queue.to_string()]);
        queue.chain(option_words(self.deployment.given_options())).collect()
    }

    /// Selects the deployment's queues, or `others` followed by this queue.
    pub fn with_others(&self, others: impl IntoIterator<Item = QueueAddress>) -> QueueSelection {
        let queues = match &self.queue {
            Some(queue) => others.into_iter().chain([queue.clone()]).collect(),
            None => Vec::new(),
        };
        QueueSelection { queues, deployment: self.deployment.clone() }
    }

    /// Returns the queue, if it is named.
    pub const fn named_queue(&self) -> Option<&QueueAddress> {
        self.queue.as_ref()
    }

    /// Returns the deployment's name; `None` if a queue is named.
    pub fn deployment_name(&self) -> Option<String> {
        self.deployment.name()
    }

    /// Finds the named queue, or the deployment's queue with this role.
    pub async fn find_address(
        &self,
        connection: &AwsConnection,
        role: Role,
    ) -> Result<QueueAddress, CommandFailure> {
        match (&self.queue, self.deployment.find_queues(connection).await?) {
            (Some(address), _) => Ok(address.clone()),
            (None, Some(deployed)) => Ok(QueueAddress::Url(deployed.queue_url(role)?.to_owned())),
            (None, None) => {
                Err(UsageError::new("name the queue: --queue, --stack, or --prefix and --stage").into())
            }
        }
    }
}

impl QueueSelection {
    /// Selects the queues in a stack.
    pub fn from_stack(stack: &str) -> Self {
        Self { deployment: DeploymentSelector::from_stack(stack), ..Self::default() }
    }

    /// Returns the deployment's name; `None` if queues are named.
    pub fn deployment_name(&self) -> Option<String> {
        self.deployment.name()
    }

    /// Returns the options that select the deployment, as command-line arguments; empty if queues are named.
    pub fn deployment_arguments(&self) -> Vec<String> {
        option_words(self.deployment.given_options())
    }

    /// Returns true if the queues are taken from a stack's outputs.
    pub fn selects_by_stack(&self) -> bool {
        self.deployment.selects_by_stack()
    }

    /// Opens all queues, in the order in which a failing message passes through them.
    pub async fn open_queues(&self, connection: &AwsConnection) -> Result<Vec<OpenQueue>, CommandFailure> {
        let addresses = match self.deployment.find_queues(connection).await? {
            None => self.queues.iter().map(|address| (None, address.clone())).collect(),
            Some(deployed) => {
                let mut addresses = Vec::new();
                for &role in Role::ALL {
                    match deployed.queue_url(role) {
                        Ok(url) => addresses.push((Some(role), QueueAddress::Url(url.to_owned()))),
                        // Not every strategy has these queues, and an existing source queue may not be found.
                        Err(_)
                            if matches!(
                                role,
                                Role::Source | Role::IntermediateDlq | Role::SourceDlq | Role::Blocked
                            ) => {}
                        Err(missing) => return Err(missing),
                    }
                }
                addresses
            }
        };
        let open = addresses.iter().map(async |(role, address)| {
            Ok(OpenQueue { role: *role, known: connection.find_queue(address).await? })
        });
        try_join_all(open).await
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        queues: QueueSelection,
    }

    #[test]
    fn a_deployment_has_the_same_name_as_in_the_cdk_construct() {
        let named = |arguments: &[&str]| {
            Program::try_parse_from(["program"].iter().chain(arguments)).unwrap().queues.deployment_name()
        };
        assert_eq!(named(&["--prefix", "orders"]).as_deref(), Some("orders-prod"));
        assert_eq!(named(&["--stage", "test"]).as_deref(), Some("redeliver-test"));
        assert_eq!(named(&["--stack", "mine"]).as_deref(), Some("mine"));
        assert_eq!(named(&["--queue", "orders"]), None);
        assert!(Program::try_parse_from(["program"]).is_err(), "an option is required");
    }
}
