use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::loopback::Loopback;

fn now() -> Timestamp {
    "2026-11-22T12:00:30Z".parse().unwrap()
}

fn minutes_ago(minutes: &[i64]) -> Vec<Timestamp> {
    minutes.iter().map(|minutes| now() - TimeDelta::seconds(30) - TimeDelta::minutes(*minutes)).collect()
}

fn down(minutes: &[i64]) -> Option<i64> {
    down_since(minutes_ago(minutes), now()).map(|since| (now() - since).num_minutes())
}

#[test]
fn an_outage_began_with_the_first_of_signs_that_are_a_quarter_of_an_hour_apart_at_most() {
    assert_eq!(down(&[]), None);
    assert_eq!(down(&[0]), Some(0));
    assert_eq!(down(&[15]), Some(15));
    assert_eq!(down(&[16]), None, "it is over");
    assert_eq!(down(&[30, 15, 45]), Some(45), "in any order");
    assert_eq!(down(&[3, 18, 34, 35]), Some(18), "the outage before is another one");
}

#[test]
fn a_sign_of_a_moment_that_this_machine_has_not_reached_counts() {
    assert_eq!(down_since(vec![now() + TimeDelta::minutes(2)], now()), Some(now() + TimeDelta::minutes(2)));
}

proptest! {
    #[test]
    fn between_since_and_now_no_quarter_of_an_hour_is_without_a_sign(minutes in vec(0..200_i64, 0..60)) {
        let mut newest_first = minutes.clone();
        newest_first.sort_unstable();
        let mut expected = 0;
        let mut found = None;
        for minute in newest_first {
            if minute - expected > 15 {
                break;
            }
            (expected, found) = (minute, Some(minute));
        }
        prop_assert_eq!(down(&minutes), found);
    }
}

#[test]
fn a_person_reads_since_when_and_for_how_long() {
    let told = |down_since| Target { down_since, now: now() }.to_string();
    assert_eq!(
        told(Some(now() - TimeDelta::seconds(3_930))),
        "target: DOWN since 2026-11-22 10:55 UTC (1h 5m). Its messages are held and spend no attempts; they are done \
         within 15 minutes of its return. The log line circuit_opened of the message-processor has its error"
    );
    assert!(told(Some(now() - TimeDelta::days(14))).contains("2026-11-08 12:00 UTC (14d or more)"));
    assert!(!told(Some(now() - TimeDelta::days(13))).contains("or more"));
    assert_eq!(
        told(None),
        "target: no circuit breaker was open in the last 15 minutes, as far as CloudWatch knows"
    );
}

#[test]
fn a_program_reads_a_moment_or_null() {
    let told = |down_since| serde_json::to_value(Target { down_since, now: now() }).unwrap();
    assert_eq!(told(Some(now())), json!({ "down_since": "2026-11-22T12:00:30Z" }));
    assert_eq!(told(None), json!({ "down_since": null }));
}

#[tokio::test]
async fn a_refusal_names_the_right_that_is_missing() {
    let denied = json!({ "Message": "not authorized", "__type": "AccessDeniedException" });
    let server = Loopback::start([(403, denied)]);
    let error = Target::look(&server.sdk_config(), ["prod-message-processor"]).await.unwrap_err();
    assert!(error.starts_with("cloudwatch:GetMetricData: "), "{error}");
    assert!(server.requests()[0].0.contains("GetMetricData"), "{:?}", server.requests());
}
