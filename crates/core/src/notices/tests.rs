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
fn a_notice_has_a_subject_and_a_human_readable_text() {
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
fn a_notice_document_states_the_same_facts_as_the_text() {
    assert_eq!(
        notice(2).to_json(),
        concat!(
            r#"{"schema":"redeliver.notice/1","kind":"appeared","deployment":"redeliver-prod-final-dlq","#,
            r#""fingerprint":"21d708b3fca00092","error_type":"RETRY_ATTEMPT_EXCEEDED","last_error":"HttpStatus.503","#,
            r#""count":2,"first_at":"2026-07-25T17:20:00.000000Z","last_at":"2026-07-25T18:20:00.000000Z","#,
            r#""command":"redeliver audit s3://dead-letters/ --since 2026-07-25 --group 21d708b3fca00092"}"#
        )
    );
    let queue = Notice { source: "--queue final-dlq".to_owned(), last_error: None, ..notice(1) };
    assert_eq!(queue.audit_command(), "redeliver audit --queue final-dlq --group 21d708b3fca00092");
    assert!(!queue.to_json().contains("last_error"));
}

#[test]
fn a_subject_is_ascii_and_has_at_most_a_hundred_characters() {
    let long = Notice { deployment: "dé".repeat(80), ..notice(1) };
    let subject = long.subject();
    assert!(subject.len() <= 100 && subject.is_ascii(), "{subject}");
    assert!(subject.ends_with(": new dead letters: RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)"), "{subject}");
}

#[test]
fn only_error_names_defined_by_redeliver_are_shown() {
    let lost = ["Http.Reset", "Http.Tls", "Lambda.ConnectionLost"];
    for ours in
        ["HttpStatus.503", "Http.Timeout", "Lambda.Throttled", "Timeout", "Panic"].into_iter().chain(lost)
    {
        assert_eq!(own_error_name(ours), Some(ours));
    }
    for theirs in ["KeyError", "HttpStatus.5034", "HttpStatus.", "HttpStatus.abc", "Http.Secret", ""] {
        assert_eq!(own_error_name(theirs), None, "{theirs}");
    }
}

/// A topic that refuses notices while closed.
#[derive(Default)]
struct Topic {
    is_closed: std::sync::atomic::AtomicBool,
}

impl Notifier for Topic {
    async fn publish(&self, _: &Notice) -> Result<(), EntryError> {
        match self.is_closed.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(EntryError::new(Fault::Sender, "NotFound")),
            false => Ok(()),
        }
    }
}

/// A clock that always shows the same time.
struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    async fn sleep(&self, _: std::time::Duration) {
        std::future::pending().await
    }
}

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl Observer for RecordingObserver {
    fn observe(&self, event: &Event) {
        lock(&self.0).push(match event {
            Event::NoticePublished { fingerprint } => format!("{fingerprint} published"),
            Event::NoticeRefused { fingerprint, code } => format!("{fingerprint} refused: {code}"),
            _ => unreachable!("notices have no other events"),
        });
    }
}

impl Notices<Topic> {
    fn with_topic() -> Self {
        let deployment_info =
            DeploymentInfo { deployment: "final-dlq".to_owned(), source: "--queue final-dlq".to_owned() };
        Self::new(Topic::default(), deployment_info)
    }

    /// Reports one death per cause, all at `second`. Returns the events.
    fn report_deaths(&self, causes: impl Iterator<Item = usize>, second: i64) -> Vec<String> {
        let deaths: Vec<_> = causes
            .map(|n| DeathNotice {
                death: Death::new(at(second), &format!("cause-{n:05}"), "id"),
                error_type: "RETRY_ATTEMPT_EXCEEDED".to_owned(),
                last_error: None,
            })
            .collect();
        let (clock, seen) = (FixedClock(at(second)), RecordingObserver::default());
        let notified = self.notify(&deaths, &clock, &seen, at(second + 5));
        futures_util::FutureExt::now_or_never(notified).expect("the topic responds immediately");
        seen.0.into_inner().unwrap()
    }
}

#[test]
fn a_new_cause_replaces_the_cause_with_the_oldest_notice() {
    let notices = Notices::with_topic();
    assert_eq!(notices.report_deaths(1..2, 0), ["cause-00001 published"]);
    assert_eq!(notices.report_deaths((0..1).chain(2..CAUSES_MAX), 1).len(), CAUSES_MAX - 1);
    assert_eq!(notices.report_deaths(CAUSES_MAX..CAUSES_MAX + 1, 2), ["cause-10000 published"]);
    assert_eq!(lock(&notices.memory).causes.len(), CAUSES_MAX);
    // All causes except the oldest remain silent for an hour.
    assert_eq!(notices.report_deaths((0..1).chain(2..=CAUSES_MAX), 3), [""; 0]);
    assert!(!lock(&notices.memory).causes.contains_key("cause-00001"));
}

#[test]
fn a_refused_notice_is_not_dropped_to_make_room_for_another_cause() {
    let notices = Notices::with_topic();
    notices.notifier.is_closed.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(notices.report_deaths(0..CAUSES_MAX, 0), ["cause-00000 refused: NotFound"]);
    let beyond = CAUSES_MAX..CAUSES_MAX + 2;
    let refused = ["cause-10000 refused: TooManyCauses", "cause-10001 refused: TooManyCauses"];
    assert_eq!(notices.report_deaths(beyond, 1), refused);
    notices.notifier.is_closed.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(notices.report_deaths(0..1, 60).len(), CAUSES_MAX, "all waiting notices are published");
}

/// Another batch may have replaced the cause while the notice was being published.
#[test]
fn a_refused_notice_about_a_forgotten_cause_is_due_again() {
    let notices = Notices::with_topic();
    lock(&notices.memory).requeue_notices([notice(1)].into_iter());
    assert_eq!(lock(&notices.memory).take_due(at(2)), [notice(1)]);
}
