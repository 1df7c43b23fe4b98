//! Messages that go every way, and where they must end.

use std::sync::atomic::{AtomicUsize, Ordering};

use redeliver_tests::async_lambda::failed_now;
use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::settings::epoch_millis;
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

use super::queues::set;
use super::rights::{of_lambda, unless_denied};
use super::stack::Stack;

/// What of the messages is where the target of the variant is.
enum Target<'a> {
    Http(&'a HttpTarget),
    Lambda,
    /// The user's own function is the message-processor.
    Function,
    /// Messages are records of failed invocations.
    Invocations,
}

pub(super) struct Messages<'a> {
    target: Target<'a>,
    sent: Vec<Sent>,
}

struct Sent {
    /// What finds it again.
    id: String,
    body: String,
    /// How often the target fails.
    failures: usize,
    /// SQS takes it from the source queue after a receive, as if the function had died.
    is_moved: bool,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Processed,
    Final(&'static str),
    /// For its next hop, on the intermediate DLQ; a failed invocation on the retry queue.
    Waiting,
}

const FOR_EVER: usize = 1000;
/// More than one hop, and longer than any test.
pub(super) const LONG: u32 = 7200;

impl<'a> Messages<'a> {
    pub(super) fn of(stack: &Stack, target: &'a HttpTarget) -> Self {
        let source = stack.source();
        let target = match source.handler.as_str() {
            "async-retry-handler" => Target::Invocations,
            "message-processor" if stack.template.of_type("AWS::Lambda::Function").any(calls_lambda) => {
                Target::Lambda
            }
            "message-processor" => Target::Http(target),
            _ => Target::Function,
        };
        let mut messages = Self { target, sent: Vec::new() };
        messages.write(stack);
        messages
    }

    fn write(&mut self, stack: &Stack) {
        if matches!(self.target, Target::Invocations) {
            return self.write_invocations(stack);
        }
        let exhausted = End::Final("RETRY_ATTEMPT_EXCEEDED");
        let permanent = End::Final("NON_RETRYABLE_ERROR");
        self.one(stack, End::Processed, 0, false);
        self.one(stack, End::Processed, 1, false);
        self.one(stack, exhausted, FOR_EVER, false);
        if matches!(self.target, Target::Http(_) | Target::Function) {
            self.one(stack, permanent, FOR_EVER, false);
        }
        let is_resent = stack.queue("intermediate-dlq").is_some();
        if is_resent && stack.has_long_delays() {
            self.one(stack, End::Waiting, FOR_EVER, false);
        }
        if is_resent {
            self.one(stack, End::Processed, 0, true);
        }
        if stack.has_strategy("ordered") {
            self.one(stack, End::Final("ORCHESTRATION_FAILED"), 0, true);
        }
        self.invalid(stack, false);
        if is_resent {
            self.invalid(stack, true);
        }
        self.script();
    }

    fn one(&mut self, stack: &Stack, end: End, failures: usize, is_moved: bool) {
        let id = format!("{}-0000-4000-8000-{:012}", &stack.account.id[4..], self.sent.len());
        let fails = failures.min(10);
        let action = match end {
            End::Final("NON_RETRYABLE_ERROR") => "permanent",
            End::Waiting => "snooze",
            _ => "transient",
        };
        let data = json!({ "fails": fails, "script": vec![action; fails], "seconds": LONG });
        let body = json!({ "metadata": { "message_id": id }, "data": data }).to_string();
        self.sent.push(Sent { id, body, failures, is_moved, end });
    }

    /// Of each function, by both names that a record may have for it; and of one that is not in the list. All have been
    /// retried once already, except the one that waits for its first retry.
    fn write_invocations(&mut self, stack: &Stack) {
        let prefix = format!("arn:aws:lambda:{REGION}:{}:function:", stack.account.id);
        let functions = users_functions(stack).into_iter();
        let named = functions.flat_map(|name| [format!("{prefix}{name}"), format!("{prefix}{name}:$LATEST")]);
        let mut invocations: Vec<_> = named.map(|arn| (arn, 3, End::Processed)).collect();
        let first = invocations[0].0.clone();
        invocations.push((first.clone(), FOR_EVER, End::Final("RETRY_ATTEMPT_EXCEEDED")));
        invocations.push((first, FOR_EVER, End::Waiting));
        invocations.push((format!("{prefix}payments"), 1, End::Final("NON_RETRYABLE_ERROR")));
        for (number, (arn, failures, end)) in invocations.into_iter().enumerate() {
            let id = format!("{arn} {number}");
            let body = json!({ "id": id, "fails": failures }).to_string();
            self.sent.push(Sent { id, body, failures, is_moved: false, end });
        }
    }

