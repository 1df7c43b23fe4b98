//! The hand-offs of `schemas/vectors/hand-offs.json`, which the libraries' tests read too: a record as Lambda writes it,
//! what its handler answered, and every byte that is sent.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::TimeDelta;
use redeliver_aws::lambda;
use redeliver_core::handler::ErrorType;
use redeliver_core::message::{Attribute, AttributeValue};
use redeliver_core::metadata::parse_rfc3339;
use redeliver_core::plain::{IdAttribute, IdPointer, IdSources, PlainMessages};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    now: String,
    settings: Option<Box<RawValue>>,
    policy: Option<Box<RawValue>>,
    record: Box<RawValue>,
    body_filled: Option<Box<RawValue>>,
    outcome: Option<Box<RawValue>>,
    /// Absent of a new one.
    expect: Option<Expect>,
}

/// What `<fill>` in the body stands for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filled {
    with: String,
    to_bytes: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Outcome {
    Success(bool),
    Error(Answered),
    NotStarted(bool),
    Held { since: String },
    Probed { since: String, error: Answered },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answered {
    kind: String,
    #[serde(rename = "type")]
    error_type: String,
    details: String,
    retry_after_seconds: Option<f64>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Expect {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Told>,
    #[serde(flatten)]
    way: Way,
}

/// What a handler gets.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Told {
    message_id: String,
    idempotency_key: String,
    retry_attempt: u32,
    redrive_generation: u32,
    attributes: BTreeMap<String, Sent>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    Done(bool),
    HandOff {
        attributes: BTreeMap<String, Sent>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message_group_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trace_header: Option<String>,
    },
    Invalid(bool),
}

/// A message attribute.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Sent {
    data_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
}

fn written(attributes: &Attributes) -> BTreeMap<String, Sent> {
    let one = |(name, Attribute { data_type, value }): (&String, &Attribute)| {
        let (string_value, binary_value) = match value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        (name.clone(), Sent { data_type: data_type.clone(), string_value, binary_value })
    };
    attributes.iter().map(one).collect()
}

impl Answered {
    fn error(self) -> HandlerError {
        let Self { kind, error_type, details, retry_after_seconds } = self;
        let error_type = ErrorType::FromTarget(error_type);
        let after = retry_after_seconds.map(Duration::from_secs_f64);
        let error = match kind.as_str() {
            "transient" => HandlerError::transient(error_type, details),
            "unavailable" => HandlerError::unavailable(error_type, details),
            "permanent" => return HandlerError::permanent(error_type, details),
            "snooze" => return HandlerError::snooze(error_type, details, after.unwrap()),
            _ => panic!("{kind}"),
        };
        match after {
            Some(after) => error.retry_after(after),
            None => error,
        }
    }
}

fn parsed<'a, T: Deserialize<'a>>(raw: &'a Option<Box<RawValue>>) -> Option<T> {
    raw.as_deref().map(|raw| serde_json::from_str(raw.get()).unwrap())
}

impl Vector {
    fn now(&self) -> Timestamp {
        parse_rfc3339(&self.now).unwrap()
    }

