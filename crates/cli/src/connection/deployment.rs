//! A deployment by the names of its queues: a construct in an app of one's own has no outputs to ask for.

use std::collections::BTreeMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata as _, SdkError};
use aws_sdk_sqs::operation::get_queue_url::GetQueueUrlError;

use super::{Connection, ConnectionError, Stack, said};
use crate::tell;

impl Connection {
    /// The queues of the deployment whose names begin with `name`, which is `PREFIX-STAGE`.
    ///
    /// # Errors
    /// If there is no such deployment, or SQS refuses or does not answer.
    pub async fn deployment(&self, name: &str) -> Result<Stack, ConnectionError> {
        let client = self.sqs_client(None).await?;
        let find = async |suffix: &str| url_of(&client, &format!("{name}-{suffix}")).await;
        let (Some(annotation), Some(final_dlq)) = (find("annotation").await?, find("final-dlq").await?)
        else {
            return Err(ConnectionError::Deployment { name: name.to_owned() });
        };
        let intermediate = find("intermediate-dlq").await?;
        // `retry` is the source of the strategy async-retry; an existing queue has a name of its own.
        let source = match find("source").await? {
            None => find("retry").await?,
            found => found,
        };
        let source = match source {
            None => source_of(&client, intermediate.as_ref().unwrap_or(&annotation)).await,
            found => found,
        };
        let outputs = [
            ("SourceQueueUrl", source),
            ("IntermediateDlqUrl", intermediate),
            ("AnnotationQueueUrl", Some(annotation)),
            ("FinalDlqUrl", Some(final_dlq)),
        ];
        let outputs = outputs.into_iter().filter_map(|(output, url)| Some((output.to_owned(), url?)));
        Ok(Stack { name: name.to_owned(), outputs: outputs.collect::<BTreeMap<_, _>>() })
    }
}

/// `None` where there is no such queue.
async fn url_of(client: &Client, name: &str) -> Result<Option<String>, ConnectionError> {
    match client.get_queue_url().queue_name(name).send().await {
        Ok(answer) => Ok(answer.queue_url),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(ConnectionError::Queue {
            queue: name.to_owned(),
            action: "sqs:GetQueueUrl",
            reason: said(&error),
        }),
    }
}

pub(super) fn is_missing<R>(error: &SdkError<GetQueueUrlError, R>) -> bool {
    // By JSON, and by the query protocol before it, whose code SQS still tells beside.
    let is_code = |code: &str| code.ends_with("QueueDoesNotExist") || code.ends_with("NonExistentQueue");
    let is_known = error.as_service_error().is_some_and(GetQueueUrlError::is_queue_does_not_exist);
    is_known || error.code().is_some_and(is_code)
}

/// The queue whose DLQ this is. Who only reads the final DLQ can do without it.
async fn source_of(client: &Client, dlq_url: &str) -> Option<String> {
    match client.list_dead_letter_source_queues().queue_url(dlq_url).send().await {
        Ok(answer) => answer.queue_urls.into_iter().next(),
        Err(error) => {
            tell::warning(format_args!(
                "the source queue is not found: {}; check your permission for sqs:ListDeadLetterSourceQueues on {dlq_url}, or name \
                 the queue with --queue",
                said(&error)
            ));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::loopback::Loopback;

    fn url(name: &str) -> (u16, serde_json::Value) {
        (200, json!({ "QueueUrl": format!("http://127.0.0.1:1/0/{name}") }))
    }

    fn missing() -> (u16, serde_json::Value) {
        (400, json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no" }))
    }

    async fn deployment(
        answers: impl IntoIterator<Item = (u16, serde_json::Value)>,
    ) -> Result<Stack, ConnectionError> {
        let endpoint = Loopback::start(answers);
        Connection::to_endpoint(endpoint.url()).deployment("orders-test").await
    }

    #[tokio::test]
    async fn a_construct_in_ones_own_app_is_found_by_the_names_of_its_queues() {
        let names = ["annotation", "final-dlq", "intermediate-dlq", "source"];
        let stack = deployment(names.map(url)).await.unwrap();
        assert_eq!(stack.source_queue_url().unwrap(), "http://127.0.0.1:1/0/source");
        assert_eq!(stack.intermediate_dlq_url(), Some("http://127.0.0.1:1/0/intermediate-dlq"));
        assert_eq!(stack.final_dlq_url().unwrap(), "http://127.0.0.1:1/0/final-dlq");
    }

    #[tokio::test]
    async fn an_existing_source_queue_is_found_by_the_dlq_that_it_has() {
        let sources = (200, json!({ "queueUrls": ["http://127.0.0.1:1/0/my-orders"] }));
        let answers = [url("annotation"), url("final-dlq"), missing(), missing(), missing(), sources];
        let stack = deployment(answers).await.unwrap();
        assert_eq!(stack.source_queue_url().unwrap(), "http://127.0.0.1:1/0/my-orders");
        assert_eq!(stack.intermediate_dlq_url(), None, "as with the strategy visibility");
    }

    #[tokio::test]
    async fn without_the_source_queue_the_final_dlq_can_be_read_all_the_same() {
        let refused = (400, json!({ "__type": "InvalidAction", "message": "no" }));
        let answers =
            [url("annotation"), url("final-dlq"), url("intermediate-dlq"), missing(), missing(), refused];
        let stack = deployment(answers).await.unwrap();
        assert!(stack.final_dlq_url().is_ok() && stack.source_queue_url().is_err());
    }

    #[tokio::test]
    async fn a_deployment_that_is_not_there_is_told_with_the_names_that_were_looked_for() {
        let error = deployment([missing(), missing()]).await.unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no queue orders-test-annotation or orders-test-final-dlq; check --prefix, --stage, the region and the \
             account, or name the queues with --queue"
        );
    }
}
