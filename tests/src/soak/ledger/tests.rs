//! Histories made by hand: those that balance, and each with one thing wrong.

use std::time::Duration;

use serde_json::{Map, json};

use super::*;
use crate::soak::history::{Attribute, Attributes};
use crate::soak::messages::{Fate, Frame};

const ID: &str = "00000000-5eed-4000-8000-000000000000";

/// A body with these members of `metadata` after the id.
fn body(members: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{ID}"{members}}},"data":{{"key":"soak-000000","n":1e400}}}}"#)
}

fn attributes() -> Attributes {
    let blob = Attribute { data_type: "Binary".to_owned(), value: vec![0, 255] };
    Attributes::from([("tenant".to_owned(), Attribute::string("acme")), ("blob".to_owned(), blob)])
}

fn sent(fate: Fate) -> Sent {
    let frame = Frame {
        before: r#"{"metadata":"#.to_owned(),
        metadata: Map::from_iter([("message_id".to_owned(), json!(ID))]),
        after: r#","data":{"key":"soak-000000","n":1e400}}"#.to_owned(),
    };
    let group = Some("tenant-1".to_owned());
    let content = Content { body: body(""), attributes: attributes(), group };
    Sent { message_id: ID.to_owned(), fate, content, frame: Some(frame) }
}

/// What was sent, with other members of `metadata` and further attributes.
fn content(members: &str, more: &[(&str, &str)]) -> Content {
    let mut content = sent(Fate::Healthy).content;
    content.body = body(members);
    content.attributes.extend(more.iter().map(|(name, text)| ((*name).to_owned(), Attribute::string(text))));
    content
}

fn delivery(invocation: Invocation, from: Stage, content: Content, end: End) -> Delivery {
    Delivery { invocation, from, key: 0, content, receives: 1, end }
}

fn send(invocation: Invocation, to: Stage, content: Content) -> Send {
    let after = Duration::from_millis(10);
    Send { invocation, to, key: 0, content, delay_seconds: 0, arrived: true, told: Told::Confirmed, after }
}

fn call(invocation: Invocation, members: &str, attempt: u32, answer: Answer) -> Call {
    let idempotency_key = ID.to_owned();
    Call { invocation, key: 0, body: body(members), idempotency_key, attempt: attempt.to_string(), answer }
}

