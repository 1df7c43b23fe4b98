use chrono::TimeDelta;
use redeliver_operator::queues::cloudwatch::Point;
use redeliver_operator::status::OngoingOutage;

use super::*;

fn now() -> Timestamp {
    "2026-11-23T14:22:10Z".parse().unwrap()
}

const QUIET: Facts<'_> = Facts {
    now: Timestamp::MIN_UTC,
    target: Some(TargetStatus::NoOutageSeen),
    longest_hold_seconds: None,
    held: Some(40),
    source: 0,
    paused: None,
    blocked: None,
    dead_letters: Some(0),
    oldest_ends_in_seconds: None,
    reading: None,
    alarms_on: &[],
    is_blind: false,
};

/// Renders the line, with its links in Markdown.
fn markdown_line(facts: Facts<'_>) -> String {
    let StatusLine { parts, is_bad } = build_status_line(&Facts { now: now(), ..facts });
    let words: Vec<_> = parts
        .into_iter()
        .map(|part| match part {
            LinePart::Text(words) => words,
            LinePart::Link(words, to) => format!("[{words}]({to})"),
        })
        .collect();
    let words = words.concat();
    assert_eq!(is_bad, !words.starts_with("All quiet"), "{words}");
    words
}

#[test]
fn blocked_groups_show_their_count_and_the_earliest_time() {
    let blocked =
        |count| markdown_line(Facts { blocked: Some((count, "2026-11-28T00:00:00.000Z")), ..QUIET });
    assert_eq!(blocked(1), "[1 group](#blocked) is blocked since 2026-11-28T00:00:00.000Z.");
    assert_eq!(blocked(2), "[2 groups](#blocked) are blocked, the first one since 2026-11-28T00:00:00.000Z.");
}

fn target_down_for(minutes: i64, sign_minutes: i64) -> Option<TargetStatus> {
    let point = |minutes: i64| -> Point { (now() - TimeDelta::minutes(minutes), 1) };
    let signs: Vec<_> = (sign_minutes..=minutes).step_by(5).map(point).collect();
    Some(TargetStatus::Down(OngoingOutage::from_points(&signs, now()).unwrap()))
}

#[test]
fn the_status_line_reports_all_quiet_or_what_is_unknown() {
    assert_eq!(markdown_line(QUIET), "All quiet.");
    assert_eq!(markdown_line(Facts { target: None, held: None, ..QUIET }), "All quiet.");
    assert_eq!(
        markdown_line(Facts { is_blind: true, ..QUIET }),
        "All quiet according to SQS's counts; CloudWatch is unavailable."
    );
    let unknown = Facts { target: Some(TargetStatus::Unknown), ..QUIET };
    assert_eq!(markdown_line(unknown), "Could not determine whether the target is down.");
    assert_eq!(
        markdown_line(Facts { dead_letters: None, ..QUIET }),
        "Could not determine the number of dead letters."
    );
}

#[test]
fn a_hold_over_an_hour_is_shown_and_a_shorter_one_only_in_an_outage() {
    let shown =
        |target, seconds| markdown_line(Facts { target, longest_hold_seconds: Some(seconds), ..QUIET });
    assert_eq!(shown(QUIET.target, 3600), "All quiet.");
    assert_eq!(shown(QUIET.target, 4320), "The longest hold of a message is 1h 12m.");
    let in_outage = shown(target_down_for(40, 0), 1800);
    assert!(in_outage.ends_with(" none lost. The longest hold of a message is 30m."), "{in_outage}");
}

#[test]
fn an_outage_as_old_as_its_metrics_may_have_begun_earlier() {
    let shown = |days: i64, minutes: i64| {
        let since = now() - TimeDelta::days(days) - TimeDelta::minutes(minutes);
        let seconds = (now() - since).num_seconds();
        let outage = OngoingOutage { since, or_longer: true, seconds, last_sign: now() };
        markdown_line(Facts { target: Some(TargetStatus::Down(outage)), held: Some(0), ..QUIET })
    };
    assert_eq!(shown(0, 10), "The target has been down since 14:12 or longer: no message is held.");
    assert_eq!(shown(14, 0), "The target has been down for more than 14 days: no message is held.");
}

#[test]
fn the_first_sentence_reports_an_outage_and_its_held_messages() {
    let shown = |target, held| markdown_line(Facts { target, held, ..QUIET });
    assert_eq!(
        shown(target_down_for(20, 5), Some(12_300)),
        "The target has been down since about 14:02: [about 12,300 messages](#queue-0) held, none lost."
    );
    assert_eq!(
        shown(target_down_for(20, 5), Some(1)),
        "The target has been down since about 14:02: [about 1 message](#queue-0) held, none lost."
    );
    assert_eq!(
        shown(target_down_for(20, 5), Some(0)),
        "The target has been down since about 14:02: no message is held."
    );
    assert_eq!(
        shown(target_down_for(900, 0), None),
        "The target has been down since about 2026-11-22 23:22; the number of held messages is unknown."
    );
    assert_eq!(
        shown(target_down_for(20_200, 0), Some(3)),
        "The target has been down for more than 14 days: [about 3 messages](#queue-0) held, none lost."
    );
}

#[test]
fn a_target_without_a_recent_sign_of_its_outage_may_be_up_again() {
    assert_eq!(
        markdown_line(Facts { target: target_down_for(31, 11), ..QUIET }),
        "The target has been down since about 13:51: [about 40 messages](#queue-0) held, none lost. It may be up \
         again: the last sign of the outage was at about 14:11."
    );
}

