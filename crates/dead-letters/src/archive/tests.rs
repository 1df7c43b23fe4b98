use redeliver_core::message::{Attribute, AttributeValue, Attributes, Timestamp};

use super::*;

fn received_message(body: &str, attributes: Attributes) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "sqs-7".to_owned(),
        receipt_handle: "handle".to_owned(),
        body: body.to_owned(),
        attributes,
        sent_at: Timestamp::UNIX_EPOCH,
        first_received_at: Timestamp::from_timestamp(5, 0),
        receive_count: 3,
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        sender_id: None,
        redriven_from: Some("arn:source".to_owned()),
        queue_arn: "arn:dlq".to_owned(),
        omitted: Vec::new(),
    }
}

#[test]
fn a_message_is_restored_unchanged_from_its_line() {
    let binary =
        Attribute { data_type: "Binary.png".to_owned(), value: AttributeValue::Binary(vec![0, 255, 10, 13]) };
    let number =
        Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text("1e400".to_owned()) };
    let attributes: Attributes = [("image".to_owned(), binary), ("n".to_owned(), number)].into();
    let body = "{ \"a\" :\t1e400,\r\n \"\\u00e9\":\"é\u{7f}😀\u{2028}\" }\n";
    let message = received_message(body, attributes.clone());
    let line = serde_json::to_string(&ArchivedMessage::new(&message)).unwrap();
    assert!(!line.contains('\n'));
    assert!(line.contains(r#""image":{"DataType":"Binary.png","BinaryValue":"AP8KDQ=="}"#), "{line}");
    assert!(line.contains(r#""n":{"DataType":"Number.int","StringValue":"1e400"}"#), "{line}");
    let archived: ArchivedMessage = serde_json::from_str(&line).unwrap();
    assert_eq!(archived, ArchivedMessage::new(&message));
    assert_eq!(archived.body, body);
    assert_eq!(archived.first_received_at.as_deref(), Some("1970-01-01T00:00:05.000000Z"));
    let restored = archived.clone().into_message().unwrap();
    assert_eq!(restored.attributes, attributes);
    assert_eq!(restored, ReceivedMessage { receipt_handle: String::new(), ..message });
    for changed in ["AP8", "1970"] {
        let line = line.replacen(changed, "?", 1);
        let archived: ArchivedMessage = serde_json::from_str(&line).unwrap();
        assert_eq!(archived.into_message(), None, "{line}");
    }
}

#[test]
#[cfg(unix)]
fn an_archive_is_a_new_file_that_other_users_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive.jsonl");
    let mut archive = ArchiveFile::create(&path).unwrap();
    archive.append_message(&received_message("a", Attributes::new())).unwrap();
    archive.append_message(&received_message("b", Attributes::new())).unwrap();
    archive.sync().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    assert!(ArchiveFile::create(&path).unwrap_err().to_string().contains("it already exists"));
    let permissions = std::fs::metadata(&path).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
}
