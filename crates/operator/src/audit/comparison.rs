//! Compares a cause with all others: tenants, versions, hours, and distinguishing features.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{TimeDelta, Timelike as _};
use redeliver_core::failure::Stage;
use redeliver_core::function_arn::parse_version;
use redeliver_core::json::forward_compatible::OpenEnum;
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::{OTHER, serialize_millis};
use serde::Serialize;

use super::report::named_entry;
use crate::terminal::units::group_digits;

/// Minimum number of dead letters for a comparison: a single one shows no pattern.
const COUNT_MIN: u64 = 2;
/// Maximum number of names a comparison lists.
const NAMES_SHOWN_MAX: usize = 10;
/// Minimum percentage of a cause's dead letters that counts as "mostly".
const MOSTLY_PERCENT: u64 = 80;
/// A cause that starts or ends within this distance of the others counts as starting or ending together with them.
const APART_MIN: TimeDelta = TimeDelta::hours(1);
const HOURS: usize = 24;
/// Maximum length of the daily window of a recurring cause, in hours.
const WINDOW_HOURS_MAX: usize = 3;

/// The fields of a dead letter used to compare causes.
#[derive(Clone, Copy, Debug)]
pub struct ComparedLetter<'a> {
    pub fingerprint: &'a str,
    /// The time at which it was sent to this queue.
    pub sent_at: Timestamp,
    pub tenant: Option<&'a str>,
    /// The function that failed or gave up: `NAME:VERSION` if the version is known.
    pub function: Option<&'a str>,
}

/// A cause compared with all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CauseComparison {
    pub fingerprint: String,
    pub count: u64,
    /// Dead letters of all other causes.
    pub others: u64,
    #[serde(serialize_with = "serialize_millis")]
    pub first: Timestamp,
    #[serde(serialize_with = "serialize_millis")]
    pub last: Timestamp,
    /// The version in the cause's first dead letter with a version, as `NAME:VERSION`.
    pub first_version: Option<String>,
    /// The version in the cause's last dead letter with a version.
    pub last_version: Option<String>,
    /// The cause's tenants, at most ten, those with the most dead letters first.
    pub tenants: Vec<Share>,
    /// The cause's functions, sorted and limited like the tenants.
    pub functions: Vec<Share>,
    /// The cause's dead letters by hour of the day, in UTC.
    pub hours: [u64; HOURS],
    /// The differences from the others. Empty if there are no differences, or if there is nothing to compare with.
    pub findings: Vec<CauseFinding>,
}

/// The dead letters with this tenant or function, for the cause and for all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    pub name: String,
    pub count: u64,
    pub others: u64,
}

/// A difference between a cause and all others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum CauseFinding {
    /// All dead letters of the cause belong to this tenant, but not all others do.
    OnlyTenant { tenant: String },
    /// Most dead letters of the cause belong to this tenant, whose share of the cause is at least twice its share of
    /// the others.
    MostlyTenant { tenant: Share, count: u64, others: u64 },
    /// All dead letters of the cause come from this user function, but not all others do.
    OnlyFunction { function: String },
    /// The cause began with a version: no earlier version has it.
    SinceVersion {
        version: String,
        /// The cause's first dead letter.
        #[serde(serialize_with = "serialize_millis")]
        first: Timestamp,
        /// The first dead letter of the version, regardless of cause.
        #[serde(rename = "came_at", serialize_with = "serialize_millis")]
        first_seen: Timestamp,
    },
    /// The cause began later than the others.
    Since {
        #[serde(serialize_with = "serialize_millis")]
        first: Timestamp,
    },
    /// The cause ended: a version that appeared after its last dead letter does not have it.
    NoneSinceVersion {
        version: String,
        /// The first dead letter of the version.
        #[serde(rename = "came_at", serialize_with = "serialize_millis")]
        first_seen: Timestamp,
    },
    /// The cause ended before the others.
    NoneSince {
        #[serde(serialize_with = "serialize_millis")]
        last: Timestamp,
    },
    /// The cause recurs only in these hours of the day, in UTC: from the first (inclusive) until the second
    /// (exclusive).
    OnlyHours { from: usize, until: usize },
}

/// Compares a cause with all others; `None` if no letter has the cause.
#[must_use]
pub fn compare_cause<'a>(
    fingerprint: &str,
    letters: impl IntoIterator<Item = ComparedLetter<'a>>,
) -> Option<CauseComparison> {
    let mut tally = CauseTally::new(fingerprint);
    letters.into_iter().for_each(|letter| tally.add_letter(&letter));
    tally.into_comparison()
}

