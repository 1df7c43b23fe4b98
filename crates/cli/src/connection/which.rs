//! Which queue, or which queues: by a stack's name, by the names that a deployment has, or one by one.

use clap::Args;
use redeliver_core::strategy::Role;

use super::{Connection, ConnectionError, KnownQueue, QueueAddress, Stack};

/// One queue.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub struct OneQueue {
    /// The queue: its URL, name or ARN
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["stack", "prefix", "stage"])]
    pub(crate) queue: Option<QueueAddress>,
    /// The queue of this redeliver stack
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prefix", "stage"])]
    pub(crate) stack: Option<String>,
    /// The queue of the deployment with this prefix, also of a construct in an app of your own [default: redeliver]
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// The queue of the deployment with this stage [default: prod]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
}

/// The queues of a deployment, or some queues.
#[derive(Clone, Debug, Default, Args)]
#[group(required = true, multiple = true)]
pub struct Queues {
    /// A queue: its URL, name or ARN; may be given several times
    #[arg(long = "queue", value_name = "QUEUE", conflicts_with_all = ["stack", "prefix", "stage"])]
    queues: Vec<QueueAddress>,
    /// The queues of this redeliver stack
    #[arg(long, value_name = "NAME", conflicts_with_all = ["prefix", "stage"])]
    stack: Option<String>,
    /// The queues of the deployment with this prefix, also of a construct in an app of your own [default: redeliver]
    #[arg(long, value_name = "NAME")]
    prefix: Option<String>,
    /// The queues of the deployment with this stage [default: prod]
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
}

/// A queue and what it is for.
#[derive(Clone, Debug)]
pub struct OpenQueue {
    /// `None` if the queue was named, and nobody says what it is for.
    pub role: Option<Role>,
    /// The queue.
    pub known: KnownQueue,
}

impl OneQueue {
    /// The deployment, if one is named.
    ///
    /// # Errors
    /// If it cannot be found.
    pub async fn stack(&self, connection: &Connection) -> Result<Option<Stack>, ConnectionError> {
        deployment(connection, self.stack.as_deref(), self.prefix.as_deref(), self.stage.as_deref()).await
    }
}

impl Queues {
    /// A deployment's name; `None` where queues are named.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let common = (self.prefix.is_some() || self.stage.is_some())
            .then(|| common_name(self.prefix.as_deref(), self.stage.as_deref()));
        self.stack.clone().or(common)
    }

    /// All of them, in the order in which a message that fails goes through them.
    ///
    /// # Errors
    /// If one cannot be found, or may not be read.
    pub async fn open(&self, connection: &Connection) -> Result<Vec<OpenQueue>, ConnectionError> {
        let (stack, prefix, stage) = (self.stack.as_deref(), self.prefix.as_deref(), self.stage.as_deref());
        let Some(stack) = deployment(connection, stack, prefix, stage).await? else {
            let found = self
                .queues
                .iter()
                .map(async |address| Ok(OpenQueue { role: None, known: connection.find(address).await? }));
            return futures_util::future::try_join_all(found).await;
        };
        let mut urls: Vec<_> = stack.source_queue_url().map(|url| (Role::Source, url)).into_iter().collect();
        urls.extend(stack.intermediate_dlq_url().map(|url| (Role::IntermediateDlq, url)));
        urls.push((Role::Annotation, stack.annotation_queue_url()?));
        urls.push((Role::FinalDlq, stack.final_dlq_url()?));
        let found = urls
            .into_iter()
            .map(async |(role, url)| Ok(OpenQueue { role: Some(role), known: connection.queue(url).await? }));
        futures_util::future::try_join_all(found).await
    }
}

async fn deployment(
    connection: &Connection,
    stack: Option<&str>,
    prefix: Option<&str>,
    stage: Option<&str>,
) -> Result<Option<Stack>, ConnectionError> {
    Ok(match (stack, prefix.or(stage)) {
        (Some(name), _) => Some(connection.stack(name).await?),
        (None, Some(_)) => Some(connection.deployment(&common_name(prefix, stage)).await?),
        (None, None) => None,
    })
}

/// As `namesOf` of infra/lib/names.ts.
fn common_name(prefix: Option<&str>, stage: Option<&str>) -> String {
    format!("{}-{}", prefix.unwrap_or("redeliver"), stage.unwrap_or("prod"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_has_the_names_that_the_construct_gives() {
        let named = |prefix: Option<&str>, stage: Option<&str>| {
            let [prefix, stage] = [prefix, stage].map(|text| text.map(str::to_owned));
            Queues { prefix, stage, ..Queues::default() }.name()
        };
        assert_eq!(named(Some("orders"), None).as_deref(), Some("orders-prod"));
        assert_eq!(named(None, Some("test")).as_deref(), Some("redeliver-test"));
        assert_eq!(named(None, None), None);
    }
}
