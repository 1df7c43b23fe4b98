use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fleet::facts::{Alarm, AlarmWatch, FailureSender, FunctionReader, SurveyedQueue, WatchedQueues};
use crate::fleet::report::FindingCode;
use crate::queues::QueueCounts;

const ACCOUNT: &str = "123456789012";
const DAY: u64 = 86_400;

fn now() -> Timestamp {
    "2026-11-23T12:00:00Z".parse().unwrap()
}

fn id(name: &str) -> QueueId {
    QueueId { account: ACCOUNT.to_owned(), region: "eu-central-1".to_owned(), name: name.to_owned() }
}

/// Returns a queue with this number of visible messages and a retention of this many days.
fn queue(name: &str, visible: u64, days: u64, redrives_to: Option<&str>) -> SurveyedQueue {
    let attributes = QueueAttributes {
        counts: QueueCounts {
            visible: Some(visible),
            in_flight: Some(0),
            delayed: Some(0),
            retention_seconds: Some(days * DAY),
        },
        visibility_seconds: Some(30),
        redrives_to: redrives_to.map(id),
    };
    SurveyedQueue { id: id(name), state: SurveyedState::Read(attributes) }
}

fn survey(queues: Vec<SurveyedQueue>) -> Survey {
    Survey {
        region: "eu-central-1".to_owned(),
        account: Some(ACCOUNT.to_owned()),
        queues: Some(queues),
        alarms: Some(Vec::new()),
        ..Survey::default()
    }
}

fn alarm(account: Option<&str>, queue: &str) -> Alarm {
    let watch =
        AlarmWatch { account: account.map(str::to_owned), queues: WatchedQueues::Named(queue.to_owned()) };
    Alarm { name: "pager".to_owned(), state: "OK".to_owned(), watches: vec![watch] }
}

fn judge_survey(survey: Survey) -> Vec<Dlq> {
    FleetSurvey::new(&[survey]).judge_dlqs(&OldestMessageAges::new(), &ReceivesByQueue::new(), now()).dlqs
}

fn codes(dlq: &Dlq) -> Vec<FindingCode> {
    dlq.findings.iter().map(|finding| finding.code).collect()
}

/// Returns the findings about the only DLQ among these queues.
fn single_dlq_findings(queues: Vec<SurveyedQueue>) -> Vec<(FindingCode, String)> {
    let [dlq] = &judge_survey(survey(queues))[..] else { panic!("one DLQ") };
    dlq.findings.iter().map(|finding| (finding.code, finding.sentence.clone())).collect()
}

#[test]
fn a_failure_destination_is_a_dlq_whatever_its_name() {
    let mut survey = survey(vec![
        queue("orders", 5, 4, Some("dead")),
        queue("bills", 0, 4, Some("dead")),
        queue("dead", 0, 14, None),
        queue("mails", 0, 14, None),
        queue("clicks", 0, 14, None),
        queue("shop", 0, 14, None),
        queue("other", 9, 4, None),
    ]);
    let sender = |name: &str, to| FailureSender { name: name.to_owned(), to: id(to) };
    survey.functions = vec![sender("mailer", "mails")];
    survey.mappings = vec![sender("counter:live", "clicks")];
    survey.subscribers = vec![sender("large-orders", "shop")];
    let dlqs = judge_survey(survey);
    let fed =
        |dlq: &Dlq| dlq.fed_by.iter().map(|feeder| (feeder.kind, feeder.name.clone())).collect::<Vec<_>>();
    let seen: Vec<_> = dlqs.iter().map(|dlq| (dlq.name.as_str(), fed(dlq), codes(dlq))).collect();
    let by_queue = |name: &str| (FeederKind::Queue, name.to_owned());
    assert_eq!(
        seen,
        [
            ("clicks", vec![(FeederKind::EventSourceMapping, "counter:live".to_owned())], vec![]),
            ("dead", vec![by_queue("bills"), by_queue("orders")], vec![]),
            ("mails", vec![(FeederKind::Function, "mailer".to_owned())], vec![]),
            ("shop", vec![(FeederKind::Subscriber, "large-orders".to_owned())], vec![]),
        ]
    );
}

