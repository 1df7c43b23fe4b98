//! Finds a deployment by its stack name or by its queue names, since a construct in another app has no outputs.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::error::ProvideErrorMetadata as _;
use aws_sdk_cloudformation::types::Stack;
use aws_sdk_sqs::Client;
use clap::Args;
use redeliver_core::strategy::Role;

use super::{AwsConnection, RequestLog, describe_error};
use crate::CommandFailure;
use crate::terminal::help::CONNECT;
use crate::terminal::stderr;

/// The options that name a deployment.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct DeploymentSelector {
    /// The name of the redeliver stack [env: REDELIVER_STACK]
    #[arg(long, help_heading = CONNECT, value_name = "NAME", conflicts_with_all = ["prefix", "stage"])]
    stack: Option<String>,
    /// The deployment's prefix [default: redeliver]
    ///
    /// The names of its queues begin with PREFIX-STAGE. It also works for a construct in your own app.
    #[arg(long, help_heading = CONNECT, value_name = "NAME")]
    prefix: Option<String>,
    /// The deployment's stage [default: prod]
    #[arg(long, help_heading = CONNECT, value_name = "NAME")]
    stage: Option<String>,
}

/// The queues of a deployment.
#[derive(Clone, Debug)]
pub(super) struct DeployedQueues {
    name: String,
    urls: BTreeMap<Role, String>,
}

impl DeploymentSelector {
    pub(super) fn from_names(prefix: Option<String>, stage: Option<String>) -> Self {
        Self { stack: None, prefix, stage }
    }

    pub(super) fn from_stack(stack: &str) -> Self {
        Self { stack: Some(stack.to_owned()), ..Self::default() }
    }

    /// Returns the stack's name, or the prefix of the queue names; `None` if queues are named.
    pub(super) fn name(&self) -> Option<String> {
        self.stack.clone().or_else(|| self.name_prefix())
    }

    /// Returns the given options, with their names.
    pub(super) fn given_options(&self) -> Vec<(&'static str, &str)> {
        let options = [("stack", &self.stack), ("prefix", &self.prefix), ("stage", &self.stage)];
        options.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    pub(super) const fn selects_by_stack(&self) -> bool {
        self.stack.is_some()
    }

    pub(super) async fn find_queues(
        &self,
        connection: &AwsConnection,
    ) -> Result<Option<DeployedQueues>, CommandFailure> {
        Ok(match (&self.stack, self.name_prefix()) {
            (Some(stack), _) => Some(DeployedQueues::find_by_stack(connection, stack).await?),
            (None, Some(name)) => Some(DeployedQueues::find_by_names(connection, &name).await?),
            (None, None) => None,
        })
    }

    /// Returns the prefix of the queue names, as `namesOf` in infra/lib/names.ts does.
    fn name_prefix(&self) -> Option<String> {
        let [prefix, stage] = [&self.prefix, &self.stage].map(Option::as_deref);
        let is_named = prefix.or(stage).is_some();
        is_named.then(|| format!("{}-{}", prefix.unwrap_or("redeliver"), stage.unwrap_or("prod")))
    }
}

impl DeployedQueues {
    pub(super) fn queue_url(&self, role: Role) -> Result<&str, CommandFailure> {
        let missing = || match role {
            Role::Blocked => format!(
                "{} has no queue for blocked groups: this requires the strategy ordered, with on_give_up block in its \
                 policy",
                self.name
            ),
            _ => format!(
                "{} has no {}: is it a redeliver stack? Use --prefix and --stage for a construct in your own app, or \
                 --queue for any queue",
                self.name,
                output_name(role)
            ),
        };
        Ok(self.urls.get(&role).ok_or_else(missing)?)
    }

    async fn find_by_stack(connection: &AwsConnection, name: &str) -> Result<Self, CommandFailure> {
        let missing = || describe_refusal(name, "the stack does not exist");
        let stack = find_stack(connection, name).await?.ok_or_else(missing)?;
        let urls = stack.outputs.unwrap_or_default().into_iter().filter_map(|found| {
            let role = Role::ALL
                .iter()
                .copied()
                .find(|role| found.output_key.as_deref() == Some(output_name(*role)))?;
            Some((role, found.output_value?))
        });
        Ok(Self { name: name.to_owned(), urls: urls.collect() })
    }

