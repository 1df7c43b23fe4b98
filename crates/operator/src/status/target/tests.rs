use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns datapoints at these times in one evening and the following night.
fn points(times: &[&str]) -> Vec<Point> {
    let day = |time: &str| if time.starts_with('2') { "2026-11-22" } else { "2026-11-23" };
    times.iter().map(|time| (at(&format!("{}T{time}:00Z", day(time))), 3)).collect()
}

#[test]
fn an_outage_starts_at_the_first_point_after_the_last_gap() {
    let now = at("2026-11-23T00:22:10Z");
    let earlier = points(&["20:00", "20:05", "22:50"]); // the last one is 20 minutes before the run
    let run = points(&["23:10", "23:15", "23:30", "23:45", "00:00", "00:15"]); // at most 15 minutes apart
    let none = [(at("2026-11-22T23:00:00Z"), 0), (at("2026-11-23T00:20:00Z"), 0)];
    let mut all = [earlier, run, none.to_vec()].concat();
    let expected = OngoingOutage {
        since: at("2026-11-22T23:10:00Z"),
        or_longer: false,
        seconds: 4330,
        last_sign: at("2026-11-23T00:15:00Z"),
    };
    assert_eq!(OngoingOutage::from_points(&all, now), Some(expected));
    all.reverse(); // CloudWatch returns the newest first
    assert_eq!(OngoingOutage::from_points(&all, now), Some(expected));
    assert_eq!(
        TargetStatus::Down(expected).describe(),
        "down since about 2026-11-22 23:10 UTC (1h 12m), last sign about 00:15. Its messages are held"
    );
}

/// A sign at 00:04:59 is in the 00:00 point. The next sign may occur at 00:19:59, and its 00:15 point may arrive as
/// late as 00:21:59.
#[test]
fn an_outage_ends_22_minutes_after_its_last_point() {
    let points = points(&["00:00"]);
    let is_down =
        |now: &str| OngoingOutage::from_points(&points, at(&format!("2026-11-23T{now}Z"))).is_some();
    assert!(is_down("00:00:00"), "in the point's own period");
    assert!(is_down("00:19:59"));
    assert!(is_down("00:21:59.999"));
    assert!(!is_down("00:22:00"));
    let ahead = OngoingOutage::from_points(&points, at("2026-11-22T23:58:00Z")); // CloudWatch's clock is ahead of ours
    assert_eq!(ahead.map(|outage| outage.since), Some(at("2026-11-23T00:00:00Z")));
}

#[test]
fn no_outage_is_seen_without_a_point_above_zero() {
    let now = at("2026-11-23T00:22:10Z");
    assert_eq!(OngoingOutage::from_points(&[], now), None);
    assert_eq!(OngoingOutage::from_points(&[(at("2026-11-23T00:20:00Z"), 0)], now), None);
    assert_eq!(TargetStatus::from_outages([None, None]), TargetStatus::NoOutageSeen);
    assert_eq!(TargetStatus::NoOutageSeen.describe(), "no outage seen in the last 15 minutes");
    assert_eq!(TargetStatus::Unknown.describe(), "state unknown");
}

#[test]
fn an_outage_as_long_as_the_query_range_may_be_longer() {
    let now = at("2026-11-23T00:22:10Z");
    let Range { start, end } = query_range(now);
    assert_eq!((start, end), (at("2026-11-09T00:05:00Z"), at("2026-11-23T00:25:00Z")));
    let run = |from: Timestamp| -> Vec<Point> {
        let every = (0..).map(|n| from + PERIOD * 3 * n).take_while(|at| *at < end);
        every.map(|at| (at, 1)).collect()
    };
    for from in [start, start + PERIOD, start + QUIET] {
        let outage = OngoingOutage::from_points(&run(from), now).unwrap();
        assert!(outage.or_longer && outage.since == from, "{from}");
        assert_eq!(
            TargetStatus::Down(outage).describe().split(',').next(),
            Some("down for more than 14 days"),
            "{from}"
        );
    }
    let outage = OngoingOutage::from_points(&run(start + PERIOD * 4), now).unwrap();
    assert!(!outage.or_longer);
    assert!(
        TargetStatus::Down(outage)
            .describe()
            .starts_with("down since about 2026-11-09 00:25 UTC (13d 23h), ")
    );
}