#[test]
fn a_pause_shows_the_waiting_messages() {
    assert_eq!(
        markdown_line(Facts { paused: Some(12), ..QUIET }),
        "[Paused](pause): [about 12 messages](#queue-0) waiting."
    );
}

#[test]
fn dead_letters_show_their_new_causes_after_a_reading() {
    let shown =
        |dead_letters, reading| markdown_line(Facts { dead_letters: Some(dead_letters), reading, ..QUIET });
    let reading = |new_causes| {
        let [taken_at, last_refresh] = [17, 200].map(|minutes| now() - TimeDelta::minutes(minutes));
        let last_refresh = Some(last_refresh);
        Some(LastReading {
            taken_at,
            count: 2060,
            new_causes,
            returned_causes: 0,
            last_refresh,
            deleted_soon: None,
        })
    };
    let returned = |new_causes, returned_causes| {
        reading(new_causes).map(|reading| LastReading { returned_causes, ..reading })
    };
    assert_eq!(shown(2060, None), "[2,060 dead letters](letters).");
    assert_eq!(shown(1, reading(0)), "[1 dead letter](letters), no new cause at 14:05.");
    assert_eq!(
        shown(2060, reading(3)),
        "[2,060 dead letters](letters), [3 causes new](letters?new=last-refresh) since 11:02."
    );
    assert_eq!(
        shown(2060, returned(3, 1)),
        "[2,060 dead letters](letters), [3 causes new](letters?new=last-refresh) since 11:02, [1 cause](letters) came back."
    );
    assert_eq!(
        shown(2060, returned(0, 2)),
        "[2,060 dead letters](letters), no new cause at 14:05, [2 causes](letters) came back."
    );
    assert_eq!(shown(0, reading(3)), "All quiet.");
}

#[test]
fn dead_letters_after_the_reading_are_counted_without_causes() {
    let shown = |dead_letters, new_causes, last_refresh| {
        let taken_at = now() - TimeDelta::minutes(17);
        let reading = LastReading {
            taken_at,
            count: 15,
            new_causes,
            returned_causes: 0,
            last_refresh,
            deleted_soon: None,
        };
        markdown_line(Facts { dead_letters: Some(dead_letters), reading: Some(reading), ..QUIET })
    };
    let earlier = Some(now() - TimeDelta::minutes(200));
    assert_eq!(
        shown(22, 0, earlier),
        "[22 dead letters](letters), 7 more since the refresh at 14:05: [refresh](letters)."
    );
    assert_eq!(
        shown(22, 3, earlier),
        "[22 dead letters](letters), [3 causes new](letters?new=last-refresh) since 11:02, 7 more since the refresh at \
         14:05: [refresh](letters)."
    );
    assert_eq!(
        shown(15, 0, None),
        "[15 dead letters](letters), first read at 14:05: new causes are shown from the next refresh on."
    );
    assert_eq!(
        shown(16, 0, None),
        "[16 dead letters](letters), 1 more since the refresh at 14:05: [refresh](letters)."
    );
    assert_eq!(shown(14, 0, earlier), "[14 dead letters](letters), no new cause at 14:05.");
}

#[test]
fn expiring_letters_come_from_the_reading_or_else_from_cloudwatch() {
    let shown = |oldest_ends_in_seconds, deleted_soon: Option<Option<(u64, i64)>>| {
        let read = |deleted_soon: Option<(u64, i64)>| LastReading {
            taken_at: now(),
            count: 41,
            new_causes: 0,
            returned_causes: 0,
            last_refresh: Some(now()),
            deleted_soon,
        };
        let reading = deleted_soon.map(read);
        markdown_line(Facts { dead_letters: Some(41), oldest_ends_in_seconds, reading, ..QUIET })
    };
    assert_eq!(
        shown(Some(93_784), None),
        "[41 dead letters](letters). SQS deletes [the oldest of them](letters) in 1d 2h."
    );
    assert_eq!(
        shown(Some(93_784), Some(Some((40, 3600)))),
        "[41 dead letters](letters), no new cause at 14:22. SQS deletes [40 of them soon, the first](letters) in 1h."
    );
    assert_eq!(shown(Some(1), Some(None)), "[41 dead letters](letters), no new cause at 14:22.");
    assert_eq!(
        shown(Some(-5), None),
        "[41 dead letters](letters). SQS deletes [the oldest of them](letters) at any moment."
    );
}

#[test]
fn alarms_are_counted_last() {
    assert_eq!(markdown_line(Facts { alarms_on: &["a"], ..QUIET }), "[1 alarm](#alarms) is on.");
    let all = Facts {
        target: target_down_for(20, 5),
        held: Some(12_300),
        dead_letters: Some(2060),
        reading: Some(LastReading {
            taken_at: now(),
            count: 2060,
            new_causes: 3,
            returned_causes: 0,
            last_refresh: None,
            deleted_soon: None,
        }),
        alarms_on: &["a", "b"],
        ..QUIET
    };
    assert_eq!(
        markdown_line(all),
        "The target has been down since about 14:02: [about 12,300 messages](#queue-0) held, none lost. \
         [2,060 dead letters](letters), [3 causes new](letters?new=last-refresh). [2 alarms](#alarms) are on."
    );
}

#[test]
fn a_link_leads_to_a_deployment_page_or_an_anchor_on_this_page() {
    let facts = Facts { now: now(), dead_letters: Some(2), alarms_on: &["a"], ..QUIET };
    assert_eq!(
        build_status_line(&facts).render_line("/s/0/").into_string(),
        "<p class=\"answer bad\"><a href=\"/s/0/letters\">2 dead letters</a>. <a href=\"#alarms\">1 alarm</a> is on.</p>"
    );
}
