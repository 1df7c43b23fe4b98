//! Runs the message parser on a public test suite for JSON parsers (see `json-test-suite/README.md`): `y_` cases must
//! be accepted, `n_` cases refused, and the results for the implementation-defined `i_` cases are recorded here.
#![expect(clippy::unwrap_used, reason = "clippy treats only #[test] functions as tests, not their helpers")]

use std::fs;
use std::path::Path;

use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_fuzz::json;

const ID: &str = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";

/// Returns the cases whose names start with `prefix`, with their contents.
fn suite_cases(prefix: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("json-test-suite");
    let mut cases = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with(prefix) {
            cases.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    if prefix == "n_" {
        // Too large to keep as files.
        cases.push(("n_structure_100000_opening_arrays.json".to_owned(), "[".repeat(100_000)));
        cases.push(("n_structure_open_array_object.json".to_owned(), "[{\"\":".repeat(50_000) + "\n"));
    }
    cases
}

/// Returns a message with the case as a value in `data`.
fn message_with_data(case: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"case":{case}}}}}"#)
}

fn refusal_reason(body: &str) -> Option<DeadLetterReason> {
    MessageSchema::default().parse_envelope(body).err().map(|invalid| invalid.reason())
}

#[test]
fn valid_json_from_the_suite_is_accepted_and_keeps_its_bytes() {
    let cases = suite_cases("y_");
    assert_eq!(cases.len(), 95);
    let schema = MessageSchema::default();
    for (name, case) in cases {
        let body = message_with_data(&case);
        let envelope = schema.parse_envelope(&body).unwrap_or_else(|invalid| panic!("{name}: {invalid}"));
        let next = envelope.with_next_generation(redeliver_core::failure::DlqReturn::default());
        let data = |body: &str| body[body.find(r#","data""#).unwrap()..].to_owned();
        assert_eq!(data(&next), data(&body), "{name}");
        assert!(json::parse_json(&case).is_ok(), "{name}: the oracle");
    }
}

#[test]
fn invalid_json_from_the_suite_is_refused_alone_and_inside_data() {
    let cases = suite_cases("n_");
    assert_eq!(cases.len(), 188);
    for (name, case) in cases {
        assert_eq!(refusal_reason(&case), Some(DeadLetterReason::InvalidMessageFormat), "{name}");
        assert_eq!(
            refusal_reason(&message_with_data(&case)),
            Some(DeadLetterReason::InvalidMessageFormat),
            "{name} in data"
        );
        assert!(json::parse_json(&case).is_err(), "{name}: the oracle");
    }
}

/// The refused cases: a byte order mark, remnants of UTF-16 text, and arrays nested 500 deep. All others are accepted
/// and kept unchanged.
const REFUSED: [&str; 5] = [
    "i_string_UTF-16LE_with_BOM.json",
    "i_string_utf16BE_no_BOM.json",
    "i_string_utf16LE_no_BOM.json",
    "i_structure_500_nested_arrays.json",
    "i_structure_UTF-8_BOM_empty_object.json",
];

/// The cases that are also refused if `data` has a schema: lone surrogates, which cannot be decoded to valid strings.
const REFUSED_BY_ANY_DATA_SCHEMA: [&str; 10] = [
    "i_object_key_lone_2nd_surrogate.json",
    "i_string_1st_surrogate_but_2nd_missing.json",
    "i_string_1st_valid_surrogate_2nd_invalid.json",
    "i_string_incomplete_surrogate_and_escape_valid.json",
    "i_string_incomplete_surrogate_pair.json",
    "i_string_incomplete_surrogates_escape_valid.json",
    "i_string_invalid_lonely_surrogate.json",
    "i_string_invalid_surrogate.json",
    "i_string_inverted_surrogates_U+1D11E.json",
    "i_string_lone_second_surrogate.json",
];

#[test]
fn implementation_defined_json_gives_the_recorded_results() {
    let cases = suite_cases("i_");
    assert_eq!(cases.len(), 35);
    let refused = |schema: &MessageSchema| {
        let refused =
            cases.iter().filter(|(_, case)| schema.parse_envelope(&message_with_data(case)).is_err());
        let mut names: Vec<_> = refused.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(refused(&MessageSchema::default()), REFUSED);
    let with_any = refused(&MessageSchema::new(Some(DataSchema::new("{}").unwrap())));
    let mut both = [&REFUSED[..], &REFUSED_BY_ANY_DATA_SCHEMA[..]].concat();
    both.sort_unstable();
    assert_eq!(with_any, both);
}
