//! A re-send changes only redeliver's metadata members. The test generates bodies from pieces. In the expected body,
//! only the pieces with these members are replaced, removed or added.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::message::metadata::{HELD_SECONDS_MAX, Holds, OUR_MEMBERS, REDRIVES_MAX};

/// A member of `metadata` as written: white space, name, colon, value, white space.
#[derive(Clone, Debug)]
struct Piece {
    /// The name in [`OUR_MEMBERS`], if the member is ours.
    ours: Option<&'static str>,
    before_value: String,
    value: String,
    after_value: String,
}

impl Piece {
    fn text(&self) -> String {
        self.text_with_value(&self.value)
    }

    fn text_with_value(&self, value: &str) -> String {
        format!("{}{value}{}", self.before_value, self.after_value)
    }
}

fn any_space() -> impl Strategy<Value = String> {
    "[ \t\r\n]{0,3}"
}

fn any_piece(ours: Option<&'static str>, name: String, value: String) -> impl Strategy<Value = Piece> {
    (any_space(), any_space(), any_space(), any_space()).prop_map(move |(a, b, c, d)| Piece {
        ours,
        before_value: format!("{a}\"{name}\"{b}:{c}"),
        value: value.clone(),
        after_value: d,
    })
}

/// Distinct names that look similar to ours.
const FOREIGN_NAMES: [&str; 12] = [
    "",
    "trace",
    "é",
    r"\u00e9\u0301",
    r"\ud800",
    r"\udfff\ud800",
    r"a\/b~,}",
    r#"{\"retry_attempt\":7"#,
    "Retry_attempt",
    "retry_attempt ",
    r"retry\\u005fattempt",
    "😀",
];

/// Values that would change if they were parsed and serialized again.
const FOREIGN_VALUES: [&str; 14] = [
    "1e400",
    "-0.0",
    "12345678901234567890",
    "0.1000000000000000055511151231257827",
    "1E+2",
    "null",
    r#""\ud83d lone \udc00""#,
    r#""é \u00e9 \/ ,}{][ \\\" ""#,
    r#""\\""#,
    "{ }",
    "[ ]",
    r#"{ "retry_attempt" : 1 , "a":[ 1 ,2] , "a" : "}" }"#,
    "[[[{}, {\"]\":\"[\"}]]]",
    "false",
];