#[test]
fn a_queue_that_is_a_dlq_only_by_name_is_an_orphan_without_faults() {
    for name in ["orders-dlq", "DLQ", "orders_dead_letter", "OrdersDeadLetters", "orders-dead-letter-queue"] {
        let dlqs = judge_survey(survey(vec![queue(name, 0, 4, None)]));
        assert_eq!(dlqs.iter().map(codes).collect::<Vec<_>>(), [[FindingCode::Orphan]], "{name}");
        assert!(dlqs[0].is_healthy());
        assert!(dlqs[0].findings[0].sentence.contains("may be an orphan"));
    }
    for name in ["orders", "deadline-letters", "dl"] {
        assert_eq!(judge_survey(survey(vec![queue(name, 0, 4, None)])), [], "{name}");
    }
}

#[test]
fn a_missing_dlq_is_listed_with_the_senders_that_lose_messages() {
    let sources = ["a", "b", "c", "d", "e"].map(|name| queue(name, 0, 4, Some("gone")));
    let sentence = "the queue does not exist, so dead letters of a, b, c and 2 more are lost; create it, or point a, \
                    b, c and 2 more at another DLQ";
    assert_eq!(single_dlq_findings(sources.to_vec()), [(FindingCode::Missing, sentence.to_owned())]);
    // Deleted after it was listed, but before its attributes were requested.
    let gone = SurveyedQueue { id: id("gone"), state: SurveyedState::Gone };
    let dlqs = judge_survey(survey(vec![queue("a", 0, 4, Some("gone")), gone.clone()]));
    assert_eq!((dlqs[0].state, codes(&dlqs[0])), (DlqState::Missing, vec![FindingCode::Missing]));
    assert_eq!(
        judge_survey(survey(vec![SurveyedQueue { id: id("old-dlq"), ..gone }])),
        [],
        "no queue points to it"
    );
}

#[test]
fn a_dlq_in_an_unread_region_is_not_reported_as_missing() {
    let elsewhere = QueueId { region: "us-east-1".to_owned(), ..id("dlq") };
    let mut here = survey(vec![queue("orders", 0, 4, None)]);
    here.functions = vec![FailureSender { name: "f".to_owned(), to: elsewhere.clone() }];
    let states = |surveys: &[Survey]| {
        let fleet =
            FleetSurvey::new(surveys).judge_dlqs(&OldestMessageAges::new(), &ReceivesByQueue::new(), now());
        fleet.dlqs.iter().map(|dlq| (dlq.state, codes(dlq))).collect::<Vec<_>>()
    };
    let not_looked_at = [(DlqState::NotLookedAt, vec![])];
    assert_eq!(states(std::slice::from_ref(&here)), not_looked_at);
    let there = Survey { region: "us-east-1".to_owned(), ..survey(Vec::new()) };
    let unlisted = Survey { queues: None, ..there.clone() };
    assert_eq!(states(&[here.clone(), unlisted]), not_looked_at);
    let another_account = Survey { account: Some("210987654321".to_owned()), ..there.clone() };
    assert_eq!(states(&[here.clone(), another_account]), not_looked_at);
    assert_eq!(states(&[here.clone(), there.clone()]), [(DlqState::Missing, vec![FindingCode::Missing])]);
    let found = Survey {
        queues: Some(vec![SurveyedQueue {
            id: elsewhere,
            state: SurveyedState::Read(QueueAttributes::default()),
        }]),
        ..there
    };
    assert_eq!(states(&[here, found]), [(DlqState::There, vec![])]);
}

#[test]
fn a_dlq_must_retain_messages_longer_than_its_sources_if_possible() {
    let kept = |source: u64, dlq: u64| {
        single_dlq_findings(vec![
            queue("orders", 0, source, Some("dead")),
            queue("other", 0, 1, Some("dead")),
            queue("dead", 0, dlq, None),
        ])
    };
    let sentence = "its retention is 4d, and that of orders is 7d, counted from the first send: a message that waited \
    there is deleted soon after it arrives; set the retention to 14d";
    assert_eq!(kept(7, 4), [(FindingCode::ShortRetention, sentence.to_owned())]);
    assert_eq!(kept(4, 4)[0].0, FindingCode::ShortRetention, "equal is too short");
    assert_eq!(kept(4, 5), []);
    assert_eq!(kept(14, 14), [], "14 days is the limit");
    let fifo = single_dlq_findings(vec![queue("o.fifo", 0, 14, Some("d.fifo")), queue("d.fifo", 0, 1, None)]);
    assert_eq!(fifo, [], "SQS restarts the count when it moves a message of a FIFO queue");
}

