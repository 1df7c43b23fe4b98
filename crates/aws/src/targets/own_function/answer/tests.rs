use std::time::Duration;

use redeliver_core::handler::FailureKind;

use super::*;

const IDS: [&str; 3] = ["a", "b", "c"];

fn response_outcomes(json: &str) -> Vec<Result<(), HandlerError>> {
    outcomes_per_record(&FunctionResponse::Response(json.to_owned().into()), &IDS)
}

/// Returns the outcomes by name: an error's type, or `ok`.
fn outcome_names(json: &str) -> Vec<String> {
    let name = |outcome: Result<(), HandlerError>| match outcome {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.error_type.name().into_owned(),
    };
    response_outcomes(json).into_iter().map(name).collect()
}

fn thrown_error(json: &str) -> HandlerError {
    single_outcome(&FunctionResponse::Error(json.to_owned().into()), "a").unwrap_err()
}

#[test]
fn a_response_without_failures_is_a_success_in_any_form() {
    for answer in [
        "",
        " \n",
        "null",
        "\"done\"",
        "7",
        r#""half a character: \ud83d""#,
        "[{\"itemIdentifier\":\"a\"}]",
        "{}",
        r#"{"statusCode":500}"#,
        r#"{"batchItemFailures":null}"#,
        r#"{"batchItemFailures":[]}"#,
        r#"{"redeliver":null,"batchItemFailures":[]}"#,
    ] {
        assert_eq!(outcome_names(answer), ["ok", "ok", "ok"], "{answer}");
    }
}

#[test]
fn only_records_named_in_the_response_fail() {
    let failures = r#"{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"c","error":{"type":"Db.Busy","details":"7 of 9"}}]}"#;
    assert_eq!(outcome_names(failures), ["ok", "BatchItemFailure", "Db.Busy"]);
    let error = response_outcomes(failures)[2].clone().unwrap_err();
    assert_eq!((error.details.as_str(), error.kind), ("7 of 9", FailureKind::Transient));
}

/// `redeliver work` can have the same message from two receives at the same time.
#[test]
fn a_named_message_fails_every_time_it_occurs_in_the_event() {
    let failures = r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#;
    let outcomes = outcomes_per_record(&FunctionResponse::Response(failures.into()), &["a", "b", "a"]);
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
}

/// `error` is not part of Lambda's format, so a handler can use it for anything.
#[test]
fn an_unrecognized_error_member_is_ignored_and_other_records_succeed() {
    for error in ["null", "\"busy\"", "[\"Db.Busy\", \"x\"]", "{\"type\": 7}", "{}"] {
        let failures = format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"b","error":{error}}}]}}"#);
        assert_eq!(outcome_names(&failures), ["ok", "BatchItemFailure", "ok"], "{error}");
    }
}

/// An error's strings are truncated to a kilobyte, so a much larger error is not worth parsing.
#[test]
fn an_oversized_error_is_ignored() {
    for (bytes, name) in [(ERROR_BYTES_MAX, "Db.Busy"), (ERROR_BYTES_MAX + 1, "BatchItemFailure")] {
        let error = format!(r#"{{"type":"Db.Busy","details":"{}"}}"#, "x".repeat(bytes - 31));
        assert_eq!(error.len(), bytes);
        let failures = format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"b","error":{error}}}]}}"#);
        assert_eq!(outcome_names(&failures), ["ok", name, "ok"], "{bytes}");
    }
}

