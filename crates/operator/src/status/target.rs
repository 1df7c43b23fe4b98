//! Determines from the circuit breaker's metric whether the target is down. Held messages cannot be read, since a
//! receive would move them.

use std::ops::Range;

use chrono::{DurationRound as _, TimeDelta};
use redeliver_core::message::Timestamp;
use serde::Serialize;

use crate::queues::cloudwatch::Point;
use crate::terminal::units::approximate_span;

/// The period of a datapoint, the same as for the alarm `target-down` and all graphs (`PERIOD` in
/// infra/lib/metrics.ts).
pub(super) const PERIOD: TimeDelta = TimeDelta::minutes(5);

/// An outage continues while its signs are at most this far apart. If nothing new arrives, there is no sign until held
/// messages are received again after at most 900 s. A point's timestamp is the start of its period, so signs 900 s
/// apart are at most three periods apart. The alarm counts in the same way (infra/lib/target-alarm.ts).
pub(super) const QUIET: TimeDelta = TimeDelta::minutes(15);

/// Maximum delay between a period's end and the arrival of its point from the log.
const ARRIVAL_DELAY_MAX: TimeDelta = TimeDelta::minutes(2);

const LOOK_BACK: TimeDelta = TimeDelta::days(14);

/// The state of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TargetStatus {
    Down(OngoingOutage),
    NoOutageSeen,
    /// The metric could not be read.
    Unknown,
}

/// An ongoing outage. Its timestamps are the starts of metric periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OngoingOutage {
    /// The first point above 0.
    #[serde(rename = "down_since")]
    pub since: Timestamp,
    /// True if the outage may have begun before the earliest available point.
    pub or_longer: bool,
    /// Its duration so far.
    pub seconds: i64,
    /// The last point above 0.
    pub last_sign: Timestamp,
}

/// Returns the time range to query, in whole periods: [`LOOK_BACK`] plus 15 minutes. An outage that began more than
/// [`LOOK_BACK`] ago has a sign in those 15 minutes.
pub(super) fn query_range(now: Timestamp) -> Range<Timestamp> {
    earliest_start(now) - QUIET..period_start(now) + PERIOD
}

/// Returns the longest total hold time of a message, from the points of several functions. `None` if no message was
/// held recently: a held message is received again after at most 900 s.
pub(super) fn longest_hold_seconds(points: &[Point], now: Timestamp) -> Option<i64> {
    let recent = points.iter().filter(|(at, _)| is_recent(*at, now, QUIET));
    recent.map(|(_, seconds)| *seconds).max().filter(|seconds| *seconds > 0)
}

/// Returns true if the next sign is not overdue yet.
fn is_recent(sign: Timestamp, now: Timestamp, quiet: TimeDelta) -> bool {
    period_start(now - ARRIVAL_DELAY_MAX) - sign <= quiet
}

impl OngoingOutage {
    /// Returns the ongoing outage, from one function's points in any order. `None` if no point is above 0, or if the
    /// period of the last such point began at least 22 minutes ago: more than 15 minutes in whole periods, plus 2
    /// minutes for its arrival in CloudWatch.
    pub fn from_points(points: &[Point], now: Timestamp) -> Option<Self> {
        Self::from_points_with_max_gap(points, now, QUIET)
    }

    /// Works like [`Self::from_points`], for signs that are at most `quiet` apart.
    pub(super) fn from_points_with_max_gap(
        points: &[Point],
        now: Timestamp,
        quiet: TimeDelta,
    ) -> Option<Self> {
        let signs = points.iter().filter(|(_, value)| *value > 0);
        let mut signs: Vec<_> = signs.map(|(at, _)| *at).collect();
        signs.sort_unstable();
        let last_sign = *signs.last()?;
        if !is_recent(last_sign, now, quiet) {
            return None;
        }
        let gap = signs.windows(2).rposition(|pair| pair[1] - pair[0] > quiet);
        let since = signs[gap.map_or(0, |gap| gap + 1)];
        let seconds = (now - since).num_seconds();
        Some(Self { since, or_longer: since <= earliest_start(now), seconds, last_sign })
    }
}

/// Returns the start of the longest outage that the query range covers completely.
fn earliest_start(now: Timestamp) -> Timestamp {
    period_start(now) - LOOK_BACK
}

fn period_start(moment: Timestamp) -> Timestamp {
    moment.duration_trunc(PERIOD).unwrap_or(moment) // fails only after the year 2262
}

impl TargetStatus {
    /// Returns the target's status, given each function's ongoing outage, if any. The earliest outage counts.
    pub fn from_outages(seen: impl IntoIterator<Item = Option<OngoingOutage>>) -> Self {
        seen.into_iter().flatten().min_by_key(|outage| outage.since).map_or(Self::NoOutageSeen, Self::Down)
    }

    /// Combines the states of two queues: an outage takes precedence over an unknown state, which takes precedence over
    /// "no outage seen".
    pub fn combine_with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Down(one), Self::Down(two)) => Self::from_outages([Some(one), Some(two)]),
            (Self::Down(outage), _) | (_, Self::Down(outage)) => Self::Down(outage),
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::NoOutageSeen, Self::NoOutageSeen) => Self::NoOutageSeen,
        }
    }

    /// Describes the state in one line.
    pub fn describe(&self) -> String {
        match self {
            Self::Down(OngoingOutage { since, or_longer, seconds, last_sign }) => {
                let since = if *or_longer {
                    format!("for more than {} days", LOOK_BACK.num_days())
                } else {
                    format!(
                        "since about {} UTC ({})",
                        since.format("%Y-%m-%d %H:%M"),
                        approximate_span(*seconds)
                    )
                };
                let last_sign = last_sign.format("%H:%M");
                format!("down {since}, last sign about {last_sign}. Its messages are held")
            }
            Self::NoOutageSeen => {
                format!("no outage seen in the last {} minutes", QUIET.num_minutes())
            }
            Self::Unknown => "state unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
