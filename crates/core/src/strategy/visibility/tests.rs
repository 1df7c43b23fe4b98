use super::*;
use crate::decide::tests::{body, minutes};
use crate::message::schema::MessageSchema;

#[test]
fn the_target_is_not_called_once_more_than_the_policy_has() {
    let called = |members: &str, receive_count| {
        let metadata = MessageSchema::default().parse_envelope(&body(members)).unwrap().metadata;
        may_be_called(&minutes(), &metadata, receive_count).is_ok()
    };
    assert!((1..=4).all(|receive_count| called("", receive_count)), "three retries");
    assert!(!called("", 5), "the last one was not answered");
    assert!(called(r#""max_attempts":0"#, 1) && !called(r#""max_attempts":0"#, 2));
}