#[test]
fn a_fifo_queue_and_a_standard_queue_cannot_feed_each_other() {
    let found =
        single_dlq_findings(vec![queue("orders.fifo", 0, 4, Some("dead")), queue("dead", 0, 14, None)]);
    let sentence = "it is a standard queue and cannot hold messages of the FIFO queue orders.fifo; use a queue of \
    that kind";
    assert_eq!(found, [(FindingCode::KindMismatch, sentence.to_owned())]);
    let found =
        single_dlq_findings(vec![queue("orders", 0, 4, Some("dead.fifo")), queue("dead.fifo", 0, 14, None)]);
    assert_eq!(found[0].0, FindingCode::KindMismatch);
}

#[test]
fn a_queue_that_is_its_own_dlq_is_reported() {
    let found = single_dlq_findings(vec![queue("orders", 0, 4, Some("orders"))]);
    assert_eq!(found.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [FindingCode::PointsToItself]);
}

#[test]
fn messages_waiting_without_an_alarm_or_a_reader_are_reported() {
    let with = |visible, alarms: Option<Vec<Alarm>>, reader: Option<&str>| {
        let mut survey = survey(vec![queue("orders", 0, 4, Some("dead")), queue("dead", visible, 14, None)]);
        survey.alarms = alarms;
        survey.readers = Some(
            reader
                .map(|queue| FunctionReader {
                    function: "f".to_owned(),
                    queue: id(queue),
                    reports_failures: true,
                    ..FunctionReader::default()
                })
                .into_iter()
                .collect(),
        );
        judge_survey(survey).remove(0)
    };
    let unwatched = with(1, Some(vec![alarm(None, "other")]), None);
    assert_eq!(unwatched.findings[0].sentence, "1 message waits in it, and no CloudWatch alarm watches it");
    assert_eq!((codes(&unwatched), unwatched.alarms), (vec![FindingCode::NoAlarm], Some(Vec::new())));
    let watched = with(1, Some(vec![alarm(None, "dead")]), None);
    let pager = DlqAlarm { name: "pager".to_owned(), state: "OK".to_owned() };
    assert_eq!((codes(&watched), watched.alarms), (vec![], Some(vec![pager])));
    assert_eq!(codes(&with(0, Some(Vec::new()), None)), [], "no messages wait");
    assert_eq!(codes(&with(1, Some(Vec::new()), Some("dead"))), [], "a function reads it");
    assert_eq!(codes(&with(1, Some(Vec::new()), Some("orders"))), [FindingCode::NoAlarm]);
    let unknown = with(1, None, None);
    assert_eq!(
        (codes(&unknown), unknown.alarms),
        (vec![], None),
        "unreadable alarms are unknown, not absent"
    );
}

#[test]
fn a_container_counts_as_a_reader_and_an_audit_does_not() {
    let seen = |minutes: i64, lists_mappings: bool| {
        let mut survey = survey(vec![queue("orders", 0, 4, Some("dead")), queue("dead", 1, 14, None)]);
        survey.readers = lists_mappings.then(Vec::new);
        let polls = (1..=minutes).map(|minute| (now() - TimeDelta::minutes(minute), 3)).collect();
        let receives = Receives { messages: Vec::new(), empty: polls };
        let received = ReceivesByQueue::from([(id("dead"), receives)]);
        FleetSurvey::new(&[survey]).judge_dlqs(&OldestMessageAges::new(), &received, now()).dlqs.remove(0)
    };
    assert_eq!(codes(&seen(0, true)), [FindingCode::NoAlarm]);
    assert_eq!(codes(&seen(2, true)), [FindingCode::NoAlarm], "an audit takes a minute or two");
    assert_eq!(codes(&seen(14, true)), []);
    let words = |dlq: Dlq| dlq.readers.unwrap().describe();
    let figures = "0 messages received and 42 empty receives in the last 15 minutes";
    assert_eq!(
        words(seen(14, true)),
        format!(
            "read by something that is not an event source mapping (a container, or an audit?): {figures}"
        )
    );
    assert_eq!(
        words(seen(14, false)),
        format!("read by something (a function, a container, or an audit?): {figures}")
    );
}

