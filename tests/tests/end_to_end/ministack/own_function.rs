//! The message-processor wrapped around a user's own function, from Lambda's point of view: apart from message
//! handling, the function behaves as if it were alone.

use std::sync::Arc;
use std::time::Duration;

use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::runtimes::{LambdaProgram, Language, node_program, python_program, runtimes_folder};
use redeliver_tests::topology::TopologySetup;
use serde_json::{Value, json};

use super::{id, is_alive, journal_calls, journal_processes, new_journal, new_topology, scripted_message};

const TIMEOUT: Duration = Duration::from_secs(60);

type Variable = (&'static str, String);

/// Creates a function with the variables for the queues; their values do not matter in these tests.
fn function(program: LambdaProgram, more: impl IntoIterator<Item = Variable>) -> Arc<LambdaFunction> {
    let queue_variables = ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL"]
        .map(|name| (name, "http://127.0.0.1:1/000000000000/unused".to_owned()));
    let variables = program.variables.into_iter().chain(queue_variables).chain(more);
    LambdaFunction::new("orders", program.path, variables.map(|(name, value)| (name.to_owned(), value)))
}

/// Creates a scripted function with a journal.
fn scripted_function(
    language: Language,
    journal: &std::path::Path,
    more: &[Variable],
) -> Arc<LambdaFunction> {
    let journal = ("SCRIPT_JOURNAL", journal.display().to_string());
    function(language.scripted_program(), more.iter().cloned().chain([journal]))
}

in_language!(
    python,
    Language::Python,
    the_response_or_error_for_a_non_sqs_event_comes_from_the_handler,
    another_wrapper_script_still_runs_and_its_variables_reach_the_handler,
    a_sigterm_reaches_the_handler_and_ends_both_processes,
    a_message_that_times_out_during_a_restart_spends_no_attempt,
    ten_megabytes_of_handler_output_pass_through,
);
in_language!(
    node,
    Language::Node,
    the_response_or_error_for_a_non_sqs_event_comes_from_the_handler,
    another_wrapper_script_still_runs_and_its_variables_reach_the_handler,
    a_sigterm_reaches_the_handler_and_ends_both_processes,
    ten_megabytes_of_handler_output_pass_through,
);
in_language!(
    os_only_program,
    Language::OsOnly,
    the_response_or_error_for_a_non_sqs_event_comes_from_the_handler,
    another_wrapper_script_still_runs_and_its_variables_reach_the_handler,
    ten_megabytes_of_handler_output_pass_through,
);
in_language!(
    java,
    Language::Java,
    the_response_or_error_for_a_non_sqs_event_comes_from_the_handler,
    another_wrapper_script_still_runs_and_its_variables_reach_the_handler,
    a_sigterm_reaches_the_handler_and_ends_both_processes,
    a_message_that_times_out_during_a_restart_spends_no_attempt,
    ten_megabytes_of_handler_output_pass_through,
);
in_language!(
    go,
    Language::Go,
    the_response_or_error_for_a_non_sqs_event_comes_from_the_handler,
    another_wrapper_script_still_runs_and_its_variables_reach_the_handler,
    a_sigterm_reaches_the_handler_and_ends_both_processes,
    ten_megabytes_of_handler_output_pass_through,
);

async fn the_response_or_error_for_a_non_sqs_event_comes_from_the_handler(language: Language) {
    let function = scripted_function(language, &new_journal(), &[]);
    let event = json!({ "source": "aws.events", "detail": { "größe": 1.5, "list": [null, "\u{1f980}"] } });
    let outcome = function.invoke(&event, TIMEOUT).await;
    let expected = json!({ "event": event, "other_wrapper": null });
    assert_eq!(outcome, InvocationOutcome::Response(expected), "{:?}", function.output_lines());

    let outcome = function.invoke(&json!({ "error": "no such order" }), TIMEOUT).await;
    let InvocationOutcome::Error(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error["errorType"], "Scripted.Transient");
    let message = error["errorMessage"].as_str().unwrap();
    assert!(message.starts_with("no such order"), "{message}");
}

#[tokio::test]
async fn a_streamed_response_with_a_trailing_error_fails() {
    let function = function(node_program(&runtimes_folder(), "streamed.handler").with_layer(), []);
    for text in ["", r#"{"ok":true}"#, "half an ans"] {
        let outcome = function.invoke(&json!({ "text": text, "error": "no funds" }), TIMEOUT).await;
        let InvocationOutcome::Error(error) = outcome else { panic!("{text}: {outcome:?}") };
        assert_eq!(error["errorType"], "CardDeclined", "{text}");
        let message = error["errorMessage"].as_str().unwrap();
        assert!(message.starts_with("no funds (at "), "{text}: {message}");
    }
    let outcome = function.invoke(&json!({ "text": "{\"ok\":true}" }), TIMEOUT).await;
    assert_eq!(outcome, InvocationOutcome::Response(json!({ "ok": true })));
}

#[tokio::test]
async fn a_handler_load_error_reaches_lambda_unchanged() {
    let folder = runtimes_folder();
    for program in [python_program(&folder, "absent.handler"), node_program(&folder, "absent.handler")] {
        assert_native_error(program, "Runtime.ImportModuleError").await;
    }
}

mod java_start {
    use redeliver_tests::runtimes::java_program;

    #[tokio::test]
    async fn a_java_class_load_error_reaches_lambda_unchanged() {
        super::assert_native_error(
            java_program("functions.Absent::handle"),
            "java.lang.ClassNotFoundException",
        )
        .await;
        super::assert_native_error(
            java_program("functions.NeverLoads::handle"),
            "java.lang.ExceptionInInitializerError",
        )
        .await;
    }
}

async fn assert_native_error(program: LambdaProgram, error_type: &str) {
    let variables = program.variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let alone = LambdaFunction::new("alone", program.path.clone(), variables);
    let alone = start_error(alone.invoke(&json!({}), TIMEOUT).await);
    let with_us = start_error(function(program.with_layer(), []).invoke(&json!({}), TIMEOUT).await);
    assert_eq!(with_us["errorType"], error_type, "{with_us}");
    assert_eq!(with_us, alone);
}

/// Returns the error from a failed start, without the parts that vary.
fn start_error(outcome: InvocationOutcome) -> Value {
    let InvocationOutcome::Error(mut error) = outcome else { panic!("the function starts: {outcome:?}") };
    for name in ["stackTrace", "trace"] {
        error.as_object_mut().unwrap().remove(name);
    }
    error
}

async fn another_wrapper_script_still_runs_and_its_variables_reach_the_handler(language: Language) {
    let other = runtimes_folder().join("other-wrapper").display().to_string();
    let function = scripted_function(language, &new_journal(), &[("REDELIVER_NEXT_WRAPPER", other)]);
    let outcome = function.invoke(&json!({}), TIMEOUT).await;
    let expected = json!({ "event": {}, "other_wrapper": "was-here" });
    assert_eq!(outcome, InvocationOutcome::Response(expected), "{:?}", function.output_lines());
}

async fn a_sigterm_reaches_the_handler_and_ends_both_processes(language: Language) {
    let journal = new_journal();
    let function = scripted_function(language, &journal, &[]);
    assert!(matches!(function.invoke(&json!({}), TIMEOUT).await, InvocationOutcome::Response(_)));
    let ended = tokio::time::timeout(TIMEOUT, function.terminate_process()).await;
    assert_eq!(ended, Ok(Some(0)));
    let [process] = journal_processes(&journal)[..] else { panic!("one process") };
    wait_until_gone(process).await;
    let journal_text = std::fs::read_to_string(&journal).unwrap();
    assert_eq!(journal_text, format!("process {process}\nSIGTERM\n"), "the function can shut down cleanly");
}

#[tokio::test]
async fn a_function_that_ignores_sigterm_is_killed() {
    let journal = new_journal();
    // With this execution environment, the runtime ignores signals while it waits.
    let deaf = ("AWS_EXECUTION_ENV", "AWS_Lambda_python3.11".to_owned());
    let function = scripted_function(Language::Python, &journal, &[deaf]);
    assert!(matches!(function.invoke(&json!({}), TIMEOUT).await, InvocationOutcome::Response(_)));
    let ended = tokio::time::timeout(TIMEOUT, function.terminate_process()).await;
    assert_eq!(ended, Ok(Some(0)));
    wait_until_gone(journal_processes(&journal)[0]).await;
}

/// Waits until the process has ended: the kernel can take a moment to remove it.
async fn wait_until_gone(process: i32) {
    let forgotten = async {
        while is_alive(process) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, forgotten).await.is_ok(), "{process} is still there");
}

