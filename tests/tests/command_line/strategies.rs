//! `redeliver local` with each strategy.

use super::*;

const ONE_MESSAGE: &[u8] =
    br#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{"n":1e400}}"#;

#[test]
fn a_two_hour_delay_takes_seven_hops_and_never_ends_early() {
    let policy = ScratchFile::new(
        "long.json",
        br#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#,
    );
    let arguments = ["local", "-", "--fail-first", "2", "--policy", policy.name(), "--format", "json"];
    let report = json_report(&run_with_input(&arguments, ONE_MESSAGE));
    assert_eq!(
        (&report["processed"], &report["retries"], &report["hops"]),
        (&1.into(), &2.into(), &14.into())
    );
    assert_eq!(report["seconds"], 14_400.0);
}

#[test]
fn the_report_lists_circuit_breaker_events() {
    let policy = ScratchFile::new("breaker.json", br#"{"circuit_breaker":{"opens_on":["*"]}}"#);
    let arguments = ["local", "-", "--fail-first", "1", "--policy", policy.name()];
    let message = |n: usize| {
        let id = format!("0191f3a2-7b1c-7d3e-8f00-{n:012}");
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{}}}}"#) + "\n"
    };
    let ten: String = (0..10).map(message).collect();
    // Every error counts towards an outage, so no attempt is spent until the hold budget is used up.
    let with_format = [&arguments[..], &["--format", "json"]].concat();
    let report = json_report(&run_with_input(&with_format, ten.as_bytes()));
    assert_eq!(
        [&report["holds"], &report["probes"], &report["retries"], &report["processed"]],
        [&1507.into(), &617.into(), &0.into(), &Value::from(0)]
    );
    let table = String::from_utf8(run_with_input(&arguments, ten.as_bytes()).stdout).unwrap();
    for row in ["\n holds                         1,507\n", "\n   probes of an open circuit     617\n"] {
        assert!(table.contains(row), "{row} in {table}");
    }
}

#[test]
fn a_visibility_retry_stays_on_its_queue_and_is_explained() {
    let policy = ScratchFile::new(
        "visibility.json",
        br#"{"max_attempts":2,"long_delays":true,"backoff":{"kind":"schedule","delays_seconds":[40,7200],"jitter":"none"}}"#,
    );
    let dead = ScratchFile::absent("dead-visibility.jsonl");
    let arguments = [
        "local",
        "-",
        "--strategy",
        "visibility",
        "--fail-rate",
        "1",
        "--policy",
        policy.name(),
        "--final-dlq",
        dead.name(),
        "--format",
        "json",
    ];
    let report = json_report(&run_with_input(&arguments, ONE_MESSAGE));
    assert_eq!((&report["retries"], &report["hops"]), (&2.into(), &0.into()));
    assert_eq!(report["seconds"], 7240.0);
    let requests = &report["requests"];
    assert_eq!(requests["ChangeMessageVisibilityBatch"], 2);
    assert_eq!(requests["SendMessageBatch"], 3, "the producer's, the verdict's and the final record's");
    let record: Value = serde_json::from_str(&dead.text()).unwrap();
    assert_eq!(record["body"].as_str().map(str::as_bytes), Some(ONE_MESSAGE), "byte for byte");
    let document: Value = serde_json::from_str(record["attributes"]["DeadLetter"].as_str().unwrap()).unwrap();
    assert_eq!((&document["stage"], &document["attempts"]), (&"message-processor".into(), &2.into()));
}

#[test]
fn a_failed_asynchronous_invocation_waits_and_is_retried() {
    let policy = ScratchFile::new(
        "async.json",
        br#"{"max_attempts":5,"backoff":{"kind":"fixed","delay_seconds":2000,"jitter":"none"}}"#,
    );
    let run = |failing: [&str; 2], input: &[u8], dead: &ScratchFile| {
        let [fail, how] = failing;
        let arguments = [
            "local",
            "-",
            "--strategy",
            "async-retry",
            fail,
            how,
            "--policy",
            policy.name(),
            "--final-dlq",
            dead.name(),
            "--format",
            "json",
        ];
        run_with_input(&arguments, input)
    };
    let none = ScratchFile::absent("dead-async-none.jsonl");
    let twice = checked_report(5, &run(["--fail-first", "2"], b"[1e400]\nnot JSON\n", &none));
    assert_eq!((&twice["sent"], &twice["refused"], &twice["processed"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!((&twice["retries"], &twice["hops"]), (&2.into(), &6.into()), "900 s, 900 s and 200 s each");
    assert_eq!(twice["seconds"], 4000.0);

    let dead = ScratchFile::absent("dead-async.jsonl");
    let always = json_report(&run(["--fail-rate", "1"], b"[1e400]", &dead));
    assert_eq!(
        (&always["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"], &always["retries"]),
        (&1.into(), &5.into())
    );
    let record: Value = serde_json::from_str(&dead.text()).unwrap();
    let body = record["body"].as_str().unwrap();
    assert!(body.contains(r#""_original_payload":[1e400]}"#), "{body}");
    let document: Value = serde_json::from_str(record["attributes"]["DeadLetter"].as_str().unwrap()).unwrap();
    assert_eq!((&document["stage"], &document["attempts"]), (&"async-retry-handler".into(), &5.into()));
}