/// A tally of a cause and all others, counted one dead letter at a time. Its size does not grow with the queue.
#[derive(Clone, Debug)]
pub struct CauseTally {
    fingerprint: String,
    cause: CauseSide,
    others: CauseSide,
}

impl CauseTally {
    #[must_use]
    pub fn new(fingerprint: &str) -> Self {
        Self {
            fingerprint: fingerprint.to_owned(),
            cause: CauseSide::default(),
            others: CauseSide::default(),
        }
    }

    pub fn add_letter(&mut self, letter: &ComparedLetter<'_>) {
        let side = if letter.fingerprint == self.fingerprint { &mut self.cause } else { &mut self.others };
        side.record_letter(letter);
    }

    pub fn add_record(&mut self, record: &DeadLetterRecord) {
        let (tenant, function) = (record.tenant(), record.failed_function());
        self.add_letter(&ComparedLetter {
            fingerprint: &record.fingerprint,
            sent_at: record.message.sent_at,
            tenant: tenant.as_deref(),
            function: function.as_deref(),
        });
    }

    /// Returns the comparison; `None` if no letter has the cause.
    #[must_use]
    pub fn into_comparison(self) -> Option<CauseComparison> {
        let Self { fingerprint, cause, others } = self;
        let LetterStats { count, first, last } = cause.all?;
        let versions = || cause.functions.iter().filter(|(name, _)| parse_version(name).is_some());
        let first_version = versions().min_by_key(|(_, seen)| seen.map(|seen| seen.first));
        let last_version = versions().max_by_key(|(_, seen)| seen.map(|seen| seen.last));
        Some(CauseComparison {
            fingerprint,
            count,
            others: others.letter_count(),
            first,
            last,
            first_version: first_version.map(|(name, _)| name.clone()),
            last_version: last_version.map(|(name, _)| name.clone()),
            tenants: rank_shares(&cause.tenants, &others.tenants),
            functions: rank_shares(&cause.functions, &others.functions),
            hours: cause.hours,
            findings: derive_findings(&cause, &others),
        })
    }
}

impl CauseComparison {
    /// Returns the findings on one line, with timestamps formatted by `moment`: `only tenant acme; since 14:02, when
    /// orders:41 appeared`. Empty if there are none. Names are unescaped, as their producers wrote them.
    pub fn summary(&self, moment: impl Fn(Timestamp) -> String) -> String {
        let findings = self.findings.iter().map(|finding| finding.describe(&moment));
        findings.collect::<Vec<_>>().join("; ")
    }
}

impl CauseFinding {
    /// Describes the finding, with timestamps formatted by `moment`. Names are unescaped, as their producers wrote
    /// them.
    pub fn describe(&self, moment: impl Fn(Timestamp) -> String) -> String {
        match self {
            Self::OnlyTenant { tenant } => format!("only tenant {tenant}"),
            Self::MostlyTenant { tenant, count, others } => {
                let [of_cause, count, of_others, others] =
                    [tenant.count, *count, tenant.others, *others].map(group_digits);
                let name = &tenant.name;
                format!("mostly tenant {name} ({of_cause} of {count}; of the others {of_others} of {others})")
            }
            Self::OnlyFunction { function } => format!("only {function}"),
            Self::SinceVersion { version, first, first_seen } if *first - *first_seen < APART_MIN => {
                format!("since {}, when {version} appeared", moment(*first))
            }
            Self::SinceVersion { version, first, first_seen } => {
                format!(
                    "since {}, not before {version}, which appeared {}",
                    moment(*first),
                    moment(*first_seen)
                )
            }
            Self::Since { first } => format!("since {}", moment(*first)),
            Self::NoneSinceVersion { version, first_seen } => {
                format!("none since {version} appeared, {}", moment(*first_seen))
            }
            Self::NoneSince { last } => format!("none since {}", moment(*last)),
            Self::OnlyHours { from, until } => format!("only from {from:02}:00 to {until:02}:00 UTC"),
        }
    }
}

/// The dead letters of a cause, or of all others.
#[derive(Clone, Debug, Default)]
struct CauseSide {
    all: Option<LetterStats>,
    tenants: BTreeMap<String, Option<LetterStats>>,
    functions: BTreeMap<String, Option<LetterStats>>,
    hours: [u64; HOURS],
}

