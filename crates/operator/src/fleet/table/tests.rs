use super::*;
use crate::fleet::report::{
    CheckedQueue, DlqAlarm, Feeder, FeederKind, FindingCode, QueueFinding, RegionSummary,
};
use crate::queues::QueueCounts;

const EMPTY: QueueCounts = QueueCounts {
    visible: Some(0),
    in_flight: Some(0),
    delayed: Some(0),
    retention_seconds: Some(1_209_600),
};

/// Returns a fleet with every kind of value in each column.
pub(in crate::fleet) fn fleet() -> Fleet {
    let feeder = |name: &&str| Feeder { kind: FeederKind::Queue, name: (*name).to_owned() };
    let dlq = |name: &str, feeders: &[&str]| Dlq {
        name: name.to_owned(),
        account: "123456789012".to_owned(),
        region: "eu-central-1".to_owned(),
        state: DlqState::There,
        fed_by: feeders.iter().map(feeder).collect(),
        read_by: Vec::new(),
        readers: None,
        counts: EMPTY,
        oldest_seconds: None,
        first_deleted_by: None,
        alarms: Some(Vec::new()),
        findings: Vec::new(),
        error: None,
    };
    let finding = |code, sentence: &str| vec![QueueFinding { code, sentence: sentence.to_owned() }];
    let alarm = |state: &str| Some(vec![DlqAlarm { name: "<b>pager".to_owned(), state: state.to_owned() }]);
    let at: redeliver_core::message::Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
    let full = Dlq {
        counts: QueueCounts { visible: Some(12_345), in_flight: Some(3), ..EMPTY },
        oldest_seconds: Some(273_600),
        first_deleted_by: Some(at + chrono::TimeDelta::hours(5)),
        alarms: alarm("ALARM"),
        findings: finding(FindingCode::DeletedSoon, "SQS deletes it"),
        ..dlq("full-dlq", &["a", "b", "c", "d"])
    };
    let missing = Dlq {
        state: DlqState::Missing,
        counts: QueueCounts { delayed: Some(0), ..QueueCounts::default() },
        findings: finding(FindingCode::Missing, "it is not there"),
        ..dlq("missing", &["e"])
    };
    let unreadable = Dlq {
        state: DlqState::Unreadable,
        alarms: None,
        error: Some("AccessDenied: <script>".to_owned()),
        ..missing.clone()
    };
    let unreadable = Dlq { name: "unreadable".to_owned(), findings: Vec::new(), ..unreadable };
    let unseen_readers = Some(crate::status::readers::Readers::NobodySeen { minutes: 15 });
    let orphan = Dlq {
        readers: unseen_readers,
        findings: finding(FindingCode::Orphan, "it may be an orphan"),
        ..dlq("orphan-dlq", &[])
    };
    let empty = Dlq { alarms: alarm("OK"), read_by: vec!["sweeper".to_owned()], ..dlq("empty-dlq", &["f"]) };
    let region = |account: Option<&str>, region: &str, profile: Option<&str>, queues| RegionSummary {
        account: account.map(str::to_owned),
        region: region.to_owned(),
        profile: profile.map(str::to_owned),
        queues,
    };
    let regions = vec![
        region(Some("123456789012"), "eu-central-1", Some("prod"), 1_234),
        region(None, "us-east-1", None, 0),
    ];
    let elsewhere = Dlq {
        state: DlqState::NotLookedAt,
        region: "eu-west-1".to_owned(),
        alarms: None,
        findings: Vec::new(),
        ..missing.clone()
    };
    Fleet {
        at,
        regions,
        dlqs: vec![full, missing, unreadable, orphan, empty, elsewhere],
        queues: Vec::new(),
        problems: Vec::new(),
    }
}

#[test]
fn the_fleet_table_has_regions_with_dlqs_and_their_findings() {
    let table = fleet_table(&fleet(), &TextLayout::Whole);
    assert!(table.lines().all(|line| line == line.trim_end()), "{table}");
    let lines: Vec<_> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "6 DLQs, 1 with messages, 2 with something wrong (2026-11-23T12:00:00.000Z)",
            "",
            "us-east-1: no queues",
            "",
            "eu-central-1, account 123456789012, profile prod: 1,234 queues",
            "DLQ visible in flight oldest deleted in kept alarm fed by",
            "full-dlq 12,345 3 3d 4h 5h 14d on a, b, c and 1 more",
            "missing - - - - - - e",
            "unreadable ? ? ? ? ? ? e",
            "orphan-dlq 0 0 - - 14d none ?",
            "empty-dlq 0 0 - - 14d yes f",
            "! full-dlq: SQS deletes it",
            "! missing: it is not there",
            "! unreadable: AccessDenied: <script>",
            "? orphan-dlq: it may be an orphan",
            "",
            "eu-west-1, account 123456789012: not read",
            "DLQ visible in flight oldest deleted in kept alarm fed by",
            "missing ? ? ? ? ? ? e",
        ]
    );
}

#[test]
fn control_characters_are_escaped_in_the_fleet_table() {
    let mut fleet = fleet();
    fleet.dlqs[2].error = Some("\u{1b}[2J".to_owned());
    assert!(fleet_table(&fleet, &TextLayout::Whole).contains("! unreadable: \\u{1b}[2J\n"));
}

#[test]
fn a_queue_that_is_not_a_dlq_is_listed_below_its_regions_dlqs() {
    let fleet = fleet_with_queue_without_dlq();
    let table = fleet_table(&fleet, &TextLayout::Whole);
    let start = "6 DLQs, 1 with messages, 2 with something wrong; 1 other queue with something wrong (";
    assert!(table.starts_with(start), "{table}");
    let below = " ? orphan-dlq: it may be an orphan\n ! orders<b>: it has no dead-letter queue\n\neu-west-1";
    assert!(table.contains(below), "{table}");
    let well = Fleet { dlqs: Vec::new(), ..fleet };
    assert!(!well.is_healthy());
}

pub(in crate::fleet) fn fleet_with_queue_without_dlq() -> Fleet {
    let queue = CheckedQueue {
        name: "orders<b>".to_owned(),
        account: "123456789012".to_owned(),
        region: "eu-central-1".to_owned(),
        findings: vec![QueueFinding {
            code: FindingCode::NoDlq,
            sentence: "it has no dead-letter queue".to_owned(),
        }],
    };
    Fleet { queues: vec![queue], ..fleet() }
}
