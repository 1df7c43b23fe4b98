//! Every HTTP status, as documented in docs/handlers.md.

use super::*;

/// The outcome of a response by a row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Done,
    TryAgain,
    Permanent,
}

/// The table in docs/handlers.md: the outcome of each status from 100 to 999. A row's first cell has statuses and
/// ranges; "any other 4xx" covers those in no other row.
fn documented() -> Vec<(u16, Outcome)> {
    let page = include_str!("../../../../../../docs/handlers.md");
    let (_, table) = page.split_once("| status | outcome | why |\n| --- | --- | --- |\n").expect("the table");
    let mut rows = Vec::new();
    for row in table.lines().take_while(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [statuses, outcome, why] = cells[..] else { panic!("{row}") };
        assert!(!why.is_empty(), "{row}");
        let outcome = match outcome {
            "done" => Outcome::Done,
            "try again" => Outcome::TryAgain,
            "permanent" => Outcome::Permanent,
            other => panic!("{other}"),
        };
        rows.push((statuses, outcome));
    }
    let of = |status: u16, is_other: bool| {
        let mut found = rows.iter().filter(|(statuses, _)| {
            let other = statuses.strip_prefix("any other ");
            other.is_some() == is_other
                && other.unwrap_or(statuses).split(", ").any(|one| covers(one, status))
        });
        let outcome = found.next().map(|(_, outcome)| *outcome);
        assert!(found.next().is_none(), "{status} stands in two rows");
        outcome
    };
    (100..=999).map(|status| (status, of(status, false).or_else(|| of(status, true)).unwrap())).collect()
}

/// `404`, `3xx` or `600 to 999`.
fn covers(statuses: &str, status: u16) -> bool {
    if let Some(class) = statuses.strip_suffix("xx") {
        return class.parse() == Ok(status / 100);
    }
    let (first, last) = statuses.split_once(" to ").unwrap_or((statuses, statuses));
    (first.parse().unwrap()..=last.parse().unwrap()).contains(&status)
}

fn outcome_of(outcome: Result<(), HandlerError>) -> Outcome {
    match outcome.map_err(|error| error.kind) {
        Ok(()) => Outcome::Done,
        Err(FailureKind::Transient) => Outcome::TryAgain,
        Err(FailureKind::Permanent) => Outcome::Permanent,
        Err(other) => panic!("{other:?}"),
    }
}

/// The outcome of a response with this status.
fn told_by(status: u16, retry_after: Option<&'static str>) -> Result<(), HandlerError> {
    let header = retry_after.map(|value| (RETRY_AFTER, value.parse().unwrap()));
    let status = StatusCode::from_u16(status).unwrap();
    outcome(status, &header.into_iter().collect(), ManualClock::default().now())
}

#[test]
fn every_status_has_the_outcome_that_the_documentation_says() {
    let found: Vec<_> = (100..=999).map(|status| (status, outcome_of(told_by(status, None)))).collect();
    let documented = documented();
    assert_eq!(found.len(), 900);
    for (found, documented) in found.iter().zip(&documented) {
        assert_eq!(found, documented);
    }
    let permanent = found.iter().filter(|(_, outcome)| *outcome == Outcome::Permanent).count();
    assert_eq!(permanent, 90, "a hundred 4xx but for ten");
}

/// Over the wire, where a client might follow redirects, wait or misinterpret a status.
#[tokio::test]
async fn every_class_of_statuses_arrives_as_it_was_sent() {
    // 204 and 304 have no body, and 101 ends HTTP.
    for status in [204, 304, 101] {
        let server = Loopback::start([Answer::new(status, &[], "")]).await;
        let expected = if status == 204 { Outcome::Done } else { Outcome::TryAgain };
        assert_eq!(outcome_of(call(&server, LONG).await), expected, "{status}");
    }
    for status in [200, 201, 202, 206, 299] {
        assert_eq!(answered(status, &[]).await, Ok(()), "{status}");
    }
    for (status, kind) in [
        (300, FailureKind::Transient),
        (302, FailureKind::Transient),
        (399, FailureKind::Transient),
        (400, FailureKind::Permanent),
        (401, FailureKind::Transient),
        (409, FailureKind::Transient),
        (410, FailureKind::Permanent),
        (499, FailureKind::Permanent),
        (500, FailureKind::Transient),
        (599, FailureKind::Transient),
        (600, FailureKind::Transient),
        (999, FailureKind::Transient),
    ] {
        let error = failure(status, &[]).await;
        assert_eq!((error.error_type, error.kind), (ErrorType::HttpStatus(status), kind));
    }
}

#[test]
fn a_status_that_says_when_to_call_again_is_never_permanent() {
    for status in (100..=199).chain(300..=999) {
        let error = told_by(status, Some("5")).unwrap_err();
        assert_eq!(error.kind, FailureKind::TransientAfter(Duration::from_secs(5)), "{status}");
        assert_eq!(error.error_type, ErrorType::HttpStatus(status));
        let error = told_by(status, Some("soon")).unwrap_err();
        assert_eq!(error.kind == FailureKind::Permanent, is_permanent(StatusCode::from_u16(status).unwrap()));
    }
    assert_eq!(told_by(200, Some("5")), Ok(()));
}