#[test]
fn an_alarm_covers_its_regions_queues_in_its_own_or_a_named_account() {
    let queues = vec![queue("orders", 0, 4, Some("dead")), queue("dead", 1, 14, None)];
    let alarms = |account: Option<&str>, region: &str, owner: &str| {
        let monitoring = Survey {
            region: region.to_owned(),
            account: Some(owner.to_owned()),
            alarms: Some(vec![alarm(account, "dead")]),
            ..Survey::default()
        };
        let fleet = FleetSurvey::new(&[survey(queues.clone()), monitoring]).judge_dlqs(
            &OldestMessageAges::new(),
            &ReceivesByQueue::new(),
            now(),
        );
        fleet.dlqs[0].alarms.as_ref().unwrap().len()
    };
    let other = "210987654321";
    assert_eq!(alarms(None, "eu-central-1", ACCOUNT), 1);
    assert_eq!(alarms(Some(ACCOUNT), "eu-central-1", other), 1);
    assert_eq!(alarms(None, "eu-central-1", other), 0);
    assert_eq!(alarms(Some(other), "eu-central-1", ACCOUNT), 0);
    assert_eq!(alarms(None, "us-east-1", ACCOUNT), 0);
}

#[test]
fn the_oldest_message_is_deleted_one_retention_period_after_arrival() {
    let queues = [survey(vec![queue("orders", 0, 1, Some("dead")), queue("dead", 2, 4, None)])];
    let known = FleetSurvey::new(&queues);
    let at = |seconds: i64| {
        // Measured five minutes ago, so the message is `seconds` old now.
        let age = OldestMessageAge { seconds: seconds - 300, at: now() - TimeDelta::seconds(300) };
        known
            .judge_dlqs(&OldestMessageAges::from([(id("dead"), age)]), &ReceivesByQueue::new(), now())
            .dlqs
            .remove(0)
    };
    let day = 86_400;
    let young = at(day);
    assert_eq!((young.oldest_seconds, codes(&young)), (Some(day), vec![FindingCode::NoAlarm]));
    assert_eq!(young.first_deleted_by, Some(now() + TimeDelta::days(3)));
    // The last fifth of four days is 19 hours and 12 minutes.
    assert_eq!(codes(&at(4 * day - 69_120)), [FindingCode::NoAlarm]);
    let old = at(4 * day - 69_119);
    assert_eq!(codes(&old), [FindingCode::NoAlarm, FindingCode::DeletedSoon]);
    assert!(
        old.findings[1].sentence.starts_with("SQS deletes the oldest message in 19h 11m at the latest: ")
    );
    assert!(
        at(4 * day + 1).findings[1].sentence.starts_with("SQS deletes the oldest message at any moment: ")
    );
}

#[test]
fn an_uncertain_age_due_to_other_receives_is_only_a_remark() {
    let one = |received: &[(Timestamp, i64)]| {
        let queues = [survey(vec![queue("orders", 0, 4, Some("dead")), queue("dead", 2, 14, None)])];
        let receives = Receives { messages: received.to_vec(), empty: vec![(now(), 3)] };
        let received = ReceivesByQueue::from([(id("dead"), receives)]);
        FleetSurvey::new(&queues).judge_dlqs(&OldestMessageAges::new(), &received, now()).dlqs.remove(0)
    };
    let read = one(&[(now() - TimeDelta::minutes(2), 6)]);
    assert_eq!(codes(&read), [FindingCode::NoAlarm, FindingCode::AgeUncertain]);
    assert!(FindingCode::AgeUncertain.is_remark() && !FindingCode::DeletedSoon.is_remark());
    assert!(
        read.findings[1].sentence.starts_with(
            "something receives its messages, and CloudWatch's age leaves out those that were received three times"
        ),
        "{:?}",
        read.findings
    );
    assert_eq!(codes(&one(&[])), [FindingCode::NoAlarm], "an empty receive does not affect the age");
}

#[test]
fn impossible_ages_and_retentions_are_unknown() {
    let queues = [survey(vec![queue("orders", 0, 1, Some("dead")), queue("dead", 2, u64::MAX / DAY, None)])];
    for seconds in [i64::MAX, i64::MAX / 1000, i64::MIN] {
        let ages = OldestMessageAges::from([(id("dead"), OldestMessageAge { seconds, at: now() })]);
        let dlq = FleetSurvey::new(&queues).judge_dlqs(&ages, &ReceivesByQueue::new(), now()).dlqs.remove(0);
        assert_eq!((dlq.oldest_seconds, dlq.first_deleted_by), (None, None), "{seconds}");
    }
}

