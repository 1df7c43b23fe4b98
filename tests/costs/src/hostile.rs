//! Hostile inputs: the most expensive known one for each reader of untrusted data. xtask/src/instructions.rs limits
//! their costs.

mod answers;
mod dead_letters;
mod messages;
mod shapes;

use std::fmt::Write as _;
use std::hint::black_box;

use redeliver_core::arrival::split_producer_attributes;
use redeliver_core::async_retry::FailedInvocation;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{FAILURE, Stage};
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::message::{Attribute, Attributes};

use crate::published::{ITEMS, PLACES, SchemaPlace};

/// The maximum size of an SQS message ("Amazon SQS message quotas").
const MESSAGE_BYTES: usize = 1 << 20;
/// A count of JSON values slightly below the limit for messages with a schema.
const CHECKED_VALUES: usize = 99_000;
const HEAD: &str = r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01"},"data":"#;

/// A hostile input and its reader.
pub struct HostileCase {
    /// The reader's name, followed by the hostile part of its input if there is only one.
    pub message: String,
    /// The location or the shape of the hostile part; can be empty.
    pub place: String,
    make: Box<dyn Fn() -> HostileReading>,
}

/// A single read of a prepared input.
pub struct HostileReading(Box<dyn Fn()>);

impl HostileCase {
    fn new(message: &str, make: impl Fn() -> HostileReading + 'static) -> Self {
        Self { message: message.to_owned(), place: String::new(), make: Box::new(make) }
    }

    /// Creates a case for a message with `value` at this place.
    fn at_place(message: &str, place: &'static SchemaPlace, value: impl Fn() -> String + 'static) -> Self {
        let make = move || {
            let schema = DataSchema::new(place.schema_text())
                .unwrap_or_else(|error| panic!("{}: {error}", place.schema));
            let data = place.data.replacen('$', &value(), 1);
            HostileReading::for_body(MessageSchema::new(Some(schema)), format!("{HEAD}{data}}}"))
        };
        Self::new(message, make).with_place(format!("{}: {}", place.schema, place.data))
    }

    fn with_place(self, place: String) -> Self {
        Self { place, ..self }
    }

    /// Returns the name under which the case is counted.
    pub fn name(&self) -> String {
        if self.place.is_empty() {
            self.message.clone()
        } else {
            format!("{} in {}", self.message, self.place)
        }
    }

    pub fn reading(&self) -> HostileReading {
        (self.make)()
    }
}

