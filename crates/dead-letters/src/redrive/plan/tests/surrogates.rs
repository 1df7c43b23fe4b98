//! Messages with a lone surrogate (half a character), which JSON can escape but UTF-8 text cannot represent.

use super::*;

fn record_with_surrogates() -> DeadLetterRecord {
    record(&format!(
        r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"name":"A\ud800","n":1.50,"all":["\udc00",1]}}}}"#
    ))
}

fn edit_body(edit: &str) -> String {
    expect_send(plan(edit).decide(&record_with_surrogates()).unwrap()).body
}

#[test]
fn an_edit_beside_a_lone_surrogate_keeps_it_byte_for_byte() {
    let metadata = format!(r#"{{"message_id":"{ID}","redrive_generation":1}}"#);
    assert_eq!(
        edit_body(".body.data.n = 2"),
        format!(r#"{{"metadata":{metadata},"data":{{"name":"A\ud800","n":2,"all":["\udc00",1]}}}}"#)
    );
    assert_eq!(
        edit_body(r#".body.data.name = "A""#),
        format!(r#"{{"metadata":{metadata},"data":{{"name":"A","n":1.50,"all":["\udc00",1]}}}}"#)
    );
    let rewritten = record_with_surrogates().message.body.replace("1.50", "2").replace(r"\ud800", "\u{fffd}");
    let by_hand = RedrivePlan {
        edit: Some(BodyEdit::replace_body(&rewritten)),
        max_generation: 3,
        ..RedrivePlan::default()
    };
    assert_eq!(
        expect_send(by_hand.decide(&record_with_surrogates()).unwrap()).body,
        edit_body(".body.data.n = 2"),
        "as an editor shows it"
    );
}

#[test]
fn an_edit_that_would_replace_a_lone_surrogate_is_refused() {
    for edit in [".body.data.all[1] = 2", ".body.data.copy = .body.data.name"] {
        let verdict = plan(edit).decide(&record_with_surrogates()).unwrap();
        let RedriveDecision::Stays(StayReason::EditRefused(why)) = verdict else {
            panic!("{edit}: {verdict:?}")
        };
        assert!(why.starts_with("it would replace a lone surrogate with U+FFFD"), "{why}");
    }
}

#[test]
fn a_new_id_is_assigned_beside_a_lone_surrogate() {
    let renewing = RedrivePlan { new_id: true, ..plan(".body.data.n = 2") };
    let RedriveDecision::Send(sent) = renewing.decide(&record_with_surrogates()).unwrap() else {
        panic!("it is valid")
    };
    assert_eq!(sent.old_message_id.as_deref(), Some(ID));
    assert!(sent.message.content().body.contains(&sent.message_id), "{:?}", sent.message);
}