#[test]
fn dlqs_with_findings_come_first_then_those_with_the_most_messages() {
    let dlqs = judge_survey(survey(vec![
        queue("a", 0, 4, Some("calm-dlq")),
        queue("b", 0, 4, Some("full")),
        queue("c", 0, 4, Some("fuller")),
        queue("d", 0, 4, Some("gone")),
        queue("calm-dlq", 0, 14, None),
        queue("full", 1, 14, None),
        queue("fuller", 2, 14, None),
    ]));
    let names: Vec<_> = dlqs.iter().map(|dlq| dlq.name.as_str()).collect();
    assert_eq!(names, ["fuller", "full", "gone", "calm-dlq"]);
}

#[test]
fn a_queue_that_one_profile_cannot_read_is_read_with_another() {
    let refused = SurveyedQueue { id: id("dead"), state: SurveyedState::Unread("AccessDenied".to_owned()) };
    let source = queue("orders", 0, 4, Some("dead"));
    let blind = survey(vec![source.clone(), refused]);
    let seeing = survey(vec![source, queue("dead", 0, 14, None)]);
    let seen = |surveys: &[Survey]| {
        FleetSurvey::new(surveys).judge_dlqs(&OldestMessageAges::new(), &ReceivesByQueue::new(), now()).dlqs
    };
    let [unread] = &seen(std::slice::from_ref(&blind))[..] else { panic!() };
    assert_eq!((unread.state, unread.error.as_deref()), (DlqState::Unreadable, Some("AccessDenied")));
    assert_eq!((codes(unread), unread.counts.visible), (vec![], None));
    let alone = seen(std::slice::from_ref(&seeing));
    assert_eq!(seen(&[blind.clone(), seeing.clone()]), alone);
    assert_eq!(seen(&[seeing, blind]), alone);
}

fn any_queues() -> impl Strategy<Value = Vec<SurveyedQueue>> {
    let names = ["a", "b-dlq", "c.fifo", "d-dead-letter.fifo", "e", "f"];
    let one = (0_u64..4, 1_u64..15, proptest::option::of(0_usize..names.len()), 0..4_u8);
    vec(one, 0..names.len()).prop_map(move |drawn| {
        let queues = drawn.into_iter().zip(names).map(|((visible, days, to, state), name)| match state {
            0 => SurveyedQueue { id: id(name), state: SurveyedState::Unread("no".to_owned()) },
            _ => queue(name, visible, days, to.map(|to| names[to])),
        });
        queues.collect()
    })
}

proptest! {
    #[test]
    fn each_dlq_is_reported_once_with_its_findings(queues in any_queues()) {
        let dlqs = judge_survey(survey(queues.clone()));
        let read = |name: &str| {
            queues.iter().find(|queue| queue.id.name == name).and_then(|queue| match &queue.state {
                SurveyedState::Read(attributes) => Some(attributes),
                _ => None,
            })
        };
        let sources = |name: &str| {
            let to = id(name);
            queues.iter().filter(move |queue| {
                matches!(&queue.state, SurveyedState::Read(QueueAttributes { redrives_to: Some(target), .. }) if *target == to)
            }).collect::<Vec<_>>()
        };
        for name in ["a", "b-dlq", "c.fifo", "d-dead-letter.fifo", "e", "f"] {
            let is_there = queues.iter().any(|queue| queue.id.name == name);
            let named = is_there && (name.contains("dlq") || name.contains("dead-letter"));
            let found: Vec<_> = dlqs.iter().filter(|dlq| dlq.name == name).collect();
            prop_assert_eq!(found.len(), usize::from(named || !sources(name).is_empty()), "{}", name);
            let Some(dlq) = found.first() else { continue };
            let has = |code| codes(dlq).contains(&code);
            prop_assert_eq!(has(FindingCode::Missing), !is_there);
            prop_assert_eq!(has(FindingCode::Orphan), sources(name).is_empty() && read(name).is_some());
            prop_assert_eq!(has(FindingCode::NoAlarm), read(name).is_some_and(|own| own.counts.visible > Some(0)));
            let own = read(name).and_then(|own| own.counts.retention_seconds);
            let is_shorter = own.is_some_and(|own| {
                sources(name).iter().filter(|source| source.id.name != name)
                    .any(|source| read(&source.id.name).unwrap().counts.retention_seconds.unwrap() >= own && own < 14 * DAY)
            });
            prop_assert_eq!(has(FindingCode::ShortRetention), is_shorter && !name.ends_with(".fifo"));
            prop_assert_eq!(dlq.is_healthy(), codes(dlq).iter().all(|code| code.is_remark()));
        }
    }

    #[test]
    fn the_order_of_queues_and_a_second_survey_change_nothing(queues in any_queues().prop_shuffle()) {
        let mut sorted = queues.clone();
        sorted.sort_by(|a, b| a.id.cmp(&b.id));
        let expected = judge_survey(survey(sorted));
        let twice = [survey(queues.clone()), survey(queues)];
        prop_assert_eq!(FleetSurvey::new(&twice).judge_dlqs(&OldestMessageAges::new(), &ReceivesByQueue::new(), now()).dlqs, expected);
    }
}

