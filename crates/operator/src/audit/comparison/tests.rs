use proptest::prelude::*;

use super::*;
use crate::audit::examples::at_seconds;

const DAY: i64 = 86_400;
const HOUR: i64 = 3600;

fn letter<'a>(
    fingerprint: &'a str,
    seconds: i64,
    tenant: Option<&'a str>,
    function: Option<&'a str>,
) -> ComparedLetter<'a> {
    ComparedLetter { fingerprint, sent_at: at_seconds(seconds), tenant, function }
}

/// Returns the findings on cause `c`, with times in seconds.
fn summary(letters: &[ComparedLetter<'_>]) -> String {
    compare_cause("c", letters.iter().copied()).unwrap().summary(|moment| moment.timestamp().to_string())
}

#[test]
fn a_comparison_names_a_causes_only_tenant_and_first_version() {
    let others = [
        letter("a", 0, Some("zeta"), Some("orders:40")),
        letter("b", 10 * HOUR + 60, Some("acme"), Some("orders:41")),
    ];
    let cause = [
        letter("c", 10 * HOUR + 120, Some("acme"), Some("orders:41")),
        letter("c", 10 * HOUR + 180, Some("acme"), Some("orders:41")),
    ];
    let all = others.into_iter().chain(cause);
    let comparison = compare_cause("c", all).unwrap();
    let version = Some("orders:41".to_owned());
    assert_eq!((&comparison.first_version, &comparison.last_version), (&version, &version));
    assert_eq!((comparison.count, comparison.others), (2, 2));
    assert_eq!(comparison.tenants, [Share { name: "acme".to_owned(), count: 2, others: 1 }]);
    assert_eq!(comparison.functions, [Share { name: "orders:41".to_owned(), count: 2, others: 1 }]);
    assert_eq!(comparison.hours[10], 2);
    assert_eq!(
        comparison.summary(|moment| moment.timestamp().to_string()),
        "only tenant acme; since 36120, when orders:41 appeared"
    );
}

#[test]
fn a_cause_that_began_long_after_its_version_has_both_times() {
    let letters = [
        letter("a", 0, None, Some("orders:40")),
        letter("a", HOUR, None, Some("orders:41")),
        letter("c", 3 * HOUR, None, Some("orders:41")),
        letter("c", 3 * HOUR + 1, None, Some("orders:41")),
    ];
    assert_eq!(summary(&letters), "since 10800, not before orders:41, which appeared 3600");
}

#[test]
fn a_cause_in_an_earlier_version_is_not_attributed_to_a_later_one() {
    let letters = [
        letter("a", 0, None, Some("orders:40")),
        letter("c", 60, None, Some("orders:41")),
        letter("c", 120, None, Some("orders:40")),
    ];
    assert_eq!(summary(&letters), "");
    // A dead letter without a version may come from the earlier version.
    let unnamed = [letters[0], letters[1], letter("c", 120, None, None)];
    assert_eq!(summary(&unnamed), "");
}

#[test]
fn a_cause_that_ended_names_the_first_version_without_it() {
    let letters = [
        letter("c", 0, None, Some("orders:41")),
        letter("c", 60, None, Some("orders:41")),
        letter("a", 120, None, Some("orders:42")),
        letter("a", 180, None, Some("orders:43")),
    ];
    assert_eq!(summary(&letters), "only orders:41; none since orders:42 appeared, 120");
}

#[test]
fn a_cause_without_versions_has_its_start_and_end_times() {
    let letters = [
        letter("a", 0, None, None),
        letter("c", HOUR, None, None),
        letter("c", HOUR + 60, None, None),
        letter("a", 2 * HOUR + 60, None, None),
    ];
    assert_eq!(summary(&letters), "since 3600; none since 3660");
    assert_eq!(summary(&[letters[1], letters[2], letter("a", HOUR - 3599, None, None)]), "");
}

#[test]
fn a_tenant_with_most_of_a_cause_but_few_other_dead_letters_is_named() {
    let mut letters = vec![letter("c", 0, Some("acme"), None); 8];
    letters.extend([letter("c", 0, Some("zeta"), None), letter("c", 0, None, None)]);
    letters.extend([letter("a", 0, Some("acme"), None); 4]);
    letters.extend([letter("a", 0, None, None); 6]);
    assert_eq!(summary(&letters), "mostly tenant acme (8 of 10; of the others 4 of 10)");
    letters.push(letter("a", 0, Some("acme"), None));
    assert_eq!(summary(&letters), "", "nearly half of the others are acme's, too");
}

#[test]
fn an_earlier_version_that_fails_again_is_the_last_version() {
    let letter_at = |seconds, version| letter("c", seconds, None, Some(version));
    let letters = [letter_at(0, "orders:41"), letter_at(60, "orders:42"), letter_at(300, "orders:41")];
    let comparison = compare_cause("c", letters).unwrap();
    let version = Some("orders:41".to_owned());
    assert_eq!((&comparison.first_version, &comparison.last_version), (&version, &version));
    let comparison = compare_cause("c", letters[1..].iter().copied()).unwrap();
    assert_eq!((comparison.first_version, comparison.last_version), (Some("orders:42".to_owned()), version));
}

#[test]
fn a_tenant_left_out_of_a_full_name_table_is_not_named() {
    let names: Vec<_> = (0..1000).map(|number| format!("tenant-{number}")).collect();
    let mut letters = vec![letter("c", 0, Some("acme"), None); 8];
    letters.extend([letter("c", 0, Some("zeta"), None); 2]);
    letters.extend(names.iter().map(|name| letter("a", 0, Some(name), None)));
    assert_eq!(summary(&letters), "mostly tenant acme (8 of 10; of the others 0 of 1,000)");
    letters.push(letter("a", 0, Some("acme"), None));
    assert_eq!(summary(&letters), "", "acme has no separate entry among the others");
}

#[test]
fn a_nightly_cause_is_described_by_its_hours() {
    let nightly = |hours: &[i64]| -> Vec<_> {
        let nights = hours.iter().map(|hour| letter("c", hour * HOUR + 60, None, None));
        nights.chain([0, 12, 71].map(|hour| letter("a", hour * HOUR, None, None))).collect()
    };
    assert_eq!(
        summary(&nightly(&[2, 26, 50])),
        "since 7260; none since 180060; only from 02:00 to 03:00 UTC"
    );
    assert!(summary(&nightly(&[23, 48])).ends_with("; only from 23:00 to 01:00 UTC"), "across midnight");
    assert!(!summary(&nightly(&[2, 3])).contains("only from"), "one night is not a pattern");
    assert!(!summary(&nightly(&[2, 26, 53])).contains("only from"));
}

#[test]
fn a_function_is_named_and_a_redeliver_stage_is_not() {
    let describe = |function| {
        let cause = letter("c", 0, None, Some(function));
        summary(&[cause, cause, letter("a", 0, None, Some("final-dlq-annotator"))])
    };
    assert_eq!((&*describe("orders"), &*describe("orders:41")), ("only orders", "only orders:41"));
    assert_eq!((&*describe("message-processor"), &*describe("failed-message-processor")), ("", ""));
}

#[test]
fn shared_traits_and_single_dead_letters_are_not_findings() {
    let same = |fingerprint| letter(fingerprint, 0, Some("acme"), Some("orders:41"));
    assert_eq!(summary(&[same("c"), same("c"), same("a")]), "");
    assert_eq!(summary(&[same("c"), same("c")]), "", "there are no others");
    let single = [letter("c", DAY, Some("acme"), None), same("a"), letter("a", 0, Some("zeta"), None)];
    assert_eq!(summary(&single), "", "one dead letter is not a pattern");
    assert_eq!(compare_cause("c", [same("a")]), None);
}

#[test]
fn a_comparison_in_json_has_exact_times_and_its_findings_by_name() {
    let letters = [
        letter("a", 0, Some("zeta"), None),
        letter("c", 2 * HOUR, Some("acme"), None),
        letter("c", 2 * HOUR, Some("acme"), None),
    ];
    let json = serde_json::to_value(compare_cause("c", letters)).unwrap();
    assert_eq!(
        json["findings"],
        serde_json::json!([
            {"finding": "only_tenant", "tenant": "acme"},
            {"finding": "since", "first": "1970-01-01T02:00:00.000Z"}
        ])
    );
    assert_eq!((&json["first"], &json["first_version"]), (&"1970-01-01T02:00:00.000Z".into(), &().into()));
    let first_seen = at_seconds(HOUR);
    let version = "orders:41".to_owned();
    let since = CauseFinding::SinceVersion { version: version.clone(), first: at_seconds(0), first_seen };
    let none_since = CauseFinding::NoneSinceVersion { version, first_seen };
    for finding in [since, none_since] {
        assert_eq!(serde_json::to_value(finding).unwrap()["came_at"], "1970-01-01T01:00:00.000Z");
    }
}

/// Fingerprint, seconds, tenant and function.
type Letter = (String, i64, Option<String>, Option<String>);

proptest! {
    /// A finding holds for each dead letter of the cause, regardless of the read order.
    #[test]
    fn findings_hold_for_each_dead_letter_in_any_order(
        letters in prop::collection::vec(
            ("[abc]", 0_i64..3 * DAY, prop::option::of("[xyz]"), prop::option::of("f:[123]")),
            1..40,
        ),
    ) {
        let compare = |letters: &[Letter]| {
            compare_cause("c", letters.iter().map(|(fingerprint, seconds, tenant, function)| {
                letter(fingerprint, *seconds, tenant.as_deref(), function.as_deref())
            }))
        };
        let backwards: Vec<_> = letters.iter().rev().cloned().collect();
        let comparison = compare(&letters);
        let in_any_order = |comparison: &Option<CauseComparison>| {
            comparison.as_ref().map(|comparison| comparison.findings.clone())
        };
        prop_assert_eq!(in_any_order(&comparison), in_any_order(&compare(&backwards)));
        let Some(comparison) = comparison else { return Ok(()) };
        let cause: Vec<_> = letters.iter().filter(|letter| letter.0 == "c").collect();
        prop_assert_eq!(comparison.count as usize, cause.len());
        for finding in &comparison.findings {
            match finding {
                CauseFinding::OnlyTenant { tenant } => {
                    prop_assert!(cause.iter().all(|letter| letter.2.as_ref() == Some(tenant)));
                }
                CauseFinding::OnlyFunction { function } => {
                    prop_assert!(cause.iter().all(|letter| letter.3.as_ref() == Some(function)));
                }
                CauseFinding::SinceVersion { version, first, first_seen } => {
                    prop_assert!(cause.iter().all(|letter| at_seconds(letter.1) >= *first && letter.3.is_some()));
                    let seen = letters.iter().filter(|letter| letter.3.as_ref() == Some(version)).map(|letter| letter.1);
                    prop_assert_eq!(seen.min().map(at_seconds), Some(*first_seen));
                }
                CauseFinding::NoneSinceVersion { first_seen, .. } => {
                    prop_assert!(cause.iter().all(|letter| at_seconds(letter.1) < *first_seen));
                }
                CauseFinding::OnlyHours { from, until } => {
                    let is_within = |hour: usize| (hour + 24 - from) % 24 < (until + 24 - from) % 24;
                    prop_assert!(cause.iter().all(|letter| is_within((letter.1 / HOUR % 24) as usize)));
                }
                CauseFinding::Since { first } => prop_assert!(cause.iter().all(|letter| at_seconds(letter.1) >= *first)),
                CauseFinding::NoneSince { last } => prop_assert!(cause.iter().all(|letter| at_seconds(letter.1) <= *last)),
                CauseFinding::MostlyTenant { tenant, .. } => prop_assert!(tenant.count * 5 >= comparison.count * 4),
            }
        }
    }
}
