//! Dead letters as AWS services write them according to their documentation (`fixtures/foreign`).

use redeliver_core::message::{Attribute, AttributeValue, Attributes, ReceivedMessage};
use serde_json::Value;

use crate::dead_letters::received_message;

macro_rules! fixtures {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../fixtures/foreign/", $name, ".json")))),+]
    };
}

/// The fixtures, with their file names.
pub const FIXTURES: [(&str, &str); 12] = fixtures![
    "eventbridge-bus",
    "eventbridge-rule",
    "eventbridge-subscriber",
    "lambda-destination",
    "lambda-dlq",
    "lambda-dynamodb",
    "lambda-kafka",
    "lambda-kinesis",
    "pipes-kinesis",
    "scheduler",
    "sns-subscription",
    "sqs-redrive",
];

/// Returns a fixture as a received message.
pub fn fixture_message(name: &str) -> ReceivedMessage {
    let number = FIXTURES.iter().position(|(known, _)| *known == name).unwrap();
    let fixture: Value = serde_json::from_str(FIXTURES[number].1).unwrap();
    assert!(fixture["page"].as_str().unwrap().starts_with("https://docs.aws.amazon.com/"), "{name}");
    let attributes: Attributes = fixture["attributes"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, attribute)| {
            let text = |index: usize| attribute[index].as_str().unwrap().to_owned();
            (name.clone(), Attribute { data_type: text(0), value: AttributeValue::Text(text(1)) })
        })
        .collect();
    ReceivedMessage {
        redriven_from: fixture["redriven_from"].as_str().map(str::to_owned),
        ..received_message(&fixture["body"].to_string(), attributes, u32::try_from(number).unwrap())
    }
}