    /// Finds the queues whose names begin with `name`, which is `PREFIX-STAGE`.
    async fn find_by_names(connection: &AwsConnection, name: &str) -> Result<Self, CommandFailure> {
        let client = connection.sqs_client(None).await?;
        let find =
            async |suffix: &str| connection.fetch_url(&client, &format!("{name}-{suffix}"), None).await;
        let (annotation, final_dlq) = (find("annotation").await?, find("final-dlq").await?);
        let (Some(annotation), Some(final_dlq)) = (&annotation, &final_dlq) else {
            let queues = [("annotation", &annotation), ("final-dlq", &final_dlq)];
            let missing = queues.iter().filter(|(_, url)| url.is_none());
            let missing: Vec<_> = missing.map(|(suffix, _)| format!("{name}-{suffix}")).collect();
            return Err(format!(
                "there is no queue {}; check --prefix, --stage, the region and the account, \
                 or name the queues with --queue",
                missing.join(" and no queue ")
            )
            .into());
        };
        let intermediate = find("intermediate-dlq").await?;
        // The source queue is named `retry` with the strategy async-retry and `source.fifo` with ordered; an existing
        // queue keeps its own name.
        let (mut source, mut source_dlq, mut blocked) = (find("source").await?, None, None);
        if source.is_none() {
            source = find("retry").await?;
        }
        if source.is_none() {
            (source, source_dlq) = (find("source.fifo").await?, find("source-dlq.fifo").await?);
            blocked = if source_dlq.is_some() { find("blocked").await? } else { None };
        }
        if source.is_none() {
            let dlq = intermediate.as_ref().or(source_dlq.as_ref()).unwrap_or(annotation);
            source = find_source(&client, dlq).await;
        }
        let urls = [
            (Role::Source, source),
            (Role::IntermediateDlq, intermediate),
            (Role::SourceDlq, source_dlq),
            (Role::Blocked, blocked),
            (Role::Annotation, Some(annotation.clone())),
            (Role::FinalDlq, Some(final_dlq.clone())),
        ];
        let urls = urls.into_iter().filter_map(|(role, url)| Some((role, url?)));
        Ok(Self { name: name.to_owned(), urls: urls.collect() })
    }
}

/// Finds a stack; `None` if no stack has this name.
pub async fn find_stack(connection: &AwsConnection, name: &str) -> Result<Option<Stack>, CommandFailure> {
    let config = aws_sdk_cloudformation::config::Builder::from(&connection.sdk_config(None).await?);
    let client = aws_sdk_cloudformation::Client::from_conf(config.interceptor(RequestLog::default()).build());
    match client.describe_stacks().stack_name(name).send().await {
        Ok(answer) => Ok(answer.stacks.unwrap_or_default().into_iter().next()),
        // There is no specific error code for a missing stack, only the message "Stack with id … does not exist".
        Err(error) if error.message().is_some_and(|message| message.ends_with("does not exist")) => Ok(None),
        Err(error) => Err(connection.explain_failure(&error, |reason| describe_refusal(name, reason)).await),
    }
}

fn describe_refusal(stack: &str, reason: &str) -> String {
    format!(
        "stack {stack}: {reason}; check the name, the region and your permission for cloudformation:DescribeStacks"
    )
}

/// Returns the name of the stack output with a queue's URL.
const fn output_name(role: Role) -> &'static str {
    match role {
        Role::Source => "SourceQueueUrl",
        Role::IntermediateDlq => "IntermediateDlqUrl",
        Role::SourceDlq => "SourceDlqUrl",
        Role::Blocked => "BlockedQueueUrl",
        Role::Annotation => "AnnotationQueueUrl",
        Role::FinalDlq => "FinalDlqUrl",
    }
}

