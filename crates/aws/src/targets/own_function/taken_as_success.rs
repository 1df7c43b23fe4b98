//! Responses that look like failure reports but count as successes, as they do in Lambda: their messages are not
//! retried.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

/// Common misspellings of the members `batchItemFailures` and `redeliver`.
const MISSPELLED: [&str; 6] = [
    "BatchItemFailures",
    "batch_item_failures",
    "batchItemFailure",
    "BatchItemFailure",
    "batch_item_failure",
    "Redeliver",
];
/// Larger responses are not parsed. A list of 10,000 records, the maximum batch size, takes 600 KB.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Longer names are not compared.
const NAME_BYTES_MAX: usize = 32;
/// Members with an HTTP status, as in responses to API Gateway.
const STATUS: [&str; 4] = ["statusCode", "StatusCode", "status_code", "status"];

/// Returns the shape of a response that looks like a failure report although all records succeeded. The shape is one of
/// our own names, never text from the handler: the first member that looks like a failure report or, without such a
/// member, the type of JSON value that contains a record's id. `ids` are the records' SQS message ids.
pub(super) fn shape_taken_as_success(body: &[u8], ids: &[&str]) -> Option<&'static str> {
    if body.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let body = body.trim_ascii();
    match body.first()? {
        b'{' => match read_members(body)? {
            ReportMembers { reports_failures: true, .. } => None,
            ReportMembers { shape, .. } => shape.or_else(|| contains_id(body, ids).then_some("object")),
        },
        b'[' => contains_id(body, ids).then_some("list"),
        b'"' => {
            let text: String = serde_json::from_slice(body).ok()?;
            let ReportMembers { reports_failures, shape } = read_members(text.as_bytes()).unwrap_or_default();
            let is_report = reports_failures || shape.is_some() || ids.contains(&&*text);
            (is_report || contains_id(text.as_bytes(), ids)).then_some("text")
        }
        _ => None,
    }
}

/// The members of a response that report whether records failed.
#[derive(Debug, Default)]
struct ReportMembers {
    reports_failures: bool,
    /// The first member that looks like a failure report.
    shape: Option<&'static str>,
}

