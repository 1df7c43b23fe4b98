use std::io::Write as _;
use std::time::Duration;

use redeliver_core::failure::Verdict;
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_embedded::VirtualClock;
use redeliver_testing::dead_letters::{at_seconds, foreign_message, retried_record};
use tempfile::tempfile;

use super::*;
use crate::{ArchivedMessage, Coverage, DeadLetterReader, DeadLetterRecord};

fn open_queue(content: &[u8]) -> FileQueue {
    let mut file = tempfile().unwrap();
    file.write_all(content).unwrap();
    FileQueue::open(file, "dead.jsonl", "file:/dead.jsonl", at_seconds(7)).unwrap()
}

fn archive_line(message: &ReceivedMessage) -> String {
    serde_json::to_string(&ArchivedMessage::new(message)).unwrap() + "\n"
}

/// Reads all messages in the queue, and returns them with the coverage.
fn read_queue(queue: &FileQueue) -> (Vec<ReceivedMessage>, Coverage) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    clock.block_on(async {
        let mut reader = DeadLetterReader::new(queue, &clock).await.unwrap();
        let mut all = Vec::new();
        while let Some(messages) = reader.next_messages().await.unwrap() {
            all.extend(messages);
        }
        (all, reader.finish().await)
    })
}

fn message_ids(messages: &[ReceivedMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.sqs_message_id.as_str()).collect()
}

#[test]
fn a_reader_returns_every_archived_message_on_each_pass() {
    let messages: Vec<_> =
        (1..=345).map(|number| retried_record("NON_RETRYABLE_ERROR", "x\u{0}\n", number)).collect();
    let content: String = messages.iter().map(archive_line).collect();
    // The last line can lack its line break.
    let queue = open_queue(content.trim_end().as_bytes());
    for _ in 0..2 {
        let (found, coverage) = read_queue(&queue);
        let receipt_handle = String::new();
        let found: Vec<_> = found
            .into_iter()
            .map(|message| ReceivedMessage { receipt_handle: receipt_handle.clone(), ..message })
            .collect();
        let expected: Vec<_> = messages
            .iter()
            .map(|message| ReceivedMessage { receipt_handle: receipt_handle.clone(), ..message.clone() })
            .collect();
        assert_eq!(found, expected, "in the order of the file");
        assert_eq!((coverage.seen, coverage.approximate, coverage.complete), (345, 345, true));
    }
}

#[test]
fn a_local_final_record_has_its_annotation_and_a_stable_id() {
    let line = concat!(
        r#"{"body":"no JSON","attributes":{"DeadLetter":"{\"stage\":\"message-processor\",\"cause\":{\"type\":\"T\",\"message\":\"m\"},"#,
        r#"\"dead_lettered_at\":\"1970-01-01T00:00:40.000000Z\",\"sqs_message_id\":\"m\",\"fingerprint\":\"0123456789abcdef\"}","#,
        r#""ErrorDetails":"not JSON","ErrorType":"INVALID_MESSAGE_FORMAT","tenant":"t1"}}"#
    );
    let bare = r#"{"body":"x","attributes":{}}"#;
    let (found, _) = read_queue(&open_queue(format!("{line}\n{bare}\n").as_bytes()));
    let (moved, _) = read_queue(&open_queue(format!("\n{bare}\r\n{line}\r\n").as_bytes()));
    assert_eq!(message_ids(&moved), message_ids(&found).into_iter().rev().collect::<Vec<_>>());
    assert_eq!([found[0].sent_at, found[1].sent_at], [at_seconds(40), at_seconds(7)]);
    let record = DeadLetterRecord::new(found[0].clone());
    assert_eq!(
        (record.error_type.as_str(), record.error_details.as_str()),
        ("INVALID_MESSAGE_FORMAT", "not JSON")
    );
    assert_eq!(record.fingerprint, "0123456789abcdef");
}

#[test]
fn a_last_line_of_maximum_length_needs_no_line_break() {
    let record = archive_line(&foreign_message("x", 1));
    let padding = " ".repeat(LINE_BYTES_MAX - record.trim_end().len());
    for (end, bad) in [("", 0), (" ", 1)] {
        let queue = open_queue(format!("{padding}{}{end}", record.trim_end()).as_bytes());
        assert_eq!((queue.bad_lines().count, read_queue(&queue).0.len()), (bad, 1 - bad as usize), "{end:?}");
    }
}

