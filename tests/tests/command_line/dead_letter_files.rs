//! Files of dead letters: audited, edited, sent, and shown in the console.

use std::io::{BufRead as _, BufReader};

use super::*;

const FIVE_MESSAGES: &str = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":{"order":"A-1001"}}
{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000002"},"data":{"order":"A-1002"}}
{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000003"},"data":{"order":"A\ud800"}}
{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000004"},"data":{"order":"A-1004"}
{"metadata":{"message_id":"order-5"},"data":{"order":"A-1005"}}
"#;

/// Returns a file with the dead letters that `local` writes for five messages. All five fail, two of them as invalid.
fn dead_letters() -> ScratchFile {
    let (input, dead) =
        (ScratchFile::new("orders.jsonl", FIVE_MESSAGES.as_bytes()), ScratchFile::absent("dead.jsonl"));
    let local = ["local", input.name(), "--fail-permanently", "1", "--final-dlq", dead.name()];
    let output = run_redeliver(&local);
    assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
    dead
}

fn stdout_text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_file_and_standard_input_are_audited_like_a_queue() {
    let dead = dead_letters();
    let audited = checked_report(3, &run_redeliver(&["audit", dead.name(), "--format", "json"]));
    let by_type = serde_json::json!({ "INVALID_MESSAGE_FORMAT": 1, "INVALID_MESSAGE_SCHEMA": 1, "NON_RETRYABLE_ERROR": 3 });
    assert_eq!((&audited["by_error_type"], &audited["complete"]), (&by_type, &true.into()), "{audited}");
    let piped = run_with_input(&["audit", "-", "--format", "json"], dead.text().as_bytes());
    assert_eq!(checked_report(3, &piped)["by_error_type"], by_type);
    let table = stdout_text(&run_redeliver(&["audit", dead.name()]));
    assert!(table.contains("not JSON: EOF while parsing an object"), "{table}");
}

/// A typo must not look like a resolved cause.
#[test]
fn a_group_missing_from_the_causes_file_exits_8() {
    let (dead, causes) = (dead_letters(), ScratchFile::absent("causes.jsonl"));
    let audit = ["audit", dead.name(), "--known-causes", causes.name()];
    assert_eq!(run_redeliver(&audit).status.code(), Some(6));
    let before = causes.text();
    let unknown = run_redeliver(&[&audit[..], &["--resolved", "21d708b3fca00092"]].concat());
    assert_eq!((unknown.status.code(), causes.text()), (Some(8), before));
    let lacks = "does not contain group 21d708b3fca00092: run the command without --resolved first";
    assert!(stderr_text(&unknown).contains(lacks), "{}", stderr_text(&unknown));
}

#[test]
fn an_empty_region_variable_counts_as_unset() {
    for more in [&[][..], &["--region", ""]] {
        let mut status = program_command(&[&["status", "--queue", "orders"], more].concat());
        status.env("AWS_REGION", "").env_remove("AWS_DEFAULT_REGION").env_remove("AWS_ENDPOINT_URL");
        status.env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
        let output = status.output().expect("the program starts");
        assert!(
            stderr_text(&output).contains("no region is set: add --region, or set AWS_REGION"),
            "{output:?}"
        );
    }
}

/// The first message is given up immediately, the second an hour later. The ages stay the same after a save.
#[test]
fn ages_after_a_virtual_run_use_its_virtual_time() {
    let policy = br#"{"max_attempts":5,"backoff":{"kind":"fixed","delay_seconds":720,"jitter":"none"}}"#;
    let policy = ScratchFile::new("limit.json", policy);
    let input = format!("not JSON\n{}\n", FIVE_MESSAGES.lines().next().expect("the input has lines"));
    let (dead, saved) = (ScratchFile::absent("dead.jsonl"), ScratchFile::absent("saved.jsonl"));
    let local = ["local", "-", "--fail-rate", "1", "--policy", policy.name(), "--final-dlq", dead.name()];
    assert_eq!(run_with_input(&local, input.as_bytes()).status.code(), Some(0));
    let audits =
        [["audit", dead.name(), "--save", saved.name()], ["audit", saved.name(), "--color", "never"]];
    for audit in audits {
        let table = stdout_text(&run_redeliver(&audit));
        assert!(table.contains("The oldest has been here for 1h.\n"), "{table}");
        assert!(table.contains(", virtual time until 2026-01-01T01:00:00.000Z)"), "{table}");
    }
    let audited = checked_report(3, &run_redeliver(&["audit", saved.name(), "--format", "json"]));
    assert_eq!(audited["virtual_now"], "2026-01-01T01:00:00.000Z");
    assert_eq!((&audited["age"]["oldest_seconds"], &audited["total"]), (&3600.into(), &2.into()));
}

/// All the bodies in a new user's queue may lack an envelope.
#[test]
fn a_setting_that_invalidates_all_messages_has_its_own_exit_code() {
    let bodies = |count| ScratchFile::new("events.jsonl", "{\"event\":\"paid\"}\n".repeat(count).as_bytes());
    let (ten, nine) = (bodies(10), bodies(9));
    let dead = ScratchFile::absent("dead.jsonl");
    let words = "all 10 messages are invalid: if their bodies have no {metadata, data} envelope, set ";
    let output = run_redeliver(&["local", ten.name(), "--final-dlq", dead.name()]);
    let expected = format!("error: {words}--plain (ENVELOPE=optional)\n");
    assert_eq!((output.status.code(), stderr_text(&output)), (Some(3), expected));
    let output = run_redeliver(&["check", ten.name()]);
    let expected = format!("warning: {words}--plain (ENVELOPE=optional)\n");
    assert_eq!((output.status.code(), stderr_text(&output)), (Some(3), expected));
    let output = run_redeliver(&["audit", "-q", dead.name()]);
    let setting = "envelope: Envelope.OPTIONAL in the construct (ENVELOPE=optional)";
    assert_eq!(
        (output.status.code(), stderr_text(&output)),
        (Some(3), format!("warning: {words}{setting}\n"))
    );
    // No setting turns a dead letter into a message.
    let output = run_redeliver(&["check", dead.name()]);
    assert_eq!((output.status.code(), stderr_text(&output).as_str()), (Some(3), ""));
    // Some invalid messages among many dead letters do not indicate a wrong setting.
    let mixed =
        ScratchFile::new("mixed.jsonl", format!("{}{}", dead.text(), dead_letters().text()).as_bytes());
    let output = run_redeliver(&[
        "audit",
        "-q",
        mixed.name(),
        "--where",
        r#".error_type == "INVALID_MESSAGE_SCHEMA""#,
    ]);
    assert_eq!((output.status.code(), stderr_text(&output).as_str()), (Some(3), ""));
    for arguments in
        [&["local", ten.name(), "--plain"][..], &["local", nine.name()], &["check", ten.name(), "--plain"]]
    {
        let output = run_redeliver(arguments);
        assert_eq!((output.status.code(), stderr_text(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// If `-` meant the file, a redrive would send its dead letters instead of the piped ones.
#[test]
fn a_dash_reads_standard_input_despite_a_file_of_that_name() {
    let (dead, folder) = (dead_letters(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("-"), dead.text()).unwrap();
    let mut audit = program_command(&["audit", "-", "--format", "json"]);
    let output = audit.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(checked_report(0, &output)["total"], 0);
}

#[test]
fn a_filter_works_despite_a_lone_surrogate_and_a_text_body() {
    let dead = dead_letters();
    let count = |filter: &str, code| {
        let output = run_redeliver(&["audit", dead.name(), "--format", "json", "--where", filter]);
        let report = checked_report(code, &output);
        (report["total"].clone(), report["not_judged"]["messages"].clone(), stderr_text(&output))
    };
    let (total, not_judged, _) = count(r#".error_type == "NON_RETRYABLE_ERROR""#, 3);
    assert_eq!((total, not_judged), (3.into(), 0.into()));
    let (total, not_judged, stderr) = count(r#".body.data.order | startswith("A-")"#, 4);
    assert_eq!(
        (total, not_judged),
        (3.into(), 1.into()),
        "the surrogate's order has another prefix, and one body is a string"
    );
    assert!(stderr.contains("1 message skipped, since the filter failed (e.g. "), "{stderr}");
}

/// The threads that are still evaluating the filter end with the process.
#[test]
fn an_endless_filter_does_not_keep_the_command_running() {
    let dead = dead_letters();
    let endless = r#"def f: f; if .body | type == "string" then f else true end"#;
    let output = run_redeliver(&["audit", dead.name(), "--format", "json", "--where", endless]);
    let report = checked_report(4, &output);
    let not_judged = (&report["not_judged"]["messages"], &report["not_judged"]["reason"]);
    assert_eq!(not_judged, (&1.into(), &"the filter takes longer than 1 s on it".into()), "{report}");
}

#[test]
fn invalid_messages_edited_into_a_new_file_are_processed_by_the_loop() {
    let (dead, repaired) = (dead_letters(), ScratchFile::absent("repaired.jsonl"));
    let edit = r#"if .body | type == "string" then .body = .body + "}"
        elif .body.metadata.message_id == "order-5" then .body.metadata.message_id = "0191f3a2-7b1c-7d3e-8f00-000000000005"
        else . end"#;
    let redrive = ["redrive", dead.name(), "--edit", edit, "-o", repaired.name(), "--format", "json"];
    let planned = json_report(&run_redeliver(&redrive));
    assert_eq!(
        (&planned["planned"], &planned["edited"], repaired.path.exists()),
        (&5.into(), &2.into(), false)
    );
    let applied = json_report(&run_redeliver(&[&redrive[..], &["--apply"]].concat()));
    assert_eq!((&applied["sent"], &applied["staying"]), (&5.into(), &serde_json::json!([])), "{applied}");
    let new = serde_json::json!([{ "old": "order-5", "new": "0191f3a2-7b1c-7d3e-8f00-000000000005" }]);
    assert_eq!(applied["new_ids"]["examples"], new);
    let looped = json_report(&run_redeliver(&["local", repaired.name(), "--format", "json"]));
    assert_eq!((&looped["processed"], &looped["refused"]), (&5.into(), &0.into()), "{looped}");
    assert!(repaired.text().contains(r#""order":"A\ud800""#), "byte for byte");
    let again = run_redeliver(&[&redrive[..], &["--apply"]].concat());
    assert_eq!(again.status.code(), Some(1), "{}", stderr_text(&again));
    assert!(stderr_text(&again).contains("it already exists"), "{}", stderr_text(&again));
}

#[test]
fn bad_lines_are_reported_by_number_and_the_other_lines_are_counted() {
    let dead = dead_letters();
    let text = dead.text();
    let lines: Vec<_> = text.lines().collect();
    let mixed =
        format!("{}\nnonsense\n\n{}\n{}\n", lines[0], FIVE_MESSAGES.lines().next().expect("five"), lines[1]);
    let mixed = ScratchFile::new("mixed.jsonl", mixed.as_bytes());
    let output = run_redeliver(&["audit", mixed.name(), "--format", "json"]);
    let audited = checked_report(4, &output);
    assert_eq!((&audited["total"], &audited["coverage"]["unreadable"]), (&2.into(), &2.into()));
    for reported in [
        format!("{}:2: left out: it is not valid JSON at column 2", mixed.name()),
        format!("{}:4: left out: it is a message, not a dead letter", mixed.name()),
    ] {
        assert!(stderr_text(&output).contains(&reported), "{reported} in {}", stderr_text(&output));
    }
}

#[test]
fn a_file_without_dead_letters_is_refused_with_a_remedy() {
    let dead = dead_letters();
    let (orders, folder) =
        (ScratchFile::new("orders.jsonl", FIVE_MESSAGES.as_bytes()), tempfile::tempdir().expect("a folder"));
    let folder = folder.path().to_str().expect("UTF-8");
    for (arguments, code, expected) in [
        (&["audit", orders.name()][..], 1, "no line is a dead letter"),
        (&["audit", "absent.jsonl"], 1, "absent.jsonl: cannot be read: No such file"),
        (&["audit", folder], 1, "cannot be read: Is a directory"),
        (&["audit", dead.name(), "--queue", "q"], 2, "cannot be used with"),
        (&["purge", dead.name(), "--where", "true", "--backup", "b"], 2, "unexpected argument"),
        (&["redrive", dead.name()], 2, "name the destination: --to QUEUE, or -o FILE"),
        (&["redrive", dead.name(), "-o", dead.name()], 1, "it already exists"),
        (&["redrive", dead.name(), "--stack", "s"], 2, "cannot be used with"),
        (
            &["send", "s3://letters/prod", "--backup", "--queue", "orders"],
            2,
            "with `redeliver audit s3://letters/prod --save FILE`, then send them with `redeliver redrive FILE --to QUEUE --apply`",
        ),
        (
            &["redrive", "s3://letters/prod", "--to", "orders", "--apply"],
            2,
            "with `redeliver audit s3://letters/prod --save FILE`, then send them with `redeliver redrive FILE --to QUEUE --apply`",
        ),
        (&["redrive", dead.name(), "--since", "2d", "-o", "new.jsonl"], 2, "unexpected argument '--since'"),
        (&["console", "absent.jsonl"], 1, "absent.jsonl: cannot be read: No such file"),
        (&["console", "-"], 1, "can be read only once"),
        (&["console", orders.name()], 1, "no line is a dead letter"),
        (&["console", dead.name(), "--queue", "q"], 2, "cannot be used with"),
    ] {
        let output = run_redeliver(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr_text(&output));
        assert!(stderr_text(&output).contains(expected), "{arguments:?}: {}", stderr_text(&output));
    }
}

/// The console works without AWS, which these tests do not have.
#[test]
fn the_console_shows_a_file_without_queue_actions() {
    let dead = dead_letters();
    let mut console = program_command(&["console", dead.name()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut link = String::new();
    BufReader::new(console.stdout.take().expect("the stream is piped"))
        .read_line(&mut link)
        .expect("the console prints its link");
    let pages = std::panic::catch_unwind(|| visit_console(link.trim()));
    console.kill().and_then(|()| console.wait()).expect("the program ends");
    let [letters, filtered, pause] = pages.expect("the console responds");
    assert!(letters.contains("5 dead letters"), "{letters}");
    for offered in ["Plan to", "Refresh", ">Pause<", ">Plans<", ">Now<"] {
        assert!(!letters.contains(offered), "{offered} in {letters}");
    }
    assert!(filtered.contains("<strong>3</strong> of 5 dead letters in"), "{filtered}");
    assert!(pause.contains("A file can only be shown"), "{pause}");
}

#[test]
#[cfg(unix)]
fn a_console_exits_130_on_ctrl_c_and_0_on_sigterm() {
    let dead = dead_letters();
    for (signal, code) in [("INT", 130), ("TERM", 0)] {
        let mut console = program_command(&["console", "-q", dead.name()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        // The console handles signals before it prints its link.
        let mut output = BufReader::new(console.stdout.take().expect("the stream is piped"));
        output.read_line(&mut String::new()).expect("the console prints its link");
        let kill = Command::new("sh").args(["-c", &format!("kill -{signal} {}", console.id())]).status();
        assert!(kill.expect("the shell runs").success());
        assert_eq!(console.wait().expect("the program ends").code(), Some(code), "{signal}");
    }
}

/// Returns the list of dead letters once it is loaded, a fragment of it, and a page that exists only for queues.
fn visit_console(link: &str) -> [String; 3] {
    let (origin, _) = link.split_once("/?").expect("a link with a token");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client =
            reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let entered = client.get(link).send().await.expect("the console responds");
        let cookie = entered.headers()[reqwest::header::SET_COOKIE].to_str().expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let get = async |path: &str| {
            let request = client.get(format!("{origin}{path}")).header(reqwest::header::COOKIE, &cookie);
            request.send().await.expect("the console responds").text().await.expect("the body is text")
        };
        let looked = async {
            loop {
                let page = get("/0/letters").await;
                if page.contains("<h2>5 messages<") {
                    return page;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let letters = tokio::time::timeout(PATIENCE, looked).await.expect("the console reads the file");
        let filter = "/0/letters?where=.error_type%20%3D%3D%20%22NON_RETRYABLE_ERROR%22";
        [letters, get(filter).await, get("/0/pause").await]
    })
}
