//! Hostile messages: the most expensive known 1 MiB for each reader of messages. xtask/src/instructions.rs
//! limits their costs.

use std::fmt::Write as _;
use std::hint::black_box;

use redeliver_core::arrival::producers_attributes;
use redeliver_core::async_retry::FailedInvocation;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{FAILURE, Stage};
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::message::{Attribute, Attributes};

/// The largest message of SQS ("Amazon SQS message quotas").
const MESSAGE_BYTES: usize = 1 << 20;
const HEAD: &str = r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01"},"data":{"v":"#;

/// A hostile message with its reader.
pub struct Case {
    pub name: &'static str,
    make: Box<dyn Fn() -> Message>,
}

/// The input of a reader.
pub enum Message {
    /// With a schema for `data`.
    Body(Box<MessageSchema>, String),
    /// Our own attribute from an untrusted sender.
    Attributes(Attributes),
    /// Lambda's record of a failed invocation.
    Invocation(String),
    /// Attributes of a message that becomes a final record.
    Annotate(Attributes),
}

impl Case {
    fn new(name: &'static str, make: impl Fn() -> Message + 'static) -> Self {
        Self { name, make: Box::new(make) }
    }

    fn by_data_schema(name: &'static str, schema: String, value: impl Fn() -> String + 'static) -> Self {
        Self::new(name, move || {
            let schema = DataSchema::new(&schema).unwrap_or_else(|error| panic!("{name}: {error}"));
            let schema = MessageSchema::new(Some(schema));
            Message::body(schema, format!("{HEAD}{}}}}}", value()))
        })
    }

    pub fn message(&self) -> Message {
        (self.make)()
    }
}

impl Message {
    fn body(schema: MessageSchema, body: String) -> Self {
        assert!(body.len() <= MESSAGE_BYTES, "{} bytes", body.len());
        Self::Body(Box::new(schema), body)
    }

