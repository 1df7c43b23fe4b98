//! `message_id` becomes a header in the call, so only a UUID may pass validation.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static SCHEMA: LazyLock<MessageSchema> = LazyLock::new(MessageSchema::default);

/// Generates a UUID with something added, replaced or doubled: line breaks, digits from other scripts, anything.
fn almost_a_uuid() -> impl Strategy<Value = String> {
    let intruder = prop_oneof![
        Just("\r\nX-Evil: 1".to_owned()),
        prop::sample::select(vec!["\n", "\r", "\0", "\u{85}", "\u{2028}", "٣", "ａ", "{", "-", "g", "A"])
            .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        Just(String::new()),
    ];
    (0..=ID.len(), 0..=2_usize, intruder).prop_map(|(at, replaced, intruder)| {
        format!("{}{intruder}{}", &ID[..at], &ID[(at + replaced).min(ID.len())..])
    })
}

fn is_uuid(text: &str) -> bool {
    let is_hyphen_place = |index| matches!(index, 8 | 13 | 18 | 23);
    let fits = |(index, byte): (usize, u8)| {
        if is_hyphen_place(index) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn only_36_character_uuids_are_accepted_as_message_ids(
        text in prop_oneof![almost_a_uuid(), any::<String>(), Just(ID.to_uppercase())],
        escaped: bool,
    ) {
        let quoted = if escaped {
            let escapes: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{escapes}\"")
        } else {
            serde_json::to_string(&text).unwrap()
        };
        let body = format!(r#"{{"metadata":{{"message_id":{quoted}}},"data":{{}}}}"#);
        match SCHEMA.parse_envelope(&body) {
            Ok(envelope) => {
                prop_assert!(is_uuid(&text), "{text:?}");
                prop_assert_eq!(envelope.metadata.message_id_text, text);
            }
            Err(_) => prop_assert!(!is_uuid(&text), "{text:?}"),
        }
    }
}
