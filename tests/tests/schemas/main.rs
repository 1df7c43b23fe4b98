//! The published schemas: they compile, they accept the valid examples and refuse the invalid ones, and the code writes
//! valid documents.
//!
//! The tests validate against all schemas, as a reader of the final DLQ would, and not with the core's own parser.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use jsonschema::{Registry, Validator};
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::{Decision, decide};
use redeliver_core::failure::annotation::{
    Annotation, Cause, DEAD_LETTER_SCHEMA, DeadLetter, annotate_attributes,
};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{
    Delivery, DlqReturn, FAILURE_SCHEMA, Failure, FailureDocument, HandOff, Hop, Stage, Verdict,
    VerdictDetails,
};
use redeliver_core::handler::{ErrorType, HandlerError};
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::{MESSAGE_SCHEMA, MessageSchema};
use redeliver_core::message::{Attribute, AttributeValue, Attributes, ReceivedMessage};
use redeliver_core::policy::{POLICY_SCHEMA, Policy};
use redeliver_testing::functions::{self, failed_message, resent_body};
use serde::Deserialize;
use serde_json::Value;

const SCHEMAS: [(&str, &str); 4] = [
    ("message", MESSAGE_SCHEMA),
    ("retry-policy", POLICY_SCHEMA),
    ("failure", FAILURE_SCHEMA),
    ("dead-letter", DEAD_LETTER_SCHEMA),
];

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the document that the code reads from these attributes.
fn read_document(attributes: Attributes) -> Option<FailureDocument> {
    let moment = parse_rfc3339("2026-07-25T17:20:10Z").unwrap();
    let record = ReceivedMessage { attributes, ..functions::nth_record(1, "{}") };
    Arrival::from_record(record, moment).document().cloned()
}

/// Returns a validator that checks formats and resolves the other schemas by their `$id`.
fn validator(name: &str) -> Validator {
    let mut registry = Registry::new();
    for (_, text) in SCHEMAS {
        let schema = parse_json(text);
        let id = schema["$id"].as_str().unwrap().to_owned();
        registry = registry.add(id, schema).unwrap();
    }
    let registry = registry.prepare().unwrap();
    let (_, text) = SCHEMAS.into_iter().find(|(schema, _)| *schema == name).unwrap();
    jsonschema::draft202012::options()
        .should_validate_formats(true)
        .with_registry(&registry)
        .build(&parse_json(text))
        .unwrap()
}

fn assert_valid(schema: &str, text: &str) {
    let instance = parse_json(text);
    let errors: Vec<_> = validator(schema)
        .iter_errors(&instance)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{schema} refuses {text}: {errors:?}");
}

/// Returns the schema of an example, whose file name starts with the schema's.
fn example_schema(example: &str) -> &'static str {
    let schema = SCHEMAS.into_iter().find(|(schema, _)| example.starts_with(&format!("{schema}-")));
    schema.unwrap_or_else(|| panic!("no schema's name is a prefix of {example}")).0
}

/// Returns the examples, by file name without extension.
fn read_examples(folder: &str) -> BTreeMap<String, String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas/examples").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .filter(|(name, _)| name != "expected")
        .collect()
}

#[test]
fn every_schema_is_a_valid_2020_12_schema_and_compiles() {
    for (name, text) in SCHEMAS {
        let schema = parse_json(text);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["$id"], format!("urn:redeliver:schema:{name}"));
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        validator(name);
    }
}

#[test]
fn every_schema_has_valid_and_invalid_examples() {
    for folder in ["valid", "invalid"] {
        let examples = read_examples(folder);
        for (schema, _) in SCHEMAS {
            assert!(examples.keys().any(|example| example_schema(example) == schema), "{folder} {schema}");
        }
    }
}

#[test]
fn valid_examples_match_their_schemas_and_the_code_reads_them() {
    for (name, text) in read_examples("valid") {
        let schema = example_schema(&name);
        assert_valid(schema, &text);
        let attributes = Attributes::from([("Failure".to_owned(), Attribute::string(&text))]);
        let attribute = &attributes["Failure"];
        let read = match schema {
            "message" => MessageSchema::default().parse_envelope(&text).is_ok(),
            "retry-policy" => Policy::from_json(&text).is_ok(),
            "failure" => read_document(attributes).is_some(),
            _ => DeadLetter::from_attribute(attribute).is_some(),
        };
        assert!(read, "the code does not read {name}");
    }
}