/// The number of dead letters, and the send times of the first and the last.
#[derive(Clone, Copy, Debug)]
struct LetterStats {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl LetterStats {
    fn count_letter(seen: &mut Option<Self>, at: Timestamp) {
        let Self { count, first, last } = seen.unwrap_or(Self { count: 0, first: at, last: at });
        *seen = Some(Self { count: count + 1, first: first.min(at), last: last.max(at) });
    }

    fn merge_with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

impl CauseSide {
    fn record_letter(&mut self, letter: &ComparedLetter<'_>) {
        let at = letter.sent_at;
        LetterStats::count_letter(&mut self.all, at);
        if let Some(tenant) = letter.tenant {
            LetterStats::count_letter(named_entry(&mut self.tenants, tenant), at);
        }
        if let Some(function) = letter.function {
            LetterStats::count_letter(named_entry(&mut self.functions, function), at);
        }
        self.hours[at.hour() as usize] += 1;
    }

    fn letter_count(&self) -> u64 {
        self.all.map_or(0, |all| all.count)
    }

    /// Returns the name shared by all dead letters.
    fn only_name<'m>(&self, names: &'m BTreeMap<String, Option<LetterStats>>) -> Option<&'m str> {
        names
            .iter()
            .find(|(name, seen)| *name != OTHER && count_or_zero(**seen) == self.letter_count())
            .map(|(name, _)| name.as_str())
    }
}

fn count_or_zero(seen: Option<LetterStats>) -> u64 {
    seen.map_or(0, |seen| seen.count)
}

/// Returns a cause's names with their counts on both sides, those with the highest count for the cause first.
fn rank_shares(
    cause: &BTreeMap<String, Option<LetterStats>>,
    others: &BTreeMap<String, Option<LetterStats>>,
) -> Vec<Share> {
    let mut shares: Vec<_> = cause
        .iter()
        .filter(|(name, _)| *name != OTHER)
        .map(|(name, seen)| Share {
            name: name.clone(),
            count: count_or_zero(*seen),
            others: count_or_zero(others.get(name).copied().flatten()),
        })
        .collect();
    shares.sort_by_key(|share| Reverse(share.count));
    shares.truncate(NAMES_SHOWN_MAX);
    shares
}

fn derive_findings(cause: &CauseSide, others: &CauseSide) -> Vec<CauseFinding> {
    let (Some(of_cause), Some(of_others)) = (cause.all, others.all) else { return Vec::new() };
    if of_cause.count < COUNT_MIN {
        return Vec::new();
    }
    let versions = Versions::new(cause, others);
    let since_version = versions.as_ref().and_then(Versions::find_version_that_introduced_cause);
    let function = if since_version.is_some() { None } else { only_function_finding(cause, others) };
    let since = since_version.or_else(|| {
        (of_cause.first - of_others.first >= APART_MIN)
            .then_some(CauseFinding::Since { first: of_cause.first })
    });
    let none_since =
        versions.as_ref().and_then(Versions::find_first_version_after_last_death).or_else(|| {
            (of_others.last - of_cause.last >= APART_MIN)
                .then_some(CauseFinding::NoneSince { last: of_cause.last })
        });
    [find_tenant(cause, others), function, since, none_since, only_hours_finding(cause, others)]
        .into_iter()
        .flatten()
        .collect()
}

fn find_tenant(cause: &CauseSide, others: &CauseSide) -> Option<CauseFinding> {
    let count_in_others = |name: &str| count_or_zero(others.tenants.get(name).copied().flatten());
    if let Some(tenant) = cause.only_name(&cause.tenants) {
        return (count_in_others(tenant) < others.letter_count())
            .then(|| CauseFinding::OnlyTenant { tenant: tenant.to_owned() });
    }
    let share = rank_shares(&cause.tenants, &others.tenants).into_iter().next()?;
    let is_most = share.count * 100 >= cause.letter_count() * MOSTLY_PERCENT;
    let is_twice = share.count * others.letter_count() >= 2 * share.others * cause.letter_count();
    // Once the name table of the others is full, it does not count all tenants separately.
    let is_known = !others.tenants.contains_key(OTHER);
    (is_most && is_twice && is_known).then(|| CauseFinding::MostlyTenant {
        tenant: share,
        count: cause.letter_count(),
        others: others.letter_count(),
    })
}

