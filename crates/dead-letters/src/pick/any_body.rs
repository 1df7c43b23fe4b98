//! Tests that one message's body never prevents the other messages in its queue from being picked or edited.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_testing::dead_letters::{foreign_message, retried_record};

use super::*;
use crate::redrive::{BodyEdit, RedriveDecision, RedrivePlan};

/// JSON on which parsers disagree.
const ODD_JSON: [&str; 22] = [
    r#""A\ud800""#,
    r#"{"\udc00":"\ud800\ud800"}"#,
    r#""\ud83d\ude00\u0000""#,
    "1e400",
    "-1E+999999999999999999",
    "0.1e-99999",
    "-0",
    "01",
    "+1",
    "NaN",
    "-Infinity",
    "{\"a\":1,\"a\":2}",
    r#"{"$serde_json::private::Number":"1"}"#,
    "\u{feff}{}",
    "{\"a\tb\":1}",
    "# no comment\n1",
    "{'a':1}",
    "[1,]",
    "{\"a\":1}{\"b\":2}",
    "\"\\x41\"",
    "b\"bytes\"",
    "nul",
];

fn any_body() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(&ODD_JSON).prop_map(str::to_owned);
    let text = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
    let digits = (1..2000_usize).prop_map(|digits| "9".repeat(digits));
    let value = prop_oneof![3 => odd, 1 => text, 1 => digits];
    let nested = (value, 0..1200_usize, any::<bool>()).prop_map(|(value, levels, is_closed)| {
        let levels = if levels < 600 { levels % 3 } else { levels };
        format!("{}{value}{}", "[".repeat(levels), "]".repeat(if is_closed { levels } else { 0 }))
    });
    let envelope = nested.clone().prop_map(|value| {
        format!(
            r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"}},"data":{{"x":{value},"n":1}}}}"#
        )
    });
    prop_oneof![nested, envelope, any::<String>()].prop_filter("SQS accepts it", |body| {
        OutgoingMessage::new(Content { body: body.clone(), ..Content::default() }).is_ok()
    })
}

/// Returns eleven messages, one of which has this body.
fn queue_with_body(body: &str) -> Vec<DeadLetterRecord> {
    let ten = (1..=10).map(|number| retried_record("NON_RETRYABLE_ERROR", "x", number));
    let mut queue: Vec<_> = ten.collect();
    queue.insert(5, foreign_message(body, 11));
    queue.into_iter().map(DeadLetterRecord::new).collect()
}

/// Runs the test for arbitrary bodies.
fn test_any_body(test: impl Fn(String) -> Result<(), TestCaseError>) {
    // A filter starts a thread, so it is created once, not per case.
    let mut runner = TestRunner::new(ProptestConfig { cases: 64, ..ProptestConfig::default() });
    runner.run(&any_body(), test).unwrap();
}

#[test]
fn no_message_body_stops_ten_others_from_being_picked() {
    let filters = [
        r#".error_type == "NON_RETRYABLE_ERROR""#,
        r#".body.data.card | startswith("secret-")"#,
        "(.body.data.card | ltrimstr(\"secret-\") | tonumber) <= 10",
        "tojson | length > 0",
    ];
    let picks = filters.map(|filter| Pick::with_filter(Filter::for_dead_letters(filter).unwrap()));
    test_any_body(|body| {
        for (pick, filter) in picks.iter().zip(filters) {
            let choices: Vec<_> =
                queue_with_body(&body).iter().map(|record| pick.judge_record(record)).collect();
            for (index, choice) in choices.into_iter().enumerate().filter(|(index, _)| *index != 5) {
                prop_assert_eq!(choice, Ok(Choice::Picked), "{} {}", filter, index);
            }
        }
        Ok(())
    });
}

#[test]
fn no_message_body_stops_ten_others_from_being_edited() {
    let edit = Some(BodyEdit::new(".body.data.fixed = (.body.data.card | length)").unwrap());
    let plan = RedrivePlan { edit, max_generation: 3, ..RedrivePlan::default() };
    test_any_body(|body| {
        for (index, record) in queue_with_body(&body).iter().enumerate() {
            let verdict = plan.decide(record).unwrap();
            prop_assert!(index == 5 || matches!(verdict, RedriveDecision::Send(_)), "{:?}", verdict);
        }
        Ok(())
    });
}

#[test]
fn a_lone_surrogate_is_judged_as_jq_reads_it() {
    let body = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":{"a":"A\ud800"}}"#;
    let choice = |filter: &str| {
        let pick = Pick::with_filter(Filter::for_dead_letters(filter).unwrap());
        pick.judge_record(&queue_with_body(body)[5]).unwrap()
    };
    assert_eq!(choice(r#".body.data.a == "A\ufffd""#), Choice::Picked);
    assert_eq!(choice(r#".error_type == "NON_RETRYABLE_ERROR""#), Choice::NotPicked);
}

#[test]
fn a_filter_failure_leaves_only_that_message_unjudged() {
    let pick = Pick::with_filter(Filter::for_dead_letters(".body.data.card | length > 0").unwrap());
    let choices: Vec<_> =
        queue_with_body("text").iter().map(|record| pick.judge_record(record).unwrap()).collect();
    let mut expected = vec![Choice::Picked; 11];
    expected[5] = Choice::NotJudged("cannot index a value with another".to_owned());
    assert_eq!(choices, expected);
    assert_eq!(pick.check_filter(), Ok(()));
    let wrong = Pick::with_filter(Filter::for_dead_letters(".error_type + 1 > 0").unwrap());
    queue_with_body("text")
        .iter()
        .for_each(|record| assert!(matches!(wrong.judge_record(record), Ok(Choice::NotJudged(_)))));
    assert_eq!(
        wrong.check_filter().unwrap_err().to_string(),
        "the filter `.error_type + 1 > 0` fails on message sqs-1: cannot calculate with two values"
    );
}
