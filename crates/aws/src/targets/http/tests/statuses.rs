//! Every HTTP status, as documented in docs/handlers.md.

use redeliver_core::decide::{CallOutcome, call_outcome, is_permanent_status};
use redeliver_core::policy::Policy;

use reqwest::header::RETRY_AFTER;

use super::*;

/// The kind of a response or an error in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Done,
    NotNow,
    Fault,
    Own,
    Permanent,
}

/// Returns the rows of the table in docs/handlers.md: statuses or errors, and their kind.
fn rows() -> Vec<(&'static str, Kind)> {
    let page = include_str!("../../../../../../docs/handlers.md");
    let (_, table) =
        page.split_once("| status or error | kind | why |\n| --- | --- | --- |\n").expect("the table");
    let mut rows = Vec::new();
    for row in table.lines().take_while(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [errors, kind, why] = cells[..] else { panic!("{row}") };
        assert!(!why.is_empty(), "{row}");
        let kind = match kind {
            "done" => Kind::Done,
            "not now" => Kind::NotNow,
            "fault" => Kind::Fault,
            "own" => Kind::Own,
            "permanent" => Kind::Permanent,
            _ => continue,
        };
        rows.push((errors, kind));
    }
    rows
}

/// Returns the documented kind of each status from 100 to 999. The first cell of a row has statuses and ranges; "any
/// other 4xx" covers the statuses that are in no other row.
fn documented_kinds() -> Vec<(u16, Kind)> {
    let rows = rows();
    let is_number = |text: &str| text.starts_with(|first: char| first.is_ascii_digit());
    let of = |status: u16, is_other: bool| {
        let mut found = rows.iter().filter(|(statuses, _)| {
            let other = statuses.strip_prefix("any other ");
            let statuses = other.unwrap_or(statuses);
            is_number(statuses)
                && other.is_some() == is_other
                && statuses.split(", ").any(|range| covers(range, status))
        });
        let kind = found.next().map(|(_, kind)| *kind);
        assert!(found.next().is_none(), "{status} is in two rows");
        kind
    };
    (100..=999).map(|status| (status, of(status, false).or_else(|| of(status, true)).unwrap())).collect()
}

/// True if `404`, `3xx` or `600 to 999` includes this status.
fn covers(statuses: &str, status: u16) -> bool {
    if let Some(class) = statuses.strip_suffix("xx") {
        return class.parse() == Ok(status / 100);
    }
    let (first, last) = statuses.split_once(" to ").unwrap_or((statuses, statuses));
    (first.parse().unwrap()..=last.parse().unwrap()).contains(&status)
}

fn outcome_kind(outcome: Result<(), HandlerError>) -> Kind {
    let Err(error) = outcome else { return Kind::Done };
    match call_outcome(&Policy::default(), &error) {
        CallOutcome::Unavailable | CallOutcome::Refusal(_) | CallOutcome::Later(_) => Kind::NotNow,
        CallOutcome::Fault => Kind::Fault,
        CallOutcome::Answer if error.kind == FailureKind::Permanent => Kind::Permanent,
        CallOutcome::Answer => Kind::Own,
    }
}

/// Returns the outcome for a response with this status.
fn status_outcome(status: u16, retry_after: Option<&'static str>) -> Result<(), HandlerError> {
    let header = retry_after.map(|value| (RETRY_AFTER, value.parse().unwrap()));
    let status = StatusCode::from_u16(status).unwrap();
    let asked = requested_wait(status, &header.into_iter().collect(), ManualClock::default().now());
    classify_response(status, asked)
}

#[test]
fn every_status_has_its_documented_kind() {
    let found: Vec<_> =
        (100..=999).map(|status| (status, outcome_kind(status_outcome(status, None)))).collect();
    let documented = documented_kinds();
    assert_eq!(found.len(), 900);
    for (found, documented) in found.iter().zip(&documented) {
        assert_eq!(found, documented);
    }
    let permanent = found.iter().filter(|(_, kind)| *kind == Kind::Permanent).count();
    assert_eq!(permanent, 88, "all 4xx except twelve");
}

#[test]
fn every_error_has_its_documented_kind() {
    let mut errors = 0;
    for (names, kind) in rows() {
        for name in names.split(", ").filter_map(|name| name.strip_prefix('`')?.strip_suffix('`')) {
            let error = match kind {
                _ if name == "HandlerError::unavailable" => HandlerError::unavailable("Db", ""),
                Kind::Permanent => HandlerError::permanent(name, ""),
                _ => HandlerError::transient(name, ""),
            };
            assert_eq!(outcome_kind(Err(error)), kind, "{name}");
            errors += 1;
        }
    }
    assert_eq!(errors, 26);
    assert_eq!(outcome_kind(Err(HandlerError::transient("OrderNotFound", ""))), Kind::Own);
}

/// Tested with real connections, since a client might follow redirects, wait or misinterpret a status.
#[tokio::test]
async fn every_status_class_arrives_as_sent() {
    // 204 and 304 have no body, and after 101 the connection is no longer HTTP.
    for status in [204, 304, 101] {
        let server = Loopback::start([ScriptedResponse::new(status, &[], "")]).await;
        let expected = match status {
            204 => Kind::Done,
            304 => Kind::NotNow,
            _ => Kind::Own,
        };
        assert_eq!(outcome_kind(call(&server, LONG).await), expected, "{status}");
    }
    for status in [200, 201, 202, 206, 299] {
        assert_eq!(response_outcome(status, &[]).await, Ok(()), "{status}");
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
fn a_status_with_retry_after_is_never_permanent() {
    for status in (100..=199).chain(300..=999) {
        let error = status_outcome(status, Some("5")).unwrap_err();
        assert_eq!(error.kind, FailureKind::TransientAfter(Duration::from_secs(5)), "{status}");
        assert_eq!(error.error_type, ErrorType::HttpStatus(status));
        assert_eq!(outcome_kind(Err(error)), Kind::NotNow, "{status}");
        let error = status_outcome(status, Some("soon")).unwrap_err();
        assert_eq!(error.kind == FailureKind::Permanent, is_permanent_status(status));
    }
    assert_eq!(status_outcome(200, Some("5")), Ok(()));
}