#[test]
fn the_first_outage_outweighs_later_ones_and_unknown_targets() {
    let now = at("2026-11-23T00:22:10Z");
    let [first, second] =
        [["00:05"], ["00:15"]].map(|times| OngoingOutage::from_points(&points(&times), now));
    let down = TargetStatus::Down(first.unwrap());
    assert_eq!(TargetStatus::from_outages([second, None, first]), down);
    assert_eq!(TargetStatus::from_outages([second]).combine_with(down), down);
    assert_eq!(TargetStatus::Unknown.combine_with(down), down);
    assert_eq!(down.combine_with(TargetStatus::NoOutageSeen), down);
    assert_eq!(TargetStatus::NoOutageSeen.combine_with(TargetStatus::Unknown), TargetStatus::Unknown);
    assert_eq!(
        TargetStatus::NoOutageSeen.combine_with(TargetStatus::NoOutageSeen),
        TargetStatus::NoOutageSeen
    );
}

#[test]
fn target_json_has_timestamps_and_seconds() {
    let down = TargetStatus::from_outages([OngoingOutage::from_points(
        &points(&["23:10", "23:25"]),
        at("2026-11-22T23:30:00Z"),
    )]);
    let expected = r#"{"state":"down","down_since":"2026-11-22T23:10:00Z","or_longer":false,"seconds":1200,"last_sign":"2026-11-22T23:25:00Z"}"#;
    assert_eq!(serde_json::to_string(&down).unwrap(), expected);
    assert_eq!(serde_json::to_string(&TargetStatus::NoOutageSeen).unwrap(), r#"{"state":"no_outage_seen"}"#);
    assert_eq!(serde_json::to_string(&TargetStatus::Unknown).unwrap(), r#"{"state":"unknown"}"#);
}

/// Returns the points that CloudWatch has for signs at these Unix times: one per period, with the start of the period
/// as its timestamp.
fn period_points(signs: &[i64]) -> Vec<Point> {
    let mut periods: Vec<_> = signs.iter().map(|at| at.div_euclid(300) * 300).collect();
    periods.dedup();
    periods.into_iter().map(|at| (Timestamp::from_timestamp(at, 0).unwrap(), 1)).collect()
}

proptest! {
    /// This holds no matter when the points are read or how late the newest signs arrive, as long as signs occur at
    /// least every 900 s.
    #[test]
    fn an_ongoing_outage_is_seen_as_a_single_outage(
        begin in 1_700_000_000..1_800_000_000_i64,
        pauses in vec(0..=900_i64, 0..300),
        after in 0..=900_i64,
        late in 0..=120_i64,
        before in 1200..100_000_i64,
    ) {
        let signs: Vec<_> = std::iter::once(begin)
            .chain(pauses.iter().scan(begin, |at, pause| { *at += pause; Some(*at) }))
            .collect();
        let now = signs.last().unwrap() + after;
        let earlier = [begin - before];
        let arrived: Vec<_> = signs.iter().copied().filter(|at| *at <= now - late || *at == begin).collect();
        let points = period_points(&[&earlier[..], &arrived].concat());
        let outage = OngoingOutage::from_points(&points, Timestamp::from_timestamp(now, 0).unwrap());
        let since = outage.map(|outage| outage.since.timestamp());
        prop_assert_eq!(since, Some(begin.div_euclid(300) * 300));
    }

    /// The outage ends by itself: 20 minutes after the last sign, plus a point's maximum delay.
    #[test]
    fn a_past_outage_is_not_seen(last in 1_700_000_000..1_800_000_000_i64, after in 1320..100_000_i64) {
        let now = Timestamp::from_timestamp(last + after, 0).unwrap();
        prop_assert_eq!(OngoingOutage::from_points(&period_points(&[last]), now), None);
    }
}