async fn a_message_that_times_out_during_a_restart_spends_no_attempt(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &["exit"]), scripted_message(1, &[])]).await;
    // A restart takes longer than half of the timeout, which is the time limit for an invocation's calls.
    let (timeout, restart_seconds) = if language == Language::Java { (8, 10) } else { (4, 3) };
    let timeout = Duration::from_secs(timeout);
    let mut setup = TopologySetup { timeout, ..TopologySetup::for_script(language, &journal) };
    setup.processor_variables.push(("RESTART_SECONDS", restart_seconds.to_string()));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    let [called] = &journal_calls(&journal, 1)[..] else { panic!("once: {}", running.full_log()) };
    assert!(
        called.starts_with("0 ") && called.ends_with(" ok NotStarted"),
        "{called}\n{}",
        running.full_log()
    );
    let [first, again] = &journal_calls(&journal, 0)[..] else { panic!("twice: {}", running.full_log()) };
    assert_eq!(first, "0 0 exit -");
    assert!(again.starts_with("1 "), "{again}");
    assert_eq!(journal_processes(&journal).len(), 2, "a starting process is not restarted");
}

#[tokio::test]
async fn snapstart_restore_hooks_run_before_the_first_invocation() {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(1, &["exit"])]).await;
    let mut setup = TopologySetup::for_script(Language::Python, &journal);
    let snap_start = [("_HANDLER", "snapshot.handler"), ("AWS_LAMBDA_INITIALIZATION_TYPE", "snap-start")];
    setup.processor_variables.extend(snap_start.map(|(name, value)| (name, value.to_owned())));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    let journal_text = std::fs::read_to_string(&journal).unwrap();
    let [first, second] = journal_processes(&journal)[..] else {
        panic!("{journal_text}\n{}", running.full_log())
    };
    let began = |process| format!("process {process}\nbefore snapshot\nafter restore\n");
    let [failed, done] = ["0 0 exit -", "1 0 ok Runtime.Exited"].map(|call| format!("{} {call}\n", id(1)));
    // The replacement process has no snapshot to restore, but its hooks create what it needs.
    assert_eq!(journal_text, [began(first), failed, began(second), done].concat(), "{}", running.full_log());
}

async fn ten_megabytes_of_handler_output_pass_through(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(1, &["loud"])]).await;
    let running = topology.start_functions(&TopologySetup::for_script(language, &journal));
    topology.wait_until_settled(&running).await;
    assert_eq!(journal_calls(&journal, 1), ["0 0 loud -"]);
    let line = "x".repeat(999);
    let is_printed_line = |text: &str| text.ends_with(&line);
    let lines = || {
        running
            .processor
            .function()
            .output_lines()
            .into_iter()
            .filter(|each| is_printed_line(&each.text))
            .count()
    };
    let all_came = async {
        while lines() < 10_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, all_came).await.is_ok(), "{} lines", lines());
}