#[test]
fn a_final_record_without_room_for_attributes_keeps_its_reason() {
    let trace_header = Verdict::from_code(DeadLetterReason::MessageTooLarge).add_to_trace_header(None);
    let line = format!(r#"{{"body":"x","attributes":{{}},"trace_header":"{trace_header}"}}"#);
    let (found, _) = read_queue(&open_queue(line.as_bytes()));
    assert_eq!(DeadLetterRecord::new(found[0].clone()).error_type, "MESSAGE_TOO_LARGE");
}

#[test]
fn bad_lines_are_reported_with_their_numbers_and_good_ones_are_counted() {
    let good = archive_line(&foreign_message("x", 1));
    let long = format!("\"{}\"", "x".repeat(LINE_BYTES_MAX));
    let message = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":{}}"#;
    let shown = DeadLetterRecord::new(foreign_message("x", 2)).filter_document();
    let changed = good.replace("1970-01-01T00:00:00.000000Z", "yesterday");
    let binary = r#"{"body":"x","attributes":{"bytes":null}}"#;
    let content = format!(
        "{{\n{good}\n7\n{long}\n{message}\n{shown}\n{changed}{binary}\n{}",
        archive_line(&foreign_message("y", 3))
    );
    let queue = open_queue(content.as_bytes());
    let bad: Vec<_> = queue.bad_lines().first.iter().map(|(line, why)| (*line, why.as_str())).collect();
    let too_long =
        format!("it has {} bytes; the limit for a dead letter is {LINE_BYTES_MAX}", LINE_BYTES_MAX + 3);
    assert_eq!(
        bad,
        [
            (
                1,
                "it ends in the middle of a JSON document; a dead letter is on one line, as `jq -c .` writes it"
            ),
            (4, "it is JSON, but not a dead letter"),
            (5, too_long.as_str()),
            (6, "it is a message, not a dead letter"),
            (7, "it is output of `audit --format jsonl`, which omits parts of a message: use `audit --save`"),
            (8, "one of its times or attributes was changed"),
            (9, "it lacks the value of a binary attribute, which `local` leaves out"),
        ]
    );
    for _ in 0..2 {
        let (found, coverage) = read_queue(&queue);
        assert_eq!(message_ids(&found), ["sqs-1", "sqs-3"]);
        assert_eq!((coverage.seen, coverage.unreadable, coverage.approximate), (2, 7, 9));
        assert!(!coverage.complete);
    }
}

#[test]
fn nearly_valid_lines_are_reported_with_a_remedy() {
    let archived = archive_line(&foreign_message("x", 1));
    let (archived, local) = (archived.trim(), r#"{"body":"x","attributes":{}}"#);
    for (line, expected) in [
        (format!("{archived}{archived}"), BadLine::Several),
        (format!("{local}{archived}"), BadLine::Several),
        (format!("{local} {local}{local}"), BadLine::Several),
        (format!("{archived}CANARY"), BadLine::NotJson(archived.len() + 1)),
        (archived[..archived.len() - 1].to_owned(), BadLine::Unfinished),
        (r#"{"body":"x","attributes":{"a":"b"#.to_owned(), BadLine::Unfinished),
        (format!("{archived}{{\"body"), BadLine::NotJson(archived.len() + 1)),
        ("nonsense".to_owned(), BadLine::NotJson(2)),
    ] {
        assert_eq!(read_line(line.as_bytes(), at_seconds(7)).unwrap_err(), expected, "{line}");
    }
}

#[test]
fn only_the_first_bad_lines_of_a_file_are_kept() {
    let queue = open_queue("no\n".repeat(1000).as_bytes());
    assert_eq!((queue.bad_lines().count, queue.bad_lines().first.len()), (1000, REASONS_MAX));
    assert!(queue.has_only_bad_lines());
    assert!(!open_queue(b"\n \n").has_only_bad_lines(), "it is empty");
    assert!(
        !open_queue(("no\n".to_owned() + &archive_line(&foreign_message("x", 1))).as_bytes())
            .has_only_bad_lines()
    );
}

#[test]
fn a_message_on_two_lines_of_a_file_counts_once() {
    let repeated_line =
        archive_line(&foreign_message("x", 1)).repeat(2) + &archive_line(&foreign_message("y", 2));
    let queue = open_queue(repeated_line.as_bytes());
    let (found, coverage) = read_queue(&queue);
    assert_eq!(
        (message_ids(&found), queue.repeated_lines(), coverage.complete),
        (vec!["sqs-1", "sqs-2"], 1, true)
    );
    assert!(queue.was_read_from(&found[0].queue_arn) && !queue.was_read_from("arn:of-another"));
}

/// A slow redrive repeatedly extends the visibility timeout of the messages it holds.
#[test]
fn a_file_queue_returns_released_messages_and_no_hidden_ones() {
    let queue = open_queue(
        (archive_line(&foreign_message("x", 1)) + &archive_line(&foreign_message("y", 2))).as_bytes(),
    );
    let receive = async || {
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        queue.receive(request).await.unwrap()
    };
    VirtualClock::new(Timestamp::UNIX_EPOCH).block_on(async {
        let both = receive().await;
        assert_eq!(message_ids(&both), ["sqs-1", "sqs-2"]);
        let [one, two] = [0, 1].map(|place: usize| both[place].receipt_handle.clone());
        let longer = VisibilitySeconds::new(30).unwrap();
        let changes = [(one, longer), (two, VisibilitySeconds::ZERO)];
        queue.change_visibility_batch(&changes).await;
        assert_eq!(queue.depth().await.unwrap(), Depth { visible: 1, in_flight: 1, delayed: 0 });
        assert_eq!(message_ids(&receive().await), ["sqs-2"]);
    });
}

/// An audit of an archive must not report complete coverage if objects are missing.
#[test]
fn objects_missing_from_a_file_count_as_unreadable() {
    let content = archive_line(&foreign_message("x", 1)) + "no\n";
    let queue = open_queue(content.as_bytes()).with_unreadable(["one", "another"].map(str::to_owned));
    let (found, coverage) = read_queue(&queue);
    assert_eq!((message_ids(&found), coverage.unreadable, coverage.complete), (vec!["sqs-1"], 3, false));
}

/// Returns a final record as written by `redeliver local`.
fn final_record(body: &str, virtual_now: &str) -> String {
    format!(r#"{{"body":"{body}","attributes":{{}}{virtual_now}}}"#) + "\n"
}

#[test]
fn virtual_time_ends_at_the_latest_line_unless_one_is_in_real_time() {
    let [first, last] =
        [r#","virtual_now":"2026-01-01T00:00:09Z""#, r#","virtual_now":"2026-01-01T00:00:10Z""#];
    let virtual_end = |lines: &[String]| open_queue(lines.concat().as_bytes()).virtual_now();
    let [one, two, real] = [("1", first), ("2", last), ("3", "")].map(|(body, now)| final_record(body, now));
    let ten_past = parse_rfc3339("2026-01-01T00:00:10Z");
    assert_eq!(virtual_end(&[one.clone(), two.clone()]), ten_past);
    assert_eq!(virtual_end(&[two.clone(), "nonsense\n".to_owned(), one.clone()]), ten_past);
    for mixed in [[&real, &one, &two], [&one, &real, &two], [&one, &two, &real]] {
        assert_eq!(virtual_end(&mixed.map(Clone::clone)), None, "{mixed:?}");
    }
    assert_eq!(virtual_end(&[]), None);
    assert_eq!(virtual_end(&[final_record("1", r#","virtual_now":7"#)]), None);
}

#[test]
fn the_time_of_a_final_record_does_not_change_its_id() {
    let ids = ["", r#","virtual_now":"2026-01-01T00:00:09Z""#].map(|now| {
        let (messages, _) = read_queue(&open_queue(final_record("1", now).as_bytes()));
        messages[0].sqs_message_id.clone()
    });
    assert_eq!(ids[0], ids[1]);
}
