//! The documents that Lambda and Pipes send to a destination: what failed, and the payload or where its records are.

use std::collections::BTreeMap;

use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Batch, Foreign, Stream, Writer, object};

/// The members that are read, of all kinds of records. Others do not matter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    timestamp: Option<String>,
    request_context: Option<Object<RequestContext>>,
    response_context: Option<Object<ResponseContext>>,
    #[serde(borrow)]
    response_payload: Option<&'a RawValue>,
    /// Only EventBridge Pipes writes it.
    context: Option<Object<PipeContext>>,
    #[serde(rename = "KinesisBatchInfo")]
    kinesis: Option<Object<BatchInfo>>,
    #[serde(rename = "DDBStreamBatchInfo")]
    dynamo_db: Option<Object<BatchInfo>>,
    #[serde(rename = "KafkaBatchInfo")]
    kafka: Option<Object<TopicInfo>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    function_arn: String,
    condition: String,
    approximate_invoke_count: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseContext {
    function_error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PipeContext {
    partner_resource_arn: String,
    condition: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchInfo {
    shard_id: String,
    start_sequence_number: String,
    end_sequence_number: String,
    approximate_arrival_of_first_record: Option<String>,
    batch_size: u64,
    stream_arn: String,
}

/// "Capturing discarded batches for Amazon MSK and self-managed Apache Kafka event sources", AWS Lambda Developer Guide.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicInfo {
    batch_size: u64,
    event_source_arn: Option<String>,
    bootstrap_servers: Option<String>,
    /// By topic and partition: `orders-0`.
    #[serde(default)]
    records_info: BTreeMap<String, Offsets>,
    /// The place of a single record.
    record_info: Option<Object<Offset>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Offsets {
    first_record_offset: Option<String>,
    last_record_offset: Option<String>,
}

#[derive(Deserialize)]
struct Offset {
    offset: Option<String>,
}

/// The members that say of any event source which records they were.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceInfo {
    batch_size: u64,
    event_source_arn: Option<String>,
    stream_arn: Option<String>,
}

/// The end of the name of the member about a batch: `KinesisBatchInfo`, `KafkaBatchInfo`.
const BATCH_INFO: &str = "BatchInfo";

/// A function's own error.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionError {
    error_type: Option<String>,
    error_message: Option<String>,
}

/// `None` if it is not such a document, or if it reports a success.
pub(super) fn read(body: &str) -> Option<Foreign> {
    // Most bodies are something else, and need not be read as a whole to know that.
    if !(body.contains("\"requestContext\"") || body.contains("\"partnerResourceArn\"")) {
        return None;
    }
    let document: Document<'_> = object(body)?;
    let failed_at = document.timestamp.as_deref().and_then(moment);
    let batch = document
        .kinesis
        .map(|Object(info)| info.batch(Stream::Kinesis))
        .or_else(|| document.dynamo_db.map(|Object(info)| info.batch(Stream::DynamoDb)))
        .or_else(|| document.kafka.map(|Object(info)| info.batch()))
        .or_else(|| of_any_source(body));
    if let Some(Object(pipe)) = document.context {
        // A pipe gives up records of streams alone.
        let batch = Some(batch?);
        let condition = Some(pipe.condition);
        return Some(Foreign {
            condition,
            failed_at,
            batch,
            ..Foreign::new(Writer::Pipes, pipe.partner_resource_arn)
        });
    }
    let Object(request) = document.request_context?;
    if request.condition == "Success" {
        return None;
    }
    let writer = match batch.as_ref().map(|batch| batch.stream) {
        Some(Stream::Kinesis | Stream::DynamoDb) => Writer::LambdaStream,
        Some(Stream::Kafka | Stream::Other) => Writer::LambdaEventSource,
        None => Writer::LambdaDestination,
    };
    let said: FunctionError =
        document.response_payload.and_then(|payload| object(payload.get())).unwrap_or_default();
    let unnamed = document.response_context.and_then(|Object(response)| response.function_error);
    Some(Foreign {
        error_type: said.error_type.or(unnamed).unwrap_or_default(),
        message: said.error_message.unwrap_or_default(),
        condition: Some(request.condition),
        attempts: request.approximate_invoke_count.map(|calls| calls.saturating_sub(1)),
        failed_at,
        batch,
        ..Foreign::new(writer, request.function_arn)
    })
}

impl BatchInfo {
    fn batch(self, stream: Stream) -> Batch {
        Batch {
            stream,
            stream_arn: self.stream_arn,
            shard: self.shard_id,
            first_sequence_number: self.start_sequence_number,
            last_sequence_number: self.end_sequence_number,
            records: self.batch_size,
            first_arrival: self.approximate_arrival_of_first_record.as_deref().and_then(moment),
        }
    }
}

impl TopicInfo {
    fn batch(self) -> Batch {
        let shards: Vec<_> = self.records_info.keys().map(String::as_str).collect();
        let shard = shards.join(", ");
        let single = self.record_info.and_then(|Object(record)| record.offset);
        let (first, last) = match self.records_info.into_values().collect::<Vec<_>>().as_mut_slice() {
            [one] => (one.first_record_offset.take(), one.last_record_offset.take()),
            _ => (single.clone(), single),
        };
        Batch {
            stream: Stream::Kafka,
            stream_arn: self.event_source_arn.or(self.bootstrap_servers).unwrap_or_default(),
            shard,
            first_sequence_number: first.unwrap_or_default(),
            last_sequence_number: last.unwrap_or_default(),
            records: self.batch_size,
            first_arrival: None,
        }
    }
}

/// The batch of another event source, such as a change stream of DocumentDB.
fn of_any_source(body: &str) -> Option<Batch> {
    if !body.contains(BATCH_INFO) {
        return None;
    }
    let members: BTreeMap<String, &RawValue> = object(body)?;
    let (_, info) = members.into_iter().find(|(name, _)| name.ends_with(BATCH_INFO))?;
    let info: SourceInfo = object(info.get())?;
    Some(Batch {
        stream: Stream::Other,
        stream_arn: info.event_source_arn.or(info.stream_arn).unwrap_or_default(),
        shard: String::new(),
        first_sequence_number: String::new(),
        last_sequence_number: String::new(),
        records: info.batch_size,
        first_arrival: None,
    })
}

/// A member that is an object and nothing else.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        object(raw.get()).map(Self).ok_or_else(|| D::Error::custom("is not the object that it should be"))
    }
}

pub(super) fn moment(text: &str) -> Option<Timestamp> {
    parse_rfc3339(text).filter(|moment| moment.timestamp() >= 0)
}
