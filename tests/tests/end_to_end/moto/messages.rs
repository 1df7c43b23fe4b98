//! Messages that take every possible path, and their expected results.

use std::sync::atomic::{AtomicUsize, Ordering};

use redeliver_tests::async_lambda::recent_failure_record;
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::settings::epoch_millis;
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

use super::permissions::{lambda_user, ok_unless_denied};
use super::queues::set_attribute;
use super::stack::MotoStack;

/// The target of the variant.
enum VariantTarget<'a> {
    Http(&'a HttpTargetServer),
    Lambda,
    /// The user's own function is the message-processor.
    Function,
    /// Messages are records of failed invocations.
    Invocations,
}

pub(super) struct MotoMessages<'a> {
    target: VariantTarget<'a>,
    sent: Vec<SentMessage>,
}

struct SentMessage {
    /// A string that identifies the message.
    id: String,
    body: String,
    /// The number of calls that fail.
    failures: usize,
    /// True if SQS moves the message from the source queue after a receive, as if the function had died.
    is_moved: bool,
    end: MessageOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageOutcome {
    Processed,
    Final(&'static str),
    /// Waits for its next hop on the intermediate DLQ, or for its next invocation on the retry queue.
    Waiting,
}

const ALWAYS_FAILS: usize = 1000;
/// Long enough for more than one hop, and longer than any test.
pub(super) const LONG_DELAY_SECONDS: u32 = 7200;

impl<'a> MotoMessages<'a> {
    pub(super) fn for_stack(stack: &MotoStack, target: &'a HttpTargetServer) -> Self {
        let source = stack.source();
        let target = match source.handler.as_str() {
            "async-retry-handler" => VariantTarget::Invocations,
            "message-processor"
                if stack.template.resources_by_type("AWS::Lambda::Function").any(calls_lambda) =>
            {
                VariantTarget::Lambda
            }
            "message-processor" => VariantTarget::Http(target),
            _ => VariantTarget::Function,
        };
        let mut messages = Self { target, sent: Vec::new() };
        messages.write_messages(stack);
        messages
    }

    fn write_messages(&mut self, stack: &MotoStack) {
        if matches!(self.target, VariantTarget::Invocations) {
            return self.write_invocations(stack);
        }
        let exhausted = MessageOutcome::Final("RETRY_ATTEMPT_EXCEEDED");
        let permanent = MessageOutcome::Final("NON_RETRYABLE_ERROR");
        self.add_message(stack, MessageOutcome::Processed, 0, false);
        self.add_message(stack, MessageOutcome::Processed, 1, false);
        self.add_message(stack, exhausted, ALWAYS_FAILS, false);
        if matches!(self.target, VariantTarget::Http(_) | VariantTarget::Function) {
            self.add_message(stack, permanent, ALWAYS_FAILS, false);
        }
        let is_resent = stack.find_queue_url("intermediate-dlq").is_some();
        if is_resent && stack.has_long_delays() {
            self.add_message(stack, MessageOutcome::Waiting, ALWAYS_FAILS, false);
        }
        if is_resent {
            self.add_message(stack, MessageOutcome::Processed, 0, true);
        }
        if stack.has_strategy("ordered") {
            self.add_message(stack, MessageOutcome::Final("ORCHESTRATION_FAILED"), 0, true);
        }
        self.add_invalid(stack, false);
        if is_resent {
            self.add_invalid(stack, true);
        }
        self.script_failures();
    }

    fn add_message(&mut self, stack: &MotoStack, end: MessageOutcome, failures: usize, is_moved: bool) {
        let id = format!("{}-0000-4000-8000-{:012}", &stack.account.id[4..], self.sent.len());
        let fails = failures.min(10);
        let action = match end {
            MessageOutcome::Final("NON_RETRYABLE_ERROR") => "permanent",
            MessageOutcome::Waiting => "snooze",
            _ => "transient",
        };
        let data = json!({ "fails": fails, "script": vec![action; fails], "seconds": LONG_DELAY_SECONDS });
        let body = json!({ "metadata": { "message_id": id }, "data": data }).to_string();
        self.sent.push(SentMessage { id, body, failures, is_moved, end });
    }

    /// Adds failed invocations of each function, under both names that a record can use for it, and of a function that
    /// is not in the list. All have been retried once, except the one that waits for its first retry.
    fn write_invocations(&mut self, stack: &MotoStack) {
        let prefix = format!("arn:aws:lambda:{REGION}:{}:function:", stack.account.id);
        let functions = user_function_names(stack).into_iter();
        let named = functions.flat_map(|name| [format!("{prefix}{name}"), format!("{prefix}{name}:$LATEST")]);
        let mut invocations: Vec<_> = named.map(|arn| (arn, 3, MessageOutcome::Processed)).collect();
        let first = invocations[0].0.clone();
        invocations.push((first.clone(), ALWAYS_FAILS, MessageOutcome::Final("RETRY_ATTEMPT_EXCEEDED")));
        invocations.push((first, ALWAYS_FAILS, MessageOutcome::Waiting));
        invocations.push((format!("{prefix}payments"), 1, MessageOutcome::Final("NON_RETRYABLE_ERROR")));
        for (number, (arn, failures, end)) in invocations.into_iter().enumerate() {
            let id = format!("{arn} {number}");
            let body = json!({ "id": id, "fails": failures }).to_string();
            self.sent.push(SentMessage { id, body, failures, is_moved: false, end });
        }
    }

    fn add_invalid(&mut self, stack: &MotoStack, is_moved: bool) {
        // Where plain messages are also accepted, only an almost valid envelope is invalid.
        let message_id = format!("{}-0000-4000-8000-{:012}", &stack.account.id[4..], self.sent.len());
        let metadata = json!({ "message_id": message_id, "retry_attempt": format!("once {is_moved}") });
        let body = json!({ "metadata": metadata, "data": {} }).to_string();
        let end = MessageOutcome::Final("INVALID_MESSAGE_SCHEMA");
        self.sent.push(SentMessage { id: body.clone(), body, failures: 0, is_moved, end });
    }

    fn script_failures(&self) {
        let VariantTarget::Http(target) = self.target else { return };
        for sent in &self.sent {
            let reply = match sent.end {
                MessageOutcome::Final("NON_RETRYABLE_ERROR") => Reply::Status(422),
                MessageOutcome::Waiting => Reply::RetryAfter(503, LONG_DELAY_SECONDS),
                _ => Reply::Status(500),
            };
            target.script_replies(&sent.id, vec![reply; sent.failures]);
        }
    }

    /// Sends the messages as a producer does, or as Lambda does for failed invocations.
    pub(super) async fn send_messages(&self, stack: &MotoStack) {
        // Messages that SQS moves come first: the others must not be received before their function exists.
        let (moved, others): (Vec<_>, Vec<_>) = self.sent.iter().partition(|sent| sent.is_moved);
        for sent in moved.into_iter().chain(others) {
            if matches!(self.target, VariantTarget::Invocations) {
                let payload = if sent.end == MessageOutcome::Waiting {
                    sent.body.clone()
                } else {
                    first_retry_payload(&sent.body)
                };
                send_record(stack, sent.id.split(' ').next().unwrap(), &payload).await;
                continue;
            }
            let url = &stack.source().queue_url;
            let mut message = json!({ "QueueUrl": url, "MessageBody": sent.body });
            if url.ends_with(".fifo") {
                // A separate group for each message, so that none waits for another.
                let id = sent.id.replace(' ', "-");
                (message["MessageGroupId"], message["MessageDeduplicationId"]) = (json!(id), json!(id));
            }
            stack.account.send_sqs_request("SendMessage", &message).await;
            if sent.is_moved {
                let request = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0 });
                let received = stack.account.send_sqs_request("ReceiveMessage", &request).await;
                assert!(received["Messages"].is_array(), "the message is received");
                if let Some(dlq) = stack.find_queue_url("-source-dlq.fifo") {
                    // SQS moves the message after its last receive, the thousandth.
                    let arn = format!(
                        "arn:aws:sqs:{REGION}:{}:{}",
                        stack.account.id,
                        dlq.rsplit('/').next().unwrap()
                    );
                    for count in [1, 1000] {
                        let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": count });
                        set_attribute(&stack.account, url, "RedrivePolicy", &policy).await;
                        stack.account.send_sqs_request("ReceiveMessage", &request).await;
                    }
                }
            }
        }
    }

