//! A record that breaks spends its own attempt, nobody else's; a process that breaks spends none; and nothing is lost.

use std::time::Duration;

use redeliver_tests::runtime_api::Outcome;
use redeliver_tests::topology::Setup;
use serde_json::json;

use super::{calls, final_records, journal, scripted, topology};

#[tokio::test]
async fn a_panic_in_one_record_of_ten_fails_that_record_only() {
    let (topology, journal) = (topology().await, journal());
    let script = |n: u32| if n == 4 { &["panic"][..] } else { &["ok"] };
    topology.send_all(&(0..10).map(|n| scripted(n, script(n))).collect::<Vec<_>>()).await;
    let running = topology.run(&Setup::scripted(&journal));
    topology.settle(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!(
        (first.records.len(), &first.outcome),
        (10, &Outcome::Response(json!({"batchItemFailures": []})))
    );
    for n in (0..10).filter(|n| *n != 4) {
        assert_eq!(calls(&journal, n), ["0 0 ok -"], "message {n}\n{}", running.log());
    }
    assert_eq!(calls(&journal, 4), ["0 0 panic -", "1 0 ok Panic"]);
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_hung_record_is_cut_off_at_the_deadline_and_those_not_started_spend_no_attempt() {
    let (topology, journal) = (topology().await, journal());
    topology.send([scripted(0, &["hang"]), scripted(1, &[]), scripted(2, &[])]).await;
    let mut setup = Setup { timeout: Duration::from_secs(4), ..Setup::scripted(&journal) };
    setup.processor_variables.push(("MAX_CONCURRENCY", "1".to_owned()));
    let running = topology.run(&setup);
    topology.settle(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!(first.outcome, Outcome::Response(json!({"batchItemFailures": []})), "{}", running.log());
    assert_eq!(calls(&journal, 0), ["0 0 hang -", "1 0 ok Timeout"]);
    for n in [1, 2] {
        assert_eq!(
            calls(&journal, n),
            ["0 1 ok NotStarted"],
            "message {n} was not called before, and lost no attempt"
        );
    }
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_killed_process_in_mid_batch_loses_nothing() {
    let (topology, journal) = (topology().await, journal());
    let script = |n: u32| if n == 0 { &["hang"][..] } else { &["ok"] };
    topology.send_all(&(0..10).map(|n| scripted(n, script(n))).collect::<Vec<_>>()).await;
    let running = topology.run(&Setup::scripted(&journal));
    running.processor.function().kill_in_mid_invocation(Duration::from_millis(500)).await;
    topology.settle(&running).await;

    let first = &running.processor.invocations()[0];
    assert_eq!((first.records.len(), first.failed.len(), &first.outcome), (10, 10, &Outcome::Died));
    assert_eq!(calls(&journal, 0), ["0 0 hang -", "0 0 ok Redrive"], "{}", running.log());
    for n in 1..10 {
        // At least once: what was done before the death, but not acknowledged, is done again.
        assert_eq!(calls(&journal, n), ["0 0 ok -", "0 0 ok Redrive"], "message {n}");
    }
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_handler_that_blocks_its_thread_until_lambda_kills_it_loses_nothing() {
    let (topology, journal) = (topology().await, journal());
    topology.send([scripted(0, &["block"])]).await;
    let running = topology.run(&Setup { timeout: Duration::from_secs(2), ..Setup::scripted(&journal) });
    topology.settle(&running).await;

    assert_eq!(running.processor.invocations()[0].outcome, Outcome::TimedOut, "{}", running.log());
    assert_eq!(calls(&journal, 0), ["0 0 block -", "0 0 ok Redrive"]);
    assert!(final_records(&topology).await.is_empty());
}

#[tokio::test]
async fn a_snooze_spends_no_attempt() {
    let (topology, journal) = (topology().await, journal());
    topology.send([scripted(0, &["snooze"])]).await;
    let running = topology.run(&Setup::scripted(&journal));
    topology.settle(&running).await;

    assert_eq!(calls(&journal, 0), ["0 0 snooze -", "0 1 ok Scripted.Snooze"], "{}", running.log());
}
