//! `redeliver local` against an endpoint, in real time.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::sqs::{TestQueue, emulator_client};

use super::*;

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn a_real_time_loop_on_an_endpoint_uses_only_its_own_queues() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let theirs = TestQueue::create(&client, "foreign-queue", None).await;
    let policy = br#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
    let policy = ScratchFile::new("endpoint-policy.json", policy);
    let url = endpoint.endpoint_url();
    let arguments = [
        "local",
        EXAMPLE,
        "--endpoint-url",
        &url,
        "--policy",
        policy.name(),
        "--fail-first",
        "1",
        "--format",
        "json",
    ];
    let arguments = arguments.map(str::to_owned);
    let output =
        tokio::task::spawn_blocking(move || run_redeliver(&arguments.each_ref().map(String::as_str)));
    let report = json_report(&output.await.expect("the program ends"));
    assert_eq!((&report["sent"], &report["processed"]), (&22.into(), &12.into()), "{report}");
    assert_eq!(report["dead_lettered"]["INVALID_MESSAGE_FORMAT"], 5, "{report}");
    assert_eq!(report["dead_lettered"]["INVALID_MESSAGE_SCHEMA"], 4, "{report}");
    assert_eq!((&report["unaccounted"], &report["waiting"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(queue_urls(&client).await, [theirs.url]);
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn an_interrupt_ends_the_loop_with_a_report_and_leaves_no_queue() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let policy = br#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#;
    let policy = ScratchFile::new("interrupt-policy.json", policy);
    let url = endpoint.endpoint_url();
    let arguments = ["local", EXAMPLE, "--endpoint-url", &url, "--policy", policy.name(), "--fail-rate", "1"];
    let retried = |[_, _, delayed]: [u64; 3]| delayed > 0;
    let output = interrupt_when_due(&client, &arguments, retried).await;
    assert_eq!(output.status.code(), Some(130), "{}", stderr_text(&output));
    assert!(stderr_text(&output).contains("still waiting"), "{}", stderr_text(&output));
    assert_eq!(queue_urls(&client).await, [""; 0]);
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn an_interrupt_during_sending_reports_the_count_and_deletes_the_queues() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let messages = ScratchFile::new("interrupt.jsonl", "{}\n".repeat(100_000).as_bytes());
    let url = endpoint.endpoint_url();
    let fed = |[visible, _, _]: [u64; 3]| visible > 0;
    let output = interrupt_when_due(&client, &["local", messages.name(), "--endpoint-url", &url], fed).await;
    assert_eq!(output.status.code(), Some(130), "{}", stderr_text(&output));
    assert!(stderr_text(&output).contains("interrupted"), "{}", stderr_text(&output));
    assert!(stderr_text(&output).contains("of 100000"), "{}", stderr_text(&output));
    assert_eq!(queue_urls(&client).await, [""; 0]);
}

/// Runs the program and, once `due` returns true for the depth of its source queue, interrupts it as Ctrl-C does.
async fn interrupt_when_due(client: &Client, arguments: &[&str], due: impl Fn([u64; 3]) -> bool) -> Output {
    let child = tokio::process::Command::from(program_command(arguments))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts");
    let process = child.id().expect("the command runs");
    let until_due = async {
        while !source_depth(client).await.is_some_and(&due) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_due).await.expect("its source queue fills");
    let signal = Command::new("sh").args(["-c", &format!("kill -INT {process}")]).status();
    assert!(signal.is_ok_and(|status| status.success()));
    child.wait_with_output().await.expect("the program ends")
}

/// Returns the depth of the program's source queue, or `None` before the queue exists.
async fn source_depth(client: &Client) -> Option<[u64; 3]> {
    let url = queue_urls(client).await.into_iter().find(|url| url.ends_with("-source"))?;
    Some(TestQueue { url, arn: String::new() }.message_counts(client).await)
}

async fn queue_urls(client: &Client) -> Vec<String> {
    client.list_queues().send().await.expect("the endpoint answers").queue_urls.unwrap_or_default()
}

/// Runs the program against an endpoint and returns its report.
async fn run_on_endpoint(endpoint: &Ministack, code: i32, arguments: &[&str]) -> Value {
    let url = endpoint.endpoint_url();
    let mut arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    arguments.extend(["--endpoint-url", &url, "--format", "json"].map(str::to_owned));
    let run = move || run_redeliver(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    checked_report(code, &tokio::task::spawn_blocking(run).await.expect("the program ends"))
}

/// Returns the n-th message, with an unpaired surrogate such as JavaScript can leave behind.
fn lone_surrogate_message(n: u32) -> String {
    format!(
        r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-{n:012}"}},"data":{{"n":{n},"name":"A\ud800"}}}}"#
    )
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn a_message_the_filter_fails_on_stays_and_matching_ones_are_processed() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let [dlq, source] =
        [TestQueue::create(&client, "dlq", None).await, TestQueue::create(&client, "source", None).await];
    for body in (0..10).map(lone_surrogate_message).chain(["text".to_owned()]) {
        client
            .send_message()
            .queue_url(&dlq.url)
            .message_body(body)
            .send()
            .await
            .expect("the message is sent");
    }
    let from = ["--queue", &dlq.url];
    let audited =
        run_on_endpoint(&endpoint, 4, &[&["audit"][..], &from, &["--where", ".body.data.n >= 0"]].concat())
            .await;
    assert_eq!((&audited["total"], &audited["not_judged"]["messages"]), (&10.into(), &1.into()), "{audited}");
    let backup = ScratchFile::absent("backup.jsonl");
    let purge = ["--where", ".body.data.n == 3", "--backup", backup.name(), "--apply"];
    let purged = run_on_endpoint(&endpoint, 5, &[&["purge"][..], &from, &purge].concat()).await;
    assert_eq!((&purged["deleted"], &purged["not_judged"]["messages"]), (&1.into(), &1.into()), "{purged}");
    let journal = ScratchFile::absent("journal.jsonl");
    let edit =
        [".body.data.n >= 0", "--edit", ".body.data.fixed = true", "--journal", journal.name(), "--apply"];
    let redrive =
        [&["redrive", "--to", &source.url][..], &from, &["--watch", "0s", "--where"], &edit].concat();
    let redriven = run_on_endpoint(&endpoint, 5, &redrive).await;
    assert_eq!((&redriven["sent"], &redriven["edited"]), (&9.into(), &9.into()), "{redriven}");
    let why = "the filter cannot judge it: cannot index a value with another";
    assert_eq!(
        (&redriven["staying"][0]["reason"], &redriven["staying"][0]["count"]),
        (&why.into(), &1.into())
    );
    assert_eq!(
        (dlq.message_counts(&client).await, source.message_counts(&client).await),
        ([1, 0, 0], [9, 0, 0])
    );
    let sent = client.receive_message().queue_url(&source.url).send().await.expect("the endpoint answers");
    let body = sent.messages()[0].body().expect("the message has a body");
    assert!(body.contains(r#""name":"A\ud800","fixed":true}"#), "{body}");
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn dead_letters_from_a_file_are_edited_and_sent_once() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let [dlq, source] =
        [TestQueue::create(&client, "dlq", None).await, TestQueue::create(&client, "source", None).await];
    let broken: Vec<_> = (0..3)
        .map(|n| {
            lone_surrogate_message(n).strip_suffix('}').expect("the message ends with a brace").to_owned()
        })
        .collect();
    for body in &broken {
        client
            .send_message()
            .queue_url(&dlq.url)
            .message_body(body)
            .send()
            .await
            .expect("the message is sent");
    }
    let backup = ScratchFile::absent("backup.jsonl");
    let purge = ["purge", "--queue", &dlq.url, "--where", "true", "--backup", backup.name(), "--apply"];
    assert_eq!(run_on_endpoint(&endpoint, 0, &purge).await["deleted"], 3);
    let journal = ScratchFile::absent("journal.jsonl");
    let edit = ["--edit", r#".body = .body + "}""#, "--journal", journal.name()];
    let redrive = [&["redrive", backup.name(), "--to", &source.url][..], &edit].concat();
    assert_eq!(run_on_endpoint(&endpoint, 0, &redrive).await["planned"], 3);
    let apply = [&redrive[..], &["--apply"]].concat();
    for (sent, sent_before) in [(3, 0), (0, 3)] {
        let report = run_on_endpoint(&endpoint, 0, &apply).await;
        assert_eq!(
            (&report["sent"], &report["deleted_only"]),
            (&sent.into(), &sent_before.into()),
            "{report}"
        );
    }
    assert_eq!(source.message_counts(&client).await, [3, 0, 0]);
    let own = ["redrive", backup.name(), "--to", &dlq.url, "--endpoint-url", &endpoint.endpoint_url()]
        .map(str::to_owned);
    let refused = tokio::task::spawn_blocking(move || run_redeliver(&own.each_ref().map(String::as_str)));
    let refused = stderr_text(&refused.await.expect("the program ends"));
    assert!(
        refused.contains("names the queue that ") && refused.contains("name the source queue"),
        "{refused}"
    );
}

/// AWS's own redrive also does this, because a letter sent to another service's queue is lost to its own service.
#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn letters_from_a_shared_dlq_return_to_their_own_queues() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let dlq = TestQueue::create(&client, "shared-dlq", None).await;
    let policy = format!(r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":"1"}}"#, dlq.arn);
    let mut queues = Vec::new();
    for name in ["orders", "mails"] {
        let queue = TestQueue::create(&client, name, None).await;
        let set = client.set_queue_attributes().queue_url(&queue.url);
        set.attributes(QueueAttributeName::RedrivePolicy, &policy)
            .send()
            .await
            .expect("the attributes are set");
        client
            .send_message()
            .queue_url(&queue.url)
            .message_body(name)
            .send()
            .await
            .expect("the message is sent");
        for _ in 0..3 {
            let receive = client.receive_message().queue_url(&queue.url).visibility_timeout(0);
            receive.send().await.expect("the endpoint answers");
        }
        queues.push(queue);
    }
    let from = ["redrive", "--queue", &dlq.url, "--plain", "--watch", "0s"];
    let to = ["--to", &queues[0].url];
    let planned = run_on_endpoint(&endpoint, 0, &[&from[..], &to].concat()).await;
    let by_source = serde_json::json!({ (queues[0].arn.clone()): 1, (queues[1].arn.clone()): 1 });
    assert_eq!(planned["by_source"], by_source, "{planned}");
    let url = endpoint.endpoint_url();
    let forced = [&from[..], &to, &["--apply", "--endpoint-url", &url]].concat();
    let forced: Vec<_> = forced.into_iter().map(str::to_owned).collect();
    let run = move || run_redeliver(&forced.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = tokio::task::spawn_blocking(run).await.expect("the program ends");
    assert_eq!(refused.status.code(), Some(1), "{}", stderr_text(&refused));
    let sentence = "error: 1 dead letter did not come from orders, but from mails (1): leave out --to";
    assert!(stderr_text(&refused).contains(sentence), "{}", stderr_text(&refused));
    assert_eq!(dlq.message_counts(&client).await[0], 2, "nothing was sent");
    let journal = ScratchFile::absent("shared.jsonl");
    let apply = ["--journal", journal.name(), "--apply"];
    let sent = run_on_endpoint(&endpoint, 0, &[&from[..], &apply].concat()).await;
    assert_eq!((&sent["sent"], &sent["by_source"]), (&2.into(), &by_source), "{sent}");
    for (queue, body) in queues.iter().zip(["orders", "mails"]) {
        let receive = client.receive_message().queue_url(&queue.url).max_number_of_messages(10);
        let received = receive.send().await.expect("the endpoint answers").messages.unwrap_or_default();
        assert_eq!(received.iter().filter_map(|one| one.body()).collect::<Vec<_>>(), [body]);
        let _gone = std::fs::remove_file(format!("{}.{body}", journal.name()));
    }
}

/// The messages in a group are ordered, and the first ten hide the rest.
#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn a_fifo_redrive_works_in_rounds_and_reports_blocked_groups() {
    let endpoint = Ministack::start();
    let client = emulator_client(&endpoint.endpoint_url());
    let mut urls = Vec::new();
    for name in ["dlq.fifo", "source.fifo"] {
        let create = client.create_queue().queue_name(name).attributes(QueueAttributeName::FifoQueue, "true");
        urls.push(create.send().await.expect("the queue is created").queue_url.expect("the queue has a URL"));
    }
    for n in 0..35 {
        let send = client.send_message().queue_url(&urls[0]).message_group_id("one");
        let send = send.message_deduplication_id(n.to_string()).message_body(format!(r#"{{"n":{n}}}"#));
        send.send().await.expect("the message is sent");
    }
    let from = ["--queue", &urls[0]];
    let audited = run_on_endpoint(&endpoint, 4, &[&["audit"][..], &from].concat()).await;
    assert_eq!(
        (&audited["total"], &audited["coverage"]["approximate"]),
        (&10.into(), &35.into()),
        "{audited}"
    );
    let journals = [ScratchFile::absent("fifo-one.jsonl"), ScratchFile::absent("fifo-all.jsonl")];
    let redrive = ["redrive", from[0], from[1], "--to", &urls[1], "--plain", "--watch", "0s", "--apply"];
    let one = ["--journal", journals[0].name(), "--where", ".body.n == 30"];
    let url = endpoint.endpoint_url();
    let blocked = [&redrive[..], &one, &["--endpoint-url", &url]].concat();
    let blocked: Vec<_> = blocked.into_iter().map(str::to_owned).collect();
    let run = move || run_redeliver(&blocked.iter().map(String::as_str).collect::<Vec<_>>());
    let output = tokio::task::spawn_blocking(run).await.expect("the program ends");
    assert_eq!(output.status.code(), Some(4), "{}", stderr_text(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("The others are behind the first ten of 1 message group"), "{table}");
    assert!(!stderr_text(&output).contains("another program"), "{}", stderr_text(&output));
    let all =
        run_on_endpoint(&endpoint, 0, &[&redrive[..], &["--journal", journals[1].name()]].concat()).await;
    assert_eq!((&all["sent"], &all["complete"]), (&35.into(), &true.into()), "{all}");
}