    /// A message whose `metadata` has these members and an id.
    fn with_metadata(members: &str) -> Self {
        let id = r#""message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01""#;
        Self::body(MessageSchema::default(), format!(r#"{{"metadata":{{{id},{members}}},"data":{{}}}}"#))
    }

    /// Reads it once, as a function does.
    pub fn read(&self) {
        match self {
            Self::Body(schema, body) => drop(black_box(schema.parse(black_box(body)))),
            Self::Attributes(attributes) => {
                drop(black_box(producers_attributes(black_box(attributes.clone()))))
            }
            Self::Invocation(body) => drop(black_box(FailedInvocation::parse(black_box(body)))),
            Self::Annotate(attributes) => drop(black_box(annotate(black_box(attributes), 0, &annotation()))),
        }
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = by_data_schema();
    cases.extend(of_our_readers());
    cases
}

fn by_data_schema() -> Vec<Case> {
    let tree = r##""$ref":"#/$defs/n""##;
    let tree = format!(
        r##"{{"properties":{{"v":{{{tree}}}}},"$defs":{{"n":{{"anyOf":[
            {{"required":["a"],"properties":{{"c":{{{tree}}}}}}},{{"required":["b"],"properties":{{"c":{{{tree}}}}}}}]}}}}}}"##
    );
    // Each level refers to the next one twice; 13 levels nearly reach the limit of evaluations.
    let doubled = |levels: usize, way: &str, rule: &str| {
        let level = |index: usize| {
            let next = format!(r##"{{"$ref":"#/$defs/s{}"}}"##, index + 1);
            format!(r#""s{index}":{{"{way}":[{next},{next}]}},"#)
        };
        let levels_text: String = (0..levels).map(level).collect();
        format!(
            r##"{{"properties":{{"v":{{{rule}:{{"$ref":"#/$defs/s0"}}}}}},"$defs":{{{levels_text}"s{levels}":true}}}}"##
        )
    };
    let of_zeros = |name, levels, way| {
        Case::by_data_schema(name, doubled(levels, way, r#""items""#), || array(|_| "0".to_owned()))
    };
    let items = |rule: &str| format!(r#"{{"properties":{{"v":{{"items":{{{rule}}}}}}}}}"#);
    let of = |rule: &str| format!(r#"{{"properties":{{"v":{{{rule}}}}}}}"#);
    vec![
        of_zeros("allOf, two thousand evaluations of each item", 9, "allOf"),
        of_zeros("allOf, thirty thousand evaluations of each item", 13, "allOf"),
        of_zeros("oneOf, a thousand evaluations of each item and more for its errors", 7, "oneOf"),
        Case::by_data_schema(
            "propertyNames, two thousand evaluations of each name",
            doubled(9, "allOf", r#""propertyNames""#),
            || object(|index| format!(r#""{index:x}":0"#)),
        ),
        Case::by_data_schema(
            "propertyNames, back-reference that explodes",
            of(r#""propertyNames":{"pattern":"^(a|a)*\\1b"}"#),
            || object(|index| format!(r#""{}{index:x}":0"#, "a".repeat(40))),
        ),
        Case::by_data_schema("multipleOf, decimals of 9,990 digits", items(r#""multipleOf":0.01"#), || {
            array(|index| format!("0.{:09990}", index * 7_654_321 + 1))
        }),
        Case::by_data_schema("multipleOf, one integer", items(r#""multipleOf":7"#), || {
            array(|_| "7".repeat(MESSAGE_BYTES - 1000))
        }),
        Case::by_data_schema("multipleOf, huge exponents", items(r#""multipleOf":0.07"#), || {
            array(|index| format!("{index}e999999"))
        }),
        Case::by_data_schema(
            "all keywords of numbers, ordinary ones",
            items(
                r#""multipleOf":0.01,"minimum":0,"maximum":1e3,"exclusiveMinimum":-1,"exclusiveMaximum":1e4"#,
            ),
            || array(|index| format!("{}.{:02}", index % 1000, index % 100)),
        ),
        Case::by_data_schema(
            "type, each item wrong at a place of half a MiB",
            of(r#""additionalProperties":{"items":{"type":"string"}}"#),
            || format!(r#"{{"{}":[{}]}}"#, "n".repeat(MESSAGE_BYTES / 2), list(200_000, |_| "0".to_owned())),
        ),
        Case::by_data_schema("type, each item wrong", items(r#""type":"string""#), || {
            array(|_| "0".to_owned())
        }),
        Case::by_data_schema(
            "enum of 100 numbers",
            items(&format!(r#""enum":[{}]"#, list(100, |index| format!("{index}.5")))),
            || array(|index| format!("{}", index % 10)),
        ),
        Case::by_data_schema("uniqueItems, integers that are one float", of(r#""uniqueItems":true"#), || {
            array(|index| format!("10000000000000000{index:06}"))
        }),
        Case::by_data_schema("uniqueItems, nested arrays", of(r#""uniqueItems":true"#), || {
            array(|index| format!("{}[]{}", "[".repeat(index % 90), "]".repeat(index % 90)))
        }),
        Case::by_data_schema(
            "pattern, word boundaries in Unicode",
            items(r#""pattern":"\\b(\\w{1,13}\\s){3}x\\b""#),
            || array(|_| format!("\"{}\"", "éa b".repeat(250))),
        ),
        Case::by_data_schema("pattern, 200 states", items(r#""pattern":"(?:a|b)*a(?:a|b){200}c""#), || {
            array(as_and_bs)
        }),
        Case::by_data_schema("pattern, 30 states", items(r#""pattern":"(?:a|b)*a(?:a|b){30}c""#), || {
            array(as_and_bs)
        }),
        Case::by_data_schema(
            "pattern, 5,000 letters",
            items(&format!(r#""pattern":"{}z""#, "a".repeat(5000))),
            || array(|_| format!("\"{}\"", "a".repeat(100))),
        ),
        Case::by_data_schema(
            "pattern, 1,500 groups",
            items(&format!(r#""pattern":"{}z""#, "(x*y*)".repeat(1500))),
            || array(|_| format!("\"{}\"", "xy".repeat(50))),
        ),
        Case::by_data_schema(
            "pattern, look-ahead at each character",
            items(r#""pattern":"(?=.*x)y""#),
            || array(|_| format!("\"{}\"", "a".repeat(10_000))),
        ),
        Case::by_data_schema(
            "pattern, back-reference that explodes",
            items(r#""pattern":"^(a|a)*\\1b""#),
            || array(|_| format!("\"{}!\"", "a".repeat(30))),
        ),
        Case::by_data_schema(
            "patternProperties, back-reference that explodes",
            of(r#""patternProperties":{"^(a|a)*\\1b":true}"#),
            || object(|index| format!("\"{}{index}\":0", "a".repeat(30))),
        ),
        Case::by_data_schema(
            "unevaluatedProperties",
            of(
                r#""anyOf":[{"patternProperties":{"^a":true}},{"properties":{"b":true}}],"unevaluatedProperties":false"#,
            ),
            || object(|index| format!("\"{index:x}\":0")),
        ),
        Case::by_data_schema("$ref to itself by two ways", tree, || {
            format!("{}{{}}{}", r#"{"c":"#.repeat(100), "}".repeat(100))
        }),
    ]
}

fn of_our_readers() -> Vec<Case> {
    let named = |index: usize| format!(r#""{index:x}":0"#);
    vec![
        Case::new("envelope, members of metadata", move || Message::with_metadata(&filled(named))),
        Case::new("envelope, brackets and backslashes", || {
            Message::with_metadata(&format!(r#""x":{}"#, text(r#"\\\"[{"#)))
        }),
        Case::new("metadata, past failures", || {
            let failures = array(|_| r#"{"attempt":1e-9999}"#.to_owned());
            Message::with_metadata(&format!(r#""retry_history":{failures}"#))
        }),
        Case::by_data_schema("value, a name that the JSON library keeps for itself", "{}".to_owned(), || {
            let zeros = "0,".repeat(500_000);
            format!(r#"{}{zeros}"\u0024"{}"#, "[".repeat(120), "]".repeat(120))
        }),
        Case::new("Failure, folded attributes", || {
            let folded = filled(|index| format!(r#""{index}":{{"data_type":"String","text":"x"}}"#));
            let document =
                format!(r#"{{"verdict":"RETRY_ATTEMPT_EXCEEDED","folded_attributes":{{{folded}}}}}"#);
            Message::Attributes(Attributes::from([(FAILURE.to_owned(), Attribute::string(document))]))
        }),
        Case::new("destination record, members of the context", move || {
            let context = filled(named);
            Message::Invocation(format!(r#"{{"requestContext":{{{context}}},"requestPayload":0}}"#))
        }),
        Case::new("final record, ten attributes of quotes", || {
            let quotes = || Attribute::string("\"".repeat(100_000));
            Message::Annotate((0..10).map(|index| (format!("a{index}"), quotes())).collect())
        }),
    ]
}

fn annotation() -> Annotation {
    Annotation {
        reason: DeadLetterReason::NonRetryableError.into(),
        details: "x".repeat(1000),
        record: DeadLetter {
            last_attempt_traceparent: None,
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

/// As many of them as fit into a message.
fn filled(part: impl Fn(usize) -> String) -> String {
    let mut filled = String::new();
    for index in 0.. {
        let part = part(index);
        if filled.len() + part.len() + 300 > MESSAGE_BYTES {
            break;
        }
        let comma = if index > 0 { "," } else { "" };
        write!(filled, "{comma}{part}").expect("a string takes everything");
    }
    filled
}

fn array(item: impl Fn(usize) -> String) -> String {
    format!("[{}]", filled(item))
}

fn object(member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", filled(member))
}

fn text(part: &str) -> String {
    format!("[\"{}\"]", part.repeat((MESSAGE_BYTES - 400) / part.len()))
}

/// A text without shortcuts for any engine: the bits of numbers.
fn as_and_bs(index: usize) -> String {
    let bits = |index: usize| format!("{:b}", index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let bits: String = (index * 16..index * 16 + 16).map(bits).collect();
    format!("\"{}\"", bits.replace('0', "a").replace('1', "b"))
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(",")
}
