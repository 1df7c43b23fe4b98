use super::*;
use crate::decide::tests::{body, one_minute_policy};
use crate::message::schema::MessageSchema;

#[test]
fn the_target_is_never_called_more_often_than_the_policy_allows() {
    let is_call_allowed = |members: &str, receive_count| {
        let metadata = MessageSchema::default().parse_envelope(&body(members)).unwrap().metadata;
        check_call_allowed(&one_minute_policy(), &metadata, receive_count).is_ok()
    };
    assert!(
        (1..=4).all(|receive_count| is_call_allowed("", receive_count)),
        "the first call and three retries"
    );
    assert!(!is_call_allowed("", 5), "the last retry was not answered");
    assert!(is_call_allowed(r#""max_attempts":0"#, 1) && !is_call_allowed(r#""max_attempts":0"#, 2));
}
