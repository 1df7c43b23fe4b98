//! Payloads with and without an envelope.

use proptest::sample::select;

use super::*;

/// Generates any JSON value, in a form that parsing and serializing would change.
pub(super) fn any_json() -> impl Strategy<Value = String> {
    const LEAVES: [&str; 14] = [
        "null",
        "true",
        "-0",
        "1e400",
        "0.10",
        "12345678901234567890123",
        "\"\"",
        r#""\u00e9\/""#,
        r#""\ud800""#,
        "\"😀\"",
        "{}",
        "[ ]",
        r#"{"_retry_metadata":1}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
    ];
    select(&LEAVES[..]).prop_map(str::to_owned).prop_recursive(6, 64, 8, |inner| {
        let name = select(vec![r#""a""#, r#""a""#, r#""\u0061""#, r#""_original_payload""#, "\"\""]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" ,\t"))),
            proptest::collection::vec((name, inner), 0..5).prop_map(|members| {
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("{name} : {value}")).collect();
                format!("{{ {} }}", members.join(",\n"))
            }),
        ]
    })
}

#[test]
fn the_envelope_is_as_documented() {
    let retry = EventRetry { attempt: 2, initial_timestamp: 1_643_667_670 };
    let wrapped =
        r#"{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670},"_original_payload":{"a": 1}}"#;
    assert_eq!(retry.wrap_payload(r#"{"a": 1}"#), wrapped);
    assert_eq!(read_payload(wrapped), (Some(retry), r#"{"a": 1}"#));
}

#[test]
fn member_order_and_white_space_do_not_matter() {
    let unusual = " {\n\"_original_payload\" :\t[1, 2] ,\"\\u005fretry_metadata\": { \"initial_timestamp\":0 ,\"attempt\" : 1000 } } ";
    assert_eq!(read_payload(unusual), (Some(EventRetry { attempt: 1000, initial_timestamp: 0 }), "[1, 2]"));
}

#[test]
fn a_payload_that_is_not_an_exact_envelope_is_the_users_own() {
    let payloads = [
        "{}".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "\"_retry_metadata\"".to_owned(),
        String::new(),
        "not JSON".to_owned(),
        envelope("0", "1", "{}"),
        envelope("-1", "1", "{}"),
        envelope("1001", "1", "{}"),
        envelope("99999999999999999999", "1", "{}"),
        envelope("1.0", "1", "{}"),
        envelope("1e0", "1", "{}"),
        envelope("\"1\"", "1", "{}"),
        envelope("null", "1", "{}"),
        envelope("1", "-1", "{}"),
        envelope("1", "253402300800", "{}"),
        envelope("1", "1.5", "{}"),
        envelope("1,\"attempt\":1", "1", "{}"),
        envelope("1,\"more\":1", "1", "{}"),
        envelope("1", "1", "{},\"more\":1"),
        envelope("1", "1", "1,\"_original_payload\":2"),
        envelope("1", "1", ""),
        r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":1}}"#.to_owned(),
        r#"{"_retry_metadata":[1,1],"_original_payload":{}}"#.to_owned(),
        r#"{"_retry_metadata":{"attempt":1},"_original_payload":{}}"#.to_owned(),
        format!("[{}]", envelope("1", "1", "{}")),
        format!("{} {}", envelope("1", "1", "{}"), envelope("1", "1", "{}")),
    ];
    for payload in &payloads {
        assert_eq!(read_payload(payload), (None, payload.as_str()), "{payload}");
    }
}

#[test]
fn a_nested_envelope_is_opened_only_once() {
    let inner = envelope("7", "1", "{}");
    let outer = EventRetry { attempt: 1, initial_timestamp: 5 };
    assert_eq!(read_payload(&outer.wrap_payload(&inner)), (Some(outer), inner.as_str()));
}

#[test]
fn a_payload_can_be_nested_to_any_depth() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let retry = EventRetry { attempt: 1, initial_timestamp: 5 };
    assert_eq!(read_payload(&retry.wrap_payload(&deep)), (Some(retry), deep.as_str()));
    assert_eq!(FailedInvocation::parse(&record(&deep)).unwrap().payload, deep);
}

proptest! {
    #[test]
    fn every_payload_is_unwrapped_byte_for_byte(payload in any_json(), attempt in 1..=1000_u32) {
        let retry = EventRetry { attempt, initial_timestamp: 1_643_667_670 };
        let wrapped = retry.wrap_payload(&payload);
        prop_assert_eq!(read_payload(&wrapped), (Some(retry), payload.as_str()));
        let body = record(&wrapped);
        let failed = FailedInvocation::parse(&body).unwrap();
        prop_assert_eq!((failed.payload, failed.retries_made), (payload.as_str(), attempt));
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in ".*") {
        let _ = read_payload(&text);
        let _ = FailedInvocation::parse(&text);
        let _ = FailedInvocation::parse(&record(&text));
    }
}
