//! The same scenarios for a handler in each language: a failing record spends only its own attempt, a failing
//! process spends none, and nothing is lost.

use std::path::Path;
use std::time::Duration;

use aws_sdk_sqs::types::MessageAttributeValue;
use redeliver_tests::runtime_api::InvocationOutcome;
use redeliver_tests::runtimes::Language;
use redeliver_tests::settings::PATIENCE;
use redeliver_tests::topology::TopologySetup;
use serde_json::json;

use super::{
    final_records, id, is_alive, journal_calls, journal_processes, new_journal, new_topology,
    scripted_message,
};

const BATCH_POLICY: &str = r#"{
    "max_attempts": 2,
    "backoff": {"kind": "fixed", "delay_seconds": 1, "jitter": "none"},
    "non_retryable": ["Scripted.Permanent"]
}"#;

in_language!(
    rust,
    Language::Rust,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_that_blocks_its_thread_until_lambda_kills_it_loses_nothing,
    a_failed_message_with_ten_attributes_is_retried,
    a_record_whose_hand_off_is_refused_is_reported_and_redriven,
);
in_language!(
    python,
    Language::Python,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_process_exit_costs_only_the_current_message_an_attempt,
    a_failed_message_with_ten_attributes_is_retried,
    a_record_whose_hand_off_is_refused_is_reported_and_redriven,
);
in_language!(
    node,
    Language::Node,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_process_exit_costs_only_the_current_message_an_attempt,
    a_failed_message_with_ten_attributes_is_retried,
    a_record_whose_hand_off_is_refused_is_reported_and_redriven,
);
in_language!(
    os_only_program,
    Language::OsOnly,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_process_exit_costs_only_the_current_message_an_attempt,
    a_failed_message_with_ten_attributes_is_retried,
    a_record_whose_hand_off_is_refused_is_reported_and_redriven,
);
in_language!(
    python_batch,
    Language::PythonBatch,
    each_message_in_a_batch_has_its_own_outcome,
    a_hanging_batch_is_cut_off_as_a_whole,
    a_process_killed_mid_batch_loses_nothing,
    a_batch_whose_process_exits_is_retried_as_a_whole,
);
in_language!(
    node_batch,
    Language::NodeBatch,
    each_message_in_a_batch_has_its_own_outcome,
    a_hanging_batch_is_cut_off_as_a_whole,
    a_process_killed_mid_batch_loses_nothing,
    a_batch_whose_process_exits_is_retried_as_a_whole,
);

in_language!(
    java,
    Language::Java,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_process_exit_costs_only_the_current_message_an_attempt,
    running_out_of_memory_costs_only_the_current_message_an_attempt,
);
in_language!(java_pojo, Language::JavaPojo, each_message_in_a_batch_has_its_own_outcome);
in_language!(
    java_batch,
    Language::JavaBatch,
    each_message_in_a_batch_has_its_own_outcome,
    a_hanging_batch_is_cut_off_as_a_whole,
);
in_language!(
    go,
    Language::Go,
    each_message_in_a_batch_has_its_own_outcome,
    a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_process_killed_mid_batch_loses_nothing,
    a_handler_process_exit_costs_only_the_current_message_an_attempt,
    running_out_of_memory_costs_only_the_current_message_an_attempt,
);

/// Returns the language's name for an unexpected error.
fn unexpected_error(language: Language) -> &'static str {
    match language {
        Language::Rust => "Panic",
        // `lambda_runtime`'s name for every panic.
        Language::OsOnly => "&alloc::boxed::Box<dyn core::any::Any + core::marker::Send>",
        Language::Node | Language::NodeBatch => "RangeError",
        Language::Python | Language::PythonBatch => "RecursionError",
        Language::Java | Language::JavaPojo => "java.lang.IllegalStateException",
        // Lambda's class for a failed record has no field for a reason.
        Language::JavaBatch => UNNAMED,
        Language::Go => "errorString",
    }
}

/// The error for a record that was reported as failed without a reason.
const UNNAMED: &str = "BatchItemFailure";

/// Returns the setup for this language, with a short timeout for calls that hang.
fn short_timeout_setup(language: Language, journal: &Path) -> TopologySetup {
    // A JVM loads its classes during the first call.
    let seconds = if [Language::Java, Language::JavaBatch].contains(&language) { 10 } else { 4 };
    let mut setup = TopologySetup {
        timeout: Duration::from_secs(seconds),
        ..TopologySetup::for_script(language, journal)
    };
    if language == Language::Rust {
        // A user's own function gets one record at a time anyway.
        setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    }
    setup
}