impl HostileReading {
    /// Creates a reading of this input. `read` must do all of the work.
    fn new<I: 'static, O>(input: I, read: impl Fn(&I) -> O + 'static) -> Self {
        Self(Box::new(move || drop(black_box(read(black_box(&input))))))
    }

    fn for_body(schema: MessageSchema, body: String) -> Self {
        assert!(body.len() <= MESSAGE_BYTES, "{} bytes", body.len());
        Self::new((schema, body), |(schema, body)| drop(black_box(schema.parse_envelope(body))))
    }

    /// Creates a reading of a message whose `metadata` has an id and these members.
    fn with_metadata(members: &str) -> Self {
        let id = r#""message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01""#;
        Self::for_body(MessageSchema::default(), format!(r#"{{"metadata":{{{id},{members}}},"data":{{}}}}"#))
    }

    fn with_annotation(attributes: Attributes, annotation: Annotation) -> Self {
        Self::new((attributes, annotation), |(attributes, annotation)| {
            annotate_attributes(attributes, 0, annotation)
        })
    }

    /// Reads the input once, as the real programs do.
    pub fn read(&self) {
        (self.0)();
    }
}

/// Returns all cases, grouped by reader.
pub fn all_cases() -> Vec<HostileCase> {
    let mut cases = published_schema_cases();
    cases.extend(reader_cases());
    cases.extend(messages::message_cases());
    cases.extend(dead_letters::dead_letter_cases());
    cases.extend(answers::response_cases());
    cases
}

fn published_schema_cases() -> Vec<HostileCase> {
    let values = hostile_values()
        .into_iter()
        .flat_map(|(name, value)| PLACES.iter().map(move |place| HostileCase::at_place(name, place, value)));
    let items = ITEMS.iter().map(|(place, item)| {
        HostileCase::at_place(&format!("{item},"), place, move || fill_to_value_limit(|_| (*item).to_owned()))
    });
    values.chain(items).collect()
}

type MakeValue = fn() -> String;

/// Returns hostile values of 1 MiB, or smaller ones that are as expensive.
fn hostile_values() -> Vec<(&'static str, MakeValue)> {
    vec![
        ("more values than are checked", || format!("[{}]", fill_value(|_| "0".to_owned()))),
        ("zeros", || fill_array(|_| "0".to_owned())),
        ("empty objects", || fill_array(|_| "{}".to_owned())),
        ("objects of one member", || fill_array(|_| r#"{"a":0}"#.to_owned())),
        ("empty strings", || fill_array(|_| r#""""#.to_owned())),
        ("short names", || fill_object(|index| format!(r#""{index:x}":0"#))),
        ("names of 40 letters", || fill_object(|index| format!(r#""{}{index:x}":0"#, "a".repeat(40)))),
        ("names with many separators", || {
            fill_object(|index| format!(r#""x-{}{index:x}":"1""#, "a.".repeat(20)))
        }),
        ("a number longer than is checked", || format!("[{}]", "7".repeat(MESSAGE_BYTES - 1000))),
        ("decimals of 990 digits", || fill_array(|index| format!("0.{:0990}", index * 7_654_321 + 1))),
        ("huge exponents", || fill_array(|index| format!("{index}e999999"))),
        ("exponents below the limits of arithmetic", || fill_array(|index| format!("{}e-999", index % 10))),
        ("integers of 9,999 zeros", || fill_array(|index| format!("{}e9999", index % 10))),
        ("ordinary decimals", || fill_array(|index| format!("{}.{:02}", index % 1000, index % 100))),
        ("integers that are one float", || fill_array(|index| format!("10000000000000000{index:06}"))),
        ("nested arrays", || {
            let nested = |index: usize| format!("{}[]{}", "[".repeat(index % 90), "]".repeat(index % 90));
            format!("[{}]", repeat_items(2000, nested))
        }),
        ("items below a name of half a MiB", || {
            format!(
                r#"{{"{}":[{}]}}"#,
                "n".repeat(MESSAGE_BYTES / 2),
                repeat_items(98_000, |_| "0".to_owned())
            )
        }),
        ("texts of a and b", || fill_array(letters_from_bits)),
        ("texts in Unicode", || fill_array(|_| format!("\"{}\"", "éa b".repeat(250)))),
        ("texts of 100 letters", || fill_array(|_| format!("\"{}\"", "a".repeat(100)))),
        ("one text of a and b", || {
            let text: String = (0..2000).map(|index| letters_from_bits(index).replace('"', "")).collect();
            format!("\"{}\"", &text[..MESSAGE_BYTES - 1000])
        }),
        ("a tree of a hundred levels", || {
            format!("{}{{}}{}", r#"{"op":"and","args":["#.repeat(60), "]}".repeat(60))
        }),
    ]
}

fn reader_cases() -> Vec<HostileCase> {
    let named = |index: usize| format!(r#""{index:x}":0"#);
    vec![
        HostileCase::new("envelope, members of metadata", move || {
            HostileReading::with_metadata(&fill_value(named))
        }),
        HostileCase::new("envelope, brackets and backslashes", || {
            HostileReading::with_metadata(&format!(r#""x":{}"#, fill_text(r#"\\\"[{"#)))
        }),
        HostileCase::new("metadata, past failures", || {
            let failures = fill_value(|_| r#"{"attempt":1e-9999}"#.to_owned());
            HostileReading::with_metadata(&format!(r#""retry_history":[{failures}]"#))
        }),
        HostileCase::new("value, a name that the JSON library keeps for itself", || {
            let schema = DataSchema::new("{}").expect("an empty schema is valid");
            let zeros = "0,".repeat(CHECKED_VALUES);
            let value = format!(r#"{}{zeros}"\u0024"{}"#, "[".repeat(120), "]".repeat(120));
            HostileReading::for_body(MessageSchema::new(Some(schema)), format!(r#"{HEAD}{{"v":{value}}}}}"#))
        }),
        HostileCase::new("Failure, folded attributes", || {
            let folded = fill_value(|index| format!(r#""{index}":{{"data_type":"String","text":"x"}}"#));
            let document =
                format!(r#"{{"verdict":"RETRY_ATTEMPT_EXCEEDED","folded_attributes":{{{folded}}}}}"#);
            let attributes = Attributes::from([(FAILURE.to_owned(), Attribute::string(document))]);
            HostileReading::new(attributes, |attributes| split_producer_attributes(attributes.clone()))
        }),
        HostileCase::new("destination record, members of the context", move || {
            let context = fill_value(named);
            let record = format!(r#"{{"requestContext":{{{context}}},"requestPayload":0}}"#);
            HostileReading::new(record, |record| drop(black_box(FailedInvocation::parse(record))))
        }),
        HostileCase::new("final record, ten attributes of quotes", || {
            let quotes = || Attribute::string("\"".repeat(100_000));
            let attributes = (0..10).map(|index| (format!("a{index}"), quotes())).collect();
            HostileReading::with_annotation(attributes, test_annotation())
        }),
    ]
}

fn test_annotation() -> Annotation {
    Annotation {
        reason: DeadLetterReason::NonRetryableError.into(),
        details: "x".repeat(1000),
        record: DeadLetter {
            last_attempt_traceparent: None,
            last_attempt_logs: None,
            stage: Stage::FailedMessageProcessor.into(),
            cause: Cause { error_type: "E".to_owned(), message: "\u{1}".repeat(10_000), ..Cause::default() },
            attempts: None,
            redrive_generation: None,
            held_seconds: None,
            redrive_count: None,
            first_sent_time: None,
            dead_lettered_at: "2026-01-01T00:00:00Z".to_owned(),
            died_at: None,
            source_queue_arn: None,
            sqs_message_id: "f5b9a7f4-6a0b-4a26-9a0f-2f4f3f2c1d00".to_owned(),
            fingerprint: "e3ef5b81ad470f60".to_owned(),
            folded_attributes: std::collections::BTreeMap::new(),
        },
    }
}

/// Returns as many parts as fit in a message.
fn fill_value(part: impl Fn(usize) -> String) -> String {
    fill_up_to(MESSAGE_BYTES - 500, part)
}

fn fill_up_to(bytes: usize, part: impl Fn(usize) -> String) -> String {
    let mut filled = String::new();
    for index in 0.. {
        let part = part(index);
        if filled.len() + part.len() > bytes {
            break;
        }
        let comma = if index > 0 { "," } else { "" };
        write!(filled, "{comma}{part}").expect("writing to a String succeeds");
    }
    filled
}

/// Returns an array with as many items as a message with a schema may have.
fn fill_array(item: impl Fn(usize) -> String) -> String {
    format!("[{}]", fill_to_value_limit(item))
}

/// Returns an object with as many members as a message with a schema may have.
fn fill_object(member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", fill_to_value_limit(member))
}

fn fill_to_value_limit(part: impl Fn(usize) -> String) -> String {
    let values = part(1);
    let count = |pattern: &str| values.matches(pattern).count();
    let values = 1 + count(",") + count("[") + count("{") - count("[]") - count("{}");
    fill_value(|index| if index * values < CHECKED_VALUES { part(index) } else { String::new() })
        .trim_end_matches(',')
        .to_owned()
}

fn fill_text(part: &str) -> String {
    format!("[\"{}\"]", part.repeat((MESSAGE_BYTES - 400) / part.len()))
}

/// Returns a JSON string of scrambled `a`s and `b`s, for which no regex engine has a shortcut.
fn letters_from_bits(index: usize) -> String {
    let bits = |index: usize| format!("{:b}", index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let bits: String = (index * 16..index * 16 + 16).map(bits).collect();
    format!("\"{}\"", bits.replace('0', "a").replace('1', "b"))
}

fn repeat_items(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}
