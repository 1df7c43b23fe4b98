use super::*;
use crate::policy::RedeliveryRate;

/// 600 s on average for each re-send, 300 s at least.
fn busy() -> Window {
    Window::of(6000, RedeliveryRate::new(10.0).unwrap())
}

fn paced(policy: &Policy, members: &str, failure: &HandOff) -> Decision {
    paced_hop(policy, members, failure, None)
}

fn paced_hop(policy: &Policy, members: &str, hand_off: &HandOff, due_at: Option<Timestamp>) -> Decision {
    decide(policy, &failed(&body(members), hand_off, due_at), Some(busy()), at(10))
}

fn resent(policy: &Policy, members: &str, failure: &HandOff) -> Resend {
    match paced(policy, members, failure) {
        Decision::Resend(resend) => resend,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_re_send_comes_later_where_too_many_wait_and_its_metadata_says_when() {
    let resend = resent(&minutes(), "", &transient());
    assert_eq!((resend.delay.get(), resend.waited.get(), resend.pace), (701, 701, Pace::Stretched));
    assert!(
        resend.body().contains(r#""next_retry_time":"2026-07-25T17:31:51.000000Z""#),
        "{}",
        resend.body()
    );
    assert_eq!(resend.retry_attempt, 1, "waiting longer spends nothing");
}

#[test]
fn a_longer_delay_of_its_own_stays_as_it_is() {
    let quarter_hours = policy(r#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#);
    let resend = resent(&quarter_hours, "", &transient());
    assert_eq!((resend.delay.get(), resend.pace), (900, Pace::Own));
}

#[test]
fn no_retry_is_paced_past_an_age_limit() {
    let young =
        policy(r#"{"max_age_seconds":100,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#);
    assert_eq!(resent(&young, "", &transient()).delay.get(), 90, "100 s after second 0");
    let expires = format!(r#""expires_at":"{}""#, rfc3339(at(80) + TimeDelta::milliseconds(900)));
    assert_eq!(resent(&minutes(), &expires, &transient()).delay.get(), 70, "whole seconds, none too many");
    let expires = format!(r#""expires_at":"{}""#, rfc3339(at(70)));
    let resend = resent(&minutes(), &expires, &transient());
    assert_eq!(
        (resend.delay.get(), resend.pace),
        (60, Pace::Stretched),
        "its own delay is in time, and no longer one"
    );
}

#[test]
fn a_snooze_is_paced_too_and_still_spends_nothing() {
    let resend = resent(&minutes(), "", &snooze());
    assert_eq!((resend.delay.get(), resend.spends), (701, Budget::Snooze));
}

#[test]
fn a_hop_is_not_paced_but_the_re_send_at_its_end_is() {
    let hours =
        policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#);
    assert_eq!(paced(&hours, "", &transient()), Decision::Hop(at(7205)), "from the failure on");
    let hopped = HandOff { delivery: Delivery { failed_at: at(-7100), ..delivery() }, ..transient() };
    let Decision::Resend(resend) = paced_hop(&hours, "", &hopped, Some(at(100))) else { panic!("it is due") };
    // 90 s remained; pacing adds 611 s.
    assert_eq!((resend.delay.get(), resend.waited.get(), resend.pace), (701, 7811, Pace::Stretched));
}

#[test]
fn a_delay_that_the_target_asked_for_is_stretched_only_where_it_is_too_short() {
    let long = resent(&minutes(), "", &asking_for(650));
    assert_eq!(long.pace, Pace::Own);
    assert!((650..=715).contains(&long.delay.get()));
    assert_eq!(resent(&minutes(), "", &asking_for(10)).pace, Pace::Stretched);
}
