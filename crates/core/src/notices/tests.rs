use super::*;
use crate::testing::at;

fn notice(kind: NoticeKind, number: u64) -> Notice {
    Notice {
        kind,
        deployment: "redeliver-prod-final-dlq".to_owned(),
        source: "s3://dead-letters/".to_owned(),
        fingerprint: "21d708b3fca00092".to_owned(),
        error_type: "RETRY_ATTEMPT_EXCEEDED".to_owned(),
        last_error: Some("HttpStatus.503".to_owned()),
        count: Count { number, is_minimum: false },
        first_at: at(0),
        last_at: at(3600),
    }
}

#[test]
fn each_kind_has_a_subject_and_a_text_for_people() {
    let command = "redeliver audit s3://dead-letters/ --since 2026-07-25 --group 21d708b3fca00092";
    let end = format!(
        "\n\nSee them:\n  {command}\n\nOr in the console:\n  redeliver console s3://dead-letters/\n\nCause: 21d708b3fca00092\n"
    );
    for (kind, number, subject, text) in [
        (
            NoticeKind::Appeared,
            1,
            "new dead letters",
            "1 dead letter so far, the first at 2026-07-25 17:20 UTC.",
        ),
        (
            NoticeKind::Continues,
            120,
            "dead letters go on",
            "120 dead letters since the last notice, the last at 2026-07-25 18:20 UTC. It began at 2026-07-25 17:20 UTC.",
        ),
        (
            NoticeKind::Quiet,
            0,
            "quiet for a day",
            "No dead letter for a day; the last one came at 2026-07-25 18:20 UTC.",
        ),
    ] {
        let notice = notice(kind, number);
        let error = "RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)";
        assert_eq!(notice.subject(), format!("redeliver-prod-final-dlq: {subject}: {error}"));
        assert_eq!(notice.text(), format!("redeliver-prod-final-dlq: {error}\n{text}{end}"));
    }
    let many = Notice { count: Count { number: 9000, is_minimum: true }, ..notice(NoticeKind::Continues, 0) };
    assert!(many.text().contains("more than 9000 dead letters since"), "{}", many.text());
}

#[test]
fn a_document_for_machines_says_the_same() {
    assert_eq!(
        notice(NoticeKind::Appeared, 2).document(),
        concat!(
            r#"{"schema":"redeliver.notice/1","kind":"appeared","deployment":"redeliver-prod-final-dlq","#,
            r#""fingerprint":"21d708b3fca00092","error_type":"RETRY_ATTEMPT_EXCEEDED","last_error":"HttpStatus.503","#,
            r#""count":2,"count_is_minimum":false,"first_at":"2026-07-25T17:20:00.000000Z","#,
            r#""last_at":"2026-07-25T18:20:00.000000Z","#,
            r#""command":"redeliver audit s3://dead-letters/ --since 2026-07-25 --group 21d708b3fca00092"}"#
        )
    );
    let queue =
        Notice { source: "--queue final-dlq".to_owned(), last_error: None, ..notice(NoticeKind::Quiet, 0) };
    assert_eq!(queue.command(), "redeliver audit --queue final-dlq --group 21d708b3fca00092");
    assert!(!queue.document().contains("last_error"));
}

#[test]
fn a_subject_is_ascii_and_has_at_most_a_hundred_characters() {
    let long = Notice { deployment: "dé".repeat(80), ..notice(NoticeKind::Continues, 1) };
    let subject = long.subject();
    assert!(subject.len() <= 100 && subject.is_ascii(), "{subject}");
    assert!(subject.ends_with(": dead letters go on: RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)"), "{subject}");
}

#[test]
fn only_names_of_our_own_errors_are_told() {
    for ours in ["HttpStatus.503", "Http.Timeout", "Lambda.Throttled", "Timeout", "Panic"] {
        assert_eq!(own_name(ours), Some(ours));
    }
    for theirs in ["KeyError", "HttpStatus.5034", "HttpStatus.", "HttpStatus.abc", "Http.Secret", ""] {
        assert_eq!(own_name(theirs), None, "{theirs}");
    }
}
