use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::message::Attributes;
use crate::message::envelope::skim_body;
use crate::message::validation::{MEMBERS_WITH_RULES, read_message_metadata, validate_body};

const ID: &str = r#""6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01""#;

/// Returns the results of the fast path and of the schema for this body.
fn parse_both_ways(body: &str) -> (Option<Metadata>, Option<Metadata>) {
    let skimmed = skim_body(body).unwrap();
    (parse_metadata(&skimmed), validate_body(&skimmed, Vec::new()).ok())
}

fn body_with_metadata(members: &str) -> String {
    format!(r#"{{"metadata":{{{members}}},"data":{{}}}}"#)
}

/// The fast path reads everything that redeliver writes. This matters only for speed.
#[test]
fn fast_path_reads_metadata_written_by_redeliver() {
    let entry = r#"{"attempt":0,"failed_at":"2026-07-25T17:20:00.000000Z","error_type":"HttpStatus.503","error_details":"\"é\"\n"}"#;
    let body = body_with_metadata(&format!(
        r#""message_id":{ID},"own":{{}},"retry_attempt":1000,"next_retry_time":"2026-07-25T17:20:00.000000Z",
           "first_sent_time":"2026-07-25T17:20:00.25Z","retry_history":[{entry}, {entry}],"snooze_count":100,
           "redrive_generation":100,"max_attempts":0,"expires_at":"2026-07-25T17:20:00Z""#
    ));
    let (plain, by_schema) = parse_both_ways(&body);
    assert!(plain.is_some());
    assert_eq!(plain, by_schema);
}

#[test]
fn fast_path_leaves_doubtful_metadata_to_the_schema() {
    for name in MEMBERS_WITH_RULES {
        for wrong in ["null", "true", "{}", "\"\"", "-1", "1210501", "1.0", "0e0", "\"2026-07-25\""] {
            let id = if name == "message_id" { String::new() } else { format!(r#""message_id":{ID},"#) };
            let body = body_with_metadata(&format!(r#"{id}"{name}":{wrong}"#));
            assert_eq!(parse_metadata(&skim_body(&body).unwrap()), None, "{name} {wrong}");
        }
    }
    let with_entry = |error_type: &str, details: &str| {
        let entry = format!(
            r#"{{"attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"{error_type}","error_details":"{details}"}}"#
        );
        body_with_metadata(&format!(r#""message_id":{ID},"retry_history":[{entry}]"#))
    };
    assert!(parse_metadata(&skim_body(&with_entry(&"é".repeat(128), &"é".repeat(256))).unwrap()).is_some());
    for body in [
        with_entry(&"é".repeat(129), ""),
        with_entry("", &"é".repeat(257)),
        body_with_metadata(&format!(r#""message_id":{ID},"expires_at":"2026-07-25T17:20:60Z""#)),
    ] {
        assert_eq!(parse_metadata(&skim_body(&body).unwrap()), None, "{body}");
    }
    for body in [
        "{}".to_owned(),
        body_with_metadata(""),
        format!(r#"{{"metadata":{{"message_id":{ID}}},"data":[]}}"#),
    ] {
        assert_eq!(parse_metadata(&skim_body(&body).unwrap()), None, "{body}");
    }
}

/// Generates JSON values that are valid or nearly valid for some member.
fn any_value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (-2..1100_i32).prop_map(|number| number.to_string()),
        select(vec![
            "100",
            "101",
            "1000",
            "1001",
            "1.0",
            "1e2",
            "1E0",
            "-0",
            "1e400",
            "12345678901234567890"
        ])
        .prop_map(str::to_owned),
    ];
    let time = (
        "[0-9]{2,5}-[0-3][0-9]-[0-3][0-9]",
        select(vec!["T", "t", " "]),
        "[0-2][0-9]:[0-6][0-9]:[0-6][0-9]",
        select(vec![
            "",
            ".",
            ".5",
            ".25",
            ".123456",
            ".123456789",
            ".1234567890",
            ".12345678901234567890",
            ",5",
        ]),
        select(vec!["Z", "Z", "Z", "z", "+02:00", "-11:30", "+24:00", ""]),
    )
        .prop_map(|(day, t, hour, fraction, zone)| format!("\"{day}{t}{hour}{fraction}{zone}\""));
    let id = prop_oneof![
        4 => Just(ID.to_owned()),
        1 => Just(ID.to_uppercase()),
        1 => "\"[0-9a-fA-Fg-]{36}\"",
        1 => select(vec![
            "\"\\u0036f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01\"",
            "\"6f1c0d3e8a554c8e9a3f2b1d7e5f9a01\"",
            "\"{6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01}\"",
            "\"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a0é\"",
        ]).prop_map(str::to_owned),
    ];
    let text = prop_oneof![
        "\"[a-z .]{0,20}\"",
        select(vec!["\"\\ud800\"", "\"\\u0000\"", "\"\\\"\"", "\"é\\u00e9\\n\"", "\"\u{FFFE}\""])
            .prop_map(str::to_owned),
        (select(vec!["x", "é", "\\n", "😀"]), 120..260_usize)
            .prop_map(|(part, count)| format!("\"{}\"", part.repeat(count))),
    ];
    let other =
        select(vec!["null", "true", "[]", "{}", "[[]]", r#"{"$serde_json::private::RawValue":"[]"}"#])
            .prop_map(str::to_owned);
    prop_oneof![3 => number, 4 => time, 2 => id, 3 => text, 1 => other]
}

/// Generates a value that is usually valid for this member.
fn value_for_member(name: &'static str) -> BoxedStrategy<String> {
    let right = match name {
        "message_id" => Just(ID.to_owned()).boxed(),
        "retry_history" => prop::collection::vec(any_entry(), 0..7)
            .prop_map(|entries| format!("[{}]", entries.join(", ")))
            .boxed(),
        "max_attempts" | "retry_attempt" | "snooze_count" | "redrive_generation" | "attempt" => {
            (0..120_u32).prop_map(|number| number.to_string()).boxed()
        }
        "error_type" | "error_details" => "\"[a-z .]{0,20}\"".boxed(),
        _ => (0..4_000_000_000_i64, select(vec!["", ".5", ".123456"]))
            .prop_map(|(seconds, fraction)| {
                let moment = Timestamp::from_timestamp(seconds, 0).unwrap();
                format!("\"{}{fraction}Z\"", moment.format("%Y-%m-%dT%H:%M:%S"))
            })
            .boxed(),
    };
    prop_oneof![7 => right, 2 => any_value()].boxed()
}

/// Generates an entry of the history with its members in any order. A member may be missing, unknown or duplicated.
fn any_entry() -> impl Strategy<Value = String> {
    const NAMES: [&str; 4] = ["attempt", "failed_at", "error_type", "error_details"];
    let values = NAMES.map(|name| value_for_entry(name).prop_map(move |value| format!("\"{name}\":{value}")));
    let complete = values.prop_map(|members| members.to_vec()).prop_shuffle();
    let irregular = (
        complete.clone(),
        0..5_usize,
        select(vec!["", "\"extra\":1", "\"attempt\":0", "\"\\u0061ttempt\":0"]),
    )
        .prop_map(|(mut members, left_out, added)| {
            if left_out < members.len() {
                members.remove(left_out);
            }
            if !added.is_empty() {
                members.push(added.to_owned());
            }
            members
        });
    let object =
        prop_oneof![5 => complete, 1 => irregular].prop_map(|members| format!("{{{}}}", members.join(",")));
    let array = Just(r#"[0,"2026-07-25T17:20:00Z","T","D"]"#.to_owned());
    prop_oneof![12 => object, 1 => array, 1 => any_value()]
}

/// Generates a value for a member of a history entry: usually from [`value_for_member`], sometimes any value.
fn value_for_entry(name: &'static str) -> BoxedStrategy<String> {
    prop_oneof![12 => value_for_member(name), 1 => any_value()].boxed()
}

fn any_metadata() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> =
        MEMBERS_WITH_RULES.iter().copied().filter(|name| *name != "message_id").collect();
    let others = prop::sample::subsequence(names, 0..=5);
    (others, prop::bool::weighted(0.95)).prop_flat_map(|(mut names, with_id)| {
        if with_id {
            names.push("message_id");
        }
        let members: Vec<_> = names
            .into_iter()
            .map(|name| {
                let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
                (value_for_member(name), prop::bool::weighted(0.1), select(vec!["", " ", "\n"])).prop_map(
                    move |(value, is_escaped, space)| {
                        let name = if is_escaped { &escaped } else { name };
                        format!("{space}\"{name}\"{space}:{space}{value}{space}")
                    },
                )
            })
            .collect();
        members.prop_shuffle().prop_map(|members| members.join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn fast_path_agrees_with_the_schema_on_any_metadata(members in any_metadata()) {
        let body = body_with_metadata(&members);
        let (plain, by_schema) = parse_both_ways(&body);
        if plain.is_some() {
            prop_assert_eq!(&plain, &by_schema, "{}", body);
        }
        if by_schema.is_some() {
            prop_assert_eq!(read_message_metadata(&body, &Attributes::new()), by_schema, "{}", body);
        }
    }

    #[test]
    fn fast_path_reads_times_like_the_schema(time in any_value()) {
        let body = body_with_metadata(&format!(r#""message_id":{ID},"expires_at":{time}"#));
        let (plain, by_schema) = parse_both_ways(&body);
        if plain.is_some() {
            prop_assert_eq!(&plain, &by_schema, "{}", body);
        }
        if by_schema.is_some() {
            prop_assert_eq!(read_message_metadata(&body, &Attributes::new()), by_schema, "{}", body);
        }
    }
}