    /// Sends the messages again if Lambda dropped records because a function lacked permissions, which redeliver cannot
    /// prevent.
    pub(super) async fn resend_if_dropped(&self, stack: &MotoStack) {
        let refused = stack
            .account
            .decisions()
            .into_iter()
            .any(|decision| !decision.allowed && decision.user.contains("ServiceRole"));
        if matches!(self.target, VariantTarget::Invocations) && refused {
            self.send_messages(stack).await;
        }
    }

    /// Checks that every message has its expected result and is nowhere else. With `exactly`, the reasons and counts
    /// must match, too.
    pub(super) async fn assert_outcomes(&self, stack: &MotoStack, exactly: bool) {
        let finals = final_records(stack).await;
        let mut waiting = 0;
        for sent in &self.sent {
            let is_processed = self.is_processed(stack, sent);
            let reason = finals.iter().find(|(body, _)| body.contains(&sent.id)).map(|(_, reason)| reason);
            let reported =
                || format!("{} {:?}: {is_processed} {reason:?}\n{}", sent.id, sent.end, stack.log());
            match sent.end {
                MessageOutcome::Processed => assert!(is_processed && reason.is_none(), "{}", reported()),
                MessageOutcome::Final(expected) => {
                    assert!(!is_processed && reason.is_some(), "{}", reported());
                    assert!(!exactly || reason.is_some_and(|reason| reason == expected), "{}", reported());
                }
                MessageOutcome::Waiting => {
                    assert!(!is_processed && reason.is_none(), "{}", reported());
                    waiting += 1;
                }
            }
        }
        self.assert_waiting(stack, waiting, exactly).await;
    }

