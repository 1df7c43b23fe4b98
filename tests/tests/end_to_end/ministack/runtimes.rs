//! The same handler in each language, under the same blows: a record that breaks spends its own attempt, nobody else's; a
//! process that breaks spends none; and nothing is lost.

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
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_that_blocks_its_thread_until_lambda_kills_it_loses_nothing,
    a_message_with_ten_attributes_whose_call_fails_is_called_again,
    a_hand_off_that_is_refused_is_reported_and_arrives_by_redrive,
);
in_language!(
    python,
    Language::Python,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other,
    a_message_with_ten_attributes_whose_call_fails_is_called_again,
    a_hand_off_that_is_refused_is_reported_and_arrives_by_redrive,
);
in_language!(
    node,
    Language::Node,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other,
    a_message_with_ten_attributes_whose_call_fails_is_called_again,
    a_hand_off_that_is_refused_is_reported_and_arrives_by_redrive,
);
in_language!(
    os_only,
    Language::OsOnly,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other,
    a_message_with_ten_attributes_whose_call_fails_is_called_again,
    a_hand_off_that_is_refused_is_reported_and_arrives_by_redrive,
);
in_language!(
    python_batch,
    Language::PythonBatch,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_batch_that_hangs_is_cut_off_as_a_whole,
    a_killed_process_in_mid_batch_loses_nothing,
    a_batch_whose_process_ends_comes_back_as_a_whole,
);
in_language!(
    node_batch,
    Language::NodeBatch,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_batch_that_hangs_is_cut_off_as_a_whole,
    a_killed_process_in_mid_batch_loses_nothing,
    a_batch_whose_process_ends_comes_back_as_a_whole,
);

in_language!(
    java,
    Language::Java,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other,
    a_handler_without_memory_costs_its_own_message_an_attempt_and_no_other,
);
in_language!(java_pojo, Language::JavaPojo, ten_messages_of_one_batch_have_ten_outcomes);
in_language!(
    java_batch,
    Language::JavaBatch,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_batch_that_hangs_is_cut_off_as_a_whole,
);
in_language!(
    go,
    Language::Go,
    ten_messages_of_one_batch_have_ten_outcomes,
    a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt,
    a_handler_that_blocks_its_thread_is_cut_off_like_any_other,
    a_killed_process_in_mid_batch_loses_nothing,
    a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other,
    a_handler_without_memory_costs_its_own_message_an_attempt_and_no_other,
);

/// The name in each language of an error that is not raised on purpose.
fn unexpected_error(language: Language) -> &'static str {
    match language {
        Language::Rust => "Panic",
        // As `lambda_runtime` says it of whatever panic.
        Language::OsOnly => "&alloc::boxed::Box<dyn core::any::Any + core::marker::Send>",
        Language::Node | Language::NodeBatch => "RangeError",
        Language::Python | Language::PythonBatch => "RecursionError",
        Language::Java | Language::JavaPojo => "java.lang.IllegalStateException",
        // Lambda's own class for a failed record has no place for a reason.
        Language::JavaBatch => UNNAMED,
        Language::Go => "errorString",
    }
}

/// The error of a record that is named without a reason.
const UNNAMED: &str = "BatchItemFailure";

/// The function of this language, with time enough for what must be cut off.
fn short(language: Language, journal: &Path) -> TopologySetup {
    // The first call of a JVM loads its classes.
    let seconds = if [Language::Java, Language::JavaBatch].contains(&language) { 10 } else { 4 };
    let mut setup = TopologySetup {
        timeout: Duration::from_secs(seconds),
        ..TopologySetup::for_script(language, journal)
    };
    if language == Language::Rust {
        // A user's own function gets its records one at a time in any case.
        setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    }
    setup
}

