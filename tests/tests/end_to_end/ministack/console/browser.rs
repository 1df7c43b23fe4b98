//! A person's actions in the console, in a real browser. Their effects are counted in the queues.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use redeliver_tests::settings::{
    PATIENCE, debug_binary, free_address, target_dir, venv_file, workspace_root,
};
use redeliver_tests::sqs::REGION;
use redeliver_tests::topology::TestTopology;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::{
    EMULATOR, HOSTILE, LARGE_MESSAGE, RunningConsole, console_topology, dead_letter, fill_dlq, new_folder,
};

/// Returns the number of copies and the body of each message in the source queue, by message number; they stay in
/// flight there.
async fn messages_sent_back(topology: &TestTopology) -> BTreeMap<u64, (u32, String)> {
    let mut found = BTreeMap::<u64, (u32, String)>::new();
    loop {
        let request = topology.client.receive_message().queue_url(&topology.source.url);
        let request = request.max_number_of_messages(10).visibility_timeout(3600);
        let messages = request.send().await.unwrap().messages.unwrap_or_default();
        if messages.is_empty() {
            return found;
        }
        for message in messages {
            let text = message.body.unwrap();
            let body: Value = serde_json::from_str(&text).unwrap();
            found.entry(body["data"]["n"].as_u64().unwrap()).or_insert((0, text)).0 += 1;
        }
    }
}

impl RunningConsole {
    /// Performs a task in a browser as a person would, and returns what was found.
    async fn run_task(&self, task: &str, mut given: Value) -> Value {
        given["pictures"] = json!(target_dir().join("console"));
        let mut command = Command::new("node");
        command.arg("run.mjs").args([&self.link, task, &given.to_string()]);
        command.current_dir(workspace_root().join("tests/console")).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await.expect("the browser finishes").unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{task}: {reported}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{task}: {reported}"))
    }

    /// Returns the files with this name prefix in the console's folder.
    fn files(&self, prefix: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        entries.filter(named).collect()
    }
}

/// Creates a deployment's resources other than its queues: a function with its mapping, an alarm and metrics.
async fn deploy_functions(name: &str) {
    let mut command = Command::new(venv_file("bin/python"));
    command.arg(workspace_root().join("tests/console/deployment.py")).args([
        &EMULATOR.endpoint_url(),
        REGION,
        name,
    ]);
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn console_pages_are_accessible_in_both_themes_and_by_keyboard() {
    let topology = console_topology().await;
    let numbers: Vec<_> = (0..40).chain([LARGE_MESSAGE]).collect();
    let ids = fill_dlq(&topology, &numbers).await;
    // The console discovers these queues by name, like a deployment's.
    let (_, name) = topology.final_dlq.url.rsplit_once('/').unwrap();
    let [prefix, stage, ..] = name.split('-').collect::<Vec<_>>()[..] else { panic!("{name}") };
    deploy_functions(&format!("{prefix}-{stage}")).await;
    let more = ["--prefix", prefix, "--stage", stage, "--read-only", "--fleet"];
    let console = RunningConsole::start_on(&EMULATOR.endpoint_url(), &new_folder(), &more).await;

    console.run_task("looksAround", json!({})).await;
    let found = console.run_task("filtersByKeyboard", json!({"text": "no json"})).await;
    assert!(found["words"].as_str().unwrap().starts_with("4 of 41 dead letters in "), "{found}");
    assert_eq!(found["shared"], found["words"], "the filter is in the address");
    assert!(found["wrong"].as_str().unwrap().contains("filter"), "{found}");

    let hostile = console
        .run_task("readsHostileTexts", json!({"ids": [ids[&0], ids[&1], ids[&2], ids[&LARGE_MESSAGE]]}))
        .await;
    let seen = hostile["seen"].as_array().unwrap();
    assert_eq!(seen[0]["masked"], "<masked text of 39 bytes>");
    assert_eq!(seen[0]["revealed"], format!("no JSON {} 0", HOSTILE[0]));
    assert!(seen[1]["masked"].as_str().unwrap().contains("\"note\": \"<masked string>\""), "{seen:?}");
    assert!(seen[1]["revealed"].as_str().unwrap().contains(r"\u202eturned"), "{seen:?}");
    assert!(seen[3]["bytes"].as_u64().unwrap() > 1_000_000);

    let fleet = console
        .run_task("looksAtTheFleet", json!({"fleet": true, "dlq": topology.final_dlq.arn.rsplit(':').next()}))
        .await;
    let [retention] = &fleet["findings"].as_array().unwrap()[..] else { panic!("{fleet}") };
    assert!(retention.as_str().unwrap().starts_with("its retention is 4d, and "), "{fleet}");
    assert!(fleet["row"].as_str().unwrap().contains("-dead-letters (alarm)"), "{fleet}");
    let buttons = console.run_task("onlyReads", json!({})).await;
    assert_eq!(buttons, json!({"buttons": ["Filter"]}));
    // The console reads the queue again in the background and then returns all messages.
    let give_up = Instant::now() + PATIENCE;
    loop {
        let depth = topology.final_dlq.message_counts(&topology.client).await;
        if depth == [41, 0, 0] {
            break;
        }
        assert!(Instant::now() < give_up, "{depth:?}");
        sleep(Duration::from_millis(100)).await;
    }

    let console = RunningConsole::start_on(&EMULATOR.endpoint_url(), &new_folder(), &more[..4]).await;
    let switched = console.run_task("pausesAndResumes", json!({})).await;
    let line = format!("{prefix}-{stage}-message-processor at {prefix}-{stage}-source");
    // This deployment has only one mapping, but the page also has lines for the other queues.
    let first_line = |name: &str| switched[name].as_str().and_then(|words| words.lines().next());
    let expected = [format!("{line}: Disabled"), format!("{line}: Enabled")];
    assert_eq!([first_line("paused"), first_line("resumed")], expected.each_ref().map(|line| Some(&**line)));
}

/// Cookies ignore ports, and every port of 127.0.0.1 is the same site.
#[tokio::test]
async fn a_page_on_another_port_cannot_read_or_change_the_console() {
    let topology = console_topology().await;
    fill_dlq(&topology, &[1]).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;
    let found = console.run_task("visitsAnotherPort", json!({})).await;
    for (name, count) in [("cookies", 3), ("referrers", 3), ("read", 3)] {
        assert_eq!(found[name], json!(vec![""; count]), "{name}");
    }
    let refused = "Another page requested this address. Copy the link that `redeliver console` printed into the browser's \
                   address bar.";
    for way in ["linked", "posted"] {
        assert!(found[way].as_str().unwrap().contains(refused), "{way}: {found}");
    }
    // The console may still be reading the message.
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await.iter().sum::<u64>(), 1);
    assert_eq!(topology.source.message_counts(&topology.client).await, [0, 0, 0]);
}

