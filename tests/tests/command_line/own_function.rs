//! `redeliver local --exec`: a user's own Lambda function in the complete loop.

use redeliver_tests::settings::venv_file;
use serde_json::json;

use super::*;

mod gallery;
mod go;
mod java;
mod recipes;
mod webhook;

/// A handler that does what the order's `does` says.
const APP: &[u8] = br#"
import json, os, time

def handler(event, context):
    [record] = event["Records"]
    body = json.loads(record["body"])
    order, attempt = body["data"], body["metadata"].get("retry_attempt", 0)
    print("for people")
    if order["does"] == "recovers" and attempt < 2:
        raise TimeoutError("the database is busy")
    if order["does"] == "fails":
        return {}["id"]
    if order["does"] == "exits":
        os._exit(3)
    if order["does"] == "gives up":
        return {"redeliver": {"outcome": "permanent", "type": "Order.Unknown", "details": "no such order"}}

def batch(event, context):
    ids = [record["messageId"] for record in event["Records"]]
    print("records:", len(ids))
    return {"batchItemFailures": []}

class CardDeclined(Exception):
    pass

def charge(record):
    if record.json_body["data"]["does"] == "declines":
        raise CardDeclined("no funds")
    return {}["id"]

def powertools(event, context):
    from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
    processor = BatchProcessor(event_type=EventType.SQS)
    return process_partial_response(event=event, record_handler=charge, processor=processor, context=context)

def near_miss(event, context):
    return {"batch_item_failures": [{"item_identifier": record["messageId"]} for record in event["Records"]]}
"#;

struct OwnFunctionRun {
    app: ScratchFile,
    orders: ScratchFile,
    dead: ScratchFile,
}

impl OwnFunctionRun {
    fn new(does: &[&str]) -> Self {
        let order = |(n, does): (usize, &&str)| {
            let metadata = json!({ "message_id": format!("{n:08}-0000-4000-8000-000000000000") });
            format!("{}\n", json!({ "metadata": metadata, "data": { "does": does } }))
        };
        let orders: String = does.iter().enumerate().map(order).collect();
        Self {
            app: ScratchFile::new("app.py", APP),
            orders: ScratchFile::new("orders.jsonl", orders.as_bytes()),
            dead: ScratchFile::absent("dead.jsonl"),
        }
    }

    fn run_handler(&self, handler: &str, more: &[&str]) -> Output {
        let python = venv_file("bin/python");
        let exec = format!("{} -B -m awslambdaric {handler}", python.display());
        self.run_exec(&exec, &[], more)
    }

