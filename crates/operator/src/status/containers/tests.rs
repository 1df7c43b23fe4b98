use redeliver_testing::loopback::{Loopback, LoopbackBody};

use super::super::day::{Day, Series, SeriesOrigin};
use super::*;

const PROCESSED: &str = r#"redeliver_processed_total{function="orders-message-processor"}"#;

fn at(minute: i64) -> Timestamp {
    Timestamp::from_timestamp(1_795_305_600 + minute * 60, 0).unwrap()
}

/// Returns the counters of one container: processed, held, dead-lettered and `CircuitOpen`.
fn counter_values(values: [u64; 4]) -> Result<CounterValues, Problem> {
    Ok(COUNTERS
        .iter()
        .zip(values)
        .enumerate()
        .map(|(place, (name, value))| ((*name).to_owned(), (place, value)))
        .collect())
}

fn refused_request() -> Result<CounterValues, Problem> {
    Err(Problem {
        service: QueriedService::Container,
        missing: "metrics",
        about: Vec::new(),
        why: "no".to_owned(),
    })
}

#[test]
fn counters_are_parsed_from_openmetrics_and_prometheus_federation() {
    let text = r#"# HELP redeliver_processed Messages that the target processed.
# TYPE redeliver_processed counter
redeliver_processed_total{function="orders-message-processor"} 12
redeliver_held_total{function="a}\" 7 {",instance="10.0.0.1:8080"} 1.5e+06 1795305600000
redeliver_dead_lettered_total{function="orders",error_type="MESSAGE_EXPIRED"} 3.0 # {trace="x"} 1
redeliver_circuit_open_total 4
redeliver_processed_total{function="broken
redeliver_processed_total{function="odd"} NaN
redeliver_processed_total{function="below"} -1
redeliver_processed_total{function="none"}
redeliver_processed_total_by_hour 9
redeliver_held_created{function="orders"} 1795305600.1
up 1
# EOF
"#;
    let read: Vec<_> = parse_counters(text).into_iter().collect();
    let expected = [
        ("redeliver_circuit_open_total", (3, 4)),
        (r#"redeliver_dead_lettered_total{function="orders",error_type="MESSAGE_EXPIRED"}"#, (2, 3)),
        (r#"redeliver_held_total{function="a}\" 7 {",instance="10.0.0.1:8080"}"#, (1, 1_500_000)),
        (PROCESSED, (0, 12)),
    ];
    assert_eq!(read, expected.map(|(series, value)| (series.to_owned(), value)));
}

#[test]
fn a_counter_counts_from_its_first_read_and_from_zero_after_a_restart() {
    let mut history = CounterHistory::default();
    for (minute, value) in [(0, 100), (1, 107), (2, 107), (3, 4), (4, 5)] {
        history.record_counters(at(minute), &[counter_values([value, 0, 0, 0])]);
    }
    assert_eq!(history.points[0], [(at(1), 7), (at(3), 4), (at(4), 1)]);
    assert_eq!(history.first_read_at(), Some(at(0)));
}

#[test]
fn a_missing_series_does_not_count_twice_and_a_new_series_counts_in_full() {
    let one = |series: &str, value| Ok([(series.to_owned(), (0, value))].into());
    let mut history = CounterHistory::default();
    for (minute, answer) in [(0, one("a", 50)), (1, one("b", 3)), (2, one("a", 51))] {
        history.record_counters(at(minute), &[answer]);
    }
    assert_eq!(history.points[0], [(at(1), 3), (at(2), 1)]);
}

#[test]
fn a_failing_container_does_not_affect_the_counts_of_another() {
    let mut history = CounterHistory::default();
    history.record_counters(at(0), &[counter_values([1, 0, 0, 0]), counter_values([10, 0, 0, 0])]);
    history.record_counters(at(1), &[counter_values([2, 0, 0, 0]), refused_request()]);
    history.record_counters(at(15), &[counter_values([2, 0, 0, 0]), counter_values([30, 0, 0, 0])]);
    assert_eq!(history.points[0], [(at(1), 1), (at(15), 20)]);
}

#[test]
fn counting_restarts_after_a_long_gap_between_reads() {
    let mut history = CounterHistory::default();
    for (minute, value) in [(0, 1), (1, 2), (17, 900), (18, 901)] {
        history.record_counters(at(minute), &[counter_values([value, 0, 0, value])]);
    }
    assert_eq!(history.points[0], [(at(1), 1), (at(18), 1)]);
    history.record_counters(at(1441), &[refused_request()]);
    assert_eq!(history.points[0], [(at(18), 1)], "points are kept for a day");
}

#[test]
fn an_outage_soon_after_the_first_read_may_have_begun_earlier() {
    let mut history = CounterHistory::default();
    assert_eq!(history.target_status(at(0)), TargetStatus::Unknown);
    history.record_counters(at(0), &[counter_values([0, 0, 0, 7])]);
    assert_eq!(history.target_status(at(0)), TargetStatus::NoOutageSeen);
    history.record_counters(at(1), &[counter_values([0, 0, 0, 8])]);
    let outage = OngoingOutage { since: at(1), or_longer: true, seconds: 0, last_sign: at(1) };
    assert_eq!(history.target_status(at(1)), TargetStatus::Down(outage));
    for minute in 2..60 {
        let signs = if minute < 40 { 8 } else { 9 };
        history.record_counters(at(minute), &[counter_values([0, 0, 0, signs])]);
    }
    let outage = OngoingOutage { since: at(40), or_longer: false, seconds: 600, last_sign: at(40) };
    assert_eq!(history.target_status(at(50)), TargetStatus::Down(outage));
    assert_eq!(history.target_status(at(90)), TargetStatus::Unknown, "no read for half an hour");
}

#[test]
fn outage_signs_a_quarter_of_an_hour_apart_belong_to_one_outage() {
    let mut history = CounterHistory::default();
    history.record_counters(at(0), &[counter_values([0; 4])]);
    for minute in 1..60 {
        let signs = if minute < 30 {
            0
        } else if minute < 46 {
            1
        } else {
            2
        };
        history.record_counters(at(minute), &[counter_values([0, 0, 0, signs])]);
    }
    let outage = OngoingOutage { since: at(30), or_longer: false, seconds: 1740, last_sign: at(46) };
    assert_eq!(history.target_status(at(59)), TargetStatus::Down(outage));
}

#[test]
fn container_counters_fill_cloudwatch_gaps_or_supply_the_whole_day() {
    let mut history = CounterHistory::default();
    assert_eq!(Day::with_containers(None, &history, at(0)), None);
    history.record_counters(at(0), &[counter_values([0; 4])]);
    history.record_counters(at(1), &[counter_values([9, 8, 7, 6])]);
    let counts = |count| {
        let mut counts = [0; 48];
        counts[47] = count;
        counts
    };
    let series = |count, origin| Series { counts: counts(count), origin };
    let containers = SeriesOrigin::Containers(at(0));
    let alone = Day::with_containers(None, &history, at(1)).unwrap();
    let mut outages = [false; 48];
    outages[47] = true;
    let expected = Day {
        from: at(30) - TimeDelta::days(1),
        arrived: None,
        done: series(9, containers),
        held: Some(series(8, containers)),
        dead: Some(series(7, containers)),
        outages,
    };
    assert_eq!(alone, expected);
    let cloudwatch = Day {
        arrived: Some(counts(100)),
        done: series(90, SeriesOrigin::Queues),
        held: None,
        dead: Some(series(2, SeriesOrigin::Queues)),
        outages: [false; 48],
        ..expected.clone()
    };
    let both = Day::with_containers(Some(&cloudwatch), &history, at(1)).unwrap();
    assert_eq!(both, Day { held: expected.held.clone(), outages, ..cloudwatch.clone() });
    let [done, dead] = [(); 2].map(|()| series(0, SeriesOrigin::Queues));
    let late = Day { arrived: Some(counts(0)), done, dead: Some(dead), ..cloudwatch.clone() };
    let filled = Day::with_containers(Some(&late), &history, at(1)).unwrap();
    assert_eq!(filled, Day { arrived: Some(counts(0)), ..expected });
    let functions = Day { held: Some(series(1, SeriesOrigin::Functions)), ..cloudwatch };
    assert_eq!(Day::with_containers(Some(&functions), &history, at(1)), Some(functions));
}

#[tokio::test]
async fn an_unreadable_metrics_url_is_reported_and_the_others_are_still_read() {
    let text = |text: &str| LoopbackBody::from_xml(text);
    let long = "x".repeat(BYTES_MAX + 1);
    let server = Loopback::start_with_handler(move |(first, _)| match first.split(' ').nth(1)? {
        "/metrics" => Some((200, text(&format!("{PROCESSED} 5\n")))),
        "/html" => Some((200, text("<h1>Hello</h1>"))),
        "/long" => Some((200, text(&long))),
        "/moved" => Some((302, text(""))),
        _ => Some((503, text(""))),
    });
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut urls: Vec<_> =
        ["metrics", "html", "long", "moved", "none"].map(|path| format!("{}/{path}", server.url())).into();
    urls.push(format!("http://me:secret@{unused}/metrics"));
    let urls = urls.iter().map(|url| url.parse().unwrap()).collect();
    let answers = Containers::new(urls).unwrap().read_counters().await;
    assert_eq!(answers[0], Ok([(PROCESSED.to_owned(), (0, 5))].into()));
    let problems: Vec<_> =
        answers[1..].iter().map(|answer| answer.as_ref().unwrap_err().to_string()).collect();
    let expected = [
        ("html", "the response has no redeliver counters"),
        ("long", "the response is longer than 1 MiB"),
        ("moved", "HTTP 302"),
        ("none", "HTTP 503"),
    ];
    let expected = expected.map(|(path, why)| format!("metrics of {}/{path}: {why}", server.url()));
    assert_eq!(problems[..4], expected);
    assert!(
        problems[4].starts_with(&format!("metrics of http://{unused}/metrics: Connection refused")),
        "{problems:?}"
    );
}

#[test]
fn a_metrics_url_must_be_http_or_https() {
    for wrong in ["file:///metrics", "10.0.0.1:8080/metrics", "localhost:8080", "/metrics"] {
        assert!(wrong.parse::<MetricsUrl>().is_err(), "{wrong}");
    }
}