#[tokio::test]
async fn repeated_clicks_redrive_edit_and_delete_once() {
    let topology = console_topology().await;
    let ids = fill_dlq(&topology, &(0..40).collect::<Vec<_>>()).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;

    assert_eq!(console.run_task("plansTheFirstCause", json!({})).await, json!({"keys": 8}));
    let noted = console.run_task("notesACause", json!({"note": "ticket 7"})).await;
    assert!(noted["last"].as_str().unwrap().contains("known: ticket 7"), "known ones come last: {noted}");
    let edited =
        console.run_task("editsOne", json!({"id": ids[&6], "from": "\"eur\"", "to": "\"EUR\""})).await;
    assert_eq!(
        edited["said"],
        json!([
            "It would stay: the edit is refused: the body is not JSON: EOF while parsing an object at line 1 column 1",
            "It would stay: the edit is refused: it changes /metadata/message_id, which cannot be changed",
            "The edited message can be sent back."
        ])
    );
    let sent = console.run_task("sendsBack", json!({"type": "RETRY_ATTEMPT_EXCEEDED"})).await;
    assert_eq!(sent["outcome"], "sent back\t20\nin the plan\t20");
    let deleted = console.run_task("deletes", json!({"type": "MESSAGE_EXPIRED"})).await;
    assert_eq!(deleted["outcome"], "deleted\t4\nin the plan\t4");

    let found = messages_sent_back(&topology).await;
    let expected = (0..40).filter(|n| *n == 6 || (1..6).contains(&(n % 10)));
    assert_eq!(
        found.iter().map(|(n, (count, _))| (*n, *count)).collect::<Vec<_>>(),
        expected.map(|n| (n, 1)).collect::<Vec<_>>()
    );
    let (_, before) = (dead_letter(6).0, &found[&6].1);
    assert!(
        before.contains("\"currency\":\"EUR\"") && before.contains("\"redrive_generation\":1"),
        "{before}"
    );
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [15, 0, 0]);
    let backups = console.files("redeliver-deleted-");
    assert_eq!(backups.len(), 1);
    assert_eq!(std::fs::read_to_string(&backups[0]).unwrap().lines().count(), 4);
    let theirs = redeliver_testing::foreign::fixture_message("lambda-destination").body;
    topology
        .client
        .send_message()
        .queue_url(&topology.final_dlq.url)
        .message_body(theirs)
        .send()
        .await
        .unwrap();
    let refreshed = console.run_task("refreshes", json!({"cause": "LAMBDA_DESTINATION"})).await;
    assert_eq!(
        refreshed["new"],
        json!(["orders: OrderLocked: order 7 is locked (RetriesExhausted)"]),
        "{refreshed}"
    );
    assert!(refreshed["row"].as_str().unwrap().contains("LAMBDA_DESTINATION"), "{refreshed}");
    console.run_task("leavesInTime", json!({})).await;
    assert_eq!(console.files("redeliver-plan-").len(), 3, "no partial file is left");
}

