//! `redeliver check --messages` reports for each line what `send` would do with it.

use super::*;

const VALID: &str = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{}}"#;
const OTHER: &str = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ac"},"data":{}}"#;

fn check_input(input: &[u8]) -> (Option<i32>, String) {
    let output = run_with_input(&["check", "-"], input);
    assert_eq!(stderr_text(&output), "");
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn a_dash_means_standard_input() {
    let reported = |sentence: &str| (Some(0), format!("standard input: {sentence}\n"));
    assert_eq!(check_input(VALID.as_bytes()), reported("1 message, valid"));
    assert_eq!(check_input(format!("{VALID}\r\n{OTHER}\n").as_bytes()), reported("2 messages, valid"));
    assert_eq!(check_input(b""), reported("0 messages"));
}

#[test]
fn a_line_that_is_not_utf_8_is_reported_and_the_others_are_checked() {
    let input = [VALID.as_bytes(), b"\n{\"data\":\"\xE9\"}\n", OTHER.as_bytes(), b"\n\nnull\n"].concat();
    let (code, reported) = check_input(&input);
    let lines: Vec<_> = reported.lines().collect();
    assert_eq!(code, Some(3), "{reported}");
    assert_eq!(
        lines[..2],
        [
            "standard input:2: not UTF-8 at byte 9",
            "standard input:4: the body is empty; SQS requires at least one character"
        ]
    );
    assert!(lines.len() == 3 && lines[2].starts_with("standard input:5: INVALID_MESSAGE_"), "{reported}");
}

/// `send` accepts it: the line end is not part of the message.
#[test]
fn a_message_of_one_mebibyte_is_valid() {
    let (start, end) = VALID.split_at(VALID.len() - 2);
    let start = format!("{start}\"pad\":\"");
    let pad = "x".repeat(1_048_576 - start.len() - end.len() - 1);
    let valid = (Some(0), "standard input: 1 message, valid\n".to_owned());
    assert_eq!(check_input(format!("{start}{pad}\"{end}\n").as_bytes()), valid);
}

/// `aws sqs send-message --message-body file://order.json` sends such a file as one message.
#[test]
fn a_document_that_spans_several_lines_is_a_single_message() {
    let pretty = VALID.replace(",\"data\"", ",\n  \"data\"");
    assert_eq!(check_input(pretty.as_bytes()).0, Some(0));
    let (code, reported) = check_input(format!("{VALID}\n\n").as_bytes());
    assert_eq!(code, Some(3), "a message and an empty line");
    assert_eq!(reported, "standard input:2: the body is empty; SQS requires at least one character\n");
}

/// A time or an id in an unsupported form is reported with a remedy.
#[test]
fn an_unsupported_time_or_id_format_is_reported_with_a_remedy() {
    let naive = VALID.replace(r#""}"#, r#"","expires_at":"2030-01-01T00:00:00"}"#);
    let ulid = r#"{"metadata":{"message_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"},"data":{}}"#;
    let invalid = "standard input:1: INVALID_MESSAGE_SCHEMA /metadata";
    let no_zone = (Some(3), format!("{invalid}/expires_at has no time zone: add Z or +00:00\n"));
    assert_eq!(check_input(naive.as_bytes()), no_zone);
    let (code, reported) = check_input(ulid.as_bytes());
    let is_a_ulid =
        format!("{invalid}/message_id is a ULID, not a hyphenated UUID: write one, or set ENVELOPE=optional");
    assert!(code == Some(3) && reported.starts_with(&is_a_ulid), "{reported}");
    let checked = run_with_input(&["check", "-", "--plain"], ulid.as_bytes());
    let warning = "warning: standard input: 1 message with a metadata.message_id that is not a UUID, and therefore plain; \
                   to use that id, set --message-id-pointer /metadata/message_id (MESSAGE_ID_POINTER)\n";
    assert_eq!((checked.status.code(), stderr_text(&checked).as_str()), (Some(0), warning));
    let arguments = ["check", "-", "--plain", "--message-id-pointer", "/metadata/message_id"];
    let checked = run_with_input(&arguments, ulid.as_bytes());
    assert_eq!((checked.status.code(), stderr_text(&checked).as_str()), (Some(0), ""));
}

/// An export of a queue contains several messages; sent unchanged, it would be one invalid message.
#[test]
fn each_command_reads_the_messages_in_an_export() {
    let attributes = r#"{"t":{"StringValue":"v","DataType":"String"}}"#;
    let message = |id: &str, body: &str| {
        let body = serde_json::Value::from(body);
        format!("{{\n\"MessageId\": \"{id}\",\n\"Body\": {body}, \"MessageAttributes\": {attributes}\n}}")
    };
    let received = format!("{{\n\"Messages\": [\n{},\n{}]\n}}\n", message("a", VALID), message("b", "{}"));
    let event = format!(
        r#"{{"Records":[{{"messageId":"a","body":{},"eventSource":"aws:sqs","messageAttributes":{{}}}}]}}"#,
        serde_json::Value::from(VALID)
    );
    for (input, count, recognized) in [
        (received, 2, "2 messages of a receive-message export"),
        (event, 1, "1 message of a Lambda event"),
        (format!("[{VALID},\n{OTHER}]"), 2, "2 messages of a JSON array"),
    ] {
        let reported = format!("standard input: {recognized}\n");
        let checked = run_with_input(&["check", "-"], input.as_bytes());
        assert_eq!(stderr_text(&checked), reported);
        let found = String::from_utf8(checked.stdout).expect("UTF-8");
        if recognized.ends_with("export") {
            assert!(
                found.starts_with("standard input:2: INVALID_MESSAGE_SCHEMA /metadata is missing"),
                "{found}"
            );
            let audited = run_with_input(&["audit", "-", "--format", "json"], input.as_bytes());
            assert_eq!(
                (checked_report(3, &audited)["total"].clone(), stderr_text(&audited)),
                (count.into(), reported.clone())
            );
        } else {
            assert!(found.ends_with(" valid\n"), "{found}");
        }
        let local = run_with_input(&["local", "-", "--plain", "--format", "json"], input.as_bytes());
        assert_eq!(
            (checked_report(0, &local)["sent"].clone(), stderr_text(&local)),
            (count.into(), reported)
        );
    }
}

/// Pointers that match nothing are counted, since nothing else reports them.
#[test]
fn a_plain_message_is_valid_where_envelopes_are_optional() {
    let input = format!(
        "{VALID}\nno JSON\n{{\"id\":\"o-1\"}}\n{{\"specversion\":\"1.0\",\"id\":\"e\",\"source\":\"/s\"}}\n"
    );
    let check = |arguments: &[&str]| {
        let output = run_with_input(&[&["check", "-"], arguments].concat(), input.as_bytes());
        assert_eq!(stderr_text(&output), "");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    assert_eq!(check(&[]).0, Some(3));
    let reported = |sentence: &str| (Some(0), format!("standard input: 4 messages, valid ({sentence})\n"));
    assert_eq!(check(&["--plain"]), reported("3 plain, 2 of them without their own id: SQS's is used"));
    assert_eq!(
        check(&["--plain", "--message-id-pointer", "/id"]),
        reported("3 plain, 1 of them without their own id: SQS's is used")
    );
    let wrong = run_with_input(&["check", "-", "--plain", "--message-id-pointer", "id"], b"");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr_text(&wrong)
            .contains("is not a JSON Pointer to a member, such as /detail/id: begin it with `/`"),
        "{}",
        stderr_text(&wrong)
    );
    let alone = run_with_input(&["check", "-", "--message-id-pointer", "/id"], b"");
    assert!(
        alone.status.code() == Some(2) && stderr_text(&alone).contains("--plain"),
        "{}",
        stderr_text(&alone)
    );
}
