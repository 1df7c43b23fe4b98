//! The documents that Lambda and Pipes send to a destination: the failure, and the payload or the position of its
//! records.

use std::collections::BTreeMap;

use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{ForeignDeadLetter, ForeignWriter, Stream, StreamBatch, parse_object};

/// The relevant members of all kinds of records; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DestinationRecord<'a> {
    timestamp: Option<String>,
    request_context: Option<StrictObject<RequestContext>>,
    response_context: Option<StrictObject<ResponseContext>>,
    #[serde(borrow)]
    response_payload: Option<&'a RawValue>,
    /// Written only by EventBridge Pipes.
    context: Option<StrictObject<PipeContext>>,
    #[serde(rename = "KinesisBatchInfo")]
    kinesis: Option<StrictObject<BatchInfo>>,
    #[serde(rename = "DDBStreamBatchInfo")]
    dynamo_db: Option<StrictObject<BatchInfo>>,
    #[serde(rename = "KafkaBatchInfo")]
    kafka: Option<StrictObject<TopicInfo>>,
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

/// The position of Kafka records ("Capturing discarded batches for Amazon MSK and self-managed Apache Kafka event
/// sources", AWS Lambda Developer Guide).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopicInfo {
    batch_size: u64,
    event_source_arn: Option<String>,
    bootstrap_servers: Option<String>,
    /// The offsets by topic and partition, such as `orders-0`.
    #[serde(default)]
    records_info: BTreeMap<String, Offsets>,
    /// The position of a single record.
    record_info: Option<StrictObject<Offset>>,
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

/// The members that identify the records of any event source.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceInfo {
    batch_size: u64,
    event_source_arn: Option<String>,
    stream_arn: Option<String>,
}

/// The suffix of the member with batch information: `KinesisBatchInfo`, `KafkaBatchInfo`.
const BATCH_INFO: &str = "BatchInfo";

/// A function's own error.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LambdaErrorPayload {
    error_type: Option<String>,
    error_message: Option<String>,
}

/// Reads a document, or returns `None` if the body is not such a document or reports a success.
pub(super) fn read_record(body: &str) -> Option<ForeignDeadLetter> {
    // Most bodies are something else; a substring check avoids parsing them.
    if !(body.contains("\"requestContext\"") || body.contains("\"partnerResourceArn\"")) {
        return None;
    }
    let document: DestinationRecord<'_> = parse_object(body)?;
    let failed_at = document.timestamp.as_deref().and_then(parse_time);
    let batch = document
        .kinesis
        .map(|StrictObject(info)| info.into_batch(Stream::Kinesis))
        .or_else(|| document.dynamo_db.map(|StrictObject(info)| info.into_batch(Stream::DynamoDb)))
        .or_else(|| document.kafka.map(|StrictObject(info)| info.into_topic_batch()))
        .or_else(|| read_source_batch(body));
    if let Some(StrictObject(pipe)) = document.context {
        // Pipes discard records only from streams.
        let batch = Some(batch?);
        let condition = Some(pipe.condition);
        return Some(ForeignDeadLetter {
            condition,
            failed_at,
            batch,
            ..ForeignDeadLetter::new(ForeignWriter::Pipes, pipe.partner_resource_arn)
        });
    }
    let StrictObject(request) = document.request_context?;
    if request.condition == "Success" {
        return None;
    }
    let writer = match batch.as_ref().map(|batch| batch.stream) {
        Some(Stream::Kinesis | Stream::DynamoDb) => ForeignWriter::LambdaStream,
        Some(Stream::Kafka | Stream::Other) => ForeignWriter::LambdaEventSource,
        None => ForeignWriter::LambdaDestination,
    };
    let error: LambdaErrorPayload =
        document.response_payload.and_then(|payload| parse_object(payload.get())).unwrap_or_default();
    let function_error = document.response_context.and_then(|StrictObject(response)| response.function_error);
    Some(ForeignDeadLetter {
        error_type: error.error_type.or(function_error).unwrap_or_default(),
        message: error.error_message.unwrap_or_default(),
        condition: Some(request.condition),
        attempts: request.approximate_invoke_count.map(|calls| calls.saturating_sub(1)),
        failed_at,
        batch,
        ..ForeignDeadLetter::new(writer, request.function_arn)
    })
}

impl BatchInfo {
    fn into_batch(self, stream: Stream) -> StreamBatch {
        StreamBatch {
            stream,
            stream_arn: self.stream_arn,
            shard: self.shard_id,
            first_sequence_number: self.start_sequence_number,
            last_sequence_number: self.end_sequence_number,
            records: self.batch_size,
            first_arrival: self.approximate_arrival_of_first_record.as_deref().and_then(parse_time),
        }
    }
}

impl TopicInfo {
    fn into_topic_batch(self) -> StreamBatch {
        let shards: Vec<_> = self.records_info.keys().map(String::as_str).collect();
        let shard = shards.join(", ");
        let single = self.record_info.and_then(|StrictObject(record)| record.offset);
        let (first, last) = match self.records_info.into_values().collect::<Vec<_>>().as_mut_slice() {
            [one] => (one.first_record_offset.take(), one.last_record_offset.take()),
            _ => (single.clone(), single),
        };
        StreamBatch {
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

/// Reads the batch of another event source, such as a DocumentDB change stream.
fn read_source_batch(body: &str) -> Option<StreamBatch> {
    if !body.contains(BATCH_INFO) {
        return None;
    }
    let members: BTreeMap<String, &RawValue> = parse_object(body)?;
    let (_, info) = members.into_iter().find(|(name, _)| name.ends_with(BATCH_INFO))?;
    let info: SourceInfo = parse_object(info.get())?;
    Some(StreamBatch {
        stream: Stream::Other,
        stream_arn: info.event_source_arn.or(info.stream_arn).unwrap_or_default(),
        shard: String::new(),
        first_sequence_number: String::new(),
        last_sequence_number: String::new(),
        records: info.batch_size,
        first_arrival: None,
    })
}

/// A member that must be an object.
struct StrictObject<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for StrictObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        parse_object(raw.get()).map(Self).ok_or_else(|| D::Error::custom("is not an object"))
    }
}

pub(super) fn parse_time(text: &str) -> Option<Timestamp> {
    parse_rfc3339(text).filter(|moment| moment.timestamp() >= 0)
}