const RETRIED: &str = r#","retry_attempt":1"#;
const FAILURE: (&str, &str) = ("Failure", r#"{"type":"HttpStatus.503"}"#);

/// It failed, was sent again, and was taken.
fn retried() -> History {
    History {
        sent: vec![sent(Fate::Flaky(1))],
        deliveries: vec![
            delivery(0, Stage::Source, content("", &[]), End::Deleted),
            delivery(1, Stage::Intermediate, content("", &[FAILURE]), End::Deleted),
            delivery(2, Stage::Source, content(RETRIED, &[]), End::Deleted),
        ],
        sends: vec![
            send(0, Stage::Intermediate, content("", &[FAILURE])),
            send(1, Stage::Source, content(RETRIED, &[])),
        ],
        calls: vec![call(0, "", 0, Answer::Transient), call(2, RETRIED, 1, Answer::Success)],
        ..History::default()
    }
}

/// A final record as the annotator writes it; the binary attribute is folded.
fn record(error_type: &str, members: &str, attempts: u32) -> Content {
    let folded = json!({"blob": {"data_type": "Binary", "base64": "AP8="}});
    let document = json!({"attempts": attempts, "folded_attributes": folded}).to_string();
    let details = ("ErrorDetails", "Max retry attempts 5 exceeded; last error HttpStatus.503: HTTP 503");
    let mut record = content(members, &[("ErrorType", error_type), details, ("DeadLetter", &document)]);
    record.attributes.remove("blob");
    record
}

/// The target refused it.
fn refused() -> History {
    let verdict = || content("", &[FAILURE]);
    History {
        sent: vec![sent(Fate::Refused)],
        deliveries: vec![
            delivery(0, Stage::Source, content("", &[]), End::Deleted),
            delivery(1, Stage::Intermediate, content("", &[FAILURE]), End::Deleted),
            delivery(2, Stage::Annotation, verdict(), End::Deleted),
        ],
        sends: vec![
            send(0, Stage::Intermediate, content("", &[FAILURE])),
            send(1, Stage::Annotation, verdict()),
            send(2, Stage::Final, record("NON_RETRYABLE_ERROR", "", 0)),
        ],
        calls: vec![call(0, "", 0, Answer::Permanent)],
        finals: vec![(0, record("NON_RETRYABLE_ERROR", "", 0))],
        ..History::default()
    }
}

fn kinds(history: &History) -> Vec<Kind> {
    balance(history).violations.into_iter().map(|violation| violation.kind).collect()
}

/// What is wrong with a history after a change.
fn wrong(mut history: History, change: impl FnOnce(&mut History)) -> Vec<Kind> {
    assert_eq!(kinds(&history), [], "it was right before");
    change(&mut history);
    kinds(&history)
}

#[test]
fn what_went_well_balances() {
    let retried = balance(&retried());
    assert_eq!(retried.violations, []);
    assert_eq!((retried.processed, retried.dead_lettered.len(), retried.ends_beyond_first), (1, 0, 0));
    let refused = balance(&refused());
    assert_eq!(refused.violations, []);
    assert_eq!(refused.dead_lettered, BTreeMap::from([("NON_RETRYABLE_ERROR".to_owned(), 1)]));
    assert_eq!((refused.processed, refused.copies.len()), (0, 0));
}

#[test]
fn a_message_without_an_end_is_lost() {
    assert_eq!(
        wrong(retried(), |it| it.calls[1].answer = Answer::Transient),
        [Kind::DoneTooSoon, Kind::Lost]
    );
    assert_eq!(wrong(refused(), |it| it.finals.clear()), [Kind::OutOfBalance, Kind::Lost]);
    let nothing = History { sent: vec![sent(Fate::Healthy)], ..History::default() };
    assert_eq!(kinds(&nothing), [Kind::OutOfBalance, Kind::Lost]);
}

#[test]
fn a_copy_that_is_called_done_before_its_send_is_confirmed_is_seen_though_the_message_is_not_lost() {
    let unconfirmed = |history: &mut History| history.sends[0].told = Told::NotConfirmed("reset");
    assert_eq!(wrong(refused(), unconfirmed), [Kind::DoneTooSoon]);
    let not_sent = |history: &mut History| {
        (history.sends[0].arrived, history.sends[0].told) = (false, Told::NotConfirmed("500"));
    };
    assert_eq!(wrong(refused(), not_sent), [Kind::DoneTooSoon, Kind::OutOfBalance]);
    // The delete was lost, so no copy was: but the function did not know that.
    let luckily = |history: &mut History| {
        history.sends[1].told = Told::NotConfirmed("reset");
        history.deliveries[1].end = End::DeleteLost;
        history.deliveries.push(delivery(3, Stage::Intermediate, content("", &[FAILURE]), End::Deleted));
        history.sends.push(send(3, Stage::Source, content(RETRIED, &[])));
        history.deliveries.push(delivery(4, Stage::Source, content(RETRIED, &[]), End::Deleted));
        history.calls.push(call(4, RETRIED, 1, Answer::Success));
    };
    assert_eq!(wrong(refused(), luckily), [Kind::DoneTooSoon]);
}

#[test]
fn a_copy_without_a_cause_is_seen() {
    let twice = |history: &mut History| {
        history.calls.push(call(2, RETRIED, 1, Answer::Success));
    };
    assert_eq!(wrong(retried(), twice), [Kind::UnexplainedCopy]);
    // Confirmed, and called failed all the same: it came back and was processed again.
    let not_believed = |history: &mut History| {
        history.deliveries[1].end = End::Failed;
        history.deliveries.push(delivery(3, Stage::Intermediate, content("", &[FAILURE]), End::Deleted));
        history.sends.push(send(3, Stage::Source, content(RETRIED, &[])));
        history.deliveries.push(delivery(4, Stage::Source, content(RETRIED, &[]), End::Deleted));
        history.calls.push(call(4, RETRIED, 1, Answer::Success));
    };
    assert_eq!(wrong(retried(), not_believed), [Kind::UnexplainedCopy]);
}

/// The retried message's re-send arrived twice.
fn copied(change: impl FnOnce(&mut History)) -> Balance {
    let mut history = retried();
    history.sends.push(send(1, Stage::Source, content(RETRIED, &[])));
    history.deliveries.push(delivery(3, Stage::Source, content(RETRIED, &[]), End::Deleted));
    history.calls.push(call(3, RETRIED, 1, Answer::Success));
    change(&mut history);
    balance(&history)
}

#[test]
fn each_copy_is_counted_under_the_cause_that_was_seen() {
    assert_eq!(copied(|_| {}).violations.len(), 1, "two confirmed sends of one message");

    let lost = copied(|history| history.sends[1].told = Told::NotConfirmed("answer truncated"));
    assert_eq!(lost.violations, []);
    assert_eq!(lost.copies, BTreeMap::from([("answer truncated".to_owned(), 1)]));
    assert_eq!(lost.ends_beyond_first, 1);

    // The first copy was sent by a process that then died, the second one when it came back.
    let killed = copied(|history| {
        history.deliveries[1].end = End::Killed;
        history.deliveries.push(delivery(4, Stage::Intermediate, content("", &[FAILURE]), End::Deleted));
        history.sends[2].invocation = 4;
    });
    assert_eq!(killed.violations, []);
    assert_eq!(killed.copies, BTreeMap::from([("killed: failed-message-processor".to_owned(), 1)]));

    let one_cause_for_two = copied(|history| {
        history.sends[1].told = Told::NotConfirmed("answer truncated");
        history.sends.push(send(1, Stage::Source, content(RETRIED, &[])));
    });
    let kinds: Vec<_> = one_cause_for_two.violations.iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds, [Kind::UnexplainedCopy, Kind::OutOfBalance]);
}