/// An entry of `expected.json`: the violation in an invalid example.
#[derive(Debug, PartialEq, Deserialize)]
struct ExpectedViolation {
    /// JSON Pointer to the violation.
    pointer: String,
    /// The violated rule.
    keyword: String,
}

#[test]
fn invalid_examples_break_the_rule_they_are_named_after() {
    let expected =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas/examples/invalid/expected.json");
    let mut expected: BTreeMap<String, ExpectedViolation> =
        serde_json::from_str(&fs::read_to_string(expected).unwrap()).unwrap();
    for (name, text) in read_examples("invalid") {
        let schema = example_schema(&name);
        let instance = parse_json(&text);
        let found: Vec<_> = validator(schema)
            .iter_errors(&instance)
            .map(|error| ExpectedViolation {
                pointer: error.instance_path().to_string(),
                keyword: error.kind().keyword().to_owned(),
            })
            .collect();
        let expected = expected.remove(&name).unwrap_or_else(|| panic!("expected.json has no {name}"));
        assert_eq!(found, [expected], "{name}");
        let read = match schema {
            "message" => MessageSchema::default().parse_envelope(&text).is_ok(),
            "retry-policy" => Policy::from_json(&text).is_ok(),
            _ => false, // `Failure` and `DeadLetter` are read leniently: partial information is better than none
        };
        assert!(!read, "the code accepts {name}");
    }
    assert!(expected.is_empty(), "expected.json lists missing examples: {expected:?}");
}

#[test]
fn the_documented_defaults_match_the_code() {
    let schema = parse_json(POLICY_SCHEMA);
    let default = |member: &str| schema["properties"][member]["default"].clone();
    let written = serde_json::json!({"max_attempts": default("max_attempts"), "backoff": default("backoff")});
    assert_eq!(Policy::from_json(&written.to_string()).unwrap(), Policy::default());
}

/// Returns strings that a target can return.
fn hostile_texts() -> [String; 4] {
    [String::new(), "HTTP 503".to_owned(), "\0\u{FFFE}😀\"\\\n".to_owned(), "é😀".repeat(5000)]
}

fn hand_offs() -> Vec<HandOff> {
    let delivery = Delivery {
        last_attempt: None,
        last_attempt_logs: None,
        failed_at: parse_rfc3339("2026-07-25T17:20:05Z").unwrap(),
        source_message_id: "5fea7756-0ea4-451a-a703-a558b933e274".to_owned(),
        source_queue_arn: "arn:aws:sqs:eu-central-1:000000000000:source".to_owned(),
        sent_at: parse_rfc3339("2026-07-25T17:20:00Z").unwrap(),
        came_back: Some(DlqReturn { last_attempt: None, generation_before: Some(3) }),
        origin: Origin::Producer,
    };
    let errors = hostile_texts().into_iter().flat_map(|text| {
        let from_target = |text: &str| HandlerError::transient(ErrorType::FromTarget(text.to_owned()), text);
        [
            from_target(&text),
            from_target(&text).retry_after(std::time::Duration::MAX),
            HandlerError::permanent("Permanent", &text),
            HandlerError::snooze("Snooze", &text, std::time::Duration::ZERO),
        ]
    });
    let not_started = HandOff::for_unstarted_call(delivery.clone());
    errors.map(|error| HandOff::from_handler_error(&error, delivery.clone())).chain([not_started]).collect()
}

/// Returns ten attributes, some of which must be folded.
fn ten_attributes() -> Attributes {
    let binary = |index: u8| Attribute {
        data_type: "Binary.x".to_owned(),
        value: AttributeValue::Binary(vec![index]),
    };
    let mut attributes: Attributes = (0..5).map(|index| (format!("b{index}"), binary(index))).collect();
    attributes.extend((0..5).map(|index| (format!("t{index}"), Attribute::string("\"é\""))));
    attributes
}