/// Reads the members in one pass. Returns `None` if the text is not a JSON object.
fn read_members(text: &[u8]) -> Option<ReportMembers> {
    struct ReportMembersVisitor;
    impl<'de> Visitor<'de> for ReportMembersVisitor {
        type Value = ReportMembers;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<ReportMembers, A::Error> {
            let mut members = ReportMembers::default();
            while let Some(ReportMemberName(name)) = object.next_key()? {
                if matches!(&*name, "batchItemFailures" | "redeliver") {
                    members.reports_failures |= object.next_value::<&RawValue>()?.get() != "null";
                } else if let Some(status) = STATUS.iter().copied().find(|status| *status == &*name) {
                    let is_error = is_error_status(object.next_value::<&RawValue>()?.get());
                    members.shape = members.shape.or(is_error.then_some(status));
                } else {
                    object.next_value::<IgnoredAny>()?;
                    members.shape = members.shape.or_else(|| match_misspelling(&name));
                }
            }
            Ok(members)
        }
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let members = json.deserialize_map(ReportMembersVisitor).ok()?;
    json.end().ok().map(|()| members)
}

#[derive(Deserialize)]
struct ReportMemberName<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns our name for a member whose name differs only in case, separators or number.
fn match_misspelling(name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    if let Some(known) = MISSPELLED.into_iter().find(|known| *known == name) {
        return Some(known);
    }
    let letters = name.chars().filter(char::is_ascii_alphabetic);
    match &*letters.map(|letter| letter.to_ascii_lowercase()).collect::<String>() {
        "batchitemfailures" | "batchitemfailure" => Some("another spelling of batchItemFailures"),
        "redeliver" => Some("another spelling of redeliver"),
        _ => None,
    }
}

/// True for an HTTP status of 400 or above, as a number or a string.
fn is_error_status(value: &str) -> bool {
    value.trim_matches('"').parse::<f64>().is_ok_and(|status| (400.0..1000.0).contains(&status))
}

/// True if a string in the JSON text is one of these ids, even inside a string that itself contains JSON. Ids contain
/// no escapes, so one pass suffices for any number of ids.
fn contains_id(json: &[u8], ids: &[&str]) -> bool {
    let ids: HashSet<_> = ids.iter().map(|id| id.as_bytes()).filter(|id| !id.is_empty()).collect();
    // Without this limit, six million empty strings would be looked up.
    let shortest = ids.iter().map(|id| id.len()).min().unwrap_or(usize::MAX);
    let strings = json.split(|byte| matches!(byte, b'"' | b'\\'));
    strings.filter(|string| string.len() >= shortest).any(|string| ids.contains(string))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000001";

    fn shape(answer: &str) -> Option<&'static str> {
        shape_taken_as_success(answer.replace("ID", ID).as_bytes(), &["other", ID])
    }

    #[test]
    fn a_response_that_resembles_a_failure_report_is_detected() {
        for (answer, expected) in [
            (r#"{"BatchItemFailures":[{"ItemIdentifier":"ID"}]}"#, "BatchItemFailures"),
            (r#"{"BatchItemFailures":[]}"#, "BatchItemFailures"),
            (r#" {"batch_item_failures":[{"item_identifier":"ID"}]}"#, "batch_item_failures"),
            (r#"{"batchItemFailure":[{"itemIdentifier":"ID"}]}"#, "batchItemFailure"),
            (r#"{"batch-item-failures":[]}"#, "another spelling of batchItemFailures"),
            (r#"{"Redeliver":{"outcome":"permanent"}}"#, "Redeliver"),
            (r#"{"re_deliver":{}}"#, "another spelling of redeliver"),
            (r#"{"statusCode":500,"body":"boom"}"#, "statusCode"),
            (r#"{"statusCode":"400"}"#, "statusCode"),
            (r#"{"status_code":404.0}"#, "status_code"),
            (r#"[{"itemIdentifier":"ID"}]"#, "list"),
            (r#"["ID"]"#, "list"),
            (r#""{\"batchItemFailures\":[{\"itemIdentifier\":\"ID\"}]}""#, "text"),
            (r#""{\"batchItemFailures\":[]}""#, "text"),
            (r#""{\"statusCode\":500}""#, "text"),
            (r#""ID""#, "text"),
            (r#"{"result":{"batchItemFailures":[{"itemIdentifier":"ID"}]}}"#, "object"),
            (
                r#"{"statusCode":200,"body":"{\"batchItemFailures\":[{\"itemIdentifier\":\"ID\"}]}"}"#,
                "object",
            ),
            (r#"{"batchItemFailures":null,"failed":["ID"]}"#, "object"),
        ] {
            assert_eq!(shape(answer), Some(expected), "{answer}");
        }
    }

    #[test]
    fn a_response_that_does_not_resemble_a_failure_report_is_ignored() {
        for answer in [
            "",
            " ",
            "null",
            "7",
            "true",
            r#""done""#,
            "{}",
            "[]",
            r#"{"statusCode":200,"body":"ok"}"#,
            r#"{"status":"ok"}"#,
            r#"{"statusCode":"inf"}"#,
            r#"{"batchItemFailures":[]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"ID"}]}"#,
            r#"{"batchItemFailures":[],"processed":["ID"],"statusCode":500}"#,
            r#"{"redeliver":{"outcome":"permanent"},"id":"ID"}"#,
            r#"{"n":1"#,
            "\u{fffd}",
        ] {
            assert_eq!(shape(answer), None, "{answer}");
        }
    }

    /// The cost of parsing is limited, since a response can be as large as 6 MB.
    #[test]
    fn a_large_response_and_a_long_name_are_not_parsed() {
        let padded = |bytes: usize| format!(r#"{{"statusCode":500{}}}"#, " ".repeat(bytes - 18));
        assert_eq!(padded(100).len(), 100);
        assert_eq!(shape(&padded(ANSWER_BYTES_MAX)), Some("statusCode"));
        assert_eq!(shape(&padded(ANSWER_BYTES_MAX + 1)), None);
        let spaced = format!("batch{}ItemFailures", "_".repeat(40));
        assert_eq!(shape(&format!("{{\"{spaced}\":[]}}")), None);
    }
}