/// Finds the source queue of a DLQ, or prints a warning: the DLQ can be read without it.
async fn find_source(client: &Client, dlq_url: &str) -> Option<String> {
    match client.list_dead_letter_source_queues().queue_url(dlq_url).send().await {
        Ok(answer) => answer.queue_urls.into_iter().next(),
        Err(error) => {
            stderr::warning(format_args!(
                "the source queue was not found: {}; check your permission for sqs:ListDeadLetterSourceQueues on \
                 {dlq_url}, or name \
                 the queue with --queue",
                describe_error(&error)
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use redeliver_testing::loopback::Loopback;

    fn url(name: &str) -> (u16, serde_json::Value) {
        (200, json!({ "QueueUrl": format!("http://127.0.0.1:1/0/{name}") }))
    }

    fn missing_queue_response() -> (u16, serde_json::Value) {
        (400, json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no" }))
    }

    async fn deployment(
        answers: impl IntoIterator<Item = (u16, serde_json::Value)>,
    ) -> Result<DeployedQueues, CommandFailure> {
        let endpoint = Loopback::start_scripted(answers);
        DeployedQueues::find_by_names(
            &AwsConnection::from_parts(
                None,
                Some("eu-central-1".to_owned()),
                Some(endpoint.url().to_owned()),
            ),
            "orders-test",
        )
        .await
    }

    #[tokio::test]
    async fn a_construct_in_another_app_is_found_by_its_queue_names() {
        let names = ["annotation", "final-dlq", "intermediate-dlq", "source"];
        let stack = deployment(names.map(url)).await.unwrap();
        assert_eq!(stack.queue_url(Role::Source).unwrap(), "http://127.0.0.1:1/0/source");
        assert_eq!(stack.queue_url(Role::IntermediateDlq).unwrap(), "http://127.0.0.1:1/0/intermediate-dlq");
        assert_eq!(stack.queue_url(Role::FinalDlq).unwrap(), "http://127.0.0.1:1/0/final-dlq");
    }

    #[tokio::test]
    async fn a_fifo_source_queue_is_found_with_its_dlq_and_its_blocked_queue() {
        let names = ["annotation", "final-dlq"].map(url).into_iter().chain([
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
        ]);
        let names = names.chain(["source.fifo", "source-dlq.fifo", "blocked"].map(url));
        let stack = deployment(names).await.unwrap();
        assert_eq!(stack.queue_url(Role::Source).unwrap(), "http://127.0.0.1:1/0/source.fifo");
        assert_eq!(stack.queue_url(Role::SourceDlq).unwrap(), "http://127.0.0.1:1/0/source-dlq.fifo");
        assert_eq!(stack.queue_url(Role::Blocked).unwrap(), "http://127.0.0.1:1/0/blocked");
    }

    #[tokio::test]
    async fn an_existing_fifo_source_queue_is_found_by_its_fifo_dlq() {
        let names = ["annotation", "final-dlq"].map(url).into_iter();
        let names = names.chain([
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
        ]);
        let names = names.chain(["source-dlq.fifo", "blocked"].map(url));
        let sources = (200, json!({ "queueUrls": ["http://127.0.0.1:1/0/orders.fifo"] }));
        let endpoint = Loopback::start_scripted(names.chain([sources]));
        let connection =
            AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(endpoint.url().to_owned()));
        let stack = DeployedQueues::find_by_names(&connection, "orders-test").await.unwrap();
        assert_eq!(stack.queue_url(Role::Source).unwrap(), "http://127.0.0.1:1/0/orders.fifo");
        let last_request = format!("{:?}", endpoint.requests().last().unwrap());
        assert!(last_request.contains("source-dlq.fifo"), "{last_request}");
    }

    #[test]
    fn stack_outputs_are_named_as_in_the_construct() {
        let construct = include_str!("../../../../infra/lib/outputs.ts");
        for role in Role::ALL {
            assert!(construct.contains(&format!("add('{}', ", output_name(*role))), "{role:?}");
        }
    }

    #[tokio::test]
    async fn an_existing_source_queue_is_found_by_its_dlq() {
        let sources = (200, json!({ "queueUrls": ["http://127.0.0.1:1/0/my-orders"] }));
        let answers = [
            url("annotation"),
            url("final-dlq"),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            sources,
        ];
        let stack = deployment(answers).await.unwrap();
        assert_eq!(stack.queue_url(Role::Source).unwrap(), "http://127.0.0.1:1/0/my-orders");
        assert!(stack.queue_url(Role::IntermediateDlq).is_err(), "as with the strategy visibility");
    }

    #[tokio::test]
    async fn the_final_dlq_can_be_read_without_the_source_queue() {
        let refused = (400, json!({ "__type": "InvalidAction", "message": "no" }));
        let answers = [
            url("annotation"),
            url("final-dlq"),
            url("intermediate-dlq"),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            missing_queue_response(),
            refused,
        ];
        let stack = deployment(answers).await.unwrap();
        assert!(stack.queue_url(Role::FinalDlq).is_ok() && stack.queue_url(Role::Source).is_err());
    }

    #[tokio::test]
    async fn a_missing_deployment_is_reported_with_its_expected_queue_names() {
        let advice = "check --prefix, --stage, the region and the account, or name the queues with --queue";
        for (answers, names) in [
            (
                [missing_queue_response(), missing_queue_response()],
                "orders-test-annotation and no queue orders-test-final-dlq",
            ),
            ([url("annotation"), missing_queue_response()], "orders-test-final-dlq"),
            ([missing_queue_response(), url("final-dlq")], "orders-test-annotation"),
        ] {
            let error = deployment(answers).await.unwrap_err().to_string();
            assert_eq!(error, format!("there is no queue {names}; {advice}"));
        }
    }
}