    /// As the function gets it.
    fn record(&self) -> ReceivedMessage {
        let mut record: Value = serde_json::from_str(self.record.get()).unwrap();
        if let Some(Filled { with, to_bytes }) = parsed(&self.body_filled) {
            let body = record["body"].as_str().unwrap();
            let fill = with.repeat((to_bytes + "<fill>".len() - body.len()) / with.len());
            let body = body.replace("<fill>", &fill);
            assert_eq!(body.len(), to_bytes, "{}", self.name);
            record["body"] = body.into();
        }
        let records = lambda::records(&format!(r#"{{"Records":[{record}]}}"#)).unwrap();
        let [record] = <[_; 1]>::try_from(records.readable).expect(&self.name);
        // Who hands it off in another language does not look at its sender.
        ReceivedMessage { sender_id: None, ..record }
    }

    fn schema(&self) -> MessageSchema {
        let mut settings: BTreeMap<String, String> = parsed(&self.settings).unwrap_or_default();
        let schema = match settings.remove("ENVELOPE").as_deref() {
            None | Some("required") => MessageSchema::default(),
            Some("optional") => {
                let attribute = settings.remove("MESSAGE_ID_ATTRIBUTE");
                let pointer = settings.remove("MESSAGE_ID_POINTER");
                let id = IdSources {
                    attribute: attribute.map(|name| IdAttribute::new(name).unwrap()),
                    pointer: pointer.map(|text| IdPointer::new(&text).unwrap()),
                };
                MessageSchema::default().with_plain(PlainMessages { id, body: None })
            }
            Some(other) => panic!("ENVELOPE={other}"),
        };
        assert!(settings.is_empty(), "{}: {settings:?}", self.name);
        schema
    }

    /// A function on its own, so many seconds before the moment.
    fn setup(&self, seconds_before: i64) -> Setup {
        let policy = self.policy.as_deref().map_or("{}", RawValue::get);
        let setup = Setup { max_concurrency: 1, ..Setup::with_policy(policy) };
        let at = self.now() - TimeDelta::seconds(seconds_before);
        setup.world.clock.block_on(setup.world.clock.sleep((at - start()).to_std().expect(&self.name)));
        setup
    }

    fn process(&self, setup: &Setup, records: Vec<ReceivedMessage>, seconds: u64) -> Vec<String> {
        let processor = MessageProcessor { schema: self.schema(), ..setup.processor() };
        let deadline = setup.world.clock.now() + Duration::from_secs(seconds);
        setup.world.clock.block_on(processor.process(records, deadline)).failed
    }

    /// What a handler gets that gets it; `None` if it is not valid.
    fn message(&self) -> Option<Message> {
        let setup = self.setup(0);
        assert_eq!(self.process(&setup, vec![self.record()], 30), [""; 0], "{}", self.name);
        let message = setup.handler.calls().pop();
        assert_eq!(setup.annotation.sent().len(), usize::from(message.is_none()), "{}", self.name);
        assert!(setup.intermediate.sent().is_empty(), "{}", self.name);
        message
    }

    fn met(&self) -> Expect {
        let Some(message) = self.message() else {
            assert!(self.outcome.is_none(), "{}: it is not valid, and has an outcome", self.name);
            return Expect { message: None, way: Way::Invalid(true) };
        };
        let way = self.way_of(&message);
        let told = Told {
            idempotency_key: message.idempotency_key().to_owned(),
            message_id: message.message_id,
            retry_attempt: message.retry_attempt,
            redrive_generation: message.redrive_generation,
            attributes: written(&message.attributes),
        };
        Expect { message: Some(told), way }
    }

    fn way_of(&self, message: &Message) -> Way {
        let outcome = parsed(&self.outcome).unwrap_or_else(|| panic!("{}: it is valid: say more", self.name));
        let mut setup = self.setup(if matches!(outcome, Outcome::NotStarted(_)) { 25 } else { 0 });
        let mut records = Vec::new();
        let error = match outcome {
            Outcome::Success(yes) => {
                assert!(yes, "{}", self.name);
                None
            }
            Outcome::Error(answered) => Some(answered.error()),
            Outcome::NotStarted(yes) => {
                assert!(yes, "{}", self.name);
                setup = setup.on(98, Step::Take(25));
                records.push(record(98, body(98)));
                None
            }
            // Another message tells of the outage, and is the probe …
            Outcome::Held { since } => {
                setup = setup.failing(99, HandlerError::unavailable("Down", ""));
                self.process(&setup, vec![held(&since, self.now())], 30);
                None
            }
            // … or has no time to be it.
            Outcome::Probed { since, error } => {
                self.process(&setup, vec![held(&since, self.now())], 0);
                Some(error.error())
            }
        };
        let is_called = error.is_some() || matches!(parsed(&self.outcome), Some(Outcome::Success(_)));
        let steps = error.map(|error| (message.message_id.clone(), Step::Fail(error)));
        setup.handler.steps.extend(steps);
        let (sent_before, calls_before) = (setup.intermediate.sent().len(), setup.handler.calls().len());
        let record = self.record();
        records.push(record.clone());
        let failed = self.process(&setup, records, 30);
        assert_eq!(setup.world.clock.now(), self.now(), "{}", self.name);
        let calls = setup.handler.calls().split_off(calls_before);
        let was_called = calls.iter().any(|call| call == message);
        assert_eq!(was_called, is_called, "{}", self.name);
        let mut sent = setup.intermediate.sent().split_off(sent_before);
        match (sent.pop(), &failed[..]) {
            (None, []) => Way::Done(true),
            (Some(Content { body, attributes, message_group_id, trace_header, delay }), []) => {
                assert!(sent.is_empty() && body == record.body, "{}", self.name);
                assert_eq!(delay, DelaySeconds::ZERO, "{}", self.name);
                Way::HandOff { attributes: written(&attributes), message_group_id, trace_header }
            }
            other => panic!("{}: {other:?}", self.name),
        }
    }

    /// As it stands in the file.
    fn text(&self) -> String {
        let expect = serde_json::to_string(&self.met()).unwrap();
        let raw = |raw: &Option<Box<RawValue>>| raw.as_deref().map(|raw| raw.get().to_owned());
        let members = [
            ("name", Some(Value::from(&*self.name).to_string())),
            ("now", Some(Value::from(&*self.now).to_string())),
            ("settings", raw(&self.settings)),
            ("policy", raw(&self.policy)),
            ("record", Some(self.record.get().to_owned())),
            ("body_filled", raw(&self.body_filled)),
            ("outcome", raw(&self.outcome)),
            ("expect", Some(expect)),
        ];
        let members =
            members.into_iter().filter_map(|(name, text)| Some(format!("    \"{name}\": {}", text?)));
        format!("  {{\n{}\n  }}", members.collect::<Vec<_>>().join(",\n"))
    }
}

/// A message that was held, since its target has been down since then.
fn held(since: &str, now: Timestamp) -> ReceivedMessage {
    let id = id(99);
    let body = format!(
        r#"{{"metadata":{{"message_id":"{id}","held_since":"{since}","held_seconds":1}},"data":{{}}}}"#
    );
    resent(ReceivedMessage { sent_at: now, ..record(99, body) })
}

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/vectors/hand-offs.json");

fn text(vectors: &[Vector]) -> String {
    format!("[\n{}\n]\n", vectors.iter().map(Vector::text).collect::<Vec<_>>().join(",\n"))
}

/// `cargo test --workspace --lib fill_in_the_hand_offs_of_the_vectors -- --ignored`, after one was added. Read what it has
/// filled in.
#[test]
#[ignore = "writes what is sent instead of comparing it"]
#[expect(clippy::disallowed_methods, reason = "a file of the repository")]
fn fill_in_the_hand_offs_of_the_vectors() {
    let vectors: Vec<Vector> = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    fs::write(FILE, text(&vectors)).unwrap();
}

#[test]
fn every_hand_off_of_the_vectors_is_what_they_say() {
    let file = fs::read_to_string(FILE).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&file).unwrap();
    for vector in &vectors {
        assert_eq!(Some(vector.met()), vector.expect, "{}", vector.name);
    }
    assert!(text(&vectors) == file, "it has members that nothing reads, or another layout: fill it in anew");
}