    fn invalid(&mut self, stack: &Stack, is_moved: bool) {
        // Where plain messages are taken, too, only what is nearly an envelope is invalid.
        let message_id = format!("{}-0000-4000-8000-{:012}", &stack.account.id[4..], self.sent.len());
        let metadata = json!({ "message_id": message_id, "retry_attempt": format!("once {is_moved}") });
        let body = json!({ "metadata": metadata, "data": {} }).to_string();
        let end = End::Final("INVALID_MESSAGE_SCHEMA");
        self.sent.push(Sent { id: body.clone(), body, failures: 0, is_moved, end });
    }

    fn script(&self) {
        let Target::Http(target) = self.target else { return };
        for sent in &self.sent {
            let reply = match sent.end {
                End::Final("NON_RETRYABLE_ERROR") => Reply::Status(422),
                End::Waiting => Reply::RetryAfter(503, LONG),
                _ => Reply::Status(500),
            };
            target.script(&sent.id, vec![reply; sent.failures]);
        }
    }

    /// As a producer, or as Lambda where a function has failed.
    pub(super) async fn send(&self, stack: &Stack) {
        // First those that SQS moves: the others must not be received before their function is there.
        let (moved, others): (Vec<_>, Vec<_>) = self.sent.iter().partition(|sent| sent.is_moved);
        for sent in moved.into_iter().chain(others) {
            if matches!(self.target, Target::Invocations) {
                let payload =
                    if sent.end == End::Waiting { sent.body.clone() } else { retried_once(&sent.body) };
                send_record(stack, sent.id.split(' ').next().unwrap(), &payload).await;
                continue;
            }
            let url = &stack.source().queue_url;
            let mut message = json!({ "QueueUrl": url, "MessageBody": sent.body });
            if url.ends_with(".fifo") {
                // A group each: none waits for another.
                let id = sent.id.replace(' ', "-");
                (message["MessageGroupId"], message["MessageDeduplicationId"]) = (json!(id), json!(id));
            }
            stack.account.sqs("SendMessage", &message).await;
            if sent.is_moved {
                let request = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0 });
                let received = stack.account.sqs("ReceiveMessage", &request).await;
                assert!(received["Messages"].is_array(), "a message to die with");
                if let Some(dlq) = stack.queue("-source-dlq.fifo") {
                    // After its last receive, of a thousand.
                    let arn = format!(
                        "arn:aws:sqs:{REGION}:{}:{}",
                        stack.account.id,
                        dlq.rsplit('/').next().unwrap()
                    );
                    for count in [1, 1000] {
                        let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": count });
                        set(&stack.account, url, "RedrivePolicy", &policy).await;
                        stack.account.sqs("ReceiveMessage", &request).await;
                    }
                }
            }
        }
    }

    /// Lambda drops the record of a failed invocation that its function's role may not send: that is out of our hands.
    pub(super) async fn send_what_was_refused(&self, stack: &Stack) {
        let refused = stack
            .account
            .decisions()
            .into_iter()
            .any(|decision| !decision.allowed && decision.user.contains("ServiceRole"));
        if matches!(self.target, Target::Invocations) && refused {
            self.send(stack).await;
        }
    }

    /// Every message is where it belongs and nowhere else; `exactly` also says why.
    pub(super) async fn assert_ended(&self, stack: &Stack, exactly: bool) {
        let finals = final_records(stack).await;
        let mut waiting = 0;
        for sent in &self.sent {
            let is_processed = self.is_processed(stack, sent);
            let reason = finals.iter().find(|(body, _)| body.contains(&sent.id)).map(|(_, reason)| reason);
            let told = || format!("{} {:?}: {is_processed} {reason:?}\n{}", sent.id, sent.end, stack.log());
            match sent.end {
                End::Processed => assert!(is_processed && reason.is_none(), "{}", told()),
                End::Final(expected) => {
                    assert!(!is_processed && reason.is_some(), "{}", told());
                    assert!(!exactly || reason.is_some_and(|reason| reason == expected), "{}", told());
                }
                End::Waiting => {
                    assert!(!is_processed && reason.is_none(), "{}", told());
                    waiting += 1;
                }
            }
        }
        self.assert_waiting(stack, waiting, exactly).await;
    }

    async fn assert_waiting(&self, stack: &Stack, expected: usize, exactly: bool) {
        for mapping in &stack.mappings {
            let request = json!({ "QueueUrl": mapping.queue_url, "AttributeNames": ["All"] });
            let counts = &stack.account.sqs("GetQueueAttributes", &request).await["Attributes"];
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

    fn is_processed(&self, stack: &Stack, sent: &Sent) -> bool {
        match self.target {
            Target::Http(target) => target.requests(&sent.id).len() > sent.failures,
            Target::Lambda => stack.account.invoked().iter().any(|invoked| {
                !invoked.fails && invoked.payload["metadata"]["message_id"] == sent.id.as_str()
            }),
            Target::Function => std::fs::read_to_string(&stack.journal)
                .unwrap_or_default()
                .lines()
                .any(|call| call.starts_with(&sent.id) && call.contains(" ok ")),
            Target::Invocations => stack.account.invoked().iter().any(|invoked| {
                let payload = &invoked.payload;
                payload["_original_payload"]["id"] == sent.id.as_str() && attempt(payload) >= sent.failures
            }),
        }
    }
}

impl Stack {
    fn has_long_delays(&self) -> bool {
        self.template.of_type("AWS::Lambda::Function").any(|(_, function)| {
            let policy = function["Environment"]["Variables"]["RETRY_POLICY"].as_str();
            policy.is_some_and(|policy| policy.contains("long_delays"))
        })
    }
}

fn calls_lambda((_, function): (&str, Value)) -> bool {
    function["Environment"]["Variables"]["TARGET"].as_str().is_some_and(|target| target.starts_with("arn:"))
}

/// What the function was invoked with by its first retry.
fn retried_once(payload: &str) -> String {
    let now = epoch_millis() / 1000;
    format!(
        r#"{{"_retry_metadata":{{"attempt":1,"initial_timestamp":{now}}},"_original_payload":{payload}}}"#
    )
}

fn attempt(payload: &Value) -> usize {
    let attempt = payload["_retry_metadata"]["attempt"].as_u64().unwrap_or(0);
    usize::try_from(attempt).unwrap()
}

/// Asynchronous invocations that failed: Lambda sends their records to the function's destination. Whether there were any.
pub(super) async fn failed_invocations_are_recorded(stack: &Stack) -> bool {
    if stack.source().handler != "async-retry-handler" {
        return false;
    }
    let new = stack.new_invocations();
    for invoked in &new {
        if attempt(&invoked.payload) < failures(&invoked.payload["_original_payload"]) {
            send_record(stack, &invoked.function, &invoked.payload.to_string()).await;
        }
    }
    !new.is_empty()
}

/// Lambda does so with the function's own role, and drops what it may not send.
async fn send_record(stack: &Stack, function_arn: &str, payload: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let body = failed_now(function_arn, payload, COUNT.fetch_add(1, Ordering::Relaxed));
    let function = function_arn.split(':').nth(6).unwrap();
    let role = stack.role_of(function).or_else(|| stack.role_of(&users_functions(stack)[0])).unwrap();
    let send = stack.client(&of_lambda(&role)).send_message().queue_url(stack.queue("-retry").unwrap());
    let _dropped = unless_denied(send.message_body(body).send().await);
}

fn failures(payload: &Value) -> usize {
    usize::try_from(payload["fails"].as_u64().unwrap_or(0)).unwrap()
}

/// The names of the functions whose failed invocations come back.
fn users_functions(stack: &Stack) -> Vec<String> {
    let functions = stack.template.of_type("AWS::Lambda::Function");
    functions
        .filter(|(_, of)| !of["Runtime"].as_str().unwrap().starts_with("provided"))
        .map(|(id, _)| id.to_owned())
        .collect()
}

/// Body and reason of each.
async fn final_records(stack: &Stack) -> Vec<(String, String)> {
    let url = stack.queue("final-dlq").unwrap();
    let mut records = Vec::new();
    loop {
        let request = json!({ "QueueUrl": url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"] });
        let received = stack.account.sqs("ReceiveMessage", &request).await;
        let Some(messages) = received["Messages"].as_array() else { return records };
        records.extend(messages.iter().map(|message| {
            let reason = message["MessageAttributes"]["ErrorType"]["StringValue"].as_str().unwrap_or("none");
            (message["Body"].as_str().unwrap().to_owned(), reason.to_owned())
        }));
    }
}
