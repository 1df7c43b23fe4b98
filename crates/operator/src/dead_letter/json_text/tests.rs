use super::*;

fn lay_out_in_full(text: &str, layout: JsonLayout, mask: Mask) -> String {
    lay_out(text, layout, mask, usize::MAX).unwrap().text
}

#[test]
fn numbers_names_order_and_escapes_are_preserved() {
    let text = "{ \"b\" : 1e400,\n\t\"a\":[ 12345678901234567890 , {}, [ ] ],\"b\":\"\\u00e9 { , \\\" }\",\"\":null}";
    let compact = r#"{"b":1e400,"a":[12345678901234567890,{},[]],"b":"\u00e9 { , \" }","":null}"#;
    assert_eq!(lay_out_in_full(text, JsonLayout::Compact, Mask::Nothing), compact);
    let pretty = "{\n  \"b\": 1e400,\n  \"a\": [\n    12345678901234567890,\n    {},\n    []\n  ],\n  \"b\": \"\\u00e9 { , \\\" }\",\n  \"\": null\n}";
    assert_eq!(lay_out_in_full(text, JsonLayout::Pretty, Mask::Nothing), pretty);
    for scalar in ["1.10", "\"x\"", "true", "null"] {
        assert_eq!(lay_out_in_full(&format!(" {scalar} "), JsonLayout::Pretty, Mask::Nothing), scalar);
    }
}

#[test]
fn values_outside_of_metadata_are_masked_by_type() {
    let text = r#"{"metadata":{"message_id":"m","data":"shown"},"data":{"metadata":"secret","n":1,"t":[true,null]},"x":"y"}"#;
    assert_eq!(
        lay_out_in_full(text, JsonLayout::Compact, Mask::AllButMetadata),
        r#"{"metadata":{"message_id":"m","data":"shown"},"data":{"metadata":"<masked string>","n":"<masked number>","t":["<masked boolean>","<masked null>"]},"x":"<masked string>"}"#
    );
    assert_eq!(
        lay_out_in_full(r#"{"metadata":{"message_id":"m"}}"#, JsonLayout::Compact, Mask::Everything),
        r#"{"metadata":{"message_id":"<masked string>"}}"#
    );
    assert_eq!(
        lay_out_in_full("\"secret\"", JsonLayout::Pretty, Mask::AllButMetadata),
        "\"<masked string>\""
    );
    assert_eq!(
        lay_out_in_full(r#"[{"metadata":"secret"}]"#, JsonLayout::Compact, Mask::AllButMetadata),
        r#"[{"metadata":"<masked string>"}]"#
    );
    let escaped_name = "{\"\\u006detadata\":{\"a\":1},\"data\":2}";
    assert_eq!(
        lay_out_in_full(escaped_name, JsonLayout::Compact, Mask::AllButMetadata),
        "{\"\\u006detadata\":{\"a\":1},\"data\":\"<masked number>\"}"
    );
}

#[test]
fn control_characters_are_escaped_without_changing_the_value() {
    let text = "{\"a\u{9b}\":\"\u{7f}\u{202e}\u{2028}\"}";
    let safe = lay_out_in_full(text, JsonLayout::Compact, Mask::Nothing);
    assert_eq!(safe, r#"{"a\u009b":"\u007f\u202e\u2028"}"#);
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(read(text), read(&safe));
}

#[test]
fn non_json_is_not_laid_out_and_long_json_is_cut() {
    for text in ["", "{", "plain text", "{} {}", "01"] {
        assert_eq!(lay_out(text, JsonLayout::Pretty, Mask::Nothing, 100), None, "{text}");
    }
    let cut = lay_out(&format!("[{}1]", "1,".repeat(1000)), JsonLayout::Compact, Mask::Nothing, 10).unwrap();
    assert_eq!((cut.text.as_str(), cut.is_cut), ("[1,1,1,1,1,", true));
}

#[test]
fn a_deeply_nested_body_is_laid_out_with_limited_indentation() {
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let pretty = lay_out_in_full(&deep, JsonLayout::Pretty, Mask::AllButMetadata);
    assert!(pretty.len() < 70 * deep.len(), "{}", pretty.len());
    assert_eq!(lay_out_in_full(&deep, JsonLayout::Compact, Mask::Nothing), deep);
}