    fn run_exec(&self, exec: &str, variables: &[(&str, &str)], more: &[&str]) -> Output {
        let arguments = [
            "local",
            self.orders.name(),
            "--exec",
            exec,
            "--final-dlq",
            self.dead.name(),
            "--format",
            "json",
        ];
        let folder = self.app.path.parent().expect("the file is in a folder");
        let mut program = program_command(&[&arguments[..], more].concat());
        let version = [("AWS_LAMBDA_FUNCTION_NAME", "orders"), ("AWS_LAMBDA_FUNCTION_VERSION", "7")];
        program
            .envs(version)
            .envs(variables.iter().copied())
            .current_dir(folder)
            .output()
            .expect("the program starts")
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_local_run_of_a_function_explains_every_failure() {
    let own = OwnFunctionRun::new(&["succeeds", "recovers", "fails", "exits", "gives up"]);
    let output = own.run_handler("app.handler", &[]);
    let report = json_report(&output);
    assert_eq!(
        (&report["sent"], &report["processed"], &report["is_virtual"]),
        (&5.into(), &2.into(), &true.into())
    );
    let codes = json!({ "NON_RETRYABLE_ERROR": 1, "RETRY_ATTEMPT_EXCEEDED": 2 });
    assert_eq!(report["dead_lettered"], codes);
    assert!(stderr_text(&output).contains("for people\n"), "{}", stderr_text(&output));
    let mut causes: Vec<_> = own.dead.text().lines().map(letter_cause).collect();
    causes.sort();
    let place = own.app.path.display();
    assert_eq!(
        causes,
        [
            expected_cause("KeyError", &format!("'id' (at File \"{place}\", line 12, in handler)")),
            expected_cause("Order.Unknown", "no such order"),
            expected_cause("Runtime.Exited", "the function's process ended: exit status: 3"),
        ]
    );
}

/// Lambda treats such a response as a success and deletes the messages, so the user must be warned.
#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_response_like_a_failure_report_causes_a_warning() {
    let own = OwnFunctionRun::new(&["is nearly failed", "too"]);
    let output = own.run_handler("app.near_miss", &[]);
    let report = json_report(&output);
    assert_eq!(
        (&report["processed"], &report["taken_as_success"]),
        (&2.into(), &json!(["batch_item_failures"]))
    );
    let warning = "warning: responses of the function look like failure reports (batch_item_failures); as in \
                   Lambda, they count as successes";
    assert_eq!(stderr_text(&output).matches(warning).count(), 1, "{}", stderr_text(&output));
}

/// Powertools for AWS Lambda (Python): its batch processor wraps the record's own exception.
#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_batch_processor_exception_is_attributed_to_its_record() {
    let own = OwnFunctionRun::new(&["declines", "fails"]);
    let policy =
        ScratchFile::new("policy.json", br#"{"non_retryable": ["*CardDeclined*"], "max_attempts": 1}"#);
    let output = own.run_handler("app.powertools", &["--policy", policy.name()]);
    let report = json_report(&output);
    assert_eq!(report["dead_lettered"], json!({ "NON_RETRYABLE_ERROR": 1, "RETRY_ATTEMPT_EXCEEDED": 1 }));
    let mut causes: Vec<_> = own.dead.text().lines().map(letter_cause).collect();
    causes.sort();
    let place = own.app.path.display();
    assert_eq!(
        causes,
        [
            expected_cause("CardDeclined", &format!("no funds (at File \"{place}\", line 28, in charge)")),
            expected_cause("KeyError", &format!("'id' (at File \"{place}\", line 29, in charge)")),
        ]
    );
}

/// Runs a function with one order per cause, and compares the causes of death: the order's action, the type and the
/// message.
fn assert_causes(exec: &str, variables: &[(&str, &str)], expected: &[(&str, &str, String)]) {
    let does: Vec<_> = expected.iter().map(|(does, ..)| *does).collect();
    let own = OwnFunctionRun::new(&does);
    let policy = ScratchFile::new("policy.json", br#"{"max_attempts": 0}"#);
    let output = own.run_exec(exec, variables, &["--policy", policy.name()]);
    let dead = own.dead.text();
    let causes: BTreeMap<_, _> = dead.lines().map(|line| (id(line), letter_cause(line))).collect();
    let causes: Vec<_> = causes.into_values().map(|[error_type, message, _]| (error_type, message)).collect();
    let expected: Vec<_> =
        expected.iter().map(|(_, name, text)| ((*name).to_owned(), text.clone())).collect();
    assert_eq!(causes, expected, "{}", stderr_text(&output));
}

/// Returns the message id of a final record.
fn id(line: &str) -> String {
    let line: Value = serde_json::from_str(line).expect("a final record is JSON");
    let body = line["body"].as_str().expect("the record has a body");
    let body: Value = serde_json::from_str(body).expect("the body is JSON");
    body["metadata"]["message_id"].as_str().expect("the message has an id").to_owned()
}

fn expected_cause(error_type: &str, message: &str) -> [String; 3] {
    [error_type, message, "orders:7"].map(str::to_owned)
}

/// Returns the cause's type, message and function.
fn letter_cause(line: &str) -> [String; 3] {
    let line: Value = serde_json::from_str(line).expect("a final record is JSON");
    let attribute = &line["attributes"]["DeadLetter"];
    let document =
        attribute["string_value"].as_str().or(attribute.as_str()).expect("the attribute is a string");
    let document: Value = serde_json::from_str(document).expect("the attribute is JSON");
    let text = |name: &str| document["cause"][name].as_str().unwrap_or_default().to_owned();
    [text("type"), text("message"), text("function")]
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_batch_is_one_invocation() {
    let own = OwnFunctionRun::new(&["succeeds"; 10]);
    let output = own.run_handler("app.batch", &["--handler-event", "batch"]);
    assert_eq!(json_report(&output)["processed"], 10);
    assert_eq!(stderr_text(&output), "records: 10\n");
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_function_startup_error_is_reported_before_any_send() {
    let own = OwnFunctionRun::new(&["succeeds"]);
    let output = own.run_handler("nowhere.handler", &[]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(stderr_text(&output).contains("No module named 'nowhere'"), "{}", stderr_text(&output));
    assert!(
        stderr_text(&output).ends_with("error: --exec exited during startup: exit status: 1\n"),
        "{}",
        stderr_text(&output)
    );

    for (exec, code, reported) in [
        (
            "/no/such/program x",
            1,
            "error: --exec cannot be run: /no/such/program: No such file or directory (os error 2)\n",
        ),
        ("'", 2, "error: invalid value ''' for '--exec <COMMAND>': a quotation mark is not closed\n"),
        (" ", 2, "error: invalid value ' ' for '--exec <COMMAND>': it names no program\n"),
    ] {
        let output = run_redeliver(&["local", own.orders.name(), "--exec", exec]);
        assert_eq!(output.status.code(), Some(code));
        assert!(stderr_text(&output).starts_with(reported), "{}", stderr_text(&output));
    }
}
