//! A function that looks at nothing and sends one fixed batch: 10 messages of 1 KiB of JSON, as the failed-message-processor's
//! re-sends are. What it costs is what `lambda_runtime` and the AWS SDK cost.

use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::de::IgnoredAny;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = &Client::new(&aws_config::load_defaults(BehaviorVersion::latest()).await);
    #[expect(clippy::disallowed_methods, reason = "a program of its own, with one setting")]
    let url = &std::env::var("SOURCE_QUEUE_URL")?;
    let body = &body();
    lambda_runtime::run(service_fn(async |_: LambdaEvent<IgnoredAny>| {
        let entries = (0..10).map(|n: u8| {
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body);
            entry.delay_seconds(900).build()
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let sent = client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await?;
        if sent.failed.is_empty() { Ok(()) } else { Err(Error::from("not all are sent")) }
    }))
    .await
}

/// About the bytes that a re-send has, quotation marks above all: they are escaped in the request.
fn body() -> String {
    let metadata = r#"{"metadata":{"message_id":"00000000-0000-4000-8000-000000000000","retry_attempt":2},"data":{"items":["#;
    let item = r#"{"sku":"A-0001","quantity":2,"price":12.5},"#;
    let mut body = metadata.to_owned();
    while body.len() + 2 * item.len() < 1024 {
        body += item;
    }
    body += &format!(r#"{{"note":"{}"}}]}}}}"#, "x".repeat(1024 - body.len() - 14));
    body
}
