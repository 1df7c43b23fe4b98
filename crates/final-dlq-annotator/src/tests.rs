mod archive;
mod attributes;
mod failing_sends;
mod later_version;
mod notices;
mod on_aws;
mod records;
mod redriven;
mod spans;

use std::time::Duration;

use redeliver_core::failure::FAILURE;
use redeliver_core::failure::annotation::{DEAD_LETTER, ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::{Attribute, Attributes, Content};
use serde_json::{Value, json};

use super::*;
use redeliver_testing::functions::*;

const ANNOTATION_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:annotation";

/// A final-dlq-annotator with its queue.
struct Setup {
    world: FunctionWorld,
    final_dlq: SpyQueue,
}

impl Setup {
    fn new() -> Self {
        let world = FunctionWorld::new();
        Self { final_dlq: world.add_queue("final-dlq"), world }
    }

    fn sleep(&self, seconds: u64) {
        self.world.clock.block_on(self.world.clock.sleep(Duration::from_secs(seconds)));
    }

    /// Processes a batch with 30 s until the deadline. Returns the ids of the records reported as failed.
    fn process(&self, records: Vec<ReceivedMessage>) -> Vec<String> {
        let annotator =
            FinalDlqAnnotator::new(self.final_dlq.clone(), self.world.clock.clone(), self.world.seen.clone());
        self.world.invoke_function(&annotator, records, Duration::from_secs(30))
    }
}

/// Returns the final record of one message.
fn final_record(record: ReceivedMessage) -> Content {
    let setup = Setup::new();
    assert_eq!(setup.process(vec![record]), [""; 0]);
    setup.final_dlq.only_sent_content()
}

/// Returns the document that the failed-message-processor writes when it gives up on a message.
fn failure(verdict: &str, more: Value) -> Value {
    let failure = json!({
        "type": "HttpStatus.503",
        "details": "HTTP 503",
        "kind": "transient",
        "failed_at": format_time_at(-2),
        "source_message_id": "source-1",
        "source_queue_arn": SOURCE_ARN,
        "first_sent_time": format_time_at(-100),
        "verdict": verdict,
        "stage": "failed-message-processor",
    });
    with_members(failure, more)
}

/// Returns `document` with members changed or added.
fn with_members(mut document: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    document.as_object_mut().unwrap().extend(more);
    document
}

/// Returns the n-th record with this verdict, sent a second ago.
fn given_up_message(n: usize, body: impl Into<String>, failure: &Value) -> ReceivedMessage {
    ReceivedMessage {
        attributes: Attributes::from([(FAILURE.to_owned(), Attribute::string(failure.to_string()))]),
        sent_at: start_time() - chrono::TimeDelta::seconds(1),
        queue_arn: ANNOTATION_ARN.to_owned(),
        ..nth_record(n, body)
    }
}

/// Returns the n-th record, moved by SQS.
fn redriven_message(n: usize, body: impl Into<String>) -> ReceivedMessage {
    ReceivedMessage {
        receive_count: 101,
        redriven_from: Some(INTERMEDIATE_ARN.to_owned()),
        queue_arn: ANNOTATION_ARN.to_owned(),
        ..nth_record(n, body)
    }
}

fn text<'a>(content: &'a Content, name: &str) -> &'a str {
    content.attributes.get(name).and_then(Attribute::text).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the n-th body after five retries.
fn spent_body(n: usize) -> String {
    let first = format_time_at(-3600);
    format!(
        r#"{{"metadata":{{"message_id":"{}","retry_attempt":5,"first_sent_time":"{first}"}},"data":{{"é":1e400}}}}"#,
        nth_id(n)
    )
}
