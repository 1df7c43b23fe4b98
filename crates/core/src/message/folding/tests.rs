use super::*;

fn string_attributes(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::string(*value))).collect()
}

#[test]
fn attributes_are_folded_smallest_first_until_the_rest_fit() {
    let attributes = string_attributes(&[("big", "xxxxxxxx"), ("mid", "xxxx"), ("b", "x"), ("a", "x")]);
    let fold_names = |taken: &[&str], places| {
        fold_attributes(&attributes, taken, places).unwrap().folded.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(fold_names(&[], 4), [""; 0]);
    assert_eq!(fold_names(&[], 3), ["a"]);
    assert_eq!(fold_names(&[], 1), ["a", "b", "mid"]);
    assert_eq!(fold_names(&["big"], 4), ["big"], "a taken name is folded even if it would fit");
    assert_eq!(fold_names(&["big"], 2), ["a", "big"]);
    assert_eq!(fold_attributes(&attributes, &[], ATTRIBUTES_MAX).unwrap().kept, attributes);
}

#[test]
fn unrestorable_attribute_is_not_folded() {
    let mut attributes = string_attributes(&[("ErrorType", "mine"), ("b", "xx")]);
    let open = Attribute { data_type: "Number".to_owned(), value: AttributeValue::Text("1e5".to_owned()) };
    attributes.insert("a".to_owned(), open.clone());
    let fold_names = |attributes: &Attributes, places| {
        fold_attributes(attributes, &["ErrorType"], places)
            .map(|folding| folding.folded.into_keys().collect::<Vec<_>>())
    };
    assert_eq!(fold_names(&attributes, 1), Some(vec!["ErrorType".to_owned(), "b".to_owned()]));
    assert_eq!(fold_names(&attributes, 0), None);
    attributes.insert("ErrorType".to_owned(), open);
    assert_eq!(fold_names(&attributes, 9), None, "a taken name that cannot be folded");
}

/// An attribute with two values is forged: no version writes such an attribute.
#[test]
fn folded_attribute_from_a_later_version_needs_one_known_value() {
    let folded: FoldedAttributes = serde_json::from_str(
        r#"{"a":{"data_type":"String","text":"x","since":1},"b":{"data_type":"String","gzip":"x"}}"#,
    )
    .unwrap();
    assert_eq!(folded["a"].to_attribute(), Some(Attribute::string("x")));
    assert_eq!(folded["b"].to_attribute(), None);
}
