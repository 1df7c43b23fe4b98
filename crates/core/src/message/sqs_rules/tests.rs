use super::*;

fn text(data_type: &str, value: &str) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Text(value.to_owned()) }
}

fn binary(data_type: &str, value: &[u8]) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Binary(value.to_vec()) }
}

/// Returns whether SQS may accept the attribute, and whether it certainly does.
fn check_acceptance(name: &str, attribute: &Attribute) -> (bool, bool) {
    (check_attribute(name, attribute).is_ok(), is_certainly_accepted(name, attribute))
}

const ACCEPTED: (bool, bool) = (true, true);
const OPEN: (bool, bool) = (true, false);
const REFUSED: (bool, bool) = (false, false);

#[test]
fn attribute_name_follows_the_sqs_rules() {
    let long_name = |count| "x".repeat(count);
    for name in ["a", "trace.id_1-a", "AWSx", "awsome.x", "x.AWS.y", "Amazon", &long_name(255)] {
        assert_eq!(check_acceptance(name, &Attribute::string("x")), ACCEPTED, "{name}");
    }
    for name in ["größe", "名前", &long_name(256), &"ü".repeat(256)] {
        assert_eq!(check_acceptance(name, &Attribute::string("x")), OPEN, "{name}");
    }
    let refused =
        ["", "a b", "a/b", "a\n", "“", ".a", "a.", "a..b", ".", "AWS.x", "aws.", "aMaZoN.x", &long_name(257)];
    for name in refused {
        assert_eq!(check_acceptance(name, &Attribute::string("x")), REFUSED, "{name}");
    }
}

#[test]
fn attribute_type_has_a_known_prefix_and_a_matching_value() {
    let long_type = |count: usize| format!("String.{}", "x".repeat(count - "String.".len()));
    // 207 characters, 407 bytes.
    let wide = format!("String.{}", "ü".repeat(200));
    for attribute in [
        text("String", "ü"),
        text("String.application/json; charset=utf-8", "{}"),
        text("Number.java.lang.Integer", "7"),
        text(&long_type(255), "x"),
        binary("Binary", &[0]),
        binary("Binary.png", &[255]),
    ] {
        assert_eq!(check_acceptance("a", &attribute), ACCEPTED, "{attribute:?}");
    }
    for attribute in [
        text("String.", "x"),
        text("Strings", "x"),
        text(&long_type(256), "x"),
        text(&wide, "x"),
        binary("Binary_", &[0]),
    ] {
        assert_eq!(check_acceptance("a", &attribute), OPEN, "{attribute:?}");
    }
    for attribute in [
        text("", "x"),
        text("Foo", "x"),
        text("string", "x"),
        text("String.\u{FFFE}", "x"),
        text(&long_type(257), "x"),
        text("String", ""),
        text("String", "\u{1}"),
        text("Binary", "x"),
        binary("String", &[0]),
        binary("Number", b"7"),
        binary("Binary", &[]),
    ] {
        assert_eq!(check_acceptance("a", &attribute), REFUSED, "{attribute:?}");
    }
}

#[test]
fn numbers_of_up_to_38_digits_are_certainly_accepted() {
    let zeros = |count| "0".repeat(count);
    let (most, least) = (format!("1{}", zeros(126)), format!("0.{}1", zeros(127)));
    let nines = "9".repeat(38);
    for number in
        ["0", "-0.00", "-1.5", "007.10", &nines, &format!("{nines}00.0"), &most, &format!("-{most}"), &least]
    {
        assert_eq!(check_acceptance("a", &text("Number", number)), ACCEPTED, "{number}");
    }
    let (too_large, too_small) = (format!("11{}", zeros(125)), format!("0.{}1", zeros(128)));
    let open = ["1e5", "1E-5", "+1", "1.", ".5", " 1", "1\n", "NaN", "-inf", "1e400"];
    for number in open.into_iter().chain([&*"9".repeat(39), &too_large, &too_small]) {
        assert_eq!(check_acceptance("a", &text("Number.int", number)), OPEN, "{number}");
    }
    for number in ["abc", "-", ".", " ", "1 2", "0x1", "1,5", "٣", "--1", "1.2.3", "seven"] {
        assert_eq!(check_acceptance("a", &text("Number", number)), REFUSED, "{number}");
        assert_eq!(check_acceptance("a", &text("String", number)), ACCEPTED, "{number}");
    }
}

#[test]
fn group_and_deduplication_ids_have_1_to_128_legal_characters() {
    let graphic: String = ('!'..='~').collect();
    for right in [&*graphic, "tenant-1", "größe", &"g".repeat(128)] {
        assert_eq!(check_message_group_id(right), Ok(()), "{right}");
        assert_eq!(check_deduplication_id(right), Ok(()), "{right}");
    }
    for (wrong, rule) in [
        ("", "is empty"),
        ("a b", "has a space or a control character in it"),
        ("a\u{7F}", "has a space or a control character in it"),
        (&*"g".repeat(129), "has more than 128 characters"),
    ] {
        assert_eq!(check_message_group_id(wrong), Err(UnsendableReason::MessageGroupId { rule }), "{wrong}");
        assert_eq!(check_deduplication_id(wrong), Err(UnsendableReason::DeduplicationId { rule }), "{wrong}");
    }
}
