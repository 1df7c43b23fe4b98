use super::*;
use crate::message::{Attribute, AttributeValue};

fn content(body: &str, attributes: &[(&str, Attribute)]) -> Content {
    Content {
        body: body.to_owned(),
        attributes: attributes
            .iter()
            .map(|(name, attribute)| ((*name).to_owned(), attribute.clone()))
            .collect(),
        ..Content::default()
    }
}

fn binary(bytes: &[u8]) -> Attribute {
    Attribute { data_type: "Binary.x".to_owned(), value: AttributeValue::Binary(bytes.to_vec()) }
}

#[test]
fn size_is_the_body_and_each_attributes_name_type_and_value() {
    let content = content("é", &[("ab", Attribute::string("😀")), ("c", binary(&[0; 5]))]);
    assert_eq!(OutgoingMessage::new(content).unwrap().size(), 2 + (2 + 6 + 4) + (1 + 8 + 5));
}

#[test]
fn a_trace_header_does_not_count_towards_the_size() {
    let traced = Content { trace_header: Some("Root=1".to_owned()), ..content("b", &[]) };
    assert_eq!(OutgoingMessage::new(traced).unwrap().size(), 1);
}

#[test]
fn a_message_of_exactly_1_mib_is_sendable_and_one_byte_more_is_not() {
    let attribute = [("ab", Attribute::string("x"))];
    let most = "x".repeat(MESSAGE_BYTES_MAX - 9);
    assert_eq!(OutgoingMessage::new(content(&most, &attribute)).unwrap().size(), MESSAGE_BYTES_MAX);
    let more = format!("{most}x");
    assert_eq!(
        OutgoingMessage::new(content(&more, &attribute)),
        Err(UnsendableReason::TooLarge { bytes: MESSAGE_BYTES_MAX + 1 })
    );
}

#[test]
fn content_that_sqs_refuses_is_not_sendable() {
    let refusal = |content| OutgoingMessage::new(content).unwrap_err();
    assert_eq!(refusal(content("", &[])), UnsendableReason::EmptyBody);
    let eleven: Attributes = (0..11).map(|index| (index.to_string(), Attribute::string("x"))).collect();
    let eleven = Content { attributes: eleven, ..content("b", &[]) };
    assert_eq!(refusal(eleven), UnsendableReason::TooManyAttributes { count: 11 });
    for empty in [Attribute::string(""), binary(&[])] {
        assert_eq!(
            refusal(content("b", &[("a", empty)])),
            UnsendableReason::EmptyAttribute { name: "a".to_owned() }
        );
    }
    let illegal_character = |offset, place: &str| UnsendableReason::IllegalCharacter {
        character: '\u{FFFE}',
        offset,
        place: place.to_owned(),
    };
    assert_eq!(refusal(content("é\u{FFFE}", &[])), illegal_character(2, "body"));
    assert_eq!(
        refusal(content("b", &[("a", Attribute::string("x\u{FFFE}"))])),
        illegal_character(1, "attribute a")
    );
    assert_eq!(
        illegal_character(1, "body").to_string(),
        "the character U+FFFE at byte 1 of the body is not allowed in SQS"
    );
}

#[test]
fn binary_attributes_can_contain_any_bytes() {
    assert!(OutgoingMessage::new(content("b", &[("a", binary(&[0, 255]))])).is_ok());
}

#[test]
fn an_unsendable_reason_names_the_place_and_the_remedy() {
    let refuse_attribute = |name: &str, data_type: &str, value: AttributeValue| {
        let attribute = Attribute { data_type: data_type.to_owned(), value };
        OutgoingMessage::new(content("b", &[(name, attribute)])).unwrap_err()
    };
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let refuse_group_id = |id: &str| {
        let content = Content { message_group_id: Some(id.to_owned()), ..content("b", &[]) };
        OutgoingMessage::new(content).unwrap_err()
    };
    let refuse_deduplication_id = |id: &str| {
        let content = Content { deduplication_id: Some(id.to_owned()), ..content("b", &[]) };
        OutgoingMessage::new(content).unwrap_err()
    };
    let refuse_trace_header = |header: &str| {
        let content = Content { trace_header: Some(header.to_owned()), ..content("b", &[]) };
        OutgoingMessage::new(content).unwrap_err()
    };
    for (error, code, said) in [
        (
            refuse_attribute("a b", "String", text("x")),
            "AttributeName",
            r#"the attribute name "a b" has characters other than letters, digits, _, - and .; rename the attribute"#,
        ),
        (
            refuse_attribute("price", "Foo", text("x")),
            "AttributeType",
            r#"the type "Foo" of the attribute price is not an SQS type; use String, Number or Binary, optionally with a label, such as String.json"#,
        ),
        (
            refuse_attribute("price", "Binary", text("secret")),
            "AttributeValue",
            r#"the attribute price has the type "Binary", but its value is text; use bytes, or change the type"#,
        ),
        (
            refuse_attribute("price", "Number.int", AttributeValue::Binary(vec![55])),
            "AttributeValue",
            r#"the attribute price has the type "Number.int", but its value is bytes; use text, or change the type"#,
        ),
        (
            refuse_attribute("price", "Number", text("secret")),
            "NotANumber",
            "the attribute price is a Number, but its value is not; use a number such as -12.5, or the type String",
        ),
        (
            refuse_attribute("price", "String.\u{FFFE}", text("x")),
            "IllegalCharacter",
            "the character U+FFFE at byte 7 of the type of the attribute price is not allowed in SQS",
        ),
        (
            refuse_group_id("acme corp"),
            "MessageGroupId",
            "the message group id has a space or a control character in it; SQS allows 1 to 128 letters, digits and punctuation characters",
        ),
        (
            refuse_deduplication_id(""),
            "DeduplicationId",
            "the deduplication id is empty; SQS allows 1 to 128 letters, digits and punctuation characters",
        ),
        (refuse_trace_header(""), "EmptyTraceHeader", "the trace header is empty; leave it out"),
        (
            refuse_trace_header("Root=\u{1}"),
            "IllegalCharacter",
            "the character U+0001 at byte 5 of the trace header is not allowed in SQS",
        ),
    ] {
        assert_eq!((error.code(), error.to_string().as_str()), (code, said));
    }
}

#[test]
fn attribute_names_are_case_sensitive() {
    let both = [("a", Attribute::string("x")), ("A", Attribute::string("y"))];
    assert!(OutgoingMessage::new(content("b", &both)).is_ok());
}

#[test]
fn an_attribute_is_checked_regardless_of_its_position() {
    let valid_attribute = || Attribute::string("x");
    for invalid_name in ["a b", "o.", "z z"] {
        let attributes = [
            ("b", valid_attribute()),
            ("n", valid_attribute()),
            ("y", valid_attribute()),
            (invalid_name, valid_attribute()),
        ];
        let error = OutgoingMessage::new(content("b", &attributes)).unwrap_err();
        assert_eq!(error.code(), "AttributeName", "{invalid_name}");
    }
}
