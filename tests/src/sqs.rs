//! The harness's own access to SQS.

use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{AppName, BehaviorVersion, Config, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;

/// The region used by all tests.
pub const REGION: &str = "eu-west-1";

/// Returns a client for an emulator, which accepts any credentials.
#[must_use]
pub fn emulator_client(endpoint_url: &str) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(endpoint_url)
        .app_name(client_name())
        .build();
    Client::from_conf(config)
}

/// Returns the name of the tests' own clients, whose requests are not checked because some break the rules on purpose.
#[must_use]
pub(crate) fn client_name() -> AppName {
    AppName::new("redeliver-tests").expect("letters and a hyphen")
}

/// A queue for a test.
#[derive(Clone, Debug)]
pub struct TestQueue {
    /// The queue's URL.
    pub url: String,
    /// The queue's ARN.
    pub arn: String,
}

impl TestQueue {
    /// Creates a queue, or a FIFO queue if the name ends with `.fifo`. `redrive` is the DLQ and the `maxReceiveCount`.
    ///
    /// # Panics
    /// If the emulator refuses it.
    pub async fn create(client: &Client, name: &str, redrive: Option<(&Self, u16)>) -> Self {
        let mut request = client.create_queue().queue_name(name);
        if let Some((dlq, count)) = redrive {
            let policy =
                serde_json::json!({"deadLetterTargetArn": dlq.arn, "maxReceiveCount": count.to_string()});
            request = request.attributes(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        if name.ends_with(".fifo") {
            request = request.attributes(QueueAttributeName::FifoQueue, "true");
        }
        let created = request.send().await.expect("the queue is created");
        let url = created.queue_url.expect("a created queue has a URL");
        let attributes =
            client.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn);
        let attributes =
            attributes.send().await.expect("the queue has attributes").attributes.unwrap_or_default();
        Self { arn: attributes[&QueueAttributeName::QueueArn].clone(), url }
    }

    /// Returns the numbers of visible, in-flight and delayed messages.
    ///
    /// # Panics
    /// If the emulator does not answer.
    pub async fn message_counts(&self, client: &Client) -> [u64; 3] {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let request =
            client.get_queue_attributes().queue_url(&self.url).set_attribute_names(Some(names.to_vec()));
        let counts = request.send().await.expect("the queue has attributes").attributes.unwrap_or_default();
        names.map(|name| counts[&name].parse().expect("a count is a number"))
    }
}

/// Returns a name that no other test on this emulator uses.
#[must_use]
pub fn unique_name(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{label}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
