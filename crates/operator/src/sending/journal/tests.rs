use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn written_journal() -> Vec<u8> {
    let mut journal = SendJournal::begin(Vec::new(), "arn:queue").unwrap();
    journal.record_confirmed(&[(1, Digest::for_line(1, b"a")), (2, Digest::for_line(2, b"b"))]).unwrap();
    journal.record_confirmed(&[(4, Digest::for_line(4, b"d"))]).unwrap();
    journal.into_output()
}

#[test]
fn written_journal_records_are_read_back() {
    let bytes = written_journal();
    let known = read_journal(&*bytes).unwrap();
    assert_eq!(known.queue.as_deref(), Some("arn:queue"));
    assert_eq!(known.bytes, bytes.len() as u64);
    let numbers: Vec<_> = (0..9).filter(|number| known.confirmed.contains(*number)).collect();
    assert_eq!(numbers, [1, 2, 4]);
    let lines = crate::message_file::InputLines::for_messages(&b"a\nb\nanother\nd\n"[..]);
    assert!(known.confirmed.matches_input(lines).unwrap());
}

#[test]
fn a_partially_written_journal_record_is_ignored() {
    let bytes = written_journal();
    for cut in 0..bytes.len() {
        let known = read_journal(&bytes[..cut]).unwrap();
        let complete = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        assert_eq!(known, read_journal(&bytes[..complete]).unwrap());
        assert_eq!(known.bytes, complete as u64);
    }
}

#[test]
fn a_foreign_file_is_not_read_as_a_send_journal() {
    let header = r#"{"redeliver_send":1,"queue":"q"}"#;
    for (bytes, bad) in [
        ("{\"metadata\":{},\"data\":{}}\n".to_owned(), 1),
        ("\n".to_owned(), 1),
        ("somebody's notes".to_owned(), 1),
        (format!("{}\n", header.replace('1', "2")), 1),
        (format!("{header}\n{header}\n"), 2),
        (format!("{header}\n{{\"lines\":[[2,1]],\"digest\":\"0\"}}\n"), 2),
        (format!("{header}\n{{\"lines\":[[1,1]],\"digest\":\"x\"}}\n"), 2),
    ] {
        match read_journal(bytes.as_bytes()) {
            Err(error) => {
                assert_eq!(
                    error,
                    format!("record {bad} is not a `redeliver send` journal record"),
                    "{bytes}"
                );
            }
            other => panic!("{bytes}: {other:?}"),
        }
    }
}

proptest! {
    /// A second run must read the same state as the first one, regardless of the file's contents.
    #[test]
    fn only_complete_records_count_and_rereading_yields_the_same_state(
        parts in prop::collection::vec(
            select(vec![
                r#"{"redeliver_send":1,"queue":"é"}"#, r#"{"lines":[[1,2],[0,18446744073709551615]],"digest":"f"}"#,
                r#"{"lines":[[3,3]],"digest":"00"}"#, r#"{"lines":"#, "\n", "\n", "\n", "é", "\0",
            ]),
            0..8,
        ),
        cut in 0..200_usize,
    ) {
        let mut bytes = parts.concat().into_bytes();
        bytes.truncate(cut);
        if let Ok(known) = read_journal(&*bytes) {
            let complete = usize::try_from(known.bytes).unwrap();
            prop_assert!(complete == 0 || bytes[..complete].ends_with(b"\n"));
            prop_assert!(!bytes[complete..].contains(&b'\n'), "a complete record was skipped");
            prop_assert_eq!(read_journal(&bytes[..complete]).unwrap(), known);
        }
    }
}