#[test]
fn an_invalid_response_fails_all_records_as_in_lambda() {
    for (answer, details) in [
        ("{", "the handler's answer is not JSON"),
        ("done", "the handler's answer is not JSON"),
        (r#"{"batchItemFailures":{}}"#, "batchItemFailures is not a list of {\"itemIdentifier\": \"…\"}"),
        (r#"{"batchItemFailures":["a"]}"#, "batchItemFailures is not a list of {\"itemIdentifier\": \"…\"}"),
        (
            r#"{"batchItemFailures":[["a"]]}"#,
            "batchItemFailures is not a list of {\"itemIdentifier\": \"…\"}",
        ),
        (r#"{"batchItemFailures":[{"id":"a"}]}"#, "batchItemFailures has an entry without itemIdentifier"),
        (
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            "batchItemFailures has an entry without itemIdentifier",
        ),
        (
            r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"z"}]}"#,
            "batchItemFailures names a record that was not in the event",
        ),
        (
            r#"{"batchItemFailures":[],"batchItemFailures":[{"itemIdentifier":"a"}]}"#,
            "the handler's response has batchItemFailures or redeliver twice",
        ),
        (r#"{"redeliver":{"outcome":"snooze"}}"#, "redeliver has the outcome snooze without delay_seconds"),
    ] {
        assert_eq!(outcome_names(answer), ["Runtime.InvalidResponse"; 3], "{answer}");
        assert_eq!(response_outcomes(answer)[0].clone().unwrap_err().details, details);
    }
    for redeliver in
        ["7", "[]", "{}", r#"{"outcome":"Permanent"}"#, r#"{"outcome":"transient","delay_seconds":-1}"#]
    {
        let answer = format!(r#"{{"redeliver":{redeliver}}}"#);
        assert_eq!(outcome_names(&answer), ["Runtime.InvalidResponse"; 3], "{answer}");
    }
    let too_large = outcomes_per_record(&FunctionResponse::TooLarge, &IDS);
    assert!(too_large.iter().all(|outcome| {
        outcome.as_ref().is_err_and(|error| error.error_type.name() == "Function.ResponseSizeTooLarge")
    }));
}

#[test]
fn a_handlers_redeliver_member_sets_the_outcome() {
    let said = |words: &str| {
        let answer = format!(r#"{{"redeliver":{words},"batchItemFailures":[]}}"#);
        let error = single_outcome(&FunctionResponse::Response(answer.into()), "a").unwrap_err();
        (error.error_type.name().into_owned(), error.details, error.kind)
    };
    let of = |name: &str, details: &str, kind| (name.to_owned(), details.to_owned(), kind);
    let minute = Duration::from_secs(60);
    assert_eq!(
        said(r#"{"outcome":"permanent","type":"Order.Unknown","details":"no such order"}"#),
        of("Order.Unknown", "no such order", FailureKind::Permanent)
    );
    assert_eq!(said(r#"{"outcome":"transient"}"#), of("Transient", "", FailureKind::Transient));
    assert_eq!(
        said(r#"{"outcome":"transient","delay_seconds":60}"#),
        of("Transient", "", FailureKind::TransientAfter(minute))
    );
    assert_eq!(
        said(r#"{"outcome":"snooze","delay_seconds":60,"more":1}"#),
        of("Snooze", "", FailureKind::Snooze(minute))
    );
    assert_eq!(said(r#"{"outcome":"unavailable"}"#), of("Unavailable", "", FailureKind::Unavailable(None)));
    assert_eq!(
        said(r#"{"outcome":"unavailable","delay_seconds":60}"#),
        of("Unavailable", "", FailureKind::Unavailable(Some(minute)))
    );
    assert_eq!(outcome_names(r#"{"redeliver":{"outcome":"permanent"}}"#), ["Permanent"; 3]);
}

/// Exceptions from awslambdaric 4.2, aws-lambda-ric 4.1, aws_lambda_ric (Ruby) 3.1 and Amazon.Lambda.RuntimeSupport
/// 1.13; Java's and Go's own runtimes run in the end-to-end tests.
#[test]
fn an_exceptions_location_is_read_from_each_runtimes_stack_trace() {
    for (json, error_type, details) in [
        (
            r#"{"errorMessage":"'id'","errorType":"KeyError","requestId":"r","stackTrace":["  File \"/var/task/app.py\", line 3, in handler\n    charge(event)\n","  File \"/var/task/orders.py\", line 31, in charge\n    event[\"id\"]\n"]}"#,
            "KeyError",
            r#"'id' (at File "/var/task/orders.py", line 31, in charge)"#,
        ),
        (
            r#"{"errorType":"TypeError","errorMessage":"x is not a function","trace":["TypeError: x is not a function","    at charge (/var/task/index.js:7:3)","    at Runtime.handler (/var/task/index.js:2:9)"]}"#,
            "TypeError",
            "x is not a function (at charge (/var/task/index.js:7:3))",
        ),
        (
            r#"{"errorMessage":"no order","errorType":"Function<OrderError>","stackTrace":["/var/task/app.rb:3:in `charge'"]}"#,
            "Function<OrderError>",
            "no order (at /var/task/app.rb:3:in `charge')",
        ),
        (
            r#"{"errorType":"KeyNotFoundException","errorMessage":"no order","stackTrace":["at Orders.Function.Charge(Order o) in /src/Function.cs:line 31"],"cause":null}"#,
            "KeyNotFoundException",
            "no order (at Orders.Function.Charge(Order o) in /src/Function.cs:line 31)",
        ),
        (
            r#"{"errorType":"KeyNotFoundException","errorMessage":"no order","cause":{"errorType":"TimeoutException","errorMessage":"timed out"}}"#,
            "KeyNotFoundException",
            "no order; caused by TimeoutException: timed out",
        ),
        ("not JSON", "Runtime.UnknownReason", ""),
        (r#"{"errorType":"","errorMessage":"?"}"#, "Runtime.UnknownReason", "?"),
    ] {
        let error = thrown_error(json);
        assert_eq!((error.error_type.name().as_ref(), error.details.as_str()), (error_type, details));
        assert_eq!(error.kind, FailureKind::Transient);
    }
}

#[test]
fn a_chain_of_causes_is_cut_to_three() {
    let chain = (0..10).fold("null".to_owned(), |cause, n| {
        format!(r#"{{"errorType":"E{n}","errorMessage":"m{n}","cause":{cause}}}"#)
    });
    assert_eq!(thrown_error(&chain).details, "m9; caused by E8: m8; caused by E7: m7; caused by E6: m6");
}

#[test]
fn an_error_name_from_a_function_is_never_logged() {
    assert_eq!(thrown_error(r#"{"errorType":"canary"}"#).error_type.loggable_name(), "FromTarget");
    let named = r#"{"batchItemFailures":[{"itemIdentifier":"a","error":{"type":"canary"}}]}"#;
    assert_eq!(response_outcomes(named)[0].clone().unwrap_err().error_type.loggable_name(), "FromTarget");
    let said = r#"{"redeliver":{"outcome":"permanent","type":"canary"}}"#;
    assert_eq!(response_outcomes(said)[0].clone().unwrap_err().error_type.loggable_name(), "FromTarget");
}

#[test]
fn the_response_to_another_services_event_is_passed_on_unchanged() {
    let response =
        |text: &'static str| return_value(FunctionResponse::Response(Bytes::from_static(text.as_bytes())));
    assert_eq!(response(r#"{ "n": 1.0 }"#).unwrap().get(), r#"{ "n": 1.0 }"#);
    assert_eq!(response("").unwrap_err().error_type, ErrorType::Named("Runtime.InvalidResponse"));
    let error =
        return_value(FunctionResponse::Error(Bytes::from_static(br#"{"errorType":"E","errorMessage":"m"}"#)));
    assert_eq!(error.unwrap_err().error_type.name(), "E");
}

/// Exception messages from Powertools for AWS Lambda (Python) 3.23.
#[test]
fn a_batch_processors_exception_is_replaced_by_the_records_own() {
    let frames = "  File \"/opt/python/aws_lambda_powertools/utilities/batch/base.py\", line 562, in _process_record\n    result = self.handler(record=data, lambda_context=self.lambda_context)\n             ^^^^^^^^^^^^\n  File \"/var/task/app.py\", line 8, in charge\n    raise CardDeclined()\n";
    let wrapped = |traceback: &str| {
        let message = format!(
            "All records failed processing. 1 individual errors logged separately below.\n\n{traceback}\n"
        );
        serde_json::json!({ "errorType": "BatchProcessingError", "errorMessage": message, "stackTrace": ["  File \"/opt/x.py\", line 1, in x\n"] })
            .to_string()
    };
    let place = " (at File \"/var/task/app.py\", line 8, in charge)";
    for (traceback, error_type, message) in [
        (
            format!("{TRACEBACK}{frames}app.CardDeclined: no funds: 7\nTraceback is a word\n  indented\n"),
            "CardDeclined",
            "no funds: 7\nTraceback is a word\n  indented",
        ),
        (format!("{TRACEBACK}{frames}KeyError\n"), "KeyError", ""),
        (format!("{TRACEBACK}{frames}app.charge.<locals>.Odd\n"), "Odd", ""),
        (
            format!(
                "{TRACEBACK}  File \"/var/task/db.py\", line 1, in get\nOSError: gone\n\nThe above exception was the direct cause of the following exception:\n\n{TRACEBACK}{frames}orders.errors.CardDeclined: no funds\n"
            ),
            "CardDeclined",
            "no funds",
        ),
        (
            format!(
                "{TRACEBACK}  File \"/var/task/db.py\", line 1, in get\nOSError: gone\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}{frames}ValueError: v\na note\n"
            ),
            "ValueError",
            "v\na note",
        ),
        // The last exception in a chain, regardless of its cause.
        (
            format!(
                "{TRACEBACK}OSError: gone\n\nThe above exception was the direct cause of the following exception:\n\n{TRACEBACK}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}{frames}ValueError: v\n"
            ),
            "ValueError",
            "v",
        ),
    ] {
        let error = thrown_error(&wrapped(&traceback));
        let details = format!("{message}{place}");
        assert_eq!(
            (error.error_type.name().as_ref(), error.details.as_str()),
            (error_type, details.as_str())
        );
    }
    // Text without an exception is passed on unchanged.
    for text in [
        "",
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\n  File \"x\"\n",
        "Traceback (most recent call last):\nwhat happened here: x\n",
    ] {
        assert_eq!(thrown_error(&wrapped(text)).error_type.name(), "BatchProcessingError", "{text}");
    }
    // The exception does not identify which of several records failed.
    let several = outcomes_per_record(
        &FunctionResponse::Error(wrapped(&format!("{TRACEBACK}{frames}KeyError\n")).into()),
        &IDS,
    );
    assert_eq!(several[0].clone().unwrap_err().error_type.name(), "BatchProcessingError");
}

const TRACEBACK: &str = "Traceback (most recent call last):\n";

#[test]
fn an_exception_that_only_wraps_another_is_replaced_by_it() {
    let own = r#"{"errorType":"orders.CardDeclined","errorMessage":"no funds"}"#;
    let other = r#"{"errorType":"Other","errorMessage":"?"}"#;
    for (json, error_type) in [
        (
            format!(
                r#"{{"errorType":"AggregateException","cause":{{"errorType":"TargetInvocationException","cause":{own}}}}}"#
            ),
            "orders.CardDeclined",
        ),
        (
            format!(r#"{{"errorType":"AggregateException","cause":{own},"causes":[{own}]}}"#),
            "orders.CardDeclined",
        ),
        (
            format!(r#"{{"errorType":"AggregateException","cause":{own},"causes":[{own},{other}]}}"#),
            "AggregateException",
        ),
        (r#"{"errorType":"AggregateException"}"#.to_owned(), "AggregateException"),
        (format!(r#"{{"errorType":"OrderFailed","cause":{own}}}"#), "OrderFailed"),
    ] {
        assert_eq!(thrown_error(&json).error_type.name(), error_type, "{json}");
    }
}

/// Java's runtime includes a cause only in the message.
#[test]
fn a_java_message_is_parsed_as_a_cause_only_if_it_is_a_class_and_message() {
    let thrown_by_java = |error_type: &str, message: &str| {
        let frames = [
            "java.base/java.util.concurrent.CompletableFuture.get(CompletableFuture.java:1)",
            "orders.App.handle(App.java:9)",
        ];
        let json =
            serde_json::json!({ "errorType": error_type, "errorMessage": message, "stackTrace": frames });
        let error = thrown_error(&json.to_string());
        (error.error_type.name().into_owned(), error.details)
    };
    let runtime = "java.lang.RuntimeException";
    for (message, error_type, details) in [
        (
            "orders.CardDeclined: no: funds",
            "orders.CardDeclined",
            "no: funds (at orders.App.handle(App.java:9))",
        ),
        ("orders.App$CardDeclined", "orders.App$CardDeclined", " (at orders.App.handle(App.java:9))"),
        (
            "java.lang.RuntimeException: orders.CardDeclined: no funds",
            "orders.CardDeclined",
            "no funds (at orders.App.handle(App.java:9))",
        ),
    ] {
        assert_eq!(
            thrown_by_java(runtime, message),
            (error_type.to_owned(), details.to_owned()),
            "{message}"
        );
    }
    for message in [
        "",
        runtime,
        "Declined: no funds",
        "orders.json: not found",
        "order 7. It failed: x",
        ".A: x",
        "1.A: x",
        "a..B",
    ] {
        assert_eq!(thrown_by_java(runtime, message).0, runtime, "{message}");
    }
    assert!(
        thrown_by_java(runtime, runtime).1.starts_with("java.lang.RuntimeException (at "),
        "an exception without a message of its own is kept"
    );
    assert_eq!(thrown_by_java("orders.Failed", "orders.CardDeclined: x").0, "orders.Failed", "not a wrapper");
    let deep = "java.lang.RuntimeException: ".repeat(100_000);
    assert_eq!(thrown_by_java(runtime, &deep).0, runtime, "unwrapping stops");
}
