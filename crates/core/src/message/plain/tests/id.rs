use serde_json::json;

use super::*;
use crate::json::pointer::{Pointer, PointerError};
use crate::message::plain::id::PlainMessageId;

fn sources(attribute: Option<&str>, pointer: Option<&str>) -> IdSources {
    IdSources {
        attribute: attribute.map(|name| IdAttribute::new(name.to_owned()).unwrap()),
        pointer: pointer.map(|text| Pointer::new(text).unwrap()),
    }
}

/// Returns the UUID and the key of a message's id.
fn find_message_id(sources: &IdSources, body: &str, attributes: &Attributes) -> PlainMessageId {
    sources.find_id(body, attributes, FIRST_SQS_ID)
}

fn id_from_text(text: &str) -> PlainMessageId {
    let attributes = Attributes::from([("Id".to_owned(), Attribute::string(text))]);
    find_message_id(&sources(Some("Id"), None), "x", &attributes)
}

#[test]
fn the_first_source_that_has_an_id_wins() {
    let all = sources(Some("OrderId"), Some("/order/id"));
    let event = r#"{"specversion":"1.0","id":"e1","source":"/shop","order":{"id":"o-17"}}"#;
    let attributes = Attributes::from([("OrderId".to_owned(), Attribute::string("a-17"))]);
    let key = |sources: &IdSources, body: &str, attributes: &Attributes| {
        find_message_id(sources, body, attributes).key
    };
    assert_eq!(key(&all, event, &attributes).unwrap(), "a-17");
    assert_eq!(key(&all, event, &Attributes::new()).unwrap(), "o-17");
    assert_eq!(key(&sources(None, Some("/wrong")), event, &attributes).unwrap(), "/shop e1");
    assert_eq!(key(&sources(None, None), event, &attributes).unwrap(), "/shop e1");
    let none = find_message_id(&all, r#"{"order":{}}"#, &Attributes::new());
    assert_eq!((none.text.as_str(), none.key), (FIRST_SQS_ID, None));
    // `Redeliver` takes precedence over all of them.
    let with_id = attributes_with_redeliver(
        r#"{"message_id":"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01","idempotency_key":"first"}"#,
    );
    let with_all = MessageSchema::default().with_plain(PlainMessages { id: all, body: None });
    let read = with_all
        .read_message(event, &[with_id, attributes].into_iter().flatten().collect(), FIRST_SQS_ID)
        .unwrap();
    let ParsedMessage::Plain(plain) = read else { panic!() };
    assert_eq!(plain.metadata().message_id_text, "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01");
    assert_eq!(plain.form(), BodyForm::Plain { idempotency_key: Some("first".to_owned()) });
}

#[test]
fn an_id_attribute_must_be_non_empty_text() {
    let attribute_sources = sources(Some("Id"), None);
    let key = |attribute: Attribute| {
        find_message_id(&attribute_sources, "x", &Attributes::from([("Id".to_owned(), attribute)])).key
    };
    let attribute = |data_type: &str, value| Attribute { data_type: data_type.to_owned(), value };
    use crate::message::AttributeValue::{Binary, Text};
    assert_eq!(key(attribute("Number", Text("0017".to_owned()))).unwrap(), "0017");
    assert_eq!(key(attribute("String.label", Text("a".to_owned()))).unwrap(), "a");
    assert_eq!(key(attribute("Binary", Binary(b"a".to_vec()))), None);
    assert_eq!(key(attribute("String", Text(String::new()))), None);
}

#[test]
fn a_pointer_finds_strings_and_numbers() {
    let body =
        json!({"a": {"b/c": {"~": "deep"}}, "": "unnamed", "list": [{"id": "first"}, "second"], "0": "zero"});
    let body = body.to_string();
    let key = |pointer: &str, body: &str| {
        find_message_id(&sources(None, Some(pointer)), body, &Attributes::new()).key
    };
    for (pointer, found) in [
        ("/a/b~1c/~0", Some("deep")),
        ("/", Some("unnamed")),
        ("/list/0/id", Some("first")),
        ("/list/1", Some("second")),
        ("/0", Some("zero")),
        ("/list/01", None),
        ("/list/-", None),
        ("/list/2", None),
        ("/list/99999999999999999999", None),
        ("/list/id", None),
        ("/list", None),
        ("/a", None),
        ("/a/b~1c/~0/more", None),
    ] {
        assert_eq!(key(pointer, &body).as_deref(), found, "{pointer}");
    }
    for (value, found) in [
        ("12345678901234567890", Some("12345678901234567890")),
        ("-1.50e+3", Some("-1.50e+3")),
        (r#""""#, None),
        ("null", None),
        ("true", None),
        (r#""\ud800""#, None),
        (r#""\u0061""#, Some("a")),
        (r#"1,"id":2"#, Some("2")),
    ] {
        assert_eq!(key("/id", &format!(r#" {{"id":{value}}} "#)).as_deref(), found, "{value}");
    }
    let empty = find_message_id(&sources(None, Some("/id")), r#"{"id":""}"#, &Attributes::new());
    assert_eq!(empty.text, FIRST_SQS_ID, "an empty string is not an id");
    assert_eq!(key("/id", "not JSON"), None);
    assert_eq!(key("/id", r#"{"id":1} {}"#), None);
}

#[test]
fn invalid_id_pointer_is_refused() {
    for wrong in ["", "id", "#/id", "$.id", "/a~", "/a~2", "/~/b"] {
        assert_eq!(Pointer::new(wrong), Err(PointerError), "{wrong}");
    }
    assert_eq!(Pointer::new("/~01/a"), Ok(Pointer::new("/~01/a").unwrap()));
    assert_eq!(
        find_message_id(&sources(None, Some("/~01")), r#"{"~1":"x","/":"y"}"#, &Attributes::new())
            .key
            .unwrap(),
        "x"
    );
}

#[test]
fn invalid_id_attribute_is_refused() {
    for ours in ["Redeliver", "Failure"] {
        assert_eq!(IdAttribute::new(ours.to_owned()), Err(IdAttributeError::Reserved));
    }
    let error = IdAttribute::new("order id".to_owned()).unwrap_err().to_string();
    assert!(error.starts_with("is not the name of a message attribute: "), "{error}");
}

#[test]
fn a_cloud_event_is_recognized_by_three_strings() {
    let key = |body: &str| find_message_id(&IdSources::default(), body, &Attributes::new()).key;
    assert_eq!(key(r#" {"specversion":"1.0","source":"urn:a","id":"1"}"#).unwrap(), "urn:a 1");
    for not_an_event in [
        r#"{"source":"urn:a","id":"1"}"#,
        r#"{"specversion":1,"source":"urn:a","id":"1"}"#,
        r#"{"specversion":"1.0","source":"","id":"1"}"#,
        r#"{"specversion":"1.0","source":"a b","id":"1"}"#,
        r#"{"specversion":"1.0","source":"urn:a","id":1}"#,
        r#"[{"specversion":"1.0","source":"urn:a","id":"1"}]"#,
    ] {
        assert_eq!(key(not_an_event), None, "{not_an_event}");
    }
}

#[test]
fn id_that_is_not_a_uuid_is_hashed_to_a_uuid() {
    let id = id_from_text("order-17");
    assert_eq!(id.uuid, Uuid::new_v5(&NAMESPACE, b"order-17"));
    assert_eq!((id.text, id.key.as_deref()), (id.uuid.to_string(), Some("order-17")));
    let upper = "6F1C0D3E-8A55-4C8E-9A3F-2B1D7E5F9A01";
    assert_eq!((id_from_text(upper).text.as_str(), id_from_text(upper).key), (upper, None));
    for other_form in ["6f1c0d3e8a554c8e9a3f2b1d7e5f9a01", "{6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01}"] {
        assert_eq!(id_from_text(other_form).key.as_deref(), Some(other_form));
    }
    for text in ["é", "a\n", "a\u{7f}", " a", "a ", &"x".repeat(257)] {
        let id = id_from_text(text);
        assert_eq!((id.uuid, id.key), (Uuid::new_v5(&NAMESPACE, text.as_bytes()), None), "{text:?}");
    }
    assert_eq!(id_from_text(&"x".repeat(256)).key.unwrap().len(), 256);
}
