use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const MESSAGES: [&[u8]; 2] = [
    br#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{}}"#,
    br#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{"n":1e400}}"#,
];

/// Generates file contents from messages, line endings of every kind, JSON fragments, and invalid UTF-8.
fn any_input() -> impl Strategy<Value = Vec<u8>> {
    const PARTS: [&[u8]; 11] = [
        MESSAGES[0],
        MESSAGES[1],
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
        b"{\"",
        b" ",
        b"\0",
        b"\xff",
        "\u{feff}é".as_bytes(),
    ];
    prop::collection::vec(select(&PARTS[..]), 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn every_line_has_one_outcome_and_is_sent_unchanged(input in any_input()) {
        let steps: Vec<_> = LineRules::default().read_steps(&*input).collect();
        let mut expected: Vec<_> = input.split(|byte| *byte == b'\n').collect();
        // Content after the last line ending counts as a line unless it is empty.
        if expected.last().is_some_and(|last| last.is_empty()) {
            expected.pop();
        }
        let (last, lines) = steps.split_last().unwrap();
        prop_assert!(matches!(last.checked, LineCheck::End(_)), "{:?}", last);
        prop_assert_eq!(last.bytes, input.len() as u64);
        prop_assert_eq!(lines.len(), expected.len());
        for (index, (step, line)) in lines.iter().zip(expected).enumerate() {
            let ended = step.bytes < input.len() as u64 || input.ends_with(b"\n");
            let line = line.strip_suffix(b"\r").filter(|_| ended).unwrap_or(line);
            match &step.checked {
                LineCheck::Valid(NumberedMessage { number, message, .. }) => {
                    prop_assert_eq!(*number, index + 1);
                    prop_assert_eq!(message.content().body.as_bytes(), line);
                }
                LineCheck::Invalid { number, findings } => {
                    prop_assert_eq!(*number, index + 1);
                    prop_assert!(!findings.is_empty());
                    prop_assert!(!MESSAGES.contains(&line), "a valid message was rejected: {:?}", findings);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