async fn ten_messages_of_one_batch_have_ten_outcomes(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    let panic = unexpected_error(language);
    let names_reasons = panic != UNNAMED;
    let transient = if names_reasons { "Scripted.Transient" } else { UNNAMED };
    let script = |n: u32| match n {
        1 => &["transient"][..],
        2 => &["permanent"],
        3 => &["panic"],
        // A partial batch response cannot say it of one record.
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
        // It says that an error is permanent by its type alone.
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

async fn a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt(language: Language) {
    is_cut_off(language, "hang").await;
}

async fn a_handler_that_blocks_its_thread_is_cut_off_like_any_other(language: Language) {
    is_cut_off(language, "block").await;
}

async fn is_cut_off(language: Language, action: &str) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology
        .send_batch([scripted_message(0, &[action]), scripted_message(1, &[]), scripted_message(2, &[])])
        .await;
    let running = topology.start_functions(&short(language, &journal));
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

/// The call that went well, at this attempt. A machine may be so busy that there was no time for it at first.
fn assert_called_after(last: &str, attempt: u32, call: &str) {
    let words: Vec<_> = call.split(' ').collect();
    let [at, _, "ok", error] = words[..] else { panic!("{call}") };
    assert!(at == attempt.to_string() && [last, "NotStarted"].contains(&error), "{call}");
}

/// One process is in the other's place.
fn assert_replaced(journal: &Path) {
    let processes = journal_processes(journal);
    assert_eq!(processes.len(), 2, "{processes:?}");
    // It was killed seconds ago, by the time that its message has come back.
    assert!(!is_alive(processes[0]), "what hung is gone");
}

async fn a_batch_that_hangs_is_cut_off_as_a_whole(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &[]), scripted_message(1, &["hang"])]).await;
    let running = topology.start_functions(&short(language, &journal));
    topology.wait_until_settled(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!(
        first.outcome,
        InvocationOutcome::Response(json!({"batchItemFailures": []})),
        "{}",
        running.full_log()
    );
    // There is no evidence that the first one was done.
    for (n, action) in [(0, "ok"), (1, "hang")] {
        let [first, again] = &journal_calls(&journal, n)[..] else {
            panic!("message {n}, twice: {}", running.full_log())
        };
        assert_eq!(first, &format!("0 0 {action} -"));
        assert_called_after("Timeout", 1, again);
    }
    assert_replaced(&journal);
}

async fn a_handler_whose_process_ends_costs_its_own_message_an_attempt_and_no_other(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    let scripts = [&["exit"][..], &[], &["signal"], &[], &["exit", "exit", "exit"], &[]];
    let messages: Vec<_> = (0..).zip(scripts).map(|(n, script)| scripted_message(n, script)).collect();
    topology.send_all(&messages).await;
    // A busy machine takes seconds for each of three new processes.
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
    // The first of all, and one after each of five ends but the last.
    assert_eq!(journal_processes(&journal).len(), 5, "{}", running.full_log());
}

async fn a_handler_without_memory_costs_its_own_message_an_attempt_and_no_other(language: Language) {
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
    // AWS's runtime for Java ends its process after such an error, too.
    assert_eq!(journal_processes(&journal).len(), 2, "{}", running.full_log());
}

async fn a_batch_whose_process_ends_comes_back_as_a_whole(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(0, &[]), scripted_message(1, &["exit"])]).await;
    let running = topology.start_functions(&TopologySetup::for_script(language, &journal));
    topology.wait_until_settled(&running).await;

    assert_eq!(journal_calls(&journal, 0), ["0 0 ok -", "1 0 ok Runtime.Exited"], "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 1), ["0 0 exit -", "1 0 ok Runtime.Exited"]);
    assert_eq!(journal_processes(&journal).len(), 2);
}

async fn a_killed_process_in_mid_batch_loses_nothing(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    // The last one: each that a function of one's own is called for waits for the one before it.
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
        // At least once: what was done before the death, but not acknowledged, is done again.
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

async fn a_message_with_ten_attributes_whose_call_fails_is_called_again(language: Language) {
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

async fn a_hand_off_that_is_refused_is_reported_and_arrives_by_redrive(language: Language) {
    let (topology, journal) = (new_topology().await, new_journal());
    topology.send_batch([scripted_message(1, &["transient"]), scripted_message(2, &[])]).await;
    // Short: a send that is refused is tried again for as long as the invocation has time.
    let mut setup =
        TopologySetup { timeout: Duration::from_secs(4), ..TopologySetup::for_script(language, &journal) };
    setup.processor_variables.push(("INTERMEDIATE_DLQ_URL", format!("{}-gone", topology.intermediate.url)));
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;
    let first = &running.processor.invocations()[0];
    assert_eq!((first.records.len(), first.failed.len()), (2, 1), "{}", running.full_log());
    assert_eq!(journal_calls(&journal, 1), ["0 0 transient -", "0 0 ok Redrive"]);
    assert_eq!(journal_calls(&journal, 2), ["0 0 ok -"], "its neighbour is done");
    assert!(final_records(&topology).await.is_empty());
}