async fn each_message_in_a_batch_has_its_own_outcome(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    let panic = unexpected_error(language);
    let names_reasons = panic != UNNAMED;
    let transient = if names_reasons { "Scripted.Transient" } else { UNNAMED };
    let script = |n: u32| match n {
        1 => &["transient"][..],
        2 => &["permanent"],
        3 => &["panic"],
        // A partial batch response cannot express a snooze.
        4 if language.is_batch() => &[],
        4 => &["snooze"],
        5 => &["transient", "transient", "transient"],
        _ => &[],
    };
    let mut messages: Vec<_> = (0..10).map(|n| scripted_message(n, script(n))).collect();
    messages[6] = "poison".to_owned();
    topology.send_all(&messages).await;
    let mut setup = TopologySetup::for_script(language, &journal);
    if language.is_batch() {
        // A batch handler can mark an error as permanent only by its type.
        setup.policy = BATCH_POLICY;
    }
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    let all_kept = InvocationOutcome::Response(json!({"batchItemFailures": []}));
    assert_eq!((first.records.len(), &first.outcome), (10, &all_kept), "{}", running.full_log());
    let [again, at_last] = [1, 2].map(|attempt| format!("{attempt} 0 transient {transient}"));
    let expected = |n: u32| match n {
        1 => vec!["0 0 transient -".to_owned(), format!("1 0 ok {transient}")],
        2 if !names_reasons => vec!["0 0 permanent -".to_owned(), format!("1 0 ok {UNNAMED}")],
        2 => vec!["0 0 permanent -".to_owned()],
        3 => vec!["0 0 panic -".to_owned(), format!("1 0 ok {panic}")],
        4 if language.is_batch() => vec!["0 0 ok -".to_owned()],
        4 => vec!["0 0 snooze -".to_owned(), "0 1 ok Scripted.Snooze".to_owned()],
        5 => vec!["0 0 transient -".to_owned(), again.clone(), at_last.clone()],
        6 => Vec::new(),
        _ => vec!["0 0 ok -".to_owned()],
    };
    for n in 0..10 {
        assert_eq!(journal_calls(&journal, n), expected(n), "message {n}\n{}", running.full_log());
    }
    let mut died: Vec<_> = final_records(&topology)
        .await
        .into_iter()
        .map(|record| {
            let cause = record.dead_letter["cause"]["type"].as_str().unwrap_or_default().to_owned();
            let id = record.body["metadata"]["message_id"].as_str().unwrap_or_default().to_owned();
            (id, record.error_type, cause)
        })
        .collect();
    died.sort();
    let died: Vec<_> =
        died.iter().map(|(id, reason, cause)| [id, reason, cause].map(String::as_str)).collect();
    let [second, fifth] = [2, 5].map(id);
    let mut expected = vec![
        ["", "INVALID_MESSAGE_FORMAT", died[0][2]],
        [&second, "NON_RETRYABLE_ERROR", "Scripted.Permanent"],
        [&fifth, "RETRY_ATTEMPT_EXCEEDED", transient],
    ];
    expected.retain(|[.., cause]| names_reasons || *cause != "Scripted.Permanent");
    assert_eq!(died, expected);
}

async fn a_hung_record_is_cut_off_and_unstarted_records_spend_no_attempt(language: Language) {
    assert_cut_off(language, "hang").await;
}

async fn a_handler_that_blocks_its_thread_is_cut_off_like_any_other(language: Language) {
    assert_cut_off(language, "block").await;
}

async fn assert_cut_off(language: Language, action: &str) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology
        .send_batch([scripted_message(0, &[action]), scripted_message(1, &[]), scripted_message(2, &[])])
        .await;
    let running = topology.start_functions(&short_timeout_setup(language, &journal));
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!(
        first.outcome,
        InvocationOutcome::Response(json!({"batchItemFailures": []})),
        "{}",
        running.full_log()
    );
    let [hung, again] = &journal_calls(&journal, 0)[..] else { panic!("twice: {}", running.full_log()) };
    assert_eq!(hung, &format!("0 0 {action} -"));
    assert_called_after("Timeout", 1, again);
    for n in [1, 2] {
        let [call] = &journal_calls(&journal, n)[..] else {
            panic!("message {n}, once: {}", running.full_log())
        };
        assert_called_after("NotStarted", 0, call);
    }
    assert!(final_records(&topology).await.is_empty());
    if language != Language::Rust {
        assert_replaced(&journal);
    }
}

