//! Message files: `check`, `send` and `local` accept the same files, and reject the same lines with the same errors.

mod endpoint;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use endpoint::start_endpoint;
use serde_json::Value;

const VALID: &str = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{}}"#;
const OTHER: &str = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ac"},"data":{}}"#;
const DOCUMENT: &str = "{\n  \"metadata\": {\n    \"message_id\": \"0191f3a2-7b1c-7d3e-8f00-0123456789ab\"\n  },\n  \"data\": {}\n}\n";

const EMPTY: &str = "the body is empty; SQS requires at least one character";
const NO_OBJECT: &str = "INVALID_MESSAGE_FORMAT not a JSON object";

/// A command's report on a file: the number of valid messages and the problems in the other lines, or the reason why
/// the file was rejected.
type LineFindings = (u64, Vec<(usize, String)>);
type FileVerdict = Result<LineFindings, String>;

fn run(arguments: &[&str], url: &str, input: Option<&[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_redeliver"))
        .args(arguments)
        .env_clear()
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_ACCESS_KEY_ID", "k")
        .env("AWS_SECRET_ACCESS_KEY", "s")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ENDPOINT_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that rejects its input does not read all of it.
    let _ = child.stdin.take().expect("it is piped").write_all(input.unwrap_or_default());
    child.wait_with_output().expect("the program ends")
}

/// Parses the findings in the output: `NAME:LINE: WORDS`.
fn parse_findings(text: &str, name: &str) -> Vec<(usize, String)> {
    let lines = text.lines().map(|line| line.trim_start_matches("warning: "));
    let parts = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split_once(": "));
    parts.filter_map(|(line, words)| Some((line.parse().ok()?, words.to_owned()))).collect()
}

fn verdict(output: &Output, name: &str, parse: impl Fn(&str) -> (u64, Vec<(usize, String)>)) -> FileVerdict {
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) {
        let words = reported.trim_end().strip_prefix(&format!("error: {name}: ")).unwrap_or(&reported);
        return Err(words.to_owned());
    }
    let (valid, mut invalid) = parse(str::from_utf8(&output.stdout).expect("UTF-8"));
    invalid.extend(parse_findings(&reported, name));
    invalid.sort();
    Ok((valid, invalid))
}

/// Returns each command's report on an input, read from a file or from standard input.
fn verdicts(input: &[u8], from_file: bool) -> [FileVerdict; 3] {
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let file = folder.path().join("input.jsonl");
    redeliver_dead_letters::files::replace_file(&file, input).expect("the temporary folder is writable");
    let file = file.to_str().expect("UTF-8");
    let (argument, name, piped) =
        if from_file { (file, file, None) } else { ("-", "standard input", Some(input)) };
    let (url, _requests) = start_endpoint(true);

    let check = run(&["check", argument], &url, piped);
    let mut check = verdict(&check, name, |said| {
        let valid =
            said.strip_prefix(&format!("{name}: ")).and_then(|said| said.split(' ').next()?.parse().ok());
        (valid.unwrap_or(0), parse_findings(said, name))
    });
    let queue = "http://127.0.0.1:9/123456789012/orders";
    let send = run(&["send", argument, "--queue", queue, "--format", "json"], &url, piped);
    let send = verdict(&send, name, |said| {
        let report: Value = serde_json::from_str(said).expect("a report");
        (report["planned"].as_u64().expect("a number"), Vec::new())
    });
    // `check` prints the number of messages only if it has no findings.
    if let (Ok((valid, found)), Ok((planned, _))) = (&mut check, &send)
        && !found.is_empty()
    {
        *valid = *planned;
    }
    let dead = folder.path().join("dead.jsonl");
    let dead_name = dead.to_str().expect("UTF-8");
    let local = run(&["local", argument, "--final-dlq", dead_name, "--format", "json"], &url, piped);
    let local = verdict(&local, name, |said| {
        let report: Value = serde_json::from_str(said).expect("a report");
        (report["processed"].as_u64().expect("a number"), dead_letters(&dead, input))
    });
    [check, send, local]
}

