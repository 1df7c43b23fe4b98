use super::*;

fn result(points: &[(i64, f64)]) -> MetricDataResult {
    let times = points.iter().map(|(at, _)| DateTime::from_secs(*at)).collect();
    let values = points.iter().map(|(_, value)| *value).collect();
    MetricDataResult::builder().id("q0").set_timestamps(Some(times)).set_values(Some(values)).build()
}

#[test]
fn the_newest_point_counts_in_whichever_order_they_come() {
    let age = |points: &[(i64, f64)]| newest(&result(points)).unwrap();
    let expected = Some(Age { seconds: 120, at: Timestamp::from_timestamp(1_800_000_060, 0).unwrap() });
    assert_eq!(age(&[(1_800_000_060, 120.0), (1_800_000_000, 60.0)]), expected);
    assert_eq!(age(&[(1_800_000_000, 60.0), (1_800_000_060, 120.0)]), expected);
    assert_eq!(age(&[]), None);
}

#[test]
fn a_metric_that_is_refused_is_not_taken_for_one_without_points() {
    let refused = MetricDataResult::builder().id("q0").status_code(StatusCode::Forbidden).build();
    assert_eq!(newest(&refused), Err("Forbidden".to_owned()));
}
