use super::*;
use crate::testing::at;

fn notice(count: u64) -> Notice {
    Notice {
        deployment: "redeliver-prod-final-dlq".to_owned(),
        source: "s3://dead-letters/".to_owned(),
        fingerprint: "21d708b3fca00092".to_owned(),
        error_type: "RETRY_ATTEMPT_EXCEEDED".to_owned(),
        last_error: Some("HttpStatus.503".to_owned()),
        count,
        first_at: at(0),
        last_at: at(3600),
    }
}

#[test]
fn a_notice_has_a_subject_and_a_text_for_people() {
    let error = "RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)";
    assert_eq!(notice(1).subject(), format!("redeliver-prod-final-dlq: new dead letters: {error}"));
    for (count, letters) in [(1, "1 dead letter"), (120, "120 dead letters")] {
        let text = format!(
            "redeliver-prod-final-dlq: {error}\n\
             At least {letters}, the first at 2026-07-25 17:20 UTC, the last at 2026-07-25 18:20 UTC.\n\n\
             See them:\n  redeliver audit s3://dead-letters/ --since 2026-07-25 --group 21d708b3fca00092\n\n\
             Or in the console:\n  redeliver console s3://dead-letters/\n\n\
             Cause: 21d708b3fca00092\n"
        );
        assert_eq!(notice(count).text(), text);
    }
}

#[test]
fn a_document_for_machines_says_the_same() {
    assert_eq!(
        notice(2).document(),
        concat!(
            r#"{"schema":"redeliver.notice/1","kind":"appeared","deployment":"redeliver-prod-final-dlq","#,
            r#""fingerprint":"21d708b3fca00092","error_type":"RETRY_ATTEMPT_EXCEEDED","last_error":"HttpStatus.503","#,
            r#""count":2,"first_at":"2026-07-25T17:20:00.000000Z","last_at":"2026-07-25T18:20:00.000000Z","#,
            r#""command":"redeliver audit s3://dead-letters/ --since 2026-07-25 --group 21d708b3fca00092"}"#
        )
    );
    let queue = Notice { source: "--queue final-dlq".to_owned(), last_error: None, ..notice(1) };
    assert_eq!(queue.command(), "redeliver audit --queue final-dlq --group 21d708b3fca00092");
    assert!(!queue.document().contains("last_error"));
}

#[test]
fn a_subject_is_ascii_and_has_at_most_a_hundred_characters() {
    let long = Notice { deployment: "dé".repeat(80), ..notice(1) };
    let subject = long.subject();
    assert!(subject.len() <= 100 && subject.is_ascii(), "{subject}");
    assert!(subject.ends_with(": new dead letters: RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)"), "{subject}");
}

#[test]
fn only_names_of_our_own_errors_are_shown() {
    for ours in ["HttpStatus.503", "Http.Timeout", "Lambda.Throttled", "Timeout", "Panic"] {
        assert_eq!(own_name(ours), Some(ours));
    }
    for theirs in ["KeyError", "HttpStatus.5034", "HttpStatus.", "HttpStatus.abc", "Http.Secret", ""] {
        assert_eq!(own_name(theirs), None, "{theirs}");
    }
}

struct Topic;

impl Notifier for Topic {
    async fn publish(&self, _: &Notice) -> Result<(), EntryError> {
        Ok(())
    }
}

fn notices() -> Notices<Topic> {
    let about = About { deployment: "final-dlq".to_owned(), source: "--queue final-dlq".to_owned() };
    Notices::new(Topic, about)
}

/// A death of the n-th cause.
fn death(n: usize) -> DeathNotice {
    DeathNotice {
        death: Death::new(at(0), &format!("cause-{n}"), "id"),
        error_type: "RETRY_ATTEMPT_EXCEEDED".to_owned(),
        last_error: None,
    }
}

#[test]
fn an_environment_remembers_a_bounded_number_of_causes() {
    let notices = notices();
    let deaths: Vec<_> = (0..CAUSES_MAX).map(death).collect();
    assert_eq!(notices.take_due(&deaths, at(0)).len(), CAUSES_MAX);
    assert_eq!(notices.take_due(&[death(0)], at(1)), [], "it is known");
    assert_eq!(notices.take_due(&[death(CAUSES_MAX)], at(1)).len(), 1);
    assert_eq!(lock(&notices.memory).causes.len(), 1);
}

/// Another batch may have filled the memory while the notice was under way.
#[test]
fn a_refused_notice_of_a_cause_that_was_forgotten_meanwhile_is_sent_after_the_pause() {
    let notices = notices();
    let refused = notices.take_due(&[death(0)], at(0));
    let others: Vec<_> = (1..=CAUSES_MAX).map(death).collect();
    assert_eq!(notices.take_due(&others, at(1)).len(), 1, "it has forgotten all before the last one");
    lock(&notices.memory).postpone(refused.clone().into_iter(), at(2));
    assert_eq!(notices.take_due(&[], at(61)), []);
    assert_eq!(notices.take_due(&[], at(62)), refused);
}