#[test]
fn the_blocked_queue_needs_no_dlq() {
    let checked = |name: &str, dlq: &str| {
        let survey = survey(vec![queue(name, 1, 14, None), queue(dlq, 0, 14, None)]);
        let fleet =
            FleetSurvey::new(&[survey]).judge_dlqs(&OldestMessageAges::new(), &ReceivesByQueue::new(), now());
        fleet.queues.into_iter().map(|queue| queue.name).collect::<Vec<_>>()
    };
    assert_eq!(checked("redeliver-prod-blocked", "redeliver-prod-final-dlq"), [""; 0]);
    assert_eq!(checked("redeliver-prod-blocked", "other-final-dlq"), ["redeliver-prod-blocked"]);
    assert_eq!(checked("redeliver-prod-locked", "redeliver-prod-final-dlq"), ["redeliver-prod-locked"]);
}

/// Messages may be lost or processed twice before any dead letter exists.
#[test]
fn a_queue_that_is_not_a_dlq_is_checked_with_its_readers() {
    let reader = |reports_failures, batching_window_seconds| FunctionReader {
        function: "shop".to_owned(),
        queue: id("orders"),
        mapping_uuid: "14e0db71".to_owned(),
        reports_failures,
        batching_window_seconds,
    };
    let found = |dlq: Option<&str>, timeout: Option<u64>, reader: FunctionReader| {
        let survey = Survey {
            readers: Some(vec![reader]),
            timeouts: timeout.map(|timeout| ("shop".to_owned(), timeout)).into_iter().collect(),
            ..survey(vec![queue("orders", 0, 4, dlq), queue("orders-dlq", 0, 14, None)])
        };
        // Two profiles for one account, one of which cannot list the functions.
        let blind = Survey { timeouts: BTreeMap::new(), ..survey.clone() };
        let fleet = FleetSurvey::new(&[survey, blind]).judge_dlqs(
            &OldestMessageAges::new(),
            &ReceivesByQueue::new(),
            now(),
        );
        assert_eq!(fleet.is_healthy(), fleet.queues.is_empty());
        let findings = fleet.queues.into_iter().flat_map(|queue| queue.findings);
        findings.map(|finding| (finding.code, finding.sentence)).collect::<Vec<_>>()
    };
    let dlq = Some("orders-dlq");
    assert_eq!(found(dlq, Some(5), reader(true, 0)), [], "30 s are six times 5 s");
    assert_eq!(found(dlq, None, reader(true, 0)), [], "the timeout of a version is unknown");
    let no_dlq = "it has no dead-letter queue: a message that always fails is retried until SQS deletes it after 4d; \
                  add a redrive policy";
    assert_eq!(found(None, Some(5), reader(true, 0)), [(FindingCode::NoDlq, no_dlq.to_owned())]);
    let short = "its visibility timeout is 30s, and the timeout of shop is 5s: SQS may deliver a message again while \
                 Lambda works on it or is throttled; set it to 31s: six times the timeout of the function, plus the \
                 batching window";
    assert_eq!(found(dlq, Some(5), reader(true, 1)), [(FindingCode::ShortVisibility, short.to_owned())]);
    let unreported = "shop reads it without ReportBatchItemFailures: one failed message brings back its whole batch, \
                      and a message that only the function's response reports as failed is deleted; run `aws lambda \
                      update-event-source-mapping --function-response-types ReportBatchItemFailures --uuid 14e0db71 \
                      --region eu-central-1`";
    assert_eq!(
        found(dlq, Some(5), reader(false, 0)),
        [(FindingCode::UnreportedFailures, unreported.to_owned())]
    );
}
