use super::*;

fn strings(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value))).collect()
}

#[test]
fn attributes_are_folded_smallest_first_until_the_rest_has_a_place() {
    let attributes = strings(&[("big", "xxxxxxxx"), ("mid", "xxxx"), ("b", "x"), ("a", "x")]);
    let folded = |taken: &[&str], places| {
        fold_attributes(&attributes, taken, places).unwrap().folded.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(folded(&[], 4), [""; 0]);
    assert_eq!(folded(&[], 3), ["a"]);
    assert_eq!(folded(&[], 1), ["a", "b", "mid"]);
    assert_eq!(folded(&["big"], 4), ["big"], "a taken name is folded though there is place");
    assert_eq!(folded(&["big"], 2), ["a", "big"]);
    assert_eq!(fold_attributes(&attributes, &[], ATTRIBUTES_MAX).unwrap().kept, attributes);
}

#[test]
fn unrestorable_attribute_is_not_folded() {
    let mut attributes = strings(&[("ErrorType", "mine"), ("b", "xx")]);
    let open = Attribute { data_type: "Number".to_owned(), value: AttributeValue::Text("1e5".to_owned()) };
    attributes.insert("a".to_owned(), open.clone());
    let folded = |attributes: &Attributes, places| {
        fold_attributes(attributes, &["ErrorType"], places)
            .map(|folding| folding.folded.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(folded(&attributes, 1), Some(vec!["ErrorType".to_owned(), "b".to_owned()]));
    assert_eq!(folded(&attributes, 0), None);
    attributes.insert("ErrorType".to_owned(), open);
    assert_eq!(folded(&attributes, 9), None, "a taken name that cannot be folded");
}

/// An attribute with two values is forged: no version writes one.
#[test]
fn folded_attribute_of_a_later_version_needs_one_known_value() {
    let folded: FoldedAttributes = serde_json::from_str(
        r#"{"a":{"data_type":"String","text":"x","since":1},"b":{"data_type":"String","gzip":"x"}}"#,
    )
    .unwrap();
    assert_eq!(folded["a"].to_attribute(), Some(Attribute::string("x")));
    assert_eq!(folded["b"].to_attribute(), None);
}