    async fn assert_waiting(&self, stack: &MotoStack, expected: usize, exactly: bool) {
        for mapping in &stack.mappings {
            let request = json!({ "QueueUrl": mapping.queue_url, "AttributeNames": ["All"] });
            let counts = &stack.account.send_sqs_request("GetQueueAttributes", &request).await["Attributes"];
            let count = |name: &str| counts[name].as_str().unwrap().parse::<usize>().unwrap();
            let there = count("ApproximateNumberOfMessages");
            let hidden = count("ApproximateNumberOfMessagesNotVisible");
            let delayed = count("ApproximateNumberOfMessagesDelayed");
            let hops = ["-intermediate-dlq", "-retry"].iter().any(|end| mapping.queue_url.ends_with(end));
            let expected = if hops { expected } else { 0 };
            let is_right = delayed == expected || (!exactly && expected > 0 && delayed > expected);
            assert!(
                (there, hidden) == (0, 0) && is_right,
                "{}: {counts}\n{}",
                mapping.queue_url,
                stack.log()
            );
        }
    }

    fn is_processed(&self, stack: &MotoStack, sent: &SentMessage) -> bool {
        match self.target {
            VariantTarget::Http(target) => target.requests_for(&sent.id).len() > sent.failures,
            VariantTarget::Lambda => stack.account.invocations().iter().any(|invoked| {
                !invoked.fails && invoked.payload["metadata"]["message_id"] == sent.id.as_str()
            }),
            VariantTarget::Function => std::fs::read_to_string(&stack.journal)
                .unwrap_or_default()
                .lines()
                .any(|call| call.starts_with(&sent.id) && call.contains(" ok ")),
            VariantTarget::Invocations => stack.account.invocations().iter().any(|invoked| {
                let payload = &invoked.payload;
                payload["_original_payload"]["id"] == sent.id.as_str()
                    && attempt_number(payload) >= sent.failures
            }),
        }
    }
}

impl MotoStack {
    fn has_long_delays(&self) -> bool {
        self.template.resources_by_type("AWS::Lambda::Function").any(|(_, function)| {
            let policy = function["Environment"]["Variables"]["RETRY_POLICY"].as_str();
            policy.is_some_and(|policy| policy.contains("long_delays"))
        })
    }
}

fn calls_lambda((_, function): (&str, Value)) -> bool {
    function["Environment"]["Variables"]["TARGET"].as_str().is_some_and(|target| target.starts_with("arn:"))
}

/// Returns the payload of a function's first retry.
fn first_retry_payload(payload: &str) -> String {
    let now = epoch_millis() / 1000;
    format!(
        r#"{{"_retry_metadata":{{"attempt":1,"initial_timestamp":{now}}},"_original_payload":{payload}}}"#
    )
}

fn attempt_number(payload: &Value) -> usize {
    let attempt = payload["_retry_metadata"]["attempt"].as_u64().unwrap_or(0);
    usize::try_from(attempt).unwrap()
}

/// Sends the records of failed asynchronous invocations to the function's destination, as Lambda does. Returns true if
/// there were new invocations.
pub(super) async fn record_failed_invocations(stack: &MotoStack) -> bool {
    if stack.source().handler != "async-retry-handler" {
        return false;
    }
    let new = stack.new_invocations();
    for invoked in &new {
        if attempt_number(&invoked.payload) < failure_count(&invoked.payload["_original_payload"]) {
            send_record(stack, &invoked.function, &invoked.payload.to_string()).await;
        }
    }
    !new.is_empty()
}

/// Sends the record with the function's own role, and drops it if that is refused, as Lambda does.
async fn send_record(stack: &MotoStack, function_arn: &str, payload: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let body = recent_failure_record(function_arn, payload, COUNT.fetch_add(1, Ordering::Relaxed));
    let function = function_arn.split(':').nth(6).unwrap();
    let role = stack.role_of(function).or_else(|| stack.role_of(&user_function_names(stack)[0])).unwrap();
    let send =
        stack.client(&lambda_user(&role)).send_message().queue_url(stack.find_queue_url("-retry").unwrap());
    let _dropped = ok_unless_denied(send.message_body(body).send().await);
}

fn failure_count(payload: &Value) -> usize {
    usize::try_from(payload["fails"].as_u64().unwrap_or(0)).unwrap()
}

/// Returns the names of the functions whose failed invocations are retried.
fn user_function_names(stack: &MotoStack) -> Vec<String> {
    let functions = stack.template.resources_by_type("AWS::Lambda::Function");
    functions
        .filter(|(_, properties)| !properties["Runtime"].as_str().unwrap().starts_with("provided"))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// Returns the body and the reason in each final record.
async fn final_records(stack: &MotoStack) -> Vec<(String, String)> {
    let url = stack.find_queue_url("final-dlq").unwrap();
    let mut records = Vec::new();
    loop {
        let request = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"] });
        let received = stack.account.send_sqs_request("ReceiveMessage", &request).await;
        let Some(messages) = received["Messages"].as_array() else { return records };
        records.extend(messages.iter().map(|message| {
            let reason = message["MessageAttributes"]["ErrorType"]["StringValue"].as_str().unwrap_or("none");
            (message["Body"].as_str().unwrap().to_owned(), reason.to_owned())
        }));
    }
}