/// Returns the lines that were dead-lettered in the loop, with the reasons in their final records.
fn dead_letters(path: &Path, input: &[u8]) -> Vec<(usize, String)> {
    let input = String::from_utf8_lossy(input);
    let dead = std::fs::read_to_string(path).expect("it was written");
    let finding = |line: &str| {
        let record: Value = serde_json::from_str(line).expect("a final record");
        let body = record["body"].as_str().expect("a text");
        let number = input.lines().position(|line| line == body).map_or(1, |index| index + 1);
        let [code, details] =
            ["ErrorType", "ErrorDetails"].map(|name| record["attributes"][name].as_str().expect("a text"));
        (number, format!("{code} {details}"))
    };
    dead.lines().map(finding).collect()
}

#[test]
fn check_send_and_local_agree_on_each_file() {
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let array = format!("[\n{VALID},\n{OTHER}\n]\n");
    let long = format!("{VALID}\n{}\n{OTHER}", "x".repeat(1_048_577));
    let too_long = "1048577 bytes with its attributes; the SQS limit is 1048576";
    let rows: [(&str, Vec<u8>, FileVerdict); 19] = [
        ("one message", VALID.into(), Ok((1, vec![]))),
        ("lines", format!("{VALID}\n{OTHER}\n").into(), Ok((2, vec![]))),
        ("Windows lines", format!("{VALID}\r\n{OTHER}\r\n").into(), Ok((2, vec![]))),
        ("an empty file", vec![], Ok((0, vec![]))),
        ("an empty line", format!("{VALID}\n\n{OTHER}\n").into(), Ok((2, vec![(2, EMPTY.into())]))),
        ("an empty line at the end", format!("{VALID}\n\n").into(), Ok((1, vec![(2, EMPTY.into())]))),
        ("a document over several lines", DOCUMENT.into(), Ok((1, vec![]))),
        ("a Windows document over several lines", DOCUMENT.replace('\n', "\r\n").into(), Ok((1, vec![]))),
        ("empty lines around it", format!("\n{DOCUMENT}\n \n").into(), Ok((1, vec![]))),
        ("an array", format!("[{VALID}]").into(), Ok((1, vec![]))),
        ("an array over several lines", array.into(), Ok((2, vec![]))),
        ("a number", "1\n".into(), Ok((0, vec![(1, NO_OBJECT.into())]))),
        ("a line that is too long", long.into(), Ok((2, vec![(2, too_long.into())]))),
        (
            "no UTF-8",
            [VALID.as_bytes(), b"\n\"\xe9\"\n"].concat(),
            Ok((1, vec![(2, "not UTF-8 at byte 1".into())])),
        ),
        (
            "a character that SQS rejects",
            format!("{VALID}\n\"\u{7}\"").into(),
            Ok((1, vec![(2, "the character U+0007 at byte 1 of the body is not allowed in SQS".into())])),
        ),
        (
            "UTF-16 without a mark",
            utf_16("{}"),
            Ok((0, vec![(1, "the character U+0000 at byte 1 of the body is not allowed in SQS".into())])),
        ),
        ("UTF-16", utf_16("\u{feff}{}\n"), Err("is UTF-16; save it as UTF-8".into())),
        (
            "a byte order mark",
            format!("\u{feff}{VALID}\n").into(),
            Err("begins with a byte order mark; save it as UTF-8 without one".into()),
        ),
        (
            "no data",
            VALID.replace(",\"data\":{}", "").into(),
            Ok((0, vec![(1, "INVALID_MESSAGE_SCHEMA /data is missing".into())])),
        ),
    ];
    for (name, input, expected) in rows {
        for from_file in [true, false] {
            for (command, verdict) in ["check", "send", "local"].into_iter().zip(verdicts(&input, from_file))
            {
                assert_eq!(verdict, expected, "{command}: {name}, from a file: {from_file}");
            }
        }
    }
}

/// Keeps only the first line with each problem, as `send` does; at the end, `send` prints how many lines have it.
fn keep_first_line_per_problem((valid, mut found): LineFindings) -> LineFindings {
    let mut seen = BTreeSet::new();
    found.retain(|(_, words)| seen.insert(words.clone()));
    (valid, found)
}