#[test]
fn every_failure_that_the_code_writes_is_valid() {
    for hand_off in hand_offs() {
        let handed_off = hand_off.attach_to(&Attributes::new(), 100, None).attributes;
        assert_valid("failure", handed_off["Failure"].text().unwrap());
        let hop = Hop { due_at: hand_off.delivery.failed_at, hand_off: hand_off.clone() };
        let hop = hop.attach_to(&ten_attributes(), 100, None).attributes;
        assert_valid("failure", hop["Failure"].text().unwrap());
        for stage in [Stage::MessageProcessor, Stage::FailedMessageProcessor] {
            for reason in DeadLetterReason::ALL.iter().copied() {
                let failure = Failure { attempts: Some(1000), ..hand_off.clone().into() };
                let case = VerdictDetails {
                    stage: Some(stage.into()),
                    explanation: hostile_texts()[3].clone(),
                    failure,
                };
                let verdict = Verdict { code: reason.into(), case: Some(case) };
                let given_up = verdict.attach_to(&ten_attributes(), 100, None).attributes;
                assert_valid("failure", given_up["Failure"].text().unwrap());
            }
        }
    }
}

#[test]
fn every_written_dead_letter_matches_its_schema() {
    for text in hostile_texts() {
        for (stage, known) in [(Stage::FailedMessageProcessor, true), (Stage::FinalDlqAnnotator, false)] {
            let annotation = Annotation {
                reason: DeadLetterReason::NonRetryableError.into(),
                details: text.clone(),
                record: DeadLetter {
                    last_attempt_traceparent: None,
                    last_attempt_logs: None,
                    stage: stage.into(),
                    cause: Cause {
                        error_type: text.clone(),
                        message: text.clone(),
                        function: Some(text.clone()),
                        unverified: !known,
                    },
                    attempts: known.then_some(1000),
                    redrive_generation: known.then_some(100),
                    held_seconds: known.then_some(1_210_500),
                    redrive_count: known.then_some(1000),
                    first_sent_time: known.then(|| "2026-07-25T17:20:00.000000Z".to_owned()),
                    dead_lettered_at: "2026-07-25T18:20:00.000000Z".to_owned(),
                    died_at: None,
                    source_queue_arn: known
                        .then(|| "arn:aws:sqs:eu-central-1:000000000000:source".to_owned()),
                    sqs_message_id: "m".to_owned(),
                    fingerprint: redeliver_core::failure::annotation::compute_fingerprint("R", &text, &text),
                    folded_attributes: Default::default(),
                },
            };
            for producer in [Attributes::new(), ten_attributes()] {
                let record = annotate_attributes(&producer, 100, &annotation);
                assert_valid("dead-letter", record["DeadLetter"].text().unwrap());
            }
        }
    }
}

#[test]
fn every_re_sent_body_is_a_valid_message() {
    let policy = Policy::from_json(r#"{"max_attempts":1000}"#).unwrap();
    let schema = MessageSchema::default();
    let now = parse_rfc3339("2026-07-25T17:20:10Z").unwrap();
    for (name, first) in
        read_examples("valid").into_iter().filter(|(name, _)| example_schema(name) == "message")
    {
        let mut body = first;
        for (number, mut hand_off) in hand_offs().into_iter().cycle().take(40).enumerate() {
            hand_off.delivery.came_back = hand_off.delivery.came_back.filter(|_| number == 0);
            if let Decision::Resend(resend) = decide(&policy, &failed_message(&body, &hand_off, None), now) {
                body = resent_body(resend);
                assert_valid("message", &body);
            }
        }
        let metadata = schema.parse_envelope(&body).unwrap().metadata;
        assert_eq!((metadata.retry_attempt, metadata.retry_history.len()), (20, 5), "{name}");
    }
}

#[test]
fn every_vector_file_is_explained() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas/vectors");
    let explained = fs::read_to_string(folder.join("README.md")).unwrap();
    for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let has_row = explained.contains(&format!("\n| `{file}` |"));
        assert!(has_row || file == "README.md", "schemas/vectors/README.md does not explain {file}");
    }
}
