//! Hostile inputs for the functions' readers of messages (body, attributes and trace header), and for the writers of
//! their documents.

use redeliver_core::archive::{ArchivedMessage, OmitList};
use redeliver_core::arrival::Arrival;
use redeliver_core::failure::FAILURE;
use redeliver_core::failure::annotation::{
    Cause, DEAD_LETTER, DeadLetter, annotate_attributes, compute_fingerprint,
};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::plain::{IdSources, PlainMessages, REDELIVER};
use redeliver_core::message::schema::{DataSchema, MessageSchema, read_message_metadata};
use redeliver_core::message::{Attribute, Attributes, ReceivedMessage, Timestamp};
use redeliver_core::trace::{TRACEPARENT, TRACESTATE, TraceContext};

use super::shapes::{SHAPES, fill_document};
use super::{HostileCase, HostileReading, MESSAGE_BYTES, fill_value, test_annotation};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// The maximum size of a hostile document. It leaves space for the names and types of attributes.
const BYTES: usize = MESSAGE_BYTES - 500;

/// A reader and its document: hostile members replace `$`.
struct DocumentReader {
    name: &'static str,
    template: &'static str,
    reading: fn(String) -> HostileReading,
}

const READERS: [DocumentReader; 13] = [
    DocumentReader {
        name: "plain message, its id",
        template: "{$}",
        reading: |body| read_plain_message(IdSources::default(), body),
    },
    DocumentReader {
        name: "plain message, the id of a CloudEvent",
        template: r#"{"specversion":"1.0","source":"/orders",$,"id":"x"}"#,
        reading: |body| read_plain_message(IdSources::default(), body),
    },
    DocumentReader {
        name: "plain message, an id at a pointer",
        template: r#"{"a":{"b":{"c":{$}}}}"#,
        reading: |body| {
            read_plain_message(IdSources { pointer: Pointer::new("/a/b/c/id").ok(), attribute: None }, body)
        },
    },
    DocumentReader {
        name: "plain message, Redeliver",
        template: r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01",$}"#,
        reading: read_redelivered,
    },
    DocumentReader {
        name: "plain message, past failures in Redeliver",
        template: r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","retry_history":[{"attempt":0,"failed_at":"2026-01-01T00:00:00Z","error_type":"E","error_details":"",$}]}"#,
        reading: read_redelivered,
    },
    DocumentReader {
        name: "invalid envelope",
        template: r#"{"metadata":{"message_id":"","expires_at":0,$},"data":[]}"#,
        reading: |body| HostileReading::for_body(MessageSchema::default(), body),
    },
    DocumentReader {
        name: "trace context of a CloudEvent",
        template: r#"{"specversion":"1.0","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",$}"#,
        reading: |body| {
            HostileReading::new(body, |body| TraceContext::from_parts(&Attributes::new(), body, None))
        },
    },
    DocumentReader {
        name: "hand-off",
        template: r#"{"type":"E","kind":"transient",$}"#,
        reading: |failure| {
            HostileReading::new(received_message("{}", single_attribute(FAILURE, failure)), |record| {
                Arrival::from_record(record.clone(), fixed_now()).take_hand_off(fixed_now())
            })
        },
    },
    DocumentReader {
        name: "verdict",
        template: r#"{"verdict":"RETRY_ATTEMPT_EXCEEDED",$}"#,
        reading: |failure| {
            HostileReading::new(received_message("{}", single_attribute(FAILURE, failure)), |record| {
                let mut arrival = Arrival::from_record(record.clone(), fixed_now());
                (
                    read_message_metadata(&arrival.record.body, &arrival.record.attributes),
                    arrival.take_verdict(),
                )
            })
        },
    },
    DocumentReader {
        name: "final record that came back",
        template: r#"{"stage":"failed-message-processor","cause":{"type":"E","message":""},"dead_lettered_at":"2026-01-01T00:00:00Z","sqs_message_id":"x","fingerprint":"e3ef5b81ad470f60",$}"#,
        reading: |record| {
            HostileReading::new(received_message("{}", single_attribute(DEAD_LETTER, record)), |record| {
                drop(std::hint::black_box(Arrival::from_record(record.clone(), fixed_now())));
            })
        },
    },
    DocumentReader {
        name: "asynchronous invocation, its payload",
        template: r#"{"version":"1.0","timestamp":"2019-11-14T18:16:05.568Z","requestContext":{"requestId":"e4b46cbf-b738-4c8e-8880-a18cdf61200e","functionArn":"arn:aws:lambda:us-east-2:123456789012:function:f:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":3},"requestPayload":{"_retry_metadata":{"attempt":1,"initial_timestamp":1},"_original_payload":{$}}}"#,
        reading: |record| {
            HostileReading::new(record, |record| {
                drop(std::hint::black_box(redeliver_core::async_retry::FailedInvocation::parse(record)));
            })
        },
    },
    DocumentReader {
        name: "archive, values that are left out",
        template: r#"{"data":{$}}"#,
        reading: |body| {
            let omit = OmitList::parse("/data/n, /data/n/n, /data/0, /data/email").expect("pointers");
            let line = ArchivedMessage::new(&received_message(&body, Attributes::new()));
            HostileReading::new((omit, line), |(omit, line)| omit.apply_to(line.clone()))
        },
    },
    DocumentReader {
        name: "handler, its data",
        template: r#"{"metadata":{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01"},"data":{$}}"#,
        reading: |body| {
            let schema = DataSchema::new(r#"{"type":"object","additionalProperties":{"type":"array"}}"#);
            HostileReading::for_body(MessageSchema::new(Some(schema.expect("a schema"))), body)
        },
    },
];

pub(super) fn message_cases() -> Vec<HostileCase> {
    let readers = READERS.iter().flat_map(|reader| {
        SHAPES.iter().map(|(shape, members)| {
            let make = || (reader.reading)(fill_document(reader.template, *members, BYTES));
            HostileCase::new(reader.name, make).with_place((*shape).to_owned())
        })
    });
    readers.chain(text_cases()).collect()
}

/// Returns the cases for readers of text that is not JSON.
fn text_cases() -> Vec<HostileCase> {
    let state = |name: &str, part: fn(usize) -> String| {
        HostileCase::new("tracestate", move || {
            let attributes = [(TRACEPARENT, PARENT.to_owned()), (TRACESTATE, fill_value(part))];
            let attributes: Attributes = attributes
                .into_iter()
                .map(|(name, text)| (name.to_owned(), Attribute::string(text)))
                .collect();
            HostileReading::new(attributes, |attributes| TraceContext::from_parts(attributes, "", None))
        })
        .with_place(name.to_owned())
    };
    let header = |name: &str, part: &'static str| {
        HostileCase::new("trace header", move || {
            let header = format!("Root=1;{}", part.repeat(BYTES / part.len()));
            let record =
                ReceivedMessage { trace_header: Some(header), ..received_message("{}", Attributes::new()) };
            HostileReading::new(record, |record| {
                let arrival = Arrival::from_record(record.clone(), fixed_now());
                TraceContext::from_parts(&Attributes::new(), "", arrival.record.trace_header.as_deref())
            })
        })
        .with_place(name.to_owned())
    };
    let error = |name: &str, part: &'static str| {
        HostileCase::new("final record, an error", move || {
            let bytes = serde_json::json!(part).to_string().len() - 2;
            let text = format!("a; last error {}", part.repeat(BYTES / 2 / bytes - 20));
            let document = serde_json::json!({ "type": text, "details": text });
            HostileReading::new(
                received_message("{}", single_attribute(FAILURE, document.to_string())),
                |record| annotate_record(record.clone()),
            )
        })
        .with_place(name.to_owned())
    };
    vec![
        state("many short members", |index| format!("{index:x}=1")),
        state("one key again and again", |_| "a=1".to_owned()),
        state("long keys", |index| format!("{}{index:x}=1", "a".repeat(200))),
        header("our fields", ";Redeliver=e30"),
        header("fields", "Lineage=;"),
        header("equals signs", "="),
        error("letters", "a"),
        error("characters that SQS refuses", "\u{1}"),
        error("emoji", "😀"),
        error("last errors", "; last error "),
        error("words with digits", "a1 "),
        HostileCase::new("fingerprint of an error", || {
            let text = "a1-".repeat(BYTES / 3);
            HostileReading::new(text, |text| {
                compute_fingerprint(DeadLetterReason::NonRetryableError.as_str(), "E", text)
            })
        }),
        HostileCase::new("final record, final records in it", || {
            HostileReading::new(single_attribute(DEAD_LETTER, nested_dead_letters()), |attributes| {
                drop(std::hint::black_box(Arrival::from_record(
                    received_message("{}", attributes.clone()),
                    fixed_now(),
                )));
            })
        }),
    ]
}

