//! Hostile inputs for the command line's readers of dead letters, whether from redeliver or from other systems.

use redeliver_core::message::{Attribute, Attributes};
use redeliver_dead_letters::edit::splice_edit;
use redeliver_dead_letters::{DeadLetterRecord, read_lossy};
use serde_json::Value;

use super::messages::received_message;
use super::shapes::{MakeMembers, SHAPES, fill_document};
use super::{HostileCase, HostileReading, MESSAGE_BYTES, fill_value};

/// The maximum size of a hostile document. It leaves space for the names and types of attributes.
const BYTES: usize = MESSAGE_BYTES - 1000;

/// Producers of dead letters and their bodies, in which hostile members replace `$`.
const BODIES: [(&str, &str); 8] = [
    (
        "dead letter, of redeliver",
        r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01",$},"data":{}}"#,
    ),
    (
        "dead letter, of a subscriber",
        r#"{"busArn":"a","subscriberArn":"b","errorCode":"c","errorMessage":"d","failedMessages":[],$}"#,
    ),
    (
        "dead letter, of Kafka",
        r#"{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"KafkaBatchInfo":{"batchSize":1,"recordsInfo":{},$}}"#,
    ),
    (
        "dead letter, of an event source",
        r#"{"requestContext":{"functionArn":"f","condition":"RetriesExhausted"},"responsePayload":{$},"aBatchInfo":0}"#,
    ),
    ("dead letter, of a topic", r#"{"Type":"Notification","TopicArn":"arn:","MessageId":"","Message":{$}}"#),
    (
        "dead letter, of every framework",
        r#"{"Headers":{"NServiceBus.ExceptionInfo.ExceptionType":{$},"rbs2-error-details":0},"headers":{"MT-Fault-ExceptionType":0,"task":0},"properties":0,"body":0,"actor_name":0,"queue_name":0,"message_id":0,"job_class":0,"job_id":0,"class":0,"jid":0,"jobtype":0,"payload":{},"exception":0,"displayName":0,"uuid":0,"data":0}"#,
    ),
    ("dead letter, of Rebus", r#"{"Headers":{"rbs2-error-details":"a\nb","rbs2-source-queue":"q",$}}"#),
    ("dead letter, of nobody", r#"{"requestContext":0,"TopicArn":0,"subscriberArn":0,"TARGET":{$}}"#),
];

pub(super) fn dead_letter_cases() -> Vec<HostileCase> {
    let body_cases = BODIES.iter().flat_map(|(writer, template)| {
        shape_cases(writer, |members| {
            read_record(&fill_document(template, members, BYTES), Attributes::new())
        })
    });
    let in_attribute = shape_cases("dead letter, of NServiceBus in an attribute", |members| {
        let headers = fill_document(r#"{"NServiceBus.ExceptionInfo.ExceptionType":"E",$}"#, members, BYTES);
        let name = "NServiceBus.AmazonSQS.Headers".to_owned();
        read_record("{}", Attributes::from([(name, Attribute::string(headers))]))
    });
    let edited = shape_cases("edit, a member of the innermost object", |members| {
        let body = fill_document(r#"{"n":{$}}"#, members, BYTES);
        let before = read_lossy(&body).unwrap_or_default();
        let mut after = before.clone();
        edit_innermost(&mut after);
        HostileReading::new((body, before, after), |(body, before, after)| splice_edit(body, before, after))
    });
    body_cases.chain(in_attribute).chain(edited).chain(foreign_dead_letter_cases()).collect()
}

fn foreign_dead_letter_cases() -> Vec<HostileCase> {
    vec![
        HostileCase::new("dead letter, events of a subscriber", || {
            let failed = fill_value(|_| r#"{"eventId":"","timestamp":"2026-01-01T00:00:00Z"}"#.to_owned());
            let head = r#""busArn":"a","subscriberArn":"b","errorCode":"c""#;
            read_record(&format!(r#"{{{head},"failedMessages":[{failed}]}}"#), Attributes::new())
        }),
        HostileCase::new("dead letter, partitions of Kafka", || {
            let context = r#""requestContext":{"functionArn":"f","condition":"RetriesExhausted"}"#;
            let partitions = fill_value(|index| format!(r#""{index:x}":{{}}"#));
            let partitions = &partitions[..partitions.len().min(BYTES)];
            let partitions = partitions.rsplit_once(',').map_or("", |(whole, _)| whole);
            let info = format!(r#""KafkaBatchInfo":{{"batchSize":1,"recordsInfo":{{{partitions}}}}}"#);
            read_record(&format!("{{{context},{info}}}"), Attributes::new())
        }),
        HostileCase::new("dead letter, a text in base64", || {
            read_record(&format!("eyJ{}", "A".repeat(BYTES / 4 * 4 - 3)), Attributes::new())
        }),
        HostileCase::new("dead letter, an error with places", || {
            let code = Attribute::string("NON_RETRYABLE_ERROR".to_owned());
            let details = Attribute::string("E: x (at a.b:1:\", line :line ".repeat(BYTES / 29));
            let attributes = [("ErrorType", code), ("ErrorDetails", details)];
            read_record("", attributes.map(|(name, value)| (name.to_owned(), value)).into())
        }),
        HostileCase::new("dead letter, lone surrogates", || {
            HostileReading::new(format!("\"{}\"", r"\ud800".repeat(BYTES / 6)), |text| read_lossy(text))
        }),
    ]
}

fn shape_cases(
    reader: &str,
    reading: impl Fn(MakeMembers) -> HostileReading + Clone + 'static,
) -> Vec<HostileCase> {
    let case = |(shape, members): &(&str, MakeMembers)| {
        let (reading, members) = (reading.clone(), *members);
        HostileCase::new(reader, move || reading(members)).with_place((*shape).to_owned())
    };
    SHAPES.iter().map(case).collect()
}

/// Reads everything that `audit` displays and filters by.
fn read_record(body: &str, attributes: Attributes) -> HostileReading {
    HostileReading::new(received_message(body, attributes), |message| {
        let record = DeadLetterRecord::new(message.clone());
        (
            record.headline(),
            record.filter_document(),
            record.trace_context(),
            record.death(),
            record.is_untouched(),
        )
    })
}

fn edit_innermost(value: &mut Value) {
    let mut at = value;
    while at.get("n").is_some_and(Value::is_object) {
        at = &mut at["n"];
    }
    if let Value::Object(members) = at {
        members.insert("edited".to_owned(), true.into());
    }
}