/// The wording of these errors comes from the JSON parser, so this test checks only that all commands agree.
#[test]
fn check_send_and_local_agree_on_broken_lines() {
    for input in [
        format!("{VALID} x\n{OTHER}\n"),
        format!("{DOCUMENT}{DOCUMENT}"),
        format!("{}\n{OTHER}\n", &VALID[..40]),
        format!("{DOCUMENT}x"),
        "plain text\n".to_owned(),
        "   \n".to_owned(),
    ] {
        let [check, send, local] = verdicts(input.as_bytes(), true);
        let (_, found) = check.clone().expect("it can be read");
        assert!(
            !found.is_empty() && found.iter().all(|(_, words)| words.starts_with("INVALID_MESSAGE_")),
            "{found:?}"
        );
        assert_eq!(send, check.clone().map(keep_first_line_per_problem), "{input}");
        // The final records do not distinguish identical lines.
        let words = |verdict: FileVerdict| {
            let (valid, found) = verdict.expect("it can be read");
            let mut words: Vec<_> = found.into_iter().map(|(_, words)| words).collect();
            words.sort();
            (valid, words)
        };
        assert_eq!(words(local), words(check), "{input}");
    }
}

#[test]
fn check_and_send_warn_about_a_duplicate_message_id() {
    let changed = VALID.replace("{}", r#"{"n":1}"#);
    let input = format!("{VALID}\n{OTHER}\n{changed}\n{OTHER}\n");
    let expected = vec![
        (
            3,
            "the message_id of line 1 with different content: a consumer that deduplicates by id processes \
             only one of the two"
                .to_owned(),
        ),
        (4, "the same message as on line 2: a copy".to_owned()),
    ];
    let [check, send, local] = verdicts(input.as_bytes(), true);
    assert_eq!((check.unwrap().1, send.unwrap()), (expected.clone(), (4, expected)));
    assert_eq!(local.unwrap(), (4, vec![]));
}

#[test]
fn final_records_and_backups_are_distinguished_from_messages() {
    let final_record = serde_json::json!({ "body": VALID, "attributes": { "ErrorType": "X", "n": null } });
    let hint = "a dead letter, not a message: `redeliver audit FILE` says why it died, `redeliver redrive FILE` and \
                `redeliver send --backup FILE` send it again";
    let input = format!("{final_record}\n{final_record}\n");
    let [check, send, local] = verdicts(input.as_bytes(), true);
    // Each command prints this once.
    let first = (0, vec![(1, hint.to_owned())]);
    assert_eq!((check.unwrap(), send.unwrap()), (first.clone(), first));
    let hints: Vec<_> = local.unwrap().1.into_iter().filter(|(_, words)| words == hint).collect();
    assert_eq!(hints, [(1, hint.to_owned())]);
}

/// Whatever the input is, an error must not contain characters that control the terminal.
#[test]
fn errors_show_hostile_input_safely() {
    let (url, _requests) = start_endpoint(true);
    let hostile = "\u{9b}31m\u{202e}\u{200b}";
    let shown = r"\u{9b}31m\u{202e}\u{200b}";
    let refused = [
        run(&["check", &format!("{hostile}.jsonl")], &url, None),
        run(&["check", &format!("--{hostile}")], &url, None),
        run(&["check", "-"], &url, Some(format!("{{\"{hostile}\":1,\"{hostile}\":2}}").as_bytes())),
    ];
    for (index, output) in refused.into_iter().enumerate() {
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).expect("UTF-8");
        assert!(said.contains(shown) && !said.contains(hostile), "{index}: {said}");
    }
}

/// If one of them accepted the file, it would resend messages that are recorded only in the other command's journal.
#[test]
fn send_and_redrive_reject_a_file_the_other_has_begun_to_send() {
    for (journal, begun_by, refused) in [
        ("dead.jsonl.sent", "redeliver send --backup", ["redrive", "dead.jsonl", "--to", "orders"]),
        ("dead.jsonl.redriven", "redeliver redrive", ["send", "--backup", "dead.jsonl", "--queue=orders"]),
    ] {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let file = folder.path().join("dead.jsonl");
        redeliver_dead_letters::files::replace_file(&file, b"").expect("the file is writable");
        redeliver_dead_letters::files::replace_file(&folder.path().join(journal), b"")
            .expect("the journal is writable");
        let file = file.to_str().expect("UTF-8");
        let arguments = refused.map(|argument| if argument == "dead.jsonl" { file } else { argument });
        for options in [&[][..], &["--apply"]] {
            let output = run(&[&arguments, options].concat(), "http://127.0.0.1:9", None);
            let reported = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{reported}");
            let why = format!("`{begun_by}` has begun to send this file, and its journal {file}");
            assert!(reported.contains(&why), "{reported}");
        }
    }
}