/// Checks that the call succeeded on this attempt, after this error. On a busy machine, the record may not have been
/// started the first time.
fn assert_called_after(last: &str, attempt: u32, call: &str) {
    let words: Vec<_> = call.split(' ').collect();
    let [at, _, "ok", error] = words[..] else { panic!("{call}") };
    assert!(at == attempt.to_string() && [last, "NotStarted"].contains(&error), "{call}");
}

/// Checks that a second process has replaced the first.
fn assert_replaced(journal: &Path) {
    let processes = journal_processes(journal);
    assert_eq!(processes.len(), 2, "{processes:?}");
    // The first process was killed seconds ago, before its message came back.
    assert!(!is_alive(processes[0]), "the hung process is gone");
}

async fn a_hanging_batch_is_cut_off_as_a_whole(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &[]), scripted_message(1, &["hang"])]).await;
    let running = topology.start_functions(&short_timeout_setup(language, &journal));
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!(
        first.outcome,
        InvocationOutcome::Response(json!({"batchItemFailures": []})),
        "{}",
        running.full_log()
    );
    // There is no evidence that the first record was processed.
    for (n, action) in [(0, "ok"), (1, "hang")] {
        let [first, again] = &journal_calls(&journal, n)[..] else {
            panic!("message {n}, twice: {}", running.full_log())
        };
        assert_eq!(first, &format!("0 0 {action} -"));
        assert_called_after("Timeout", 1, again);
    }
    assert_replaced(&journal);
}

async fn a_handler_process_exit_costs_only_the_current_message_an_attempt(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    let scripts = [&["exit"][..], &[], &["signal"], &[], &["exit", "exit", "exit"], &[]];
    let messages: Vec<_> = (0..).zip(scripts).map(|(n, script)| scripted_message(n, script)).collect();
    topology.send_all(&messages).await;
    // A busy machine needs seconds to start each of three new processes.
    let timeout = Duration::from_secs(120);
    let running =
        topology.start_functions(&TopologySetup { timeout, ..TopologySetup::for_script(language, &journal) });
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    let all_kept = InvocationOutcome::Response(json!({"batchItemFailures": []}));
    assert_eq!((first.records.len(), &first.outcome), (6, &all_kept), "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 0), ["0 0 exit -", "1 0 ok Runtime.Exited"], "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 2), ["0 0 signal -", "1 0 ok Runtime.Exited"]);
    for n in [1, 3, 5] {
        assert_eq!(journal_calls(&journal, n), ["0 0 ok -"], "message {n}");
    }
    let ends = ["0 0 exit -", "1 0 exit Runtime.Exited", "2 0 exit Runtime.Exited"];
    assert_eq!(journal_calls(&journal, 4), ends);
    let [record] = &final_records(&topology).await[..] else { panic!("one has spent its attempts") };
    let cause = json!({
        "type": "Runtime.Exited",
        "message": "the function's process ended: exit status: 3",
        "function": "message-processor:$LATEST",
    });
    assert_eq!(
        (record.error_type.as_str(), &record.dead_letter["cause"]),
        ("RETRY_ATTEMPT_EXCEEDED", &cause)
    );
    // The first process, and a new one after each of the five exits except the last.
    assert_eq!(journal_processes(&journal).len(), 5, "{}", running.full_log());
}

async fn running_out_of_memory_costs_only_the_current_message_an_attempt(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology
        .send_batch([scripted_message(0, &[]), scripted_message(1, &["memory"]), scripted_message(2, &[])])
        .await;
    let timeout = Duration::from_secs(120);
    let running =
        topology.start_functions(&TopologySetup { timeout, ..TopologySetup::for_script(language, &journal) });
    topology.wait_until_settled(&running).await;

    let error = match language {
        Language::Java => "java.lang.OutOfMemoryError",
        _ => "Runtime.Exited",
    };
    assert_eq!(
        journal_calls(&journal, 1),
        ["0 0 memory -".to_owned(), format!("1 0 ok {error}")],
        "{}",
        running.full_log()
    );
    for n in [0, 2] {
        assert_eq!(journal_calls(&journal, n), ["0 0 ok -"], "message {n}");
    }
    // AWS's runtime for Java also exits after such an error.
    assert_eq!(journal_processes(&journal).len(), 2, "{}", running.full_log());
}

