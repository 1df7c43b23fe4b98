use super::*;

const ID: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

fn violation_text(attribute: Attribute) -> String {
    let attributes = Attributes::from([(REDELIVER.to_owned(), attribute)]);
    schema().read_message("x", &attributes, FIRST_SQS_ID).unwrap_err().to_string()
}

#[test]
fn redeliver_document_follows_the_metadata_rules() {
    let text = format!(
        r#" {{ "retry_attempt" : 2 , "message_id":"{ID}", "mine":[1e400], "max_attempts":3,"expires_at":"2026-07-26T00:00:00Z","next_retry_time":"2026-07-25T17:20:00Z" }} "#
    );
    let plain = parse_plain("x", &attributes_with_redeliver(&text));
    let metadata = plain.metadata();
    assert_eq!(
        (metadata.retry_attempt, metadata.max_attempts, metadata.expires_at.is_some()),
        (2, Some(3), true)
    );
    let next = resent_attributes("x", &attributes_with_redeliver(&text));
    let next = redeliver_text(&next);
    assert!(
        next.starts_with(&format!(
            r#" {{ "retry_attempt" : 3 , "message_id":"{ID}", "mine":[1e400], "max_attempts":3,"#
        )),
        "{next}"
    );
}

#[test]
fn idempotency_key_is_written_as_json() {
    let attribute_sources =
        IdSources { attribute: Some(IdAttribute::new("Id".to_owned()).unwrap()), pointer: None };
    let schema = MessageSchema::default().with_plain(PlainMessages { id: attribute_sources, body: None });
    let attributes = Attributes::from([("Id".to_owned(), Attribute::string(r#"a"b\c"#))]);
    let Ok(ParsedMessage::Plain(plain)) = schema.read_message("x", &attributes, FIRST_SQS_ID) else {
        panic!()
    };
    let with_id = plain.with_id().unwrap();
    let uuid = Uuid::new_v5(&NAMESPACE, br#"a"b\c"#);
    assert_eq!(redeliver_text(&with_id), format!(r#"{{"message_id":"{uuid}","idempotency_key":"a\"b\\c"}}"#));
    assert_eq!(
        parse_plain("x", &with_id).form(),
        BodyForm::Plain { idempotency_key: Some(r#"a"b\c"#.to_owned()) }
    );
}

#[test]
fn redeliver_violations_are_reported_under_redeliver() {
    for (text, message) in [
        ("x", "/Redeliver is not JSON: expected value at line 1 column 1"),
        ("[]", "/Redeliver is not a JSON object"),
        ("{}", "/Redeliver/message_id is missing"),
        (r#"{"message_id":"x"}"#, "/Redeliver/message_id"),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","retry_attempt":-1}"#,
            "/Redeliver/retry_attempt",
        ),
        (r#"{"a":1,"a":2}"#, "/Redeliver is duplicate member /Redeliver/a"),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01"},"x":{}"#,
            "/Redeliver is not JSON: trailing characters",
        ),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","idempotency_key":"\u00e9"}"#,
            "/Redeliver/idempotency_key is not a string of 1 to 256 printable ASCII characters",
        ),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","idempotency_key":17}"#,
            "/Redeliver/idempotency_key is not a string of 1 to 256 printable ASCII characters",
        ),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","folded_attributes":{"Failure":{"data_type":"String","text":"x"}}}"#,
            "/Redeliver/folded_attributes cannot be restored alongside the other attributes",
        ),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","folded_attributes":{"Redeliver":{"data_type":"String","text":"{}"}}}"#,
            "/Redeliver/folded_attributes cannot be restored alongside the other attributes",
        ),
        (
            r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","folded_attributes":[]}"#,
            "/Redeliver/folded_attributes cannot be restored alongside the other attributes",
        ),
    ] {
        let error = violation_text(Attribute::string(text));
        assert!(error.starts_with(message), "{text}: {error}");
        assert_eq!(error.matches("metadata").count(), 0, "{error}");
    }
    let bytes = crate::message::AttributeValue::Binary(b"{}".to_vec());
    assert_eq!(
        violation_text(Attribute { data_type: "Binary".to_owned(), value: bytes }),
        "/Redeliver is not a String attribute"
    );
    let deep = "[".repeat(NESTING_MAX) + &"]".repeat(NESTING_MAX);
    let deep = violation_text(Attribute::string(format!(r#"{{"message_id":"{ID}","n":{deep}}}"#)));
    assert!(deep.starts_with("/Redeliver is nested deeper"), "{deep}");
}

/// Folded attributes may be forged, so they are restored only if they do not conflict with other attributes.
#[test]
fn a_folded_attribute_never_replaces_another() {
    let text = format!(
        r#"{{"message_id":"{ID}","folded_attributes":{{"a0":{{"data_type":"String","text":"y"}}}}}}"#
    );
    let mut attributes = attributes_with_redeliver(&text);
    attributes.extend(small_attributes(1));
    let error = schema().read_message("x", &attributes, FIRST_SQS_ID).unwrap_err().to_string();
    assert_eq!(error, "/Redeliver/folded_attributes cannot be restored alongside the other attributes");
    let mut attributes = attributes_with_redeliver(&text.replace("a0", "b0"));
    attributes.extend(small_attributes(1));
    let unfolded = parse_plain("x", &attributes).attributes;
    assert_eq!(unfolded.keys().collect::<Vec<_>>(), ["a0", "b0"]);
}