#[tokio::test]
async fn a_resolved_cause_reappears_with_a_newer_message() {
    let topology = console_topology().await;
    fill_dlq(&topology, &[1, 2, 6]).await;
    let folder = new_folder();
    let causes = folder.join("causes.jsonl");
    let more = ["--known-causes", causes.to_str().unwrap()];
    let console = RunningConsole::start(&topology, &folder, &more).await;
    let resolved = console.run_task("resolvesACause", json!({"by": "orders:42"})).await;
    let reported = resolved["said"].as_str().unwrap();
    assert!(reported.ends_with(" by orders:42. It has not come back."), "{resolved}");
    let last = resolved["last"].as_str().unwrap();
    assert!(
        last.contains("RETRY_ATTEMPT_EXCEEDED resolved ") && last.contains(" by orders:42"),
        "{resolved}"
    );

    fill_dlq(&topology, &[3]).await;
    let back = console.run_task("seesThatItCameBack", json!({})).await;
    assert!(back["first"].as_str().unwrap().contains("came back\nRETRY_ATTEMPT_EXCEEDED"), "{back}");
    assert!(back["newer"].as_str().unwrap().starts_with("1 message of 3, sent here "), "{back}");
    assert_eq!(back["marks"], json!([]), "it is known again");
    let file = std::fs::read_to_string(&causes).unwrap();
    assert!(file.contains("\"note\":{") && !file.contains("resolved"), "{file}");
}

/// A tab stays open while the program dies and restarts.
#[tokio::test]
async fn an_open_page_keeps_its_input_and_reconnects_to_a_new_console() {
    let topology = console_topology().await;
    fill_dlq(&topology, &[1, 2]).await;
    let folder = new_folder();
    let port = free_address().port().to_string();
    let console = RunningConsole::start(&topology, &folder, &["--port", &port]).await;
    let command = RunningConsole::command(
        &EMULATOR.endpoint_url(),
        &folder,
        &["--queue", &topology.final_dlq.url, "--to", &topology.source.url, "--port", &port],
    );
    let words = command.as_std().get_args().map(|word| word.to_str().unwrap());
    let command: Vec<_> = [debug_binary("redeliver").to_str().unwrap().to_owned()]
        .into_iter()
        .chain(words.map(str::to_owned))
        .collect();
    let found = console
        .run_task(
            "noticesItsDeath",
            json!({
                "pid": console.process.id(),
                "command": command,
                "environment": {"XDG_RUNTIME_DIR": folder},
            }),
        )
        .await;
    let words = "The console has stopped. Start it again with the same command and port, and this page reconnects; \
                 otherwise open the link that it prints.";
    assert_eq!(
        found,
        json!({
            "words": words,
            "kept": "typed before it died",
            "still": "typed before it died",
            "isElsewhere": true,
        })
    );
}

/// Runs a program on a new terminal and copies its output unchanged.
const ON_A_TERMINAL: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