#[test]
fn an_answer_of_the_target_is_too_late_only_when_so_much_time_had_passed() {
    // It was processed, and handed off as timed out.
    let processed = |after| {
        let mut history = retried();
        history.calls[0].answer = Answer::Success;
        history.sends[0].content = content("", &[("Failure", r#"{"type":"Http.Timeout"}"#)]);
        history.sends[0].after = after;
        kinds(&history)
    };
    assert_eq!(processed(target::TIMEOUT), []);
    assert_eq!(processed(target::TIMEOUT / 2), [Kind::UnexplainedCopy]);
}

#[test]
fn changed_bytes_are_seen_wherever_they_are() {
    let spoil = |content: &mut Content| content.body = content.body.replace("1e400", "1E400");
    assert_eq!(wrong(retried(), |it| spoil(&mut it.sends[1].content)), [Kind::Changed]);
    assert_eq!(wrong(retried(), |it| spoil(&mut it.deliveries[2].content)), [Kind::Changed, Kind::Changed]);
    assert_eq!(wrong(refused(), |it| spoil(&mut it.finals[0].1)), [Kind::Changed]);
    assert_eq!(
        wrong(retried(), |it| it.calls[0].body = it.calls[0].body.replace("1e400", "0")),
        [Kind::Changed]
    );
    let own = |history: &mut History| history.finals[0].1.body = body(r#","own":1"#);
    assert_eq!(wrong(refused(), own), [Kind::Changed]);
}

#[test]
fn an_attribute_or_a_group_that_is_gone_or_changed_is_seen() {
    let gone = |content: &mut Content| assert!(content.attributes.remove("tenant").is_some());
    assert_eq!(wrong(retried(), |it| gone(&mut it.sends[1].content)), [Kind::Changed]);
    assert_eq!(wrong(refused(), |it| gone(&mut it.finals[0].1)), [Kind::Changed]);
    let unfolded = |history: &mut History| {
        let document = json!({"attempts": 0}).to_string();
        history.finals[0].1.attributes.insert("DeadLetter".to_owned(), Attribute::string(&document));
    };
    assert_eq!(wrong(refused(), unfolded), [Kind::Changed]);
    let left = |history: &mut History| history.sends[1].content = content(RETRIED, &[FAILURE]);
    assert_eq!(wrong(retried(), left), [Kind::Changed], "ours must not reach the source queue");
    assert_eq!(wrong(retried(), |it| it.sends[1].content.group = None), [Kind::Changed]);
}

#[test]
fn an_attempt_that_is_skipped_repeated_or_beyond_the_limit_is_seen() {
    let resent = |members: &'static str| move |it: &mut History| it.sends[1].content.body = body(members);
    assert_eq!(wrong(retried(), resent(r#","retry_attempt":2"#)), [Kind::Miscounted]);
    assert_eq!(wrong(retried(), resent("")), [Kind::Miscounted]);
    assert_eq!(wrong(retried(), resent(r#","retry_attempt":1,"snooze_count":1"#)), [Kind::Miscounted]);
    assert_eq!(wrong(retried(), resent(r#","retry_attempt":1,"redrive_count":1"#)), [Kind::Miscounted]);
    let told = |history: &mut History| history.calls[1].attempt = "0".to_owned();
    assert_eq!(wrong(retried(), told), [Kind::Miscounted]);
    let beyond = r#","retry_attempt":6"#;
    let received = |history: &mut History| {
        history.deliveries[2].content.body = body(beyond);
        history.calls[1] = call(2, beyond, 6, Answer::Success);
    };
    assert_eq!(wrong(retried(), received), [Kind::Miscounted]);
    assert_eq!(wrong(retried(), |it| it.sends[1].delay_seconds = 3), [Kind::Miscounted]);
}

/// Two copies of a message are in one batch: of one that SQS had moved before an answer, and of one that was answered.
#[test]
fn a_re_send_follows_the_copy_whose_counts_it_continues() {
    let moved = r#","redrive_count":1"#;
    let resent = |members: &'static str| {
        move |it: &mut History| {
            it.deliveries[1].content = content(RETRIED, &[FAILURE]);
            it.deliveries.push(delivery(1, Stage::Intermediate, content(moved, &[FAILURE]), End::Deleted));
            it.sends[1].content.body = body(members);
        }
    };
    let kinds = |members| {
        let kinds = wrong(retried(), resent(members));
        kinds.into_iter().filter(|kind| *kind == Kind::Miscounted).count()
    };
    assert_eq!(kinds(r#","retry_attempt":1,"redrive_count":1,"redrive_count_at_answer":1"#), 0);
    assert_eq!(kinds(r#","retry_attempt":1,"redrive_count":1"#), 0);
    assert_eq!(kinds(r#","redrive_count":2"#), 0);
    assert_eq!(kinds(r#","redrive_count":2,"redrive_count_at_answer":2"#), 1);
    assert_eq!(kinds(r#","redrive_count":1,"redrive_count_at_answer":2"#), 1);
}

#[test]
fn an_error_type_that_does_not_fit_is_seen() {
    let called = |error_type| wrong(refused(), |it| it.finals[0].1 = record(error_type, "", 0));
    for error_type in [
        "RETRY_ATTEMPT_EXCEEDED",
        "MESSAGE_EXPIRED",
        "INVALID_MESSAGE_FORMAT",
        "MESSAGE_TOO_LARGE",
        "ORCHESTRATION_FAILED",
        "",
        "UNKNOWN",
    ] {
        assert_eq!(called(error_type), [Kind::WrongVerdict], "{error_type}");
    }
    let not_refused = |history: &mut History| history.calls[0].answer = Answer::Transient;
    assert_eq!(wrong(refused(), not_refused), [Kind::WrongVerdict]);
    let attempts = |history: &mut History| history.finals[0].1 = record("NON_RETRYABLE_ERROR", "", 3);
    assert_eq!(wrong(refused(), attempts), [Kind::WrongVerdict]);
}

#[test]
fn exceeded_attempts_were_all_received() {
    let members =
        |attempt| if attempt == 0 { String::new() } else { format!(r#","retry_attempt":{attempt}"#) };
    let exceeded = |skipped: Option<u64>| {
        let mut history = refused();
        let last = members(ATTEMPTS_MAX);
        for place in 1..3 {
            history.deliveries[place].content.body = body(&last);
            history.sends[place].content.body = body(&last);
        }
        history.finals[0].1 = record("RETRY_ATTEMPT_EXCEEDED", &last, 5);
        for attempt in (1..=ATTEMPTS_MAX).filter(|attempt| Some(*attempt) != skipped) {
            history.deliveries.push(delivery(
                10 + attempt,
                Stage::Source,
                content(&members(attempt), &[]),
                End::Killed,
            ));
        }
        kinds(&history)
    };
    assert_eq!(exceeded(None), []);
    assert_eq!(exceeded(Some(3)), [Kind::WrongVerdict]);
}

#[test]
fn what_goes_astray_is_seen() {
    let skipping = |history: &mut History| history.sends[0].to = Stage::Annotation;
    assert_eq!(wrong(retried(), skipping), [Kind::Misled]);
    let never_received = |history: &mut History| {
        history.sends[1].invocation = 7;
    };
    assert_eq!(wrong(retried(), never_received), [Kind::DoneTooSoon, Kind::Misled, Kind::UnexplainedCopy]);
    let of_nobody = |history: &mut History| history.finals.push((9, content("", &[])));
    assert_eq!(wrong(retried(), of_nobody), [Kind::Misled]);
    let trouble = |history: &mut History| history.troubles.push("a redirect was followed".to_owned());
    assert_eq!(wrong(retried(), trouble), [Kind::Trouble]);
}

#[test]
fn an_invalid_message_is_dead_lettered_as_it_came_and_never_called() {
    let invalid = || {
        let mut sent = sent(Fate::Malformed);
        sent.frame = None;
        let mut record = record("INVALID_MESSAGE_FORMAT", "", 0);
        let document = json!({"folded_attributes": {"blob": {"data_type": "Binary", "base64": "AP8="}}});
        record.attributes.insert("DeadLetter".to_owned(), Attribute::string(&document.to_string()));
        History {
            sent: vec![sent],
            deliveries: vec![
                delivery(0, Stage::Source, content("", &[]), End::Deleted),
                delivery(1, Stage::Annotation, content("", &[FAILURE]), End::Deleted),
            ],
            sends: vec![
                send(0, Stage::Annotation, content("", &[FAILURE])),
                send(1, Stage::Final, record.clone()),
            ],
            finals: vec![(0, record)],
            ..History::default()
        }
    };
    assert_eq!(wrong(invalid(), |it| it.calls.push(call(0, "", 0, Answer::Transient))), [Kind::Misled]);
    assert_eq!(wrong(invalid(), |it| it.sent[0].fate = Fate::Invalid), [Kind::WrongVerdict]);
}