async fn a_batch_whose_process_exits_is_retried_as_a_whole(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &[]), scripted_message(1, &["exit"])]).await;
    let running = topology.start_functions(&TopologySetup::for_script(language, &journal));
    topology.wait_until_settled(&running).await;

    assert_eq!(journal_calls(&journal, 0), ["0 0 ok -", "1 0 ok Runtime.Exited"], "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 1), ["0 0 exit -", "1 0 ok Runtime.Exited"]);
    assert_eq!(journal_processes(&journal).len(), 2);
}

async fn a_process_killed_mid_batch_loses_nothing(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    // The last record hangs: a user's own function is called with one record at a time.
    let script = |n: u32| if n == 9 { &["hang"][..] } else { &[] };
    topology.send_all(&(0..10).map(|n| scripted_message(n, script(n))).collect::<Vec<_>>()).await;
    let running = topology.start_functions(&TopologySetup::for_script(language, &journal));
    let all_are_called = async {
        while (0..10).any(|n| journal_calls(&journal, n).is_empty()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let called = tokio::time::timeout(PATIENCE, all_are_called).await;
    assert!(called.is_ok(), "{}", running.full_log());
    running.processor.function().kill_process();
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!((first.records.len(), first.failed.len(), &first.outcome), (10, 10, &InvocationOutcome::Died));
    assert_eq!(journal_calls(&journal, 9), ["0 0 hang -", "0 0 ok Redrive"], "{}", running.full_log());
    for n in 0..9 {
        // Delivery is at least once: records processed but not acknowledged before the death are processed again.
        assert_eq!(journal_calls(&journal, n), ["0 0 ok -", "0 0 ok Redrive"], "message {n}");
    }
    assert!(final_records(&topology).await.is_empty());
}

async fn a_handler_that_blocks_its_thread_until_lambda_kills_it_loses_nothing(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &["block"])]).await;
    let timeout = Duration::from_secs(2);
    let running =
        topology.start_functions(&TopologySetup { timeout, ..TopologySetup::for_script(language, &journal) });
    topology.wait_until_settled(&running).await;

    assert_eq!(
        running.processor.invocations()[0].outcome,
        InvocationOutcome::TimedOut,
        "{}",
        running.full_log()
    );
    assert_eq!(journal_calls(&journal, 0), ["0 0 block -", "0 0 ok Redrive"]);
    assert!(final_records(&topology).await.is_empty());
}

async fn a_failed_message_with_ten_attributes_is_retried(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    let attribute = MessageAttributeValue::builder().data_type("String").string_value("x").build().unwrap();
    let ten = (0..10).map(|n| (format!("a{n}"), attribute.clone())).collect();
    let full = topology.client.send_message().queue_url(&topology.source.url);
    let full = full.message_body(scripted_message(0, &["transient"])).set_message_attributes(Some(ten));
    full.send().await.unwrap();
    let running = topology.start_functions(&TopologySetup::for_script(language, &journal));
    topology.wait_until_settled(&running).await;
    let first = &running.processor.invocations()[0];
    assert_eq!((first.records.len(), first.failed.len()), (1, 0), "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 0), ["0 0 transient -", "1 0 ok Scripted.Transient"]);
    assert!(final_records(&topology).await.is_empty());
}

async fn a_record_whose_hand_off_is_refused_is_reported_and_redriven(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(1, &["transient"]), scripted_message(2, &[])]).await;
    // A short timeout, because a refused send is retried for the rest of the invocation.
    let mut setup =
        TopologySetup { timeout: Duration::from_secs(4), ..TopologySetup::for_script(language, &journal) };
    setup.processor_variables.push(("INTERMEDIATE_DLQ_URL", format!("{}-gone", topology.intermediate.url)));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;
    let first = &running.processor.invocations()[0];
    assert_eq!((first.records.len(), first.failed.len()), (2, 1), "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 1), ["0 0 transient -", "0 0 ok Redrive"]);
    assert_eq!(journal_calls(&journal, 2), ["0 0 ok -"], "the other message is processed");
    assert!(final_records(&topology).await.is_empty());
}
