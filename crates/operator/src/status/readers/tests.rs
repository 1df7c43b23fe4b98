use chrono::TimeDelta;
use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-11-23T00:22:10Z".parse().unwrap()
}

fn ago(minutes: i64) -> Timestamp {
    now() - TimeDelta::minutes(minutes)
}

fn points(points: &[(i64, i64)]) -> Vec<Point> {
    points.iter().map(|(minutes, count)| (ago(*minutes), *count)).collect()
}

/// Returns the readers of a queue without event source mappings.
fn readers(messages: &[(i64, i64)], empty: &[(i64, i64)], in_flight: u64) -> Readers {
    let receives = Receives { messages: points(messages), empty: points(empty) };
    Readers::without_mapping(true, None, Some(in_flight), Ok(receives), now())
}

#[test]
fn a_container_is_detected_by_its_receives() {
    let busy = readers(&[(3, 80), (4, 40), (16, 9)], &[(3, 0), (5, 2)], 0);
    assert_eq!(
        busy.describe(),
        "read by something that is not an event source mapping (a container, or an audit?): 120 messages received and 2 empty \
         receives in the last 15 minutes"
    );
    let expected = json!({
        "state": "something_else",
        "mappings_known": true,
        "messages_received": 120,
        "empty_receives": 2,
        "minutes": 15,
        "minutes_with_receives": 3,
    });
    assert_eq!(serde_json::to_value(&busy).unwrap(), expected);
    assert!(!busy.is_steady(), "an audit looks the same");
}

#[test]
fn an_idle_container_is_detected_by_its_long_polls() {
    let idle = readers(&[(3, 0)], &[(3, 3), (4, 3), (5, 3), (6, 3), (7, 3)], 0);
    assert!(idle.is_steady());
    assert_eq!(
        idle.describe(),
        "read by something that is not an event source mapping (a container, or an audit?): 0 messages received and 15 empty \
         receives in the last 15 minutes"
    );
}

#[test]
fn the_absence_of_readers_is_reported_only_if_no_receives_were_counted() {
    let unseen_readers = Readers::NobodySeen { minutes: 15 };
    assert_eq!(readers(&[(3, 0)], &[(3, 0)], 0), unseen_readers);
    assert_eq!(
        readers(&[(3, 0), (16, 5)], &[], 7),
        unseen_readers,
        "in-flight messages were received earlier"
    );
    assert_eq!(unseen_readers.describe(), "no reader seen in the last 15 minutes");
    let unknown = readers(&[(16, 5)], &[], 0);
    assert_eq!(unknown.describe(), "its readers are unknown: CloudWatch has no data for the last 15 minutes");
}

#[test]
fn without_cloudwatch_messages_in_flight_indicate_a_reader() {
    let describe = |mappings_known, in_flight| {
        let refused = Err("cloudwatch:GetMetricData: AccessDenied: no".to_owned());
        Readers::without_mapping(mappings_known, None, in_flight, refused, now()).describe()
    };
    const WHY: &str = "unknown: cloudwatch:GetMetricData: AccessDenied: no";
    for (mappings_known, in_flight, expected) in [
        (true, None, format!("its readers are {WHY}")),
        (true, Some(0), format!("its readers are {WHY}")),
        (
            true,
            Some(1),
            format!(
                "read by something that is not an event source mapping (a container, or an audit?): 1 message is \
                 in flight; the reader is {WHY}"
            ),
        ),
        (
            false,
            Some(3),
            format!(
                "read by something (a function, a container, or an audit?): 3 messages are in flight; \
                 the reader is {WHY}"
            ),
        ),
    ] {
        assert_eq!(describe(mappings_known, in_flight), expected);
    }
}

#[test]
fn receives_by_a_disabled_mapping_do_not_indicate_another_reader() {
    let receives = Receives { messages: points(&[(2, 0), (6, 50)]), empty: Vec::new() };
    let since = |minutes| {
        Readers::without_mapping(true, Some(ago(minutes)), None, Ok(receives.clone()), now()).describe()
    };
    assert_eq!(since(5), "no reader seen in the last 5 minutes");
    for just_now in [1, 0] {
        let reported = since(just_now);
        assert_eq!(reported, "its readers are unknown: CloudWatch has no data for the last 1 minute");
    }
    assert!(since(7).starts_with("read by something that is not an event source mapping"), "{}", since(7));
}

/// One mapping was disabled long ago, the other a moment ago.
#[test]
fn a_queue_paused_just_now_does_not_indicate_a_container() {
    let off = |minutes: i64| LambdaMapping {
        uuid: "u".to_owned(),
        function: "orders".to_owned(),
        source: String::new(),
        reports_failures: true,
        state: "Disabled".to_owned(),
        batch_size: None,
        maximum_concurrency: None,
        last_modified: Some(ago(minutes)),
    };
    let receives = Receives { messages: points(&[(2, 0), (6, 50)]), empty: Vec::new() };
    let infer = |mappings: &[LambdaMapping], receives: Result<Receives, String>| {
        Readers::from_receives(Some(mappings), Some(7), receives, now())
    };
    for mappings in [[off(3), off(900)], [off(900), off(3)]] {
        assert_eq!(infer(&mappings, Ok(receives.clone())), Readers::NobodySeen { minutes: 3 });
    }
    assert!(matches!(infer(&[off(900)], Ok(receives)), Readers::SomethingElse { messages_received: 50, .. }));
    let refused = || Err("no".to_owned());
    assert_eq!(
        infer(&[off(3)], refused()),
        Readers::NotKnown { why: MissingDataReason::Failed("no".to_owned()) },
        "its own messages are in flight"
    );
    assert!(matches!(infer(&[], refused()), Readers::InFlight { messages: 7, .. }));
}
