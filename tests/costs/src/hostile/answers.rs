//! Hostile inputs for the code that parses target responses and Lambda events.

use bytes::Bytes;
use redeliver_core::decide::call_outcome;
use redeliver_core::failure::LastError;
use redeliver_core::handler::{ErrorType, HandlerError};
use redeliver_core::policy::Policy;

use super::messages::fixed_now;
use super::shapes::{SHAPES, fill_document};
use super::{HostileCase, HostileReading, fill_up_to};
use crate::aws::{FunctionResponse, lambda, read_outcomes, retry_after};

/// The maximum size of a function's response and of an event ("Lambda quotas").
const ANSWER_BYTES: usize = 6_291_556;
/// The maximum size of a function's response that is searched for other forms of failure reports.
const SEARCHED_BYTES_MAX: usize = 1 << 20;
/// The maximum size of a response's head in the HTTP client.
const HEAD_BYTES: usize = 400 << 10;
const IDS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// The maximum number of messages in a batch ("Configuring scaling behavior for SQS event source mappings", AWS Lambda
/// Developer Guide).
const RECORDS_MAX: usize = 10_000;

type MakeResponse = fn(Vec<u8>) -> FunctionResponse;

/// Responses from a user's own function: hostile members replace `$`.
const ANSWERS: [(&str, &str, MakeResponse); 6] = [
    ("response, top-level members", "{$}", success_response),
    (
        "response, errors per record",
        r#"{"batchItemFailures":[{"itemIdentifier":"0","error":{"type":"E",$}}]}"#,
        success_response,
    ),
    ("response, an outcome", r#"{"redeliver":{"outcome":"transient",$}}"#, success_response),
    ("exception", r#"{"errorType":"E","errorMessage":"m",$}"#, error_response),
    (
        "exception, causes",
        r#"{"errorType":"TargetInvocationException","cause":{"errorType":"TargetInvocationException","cause":{"errorType":"TargetInvocationException","cause":{"cause":{"cause":{"cause":{$}}}}}}}"#,
        error_response,
    ),
    ("exception, a stack trace", r#"{"errorType":"E","stackTrace":[{$}]}"#, error_response),
];

pub(super) fn response_cases() -> Vec<HostileCase> {
    let answers = ANSWERS.iter().flat_map(|(reader, template, answer)| {
        SHAPES.iter().map(|(shape, members)| {
            let make = || read_response(answer(fill_document(template, *members, ANSWER_BYTES).into()));
            HostileCase::new(reader, make).with_place((*shape).to_owned())
        })
    });
    answers.chain(long_input_cases()).collect()
}

fn long_input_cases() -> Vec<HostileCase> {
    let list = |name: &str, template: &'static str, answer: MakeResponse, item: &'static str| {
        HostileCase::new(name, move || {
            let items = fill_up_to(ANSWER_BYTES - template.len(), |_| item.to_owned());
            read_response(answer(template.replacen('$', &items, 1).into()))
        })
    };
    let batch_item_failures = r#"{"batchItemFailures":[$]}"#;
    let near_report_case = |name: &str, template: &'static str, item: &'static str| {
        HostileCase::new(name, move || {
            let items = fill_up_to(SEARCHED_BYTES_MAX - template.len(), |_| item.to_owned());
            read_response(success_response(template.replacen('$', &items, 1).into()))
        })
    };
    let name = |reader: &str, part: &'static str, glob: &'static str| {
        HostileCase::new(reader, move || {
            let policy =
                format!(r#"{{"non_retryable":["{glob}"],"circuit_breaker":{{"opens_on":["{glob}"]}}}}"#);
            let policy = Policy::from_json(&policy).expect("a policy");
            let name = ErrorType::FromTarget(part.repeat(ANSWER_BYTES / part.len()));
            HostileReading::new((policy, HandlerError::transient(name, "")), |(policy, error)| {
                (call_outcome(policy, error), LastError::from_handler_error(error))
            })
        })
    };
    let header = |name: &str, part: &'static str| {
        HostileCase::new(name, move || {
            HostileReading::new(part.repeat(HEAD_BYTES / part.len()) + "1", |value| {
                retry_after(value, fixed_now())
            })
        })
    };
    vec![
        list(
            "response, known record ids",
            batch_item_failures,
            success_response,
            r#"{"itemIdentifier":"0"}"#,
        ),
        list(
            "response, unknown record ids",
            batch_item_failures,
            success_response,
            r#"{"itemIdentifier":"x"}"#,
        ),
        near_report_case("response, almost a report: a list of strings", "[$]", r#""""#),
        near_report_case("response, almost a report: an object in a string", r#""{$}""#, r#"\"\":0"#),
        list("exception, frames", r#"{"errorType":"E","stackTrace":[$]}"#, error_response, r#""""#),
        list(
            "exception, Go stack frames",
            r#"{"errorType":"E","stackTrace":[$]}"#,
            error_response,
            r#"{"path":"runtime/p","line":1,"label":"panic"}"#,
        ),
        HostileCase::new("exception, chained Python tracebacks", || {
            let chained = r"\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n";
            let message = chained.repeat(ANSWER_BYTES / chained.len() - 2);
            let exception = format!(r#"{{"errorType":"BatchProcessingError","errorMessage":"{message}"}}"#);
            read_response(error_response(exception.into()))
        }),
        HostileCase::new("exception, eight wrapping exceptions and three causes", || {
            let carrier = r#"{"errorType":"TargetInvocationException","cause":"#;
            let causes = r#"{"cause":"#.repeat(3);
            let zeros = "0,".repeat((255 << 10) / 2 - 400);
            let ends = "}".repeat(8 + 3);
            read_response(error_response(format!("{}{causes}[{zeros}0]{ends}", carrier.repeat(8)).into()))
        }),
        HostileCase::new("exception, a long Java class name", || {
            let name = "a.".repeat(ANSWER_BYTES / 2 - 100);
            let exception =
                format!(r#"{{"errorType":"java.lang.RuntimeException","errorMessage":"{name}A: b"}}"#);
            read_response(error_response(exception.into()))
        }),
        name("name of an error, and a glob", "Erro", "*Error*Error*Error*Timeout"),
        name(
            "name of an error, and a glob of one letter",
            "a",
            "*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        ),
        header("Retry-After, digits", "9"),
        header("Retry-After, numbers", "1.5s,"),
        header("Retry-After, white space", " "),
        header("Retry-After, quotes", "\""),
        header("Retry-After, comments in a date", "("),
        HostileCase::new("event, records that cannot be read", || {
            let body = "x".repeat(ANSWER_BYTES / RECORDS_MAX - 50);
            let record = format!(r#"{{"messageId":"0","body":"{body}"}}"#);
            let records = fill_up_to(ANSWER_BYTES - 20, |_| record.clone());
            HostileReading::new(format!(r#"{{"Records":[{records}]}}"#), |event| lambda::parse_records(event))
        }),
    ]
}

fn success_response(body: Vec<u8>) -> FunctionResponse {
    FunctionResponse::Response(Bytes::from(body))
}

fn error_response(body: Vec<u8>) -> FunctionResponse {
    FunctionResponse::Error(Bytes::from(body))
}

/// Reads the response to a batch; an exception is unwrapped only if there is one record.
fn read_response(answer: FunctionResponse) -> HostileReading {
    HostileReading::new(answer, |answer| match answer {
        FunctionResponse::Error(_) => read_outcomes(answer, &IDS[..1]),
        _ => read_outcomes(answer, &IDS),
    })
}
