//! Records in Lambda's format, and malformed records.

use super::*;
use crate::handler::{ErrorType, FailureKind};

#[test]
fn the_error_names_the_executed_function_version() {
    let function = |record: &str| FailedInvocation::parse(record).unwrap().error.function;
    let (ran, alias) =
        (record("{}").replace("\"executedVersion\":\"$LATEST\"", "\"executedVersion\":\"7\""), "orders:live");
    assert_eq!(function(&ran.replace("orders:$LATEST", alias)).as_deref(), Some("orders:7"));
    assert_eq!(function(&ran.replace("responseContext", "other")), None, "the function was not invoked");
    assert_eq!(function(&ran.replace("\"executedVersion\":\"7\"", "\"executedVersion\":7")), None);
}

#[test]
fn the_record_from_the_developer_guide_is_parsed() {
    let body = record(r#"{"ORDER_IDS":["9e07af03"]}"#);
    let failed = FailedInvocation::parse(&body).unwrap();
    assert_eq!(failed.request_id.to_string(), REQUEST_ID);
    assert_eq!(failed.function_arn, format!("{ORDERS}:$LATEST"));
    assert_eq!(failed.failed_at, failed_at());
    assert_eq!(failed.first_failed_at.timestamp(), 1_573_755_365);
    assert_eq!((failed.retries_made, failed.payload), (0, r#"{"ORDER_IDS":["9e07af03"]}"#));
    assert_eq!(failed.error.error_type, ErrorType::FromTarget("OrderLocked".to_owned()));
    assert_eq!(failed.error.details, "order 7 is locked");
    assert_eq!(failed.error.kind, FailureKind::Transient);
}

#[test]
fn the_published_example_records_a_second_failure() {
    let body = include_str!("../../../../../examples/destination-record.json");
    let failed = FailedInvocation::parse(body).unwrap();
    assert_eq!((failed.retries_made, failed.payload), (1, r#"{ "id": "7" }"#));
    assert_eq!((failed.first_failed_at.timestamp(), failed.failed_at), (1_573_755_300, failed_at()));
    assert!(functions().allows_function(&failed.function_arn));
}

#[test]
fn an_expired_event_has_no_response() {
    let body = format!(
        r#"{{"version":"1.0","timestamp":"{FAILED_AT}","requestContext":{{"requestId":"{REQUEST_ID}","functionArn":"{ORDERS}:$LATEST","condition":"EventAgeExceeded","approximateInvokeCount":0}},"requestPayload":null}}"#
    );
    let failed = FailedInvocation::parse(&body).unwrap();
    assert_eq!(failed.error.error_type, ErrorType::Named("Lambda.EventAgeExceeded"));
    assert_eq!((failed.payload, failed.error.details.as_str()), ("null", ""));
}

#[test]
fn any_json_response_from_a_function_is_accepted() {
    let parse_error = |response: &str| {
        let body = record("{}")
            .replace(r#"{"errorMessage":"order 7 is locked","errorType":"OrderLocked"}"#, response);
        let error = FailedInvocation::parse(&body).unwrap().error;
        (error.error_type.name().into_owned(), error.details)
    };
    let text = |error_type: &str, details: &str| (error_type.to_owned(), details.to_owned());
    for nothing in
        ["null", "[]", "7", "\"\"", "{}", r#"{"errorType":7,"errorMessage":{}}"#, r#"{"errorType":""}"#]
    {
        assert_eq!(parse_error(nothing), text("Lambda.FunctionError", ""), "{nothing}");
    }
    assert_eq!(
        parse_error(r#"{"errorMessage":"Task timed out after 3.00 seconds"}"#),
        text("Lambda.FunctionError", "Task timed out after 3.00 seconds")
    );
    assert_eq!(parse_error(r#"{"errorType":"A","errorType":"B"}"#), text("B", ""), "the last member counts");
}

#[test]
fn a_forged_first_failure_time_is_capped_at_the_current_failure() {
    let body = record(&envelope("1", "253402300799", "{}"));
    let failed = FailedInvocation::parse(&body).unwrap();
    assert_eq!((failed.first_failed_at, failed.retries_made), (failed_at(), 1));
}

#[test]
fn each_error_names_the_member_without_its_value() {
    let valid = record(r#"{"secret":"CANARY"}"#);
    let context = format!(
        r#"{{"requestId":"{REQUEST_ID}","functionArn":"{ORDERS}:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":1}}"#
    );
    for (from, to, expected) in [
        ("\"requestPayload\"", "\"payload\"", "not a destination record: /requestPayload is missing"),
        ("\"timestamp\"", "\"time\"", "not a destination record: /timestamp is missing"),
        (FAILED_AT, "CANARY", "not a destination record: /timestamp is not an RFC 3339 time since 1970"),
        (
            FAILED_AT,
            "1969-12-31T23:59:59.999Z",
            "not a destination record: /timestamp is not an RFC 3339 time since 1970",
        ),
        (&*format!("\"{FAILED_AT}\""), "7", "not a destination record: /timestamp is not a string"),
        ("\"requestContext\"", "\"context\"", "not a destination record: /requestContext is missing"),
        (&*context, "[\"CANARY\"]", "not a destination record: /requestContext is not an object"),
        (REQUEST_ID, "CANARY", "not a destination record: /requestContext/requestId is not a UUID"),
        ("\"requestId\"", "\"id\"", "not a destination record: /requestContext/requestId is missing"),
        ("\"functionArn\"", "\"arn\"", "not a destination record: /requestContext/functionArn is missing"),
        ("\"condition\"", "\"why\"", "not a destination record: /requestContext/condition is missing"),
        (
            "RetriesExhausted",
            "Success",
            "the record reports a success: remove the retry queue from the function's on-success destination",
        ),
        (
            "\"version\":\"1.0\"",
            "\"requestPayload\":1",
            "not a destination record: duplicate member /requestPayload",
        ),
        (
            "\"approximateInvokeCount\"",
            "\"requestId\"",
            "not a destination record: duplicate member /requestContext/requestId",
        ),
    ] {
        assert!(valid.contains(from), "{from}");
        let error = FailedInvocation::parse(&valid.replace(from, to)).unwrap_err();
        assert_eq!(error.to_string(), expected, "{from} → {to}");
        assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    }
    for (body, expected) in [
        ("[]", "not a destination record: not a JSON object"),
        ("\"CANARY\"", "not a destination record: not a JSON object"),
        (r#"{"metadata":{},"data":{}}"#, "not a destination record: /requestContext is missing"),
    ] {
        assert_eq!(FailedInvocation::parse(body).unwrap_err().to_string(), expected);
    }
    let broken = FailedInvocation::parse("{\"CANARY").unwrap_err().to_string();
    assert!(
        broken.starts_with("not a destination record: not JSON: ") && !broken.contains("CANARY"),
        "{broken}"
    );
}
