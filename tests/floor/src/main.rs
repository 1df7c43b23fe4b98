//! A function that ignores its event and sends one fixed batch: 10 messages with 1 KiB of JSON each, like the re-sends
//! of the failed-message-processor. Its cost is the cost of `lambda_runtime` and the AWS SDK. With `FINAL_RECORD` set,
//! each message has the attributes of a final record instead of a delay, for comparison with the annotator.

use aws_config::BehaviorVersion;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::de::IgnoredAny;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let client = &Client::new(&aws_config::load_defaults(BehaviorVersion::latest()).await);
    #[expect(clippy::disallowed_methods, reason = "a program of its own, with one setting")]
    let url = &std::env::var("SOURCE_QUEUE_URL")?;
    let body = &test_body();
    #[expect(clippy::disallowed_methods, reason = "a program of its own, with one setting")]
    let is_final_record = std::env::var_os("FINAL_RECORD").is_some();
    lambda_runtime::run(service_fn(async |_: LambdaEvent<IgnoredAny>| {
        let entries = (0..10).map(|n: u8| {
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body);
            if is_final_record {
                let attributes = test_attributes().map(|(name, value)| (name.to_owned(), value));
                return entry.set_message_attributes(Some(attributes.into())).build();
            }
            entry.delay_seconds(900).build()
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let sent = client.send_message_batch().queue_url(url).set_entries(Some(entries)).send().await?;
        if sent.failed.is_empty() { Ok(()) } else { Err(Error::from("not all are sent")) }
    }))
    .await
}

/// Returns attributes about as large as those of a final record. They are created again for each message.
fn test_attributes() -> [(&'static str, MessageAttributeValue); 3] {
    let record = r#"{"stage":"failed-message-processor","cause":{"type":"HttpStatus.503","message":"HTTP 503 Service Unavailable"},"attempts":5,"first_sent_time":"2025-06-15T11:50:00.000000Z","dead_lettered_at":"2025-06-15T12:00:01.000000Z","source_queue_arn":"arn:aws:sqs:us-east-1:000000000000:source","sqs_message_id":"00000000-0000-4000-8000-000000000007","fingerprint":"0123456789abcdef"}"#;
    let details = "Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503 Service Unavailable";
    [("DeadLetter", record), ("ErrorDetails", details), ("ErrorType", "RETRY_ATTEMPT_EXCEEDED")].map(
        |(name, value)| {
            let value = MessageAttributeValue::builder().data_type("String").string_value(value);
            (name, value.build().expect("it has a type"))
        },
    )
}

/// Returns a body about as large as a re-send's, with many quotation marks, which the request must escape.
fn test_body() -> String {
    let metadata = r#"{"metadata":{"message_id":"00000000-0000-4000-8000-000000000000","retry_attempt":2},"data":{"items":["#;
    let item = r#"{"sku":"A-0001","quantity":2,"price":12.5},"#;
    let mut body = metadata.to_owned();
    while body.len() + 2 * item.len() < 1024 {
        body += item;
    }
    body += &format!(r#"{{"note":"{}"}}]}}}}"#, "x".repeat(1024 - body.len() - 14));
    body
}