/// Every user on the host can see a process's arguments, so the link is in a private file.
#[tokio::test]
async fn the_opened_browser_signs_in_without_a_token_in_its_arguments() {
    let topology = console_topology().await;
    let folder = new_folder();
    let opener = "#!/bin/sh\ncp \"$1\" \"$(dirname \"$0\")/opened.html\"\nprintf %s \"$*\" > \"$(dirname \"$0\")/arguments\"\n";
    let program = folder.join("xdg-open");
    std::fs::write(&program, opener).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let queues = ["--queue", &topology.final_dlq.url, "--to", &topology.source.url, "--port", "0"];
    let open = async |more: &[&str]| {
        let inner = RunningConsole::command(&EMULATOR.endpoint_url(), &folder, &[&queues[..], more].concat());
        let mut command = Command::new(venv_file("bin/python"));
        command.args(["-c", ON_A_TERMINAL]).arg(inner.as_std().get_program()).args(inner.as_std().get_args());
        command.env_clear().envs([("PATH", path.as_str()), ("DISPLAY", ":0")]);
        command.env("XDG_RUNTIME_DIR", &folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let link = lines.next_line().await.unwrap().unwrap().trim_end().to_owned();
        let reported = lines.next_line().await.unwrap().unwrap();
        (RunningConsole { process, link, folder: folder.clone() }, reported)
    };
    let (console, reported) = open(&["--no-open"]).await;
    assert!(reported.contains("open this link; Ctrl-C ends the console"), "{reported}");
    drop(console);
    let (console, reported) = open(&[]).await;
    assert!(reported.contains("opening it in your browser; Ctrl-C ends the console"), "{reported}");
    let arguments = folder.join("arguments");
    let written = async {
        while !arguments.exists() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, written).await.expect("the opener runs");
    let entered = console.run_task("entersByAFile", json!({"file": folder.join("opened.html")})).await;
    assert_eq!(entered, json!({"address": "/0/"}));
    let arguments = std::fs::read_to_string(arguments).unwrap();
    let name = arguments.strip_prefix(folder.to_str().unwrap()).unwrap();
    assert!(name.starts_with("/redeliver-console-") && name.ends_with(".html"), "{arguments}");
}

#[tokio::test]
async fn an_edit_fixes_a_cause_and_deleted_messages_are_restored_once() {
    let topology = console_topology().await;
    fill_dlq(&topology, &(0..40).collect::<Vec<_>>()).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;

    let given = json!({"type": "NON_RETRYABLE_ERROR", "field": "data.currency", "old": "eur", "new": "EUR"});
    let edited = console.run_task("editsAll", given).await;
    assert_eq!(edited["said"], "changed, and can be sent back\t12\t");
    let diff = edited["diff"].as_str().unwrap();
    let changed = "-     \"currency\": \"eur\",\n+     \"currency\": \"EUR\",\n";
    assert!(diff.contains(changed), "{diff}");
    assert!(
        edited["command"].as_str().unwrap().starts_with("redeliver redrive --queue arn:aws:sqs:"),
        "{edited}"
    );
    assert_eq!(edited["outcome"], "sent back\t12\nedited\t12\nin the plan\t12");

    let deleted = console.run_task("deletes", json!({"type": "MESSAGE_EXPIRED"})).await;
    let restored = console.run_task("restores", json!({"plan": deleted["plan"]})).await;
    assert_eq!(restored["outcomes"], json!(vec!["restored\t4\nin the plan\t4"; 2]));

    let found = messages_sent_back(&topology).await;
    let expected = (0..40).filter(|n| n % 10 >= 6).map(|n| (n, 1)).collect::<Vec<_>>();
    assert_eq!(found.iter().map(|(n, (count, _))| (*n, *count)).collect::<Vec<_>>(), expected);
    for (n, (_, body)) in &found {
        let currency = if n % 10 == 9 { "eur" } else { "EUR" };
        assert!(body.contains(&format!("\"currency\":\"{currency}\"")), "{body}");
    }
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [24, 0, 0]);
}

#[tokio::test]
async fn a_restarted_console_finishes_a_killed_redrive() {
    let topology = console_topology().await;
    fill_dlq(&topology, &(0..500).filter(|n| (1..6).contains(&(n % 10))).collect::<Vec<_>>()).await;
    let folder = new_folder();
    let mut console = RunningConsole::start(&topology, &folder, &[]).await;
    // The redrive must still be running when it is killed, however slow the browser is.
    let started =
        console.run_task("startsSlowly", json!({"type": "RETRY_ATTEMPT_EXCEEDED", "rate": 1})).await;
    let [journal] = &console.files("redeliver-redrive-")[..] else { panic!("one journal") };
    while std::fs::read_to_string(journal).unwrap().matches("\"sent\"").count() < 10 {
        assert!(console.process.try_wait().unwrap().is_none(), "it ended too early");
        sleep(Duration::from_millis(20)).await;
    }
    console.process.kill().await.unwrap();

    // A plan with another journal would resend the messages that are in both queues.
    let console = RunningConsole::start(&topology, &folder, &[]).await;
    let finished = console.run_task("goesOn", json!({"plan": started["plan"]})).await;
    assert_eq!(finished["state"], "interrupted; open it to continue");
    let outcome = finished["outcome"].as_str().unwrap();
    assert!(
        outcome.starts_with("sent back\t250\n") && outcome.ends_with("\nin the plan\t250"),
        "both runs: {outcome}"
    );
    let found = messages_sent_back(&topology).await;
    assert_eq!(found.len(), 250);
    let copies: u32 = found.values().map(|(count, _)| count - 1).sum();
    assert!(copies <= 10, "at most one round of intents: {copies}");
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [0, 0, 0]);
}