fn only_function_finding(cause: &CauseSide, others: &CauseSide) -> Option<CauseFinding> {
    // One of redeliver's own stages is not a finding, since it follows from the error type.
    let is_stage = |name: &str| matches!(OpenEnum::<Stage>::from_text(name), Some(OpenEnum::Known(_)));
    let function = cause.only_name(&cause.functions).filter(|name| !is_stage(name))?;
    let others_with_function = count_or_zero(others.functions.get(function).copied().flatten());
    (others_with_function < others.letter_count())
        .then(|| CauseFinding::OnlyFunction { function: function.to_owned() })
}

/// The versions of the one function named by all dead letters of a cause, including versions without the cause.
struct Versions<'s> {
    /// In order of first appearance.
    by_age: Vec<Version<'s>>,
    /// The cause's first and last dead letter.
    cause: LetterStats,
}

struct Version<'s> {
    name: &'s str,
    first_seen: Timestamp,
    has_cause: bool,
}

impl<'s> Versions<'s> {
    /// Collects the versions; `None` if one of the cause's dead letters names no version, or if they name several
    /// functions.
    fn new(cause: &'s CauseSide, others: &'s CauseSide) -> Option<Self> {
        // Once the name table is full, a version's first appearance may be unknown.
        if others.functions.contains_key(OTHER) {
            return None;
        }
        let mut named = cause.functions.keys().map(|name| parse_version(name).map(|(function, _)| function));
        let function = named.next()??;
        let is_single_function = named.all(|name| name == Some(function));
        let named: u64 = cause.functions.values().map(|seen| count_or_zero(*seen)).sum();
        if !is_single_function || named < cause.letter_count() {
            return None;
        }
        let is_of_function = |name: &str| parse_version(name).is_some_and(|(of, _)| of == function);
        let mut all: BTreeMap<&str, (LetterStats, bool)> = BTreeMap::new();
        for (side, has_cause) in [(cause, true), (others, false)] {
            let functions = side.functions.iter().filter_map(|(name, seen)| Some((name.as_str(), (*seen)?)));
            for (name, seen) in functions.filter(|(name, _)| is_of_function(name)) {
                let entry = all.entry(name).or_insert((seen, has_cause));
                entry.0 = entry.0.merge_with(seen);
            }
        }
        let versions = all.into_iter();
        let mut by_age: Vec<_> = versions
            .map(|(name, (seen, has_cause))| Version { name, first_seen: seen.first, has_cause })
            .collect();
        by_age.sort_by_key(|version| version.first_seen);
        Some(Self { by_age, cause: cause.all? })
    }

    /// Returns the version that introduced the cause: earlier versions exist, but none of them has it.
    fn find_version_that_introduced_cause(&self) -> Option<CauseFinding> {
        let Version { name, first_seen, .. } = self.by_age.iter().find(|version| version.has_cause)?;
        let has_earlier = self.by_age.iter().any(|version| version.first_seen < *first_seen);
        has_earlier.then(|| CauseFinding::SinceVersion {
            version: (*name).to_owned(),
            first: self.cause.first,
            first_seen: *first_seen,
        })
    }

    /// Returns the first version that appeared after the cause's last dead letter.
    fn find_first_version_after_last_death(&self) -> Option<CauseFinding> {
        let Version { name, first_seen, .. } =
            self.by_age.iter().find(|version| version.first_seen > self.cause.last)?;
        Some(CauseFinding::NoneSinceVersion { version: (*name).to_owned(), first_seen: *first_seen })
    }
}

/// Returns the shortest daily window that covers all of a cause, if the cause recurs in it and the others are not
/// confined to it.
fn only_hours_finding(cause: &CauseSide, others: &CauseSide) -> Option<CauseFinding> {
    let LetterStats { first, last, .. } = cause.all?;
    // A shorter period does not contain the same hour twice.
    if last - first < TimeDelta::hours((HOURS - WINDOW_HOURS_MAX) as i64) {
        return None;
    }
    let is_within = |from: usize, length: usize, hour: usize| (hour + HOURS - from) % HOURS < length;
    let has_all = |from: usize, length: usize, side: &CauseSide| {
        (0..HOURS).all(|hour| side.hours[hour] == 0 || is_within(from, length, hour))
    };
    let windows = (1..=WINDOW_HOURS_MAX).flat_map(|length| (0..HOURS).map(move |from| (from, length)));
    let (from, length) = windows.into_iter().find(|(from, length)| has_all(*from, *length, cause))?;
    (!has_all(from, length, others))
        .then_some(CauseFinding::OnlyHours { from, until: (from + length) % HOURS })
}

#[cfg(test)]
mod tests;
