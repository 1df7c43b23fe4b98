//! Log lines as OTLP's records.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Encoded;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::trace::otlp::nanoseconds;
use serde_json::{Map, Value};

use super::{FUNCTION, key_value, resource, scope};

/// The request with these lines.
pub(super) fn exported(
    attributes: &[(String, String)],
    lines: &[String],
    now: Timestamp,
) -> ExportLogsServiceRequest {
    let log_records = lines.iter().map(|line| record(line, now)).collect();
    let logs = ScopeLogs { scope: Some(scope()), log_records, ..ScopeLogs::default() };
    let logs = ResourceLogs {
        resource: Some(resource(attributes)),
        scope_logs: vec![logs],
        ..ResourceLogs::default()
    };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

/// A line: `event` is the body, and what OTLP has no member for becomes attributes.
fn record(line: &str, now: Timestamp) -> LogRecord {
    let mut members: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (event, level, trace_id) = (text("event"), text("level"), text("trace_id"));
    let written = parse_rfc3339(&text("timestamp")).unwrap_or(now);
    // What tells CloudWatch that members are metrics.
    members.remove("_aws");
    let body = if event.is_empty() { line.to_owned() } else { event.clone() };
    let severity = match level.as_str() {
        "ERROR" => SeverityNumber::Error,
        "WARN" => SeverityNumber::Warn,
        _ => SeverityNumber::Info,
    };
    let attribute = |(name, value)| {
        let name = if name == "Function" { FUNCTION.to_owned() } else { name };
        Some(key_value(name, encoded(value)?))
    };
    LogRecord {
        time_unix_nano: nanoseconds(written),
        observed_time_unix_nano: nanoseconds(now),
        severity_number: severity.into(),
        severity_text: level,
        body: Some(AnyValue { value: Some(Encoded::StringValue(body)) }),
        attributes: members.into_iter().filter_map(attribute).collect(),
        trace_id: u128::from_str_radix(&trace_id, 16)
            .map_or_else(|_| Vec::new(), |id| id.to_be_bytes().to_vec()),
        event_name: event,
        ..LogRecord::default()
    }
}

/// `None` for `null`.
fn encoded(value: Value) -> Option<Encoded> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => Encoded::BoolValue(value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Encoded::IntValue(number),
            None => Encoded::DoubleValue(number.as_f64()?),
        },
        Value::String(text) => Encoded::StringValue(text),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| AnyValue { value: encoded(value) }).collect();
            Encoded::ArrayValue(ArrayValue { values })
        }
        // Our lines have none.
        Value::Object(_) => Encoded::StringValue(value.to_string()),
    })
}