/// Returns the attributes of the final record for a message whose error comes from an untrusted sender.
fn annotate_record(record: ReceivedMessage) -> Attributes {
    let mut arrival = Arrival::from_record(record, fixed_now());
    let error = arrival.take_verdict().err().flatten().unwrap_or_default();
    let mut annotation = test_annotation();
    annotation.record.fingerprint =
        compute_fingerprint(annotation.reason.as_str(), &error.error_type, &error.details);
    annotation.record.cause =
        Cause { error_type: error.error_type, message: error.details, ..Cause::default() };
    annotate_attributes(&arrival.record.attributes, 0, &annotation)
}

/// Returns a document that folds another one, which folds another one, and so on, up to the size limit.
fn nested_dead_letters() -> String {
    let record = |folded: String| {
        let record: DeadLetter = test_annotation().record;
        let document = serde_json::to_string(&record).expect("a record always serializes");
        let open = document.strip_suffix('}').expect("an object");
        format!(r#"{open},"folded_attributes":{{{folded}}}}}"#)
    };
    let mut document = record(String::new());
    loop {
        let text = serde_json::to_string(&document).expect("a text always serializes");
        let outer = record(format!(r#""{DEAD_LETTER}":{{"data_type":"String","text":{text}}}"#));
        if outer.len() > BYTES {
            return document;
        }
        document = outer;
    }
}

fn read_plain_message(id: IdSources, body: String) -> HostileReading {
    let schema = MessageSchema::default().with_plain(PlainMessages { id, body: None });
    HostileReading::new((schema, body), |(schema, body)| {
        drop(std::hint::black_box(schema.read_message(body, &Attributes::new(), "x")))
    })
}

/// Reads and rewrites the document, like a retry of a plain message.
fn read_redelivered(document: String) -> HostileReading {
    let schema = MessageSchema::default().with_plain(PlainMessages::default());
    HostileReading::new((schema, single_attribute(REDELIVER, document)), |(schema, attributes)| {
        let came_back = redeliver_core::failure::DlqReturn { generation_before: None, last_attempt: None };
        let parsed = schema.read_message("", attributes, "x");
        drop(std::hint::black_box(parsed.map(|parsed| parsed.with_next_generation(came_back))));
    })
}

fn single_attribute(name: &str, text: String) -> Attributes {
    Attributes::from([(name.to_owned(), Attribute::string(text))])
}

pub(super) fn received_message(body: &str, attributes: Attributes) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "0a4de8ea-9f0e-4f0c-8c35-0d2b5c4e6f11".to_owned(),
        receipt_handle: String::new(),
        body: body.to_owned(),
        attributes,
        sent_at: fixed_now(),
        first_received_at: None,
        receive_count: 1,
        message_group_id: None,
        trace_header: None,
        sender_id: None,
        redriven_from: None,
        queue_arn: "arn:aws:sqs:eu-central-1:123456789012:orders".to_owned(),
        omitted: Vec::new(),
    }
}

pub(super) fn fixed_now() -> Timestamp {
    parse_rfc3339("2026-07-25T17:20:00.25Z").expect("a time")
}
