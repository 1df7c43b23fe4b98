//! The complete loop on ministack: three functions, four queues.

/// The tests for one language. Each calls the function of the same name in the parent module, with the language.
macro_rules! in_language {
    ($name:ident, $language:expr, $($test:ident),* $(,)?) => {
        mod $name {
            use redeliver_tests::runtimes::Language;
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test($language).await;
                }
            )*
        }
    };
}

mod async_retry;
mod attributes;
mod audit;
mod console;
mod deployment;
mod faults;
mod fleet;
mod hand_off;
mod invalid;
mod language;
mod outage;
mod outcomes;
mod output;
mod own_function;
mod pause;
mod plain;
mod powertools;
mod redrive;
mod rotation;
mod runtimes;
mod secrets;
mod status;
mod target_safety;
mod traces;
mod work;

use std::path::{Path, PathBuf};

use aws_sdk_sqs::types::Message;
use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::sqs::unique_name;
use redeliver_tests::topology::TestTopology;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

/// Creates the queues for a test.
async fn new_topology() -> TestTopology {
    TestTopology::create(&Ministack::shared().endpoint_url(), "e2e").await
}

/// Returns a test's `n`th message id.
fn id(n: u32) -> String {
    format!("{n:08}-0000-4000-8000-000000000000")
}

fn test_message(n: u32, data: &Value) -> String {
    json!({"metadata": {"message_id": id(n)}, "data": data}).to_string()
}

/// Returns the numbers of the messages with this `data.group`, in call order.
fn called_messages_in_group(target: &HttpTargetServer, group: &str) -> Vec<u32> {
    let requests = target.requests_containing(&format!("\"group\":\"{group}\""));
    let number = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["metadata"]["message_id"].as_str().unwrap()[..8].parse().unwrap()
    };
    requests.iter().map(|request| number(&request.body)).collect()
}

fn scripted_message(n: u32, script: &[&str]) -> String {
    test_message(n, &json!({ "script": script }))
}

/// Returns a new path for the journal of a scripted function.
fn new_journal() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("journal"));
    let _of_an_earlier_run = std::fs::remove_file(&path);
    path
}

/// Returns the calls for a message in a journal: attempt, snoozes, action and last failure.
fn journal_calls(journal: &Path, n: u32) -> Vec<String> {
    let journal = std::fs::read_to_string(journal).unwrap_or_default();
    journal.lines().filter_map(|line| line.strip_prefix(&id(n))).map(|call| call.trim().to_owned()).collect()
}

/// Returns the ids of a function's processes, in start order.
fn journal_processes(journal: &Path) -> Vec<i32> {
    let journal = std::fs::read_to_string(journal).unwrap_or_default();
    journal.lines().filter_map(|line| line.strip_prefix("process ")?.parse().ok()).collect()
}

fn is_alive(process: i32) -> bool {
    Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// A message in the final DLQ.
struct AnnotatedRecord {
    text: String,
    body: Value,
    error_type: String,
    error_details: String,
    dead_letter: Value,
    message: Message,
}

/// Returns the messages in the final DLQ, sorted by body.
async fn final_records(topology: &TestTopology) -> Vec<AnnotatedRecord> {
    let mut records: Vec<_> = topology.final_records().await.into_iter().map(AnnotatedRecord::new).collect();
    records.sort_by(|a, b| a.text.cmp(&b.text));
    records
}

impl AnnotatedRecord {
    fn new(message: Message) -> Self {
        let text = message.body().unwrap().to_owned();
        Self {
            body: serde_json::from_str(&text).unwrap_or(Value::Null),
            text,
            error_type: message_attribute(&message, "ErrorType"),
            error_details: message_attribute(&message, "ErrorDetails"),
            dead_letter: serde_json::from_str(&message_attribute(&message, "DeadLetter"))
                .unwrap_or(Value::Null),
            message,
        }
    }

    fn attribute_names(&self) -> Vec<&str> {
        let attributes = self.message.message_attributes();
        let mut names: Vec<_> =
            attributes.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Returns the value of a String attribute, or an empty string if it is absent.
fn message_attribute(message: &Message, name: &str) -> String {
    let attribute = message.message_attributes().and_then(|attributes| attributes.get(name));
    attribute.and_then(|attribute| attribute.string_value()).unwrap_or_default().to_owned()
}