fn foreign_value() -> impl Strategy<Value = String> {
    prop_oneof![
        select(&FOREIGN_VALUES[..]).prop_map(str::to_owned),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

fn foreign_members(names: usize) -> impl Strategy<Value = Vec<Piece>> {
    subsequence(FOREIGN_NAMES.to_vec(), 0..=names).prop_flat_map(|names| {
        names
            .into_iter()
            .map(|name| foreign_value().prop_flat_map(move |value| any_piece(None, name.to_owned(), value)))
            .collect::<Vec<_>>()
    })
}

/// Generates the name as is, or with its first letter escaped.
fn any_spelling(plain: &'static str) -> impl Strategy<Value = String> {
    let escaped = format!("\\u{:04x}{}", u32::from(plain.as_bytes()[0]), &plain[1..]);
    select(vec![plain.to_owned(), escaped])
}

fn valid_values(name: &str) -> &'static [&'static str] {
    match name {
        "retry_attempt" => &["0", "7", "1000"],
        "snooze_count" | "redrive_generation" => &["0", "1", "100"],
        "outage_failures" | "held_seconds" | "redrive_count" | "redrive_count_at_answer" => {
            &["0", "1", "1000"]
        }
        "retry_history" => &[
            "[ ]",
            r#"[{ "attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"},{","error_details":"]" }]"#,
        ],
        _ => &[r#""2026-07-25T17:20:00Z""#, r#""2026-07-25T19:20:00.123456789+02:00""#],
    }
}

fn our_members() -> impl Strategy<Value = Vec<Piece>> {
    subsequence(OUR_MEMBERS.to_vec(), 0..=OUR_MEMBERS.len()).prop_flat_map(|names| {
        names
            .into_iter()
            .map(|ours| {
                (any_spelling(ours), select(valid_values(ours)))
                    .prop_flat_map(move |(name, value)| any_piece(Some(ours), name, value.to_owned()))
            })
            .collect::<Vec<_>>()
    })
}

/// Generates the members of `metadata`, and the text before and after them.
fn any_body() -> impl Strategy<Value = (String, Vec<Piece>, String)> {
    let message_id =
        any_spelling("message_id").prop_flat_map(|name| any_piece(None, name, format!("\"{ID}\"")));
    let metadata = (message_id, foreign_members(4), our_members())
        .prop_map(|(id, foreign, ours)| [vec![id], foreign, ours].concat())
        .prop_shuffle();
    let data = (any_spelling("data"), foreign_members(3)).prop_flat_map(|(name, members)| {
        let members: Vec<_> = members.iter().map(Piece::text).collect();
        any_piece(None, name, format!("{{{}}}", members.join(",")))
    });
    let top =
        (data, foreign_members(3)).prop_map(|(data, foreign)| [vec![data], foreign].concat()).prop_shuffle();
    (top, any::<prop::sample::Index>(), any_spelling("metadata"), metadata, any_space(), any_space())
        .prop_map(|(top, place, name, metadata, left, right)| {
            let place = place.index(top.len() + 1);
            let top: Vec<_> = top.iter().map(Piece::text).collect();
            let before = top[..place].iter().map(|text| format!("{text},")).collect::<String>();
            let after = top[place..].iter().map(|text| format!(",{text}")).collect::<String>();
            (
                format!("{left}{{{before}{left}\"{name}\"{right}:{left}{{"),
                metadata,
                format!("}}{right}{after}}}{right}"),
            )
        })
}

fn join_pieces(before: &str, pieces: &[String], after: &str) -> String {
    format!("{before}{}{after}", pieces.join(","))
}

fn any_retry() -> impl Strategy<Value = RetryMetadata> {
    let history = prop::collection::vec((0..=1000_u32, any::<String>(), any::<String>()), 0..=5);
    let unspent = (
        prop::option::of((-900..=900_i64, 0..=65_535_u32)),
        0..=HELD_SECONDS_MAX,
        0..=REDRIVES_MAX,
        0..=REDRIVES_MAX,
    );
    (1..=1000_u32, 0..=900_i64, history, 0..=100_u32, prop::option::of(0..=100_u32), unspent).prop_map(
        |(retry_attempt, delay, history, snooze_count, redrive_generation, unspent)| RetryMetadata {
            last_attempt: None,
            retry_attempt,
            next_retry_time: at(delay),
            first_sent_time: at(-delay),
            retry_history: history
                .into_iter()
                .map(|(attempt, name, details)| PastFailure::new(attempt, at(-1), &name, &details))
                .collect(),
            snooze_count,
            redrive_generation,
            held_since: unspent.0.map(|(since, _)| at(since)),
            outage_failures: unspent.0.map_or(0, |(_, failures)| failures),
            held_seconds: unspent.1,
            redrive_count: unspent.2,
            redrive_count_at_answer: unspent.3,
        },
    )
}

proptest! {
    #[test]
    fn a_resend_changes_only_its_metadata_members((before, pieces, after) in any_body(), retry in any_retry()) {
        let texts: Vec<_> = pieces.iter().map(Piece::text).collect();
        let received = join_pieces(&before, &texts, &after);
        let schema = MessageSchema::default();
        let envelope = schema.parse_envelope(&received).map_err(|error| TestCaseError::fail(format!("{error}: {received}")))?;

        let resent = envelope.with_retry_metadata(&retry);

        let reparsed = schema.parse_envelope(&resent).map_err(|error| TestCaseError::fail(format!("{error}: {resent}")))?;
        prop_assert_eq!(reparsed.metadata.retry_attempt, retry.retry_attempt);
        prop_assert_eq!(reparsed.metadata.first_sent_time, Some(retry.first_sent_time));
        prop_assert_eq!(&reparsed.metadata.retry_history, &retry.retry_history);
        prop_assert_eq!(reparsed.metadata.snooze_count, retry.snooze_count);
        prop_assert_eq!(reparsed.metadata.redrive_generation, retry.redrive_generation);
        prop_assert_eq!(reparsed.metadata.holds, Holds::from_members(retry.held_since, retry.outage_failures.try_into().unwrap(), retry.held_seconds));
        prop_assert_eq!(reparsed.metadata.redrive_count, retry.redrive_count);
        prop_assert_eq!(reparsed.metadata.redrive_count_at_answer, retry.redrive_count_at_answer);
        prop_assert_eq!(reparsed.metadata.message_id_text.as_str(), ID);

        let mut new = retry.json_members();
        let mut expected = Vec::new();
        for piece in &pieces {
            match piece.ours {
                None => expected.push(piece.text()),
                Some(ours) => {
                    let (_, value) = new.iter_mut().find(|(name, _)| *name == ours).unwrap();
                    expected.extend(value.take().map(|value| piece.text_with_value(&value)));
                }
            }
        }
        expected.extend(new.iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value.as_ref()?))));
        prop_assert_eq!(&resent, &join_pieces(&before, &expected, &after));
        prop_assert_eq!(&reparsed.with_retry_metadata(&retry), &resent, "setting the same again changes nothing");
    }
}
