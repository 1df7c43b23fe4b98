//! Counts of messages by arrival time and error type. The spans widen as needed, so their number is limited.

use std::collections::BTreeMap;

use redeliver_core::message::Timestamp;
use redeliver_dead_letters::groups::serialize_millis;
use serde::Serialize;

/// The widths of spans, in seconds. Beyond the last one, the width doubles each time.
const WIDTHS: [i64; 8] = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400];
const SPANS_WHILE_READING: usize = 2048;
/// Maximum number of spans in the report, including empty ones in between.
const SPANS_MAX: i64 = 48;

type ErrorTypeCounts = BTreeMap<String, u64>;

/// Dead letters by the time at which they were sent to this queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArrivalHistogram {
    /// The length of each span.
    pub span_seconds: i64,
    /// The spans with dead letters, in order.
    pub spans: Vec<TimeSpan>,
}

/// Dead letters in one span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeSpan {
    #[serde(serialize_with = "serialize_millis")]
    pub start: Timestamp,
    pub by_error_type: ErrorTypeCounts,
}

#[derive(Debug)]
pub(super) struct ArrivalTimes {
    width: i64,
    spans: BTreeMap<i64, ErrorTypeCounts>,
}

impl Default for ArrivalTimes {
    fn default() -> Self {
        Self { width: WIDTHS[0], spans: BTreeMap::new() }
    }
}

impl ArrivalTimes {
    pub(super) fn add_arrival(&mut self, sent_at: Timestamp, error_type: &str) {
        let counts = self.spans.entry(sent_at.timestamp().div_euclid(self.width)).or_default();
        match counts.get_mut(error_type) {
            Some(count) => *count += 1,
            None => {
                counts.insert(error_type.to_owned(), 1);
            }
        }
        while self.spans.len() > SPANS_WHILE_READING {
            self.widen_spans();
        }
    }

    pub(super) fn into_histogram(mut self) -> ArrivalHistogram {
        while self.span_count() > SPANS_MAX {
            self.widen_spans();
        }
        let spans = self.spans.into_iter().map(|(index, by_error_type)| TimeSpan {
            start: Timestamp::from_timestamp(index * self.width, 0).unwrap_or_default(),
            by_error_type,
        });
        ArrivalHistogram { span_seconds: self.width, spans: spans.collect() }
    }

    fn span_count(&self) -> i64 {
        match (self.spans.first_key_value(), self.spans.last_key_value()) {
            (Some((first, _)), Some((last, _))) => last - first + 1,
            _ => 0,
        }
    }

    fn widen_spans(&mut self) {
        let wider = WIDTHS.into_iter().find(|width| *width > self.width).unwrap_or(self.width * 2);
        let narrow = std::mem::take(&mut self.spans);
        for (index, counts) in narrow {
            let wide = self.spans.entry((index * self.width).div_euclid(wider)).or_default();
            for (error_type, count) in counts {
                *wide.entry(error_type).or_default() += count;
            }
        }
        self.width = wider;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival_histogram(seconds: impl IntoIterator<Item = i64>) -> ArrivalHistogram {
        let mut times = ArrivalTimes::default();
        for second in seconds {
            times.add_arrival(Timestamp::from_timestamp(second, 0).unwrap(), "A");
        }
        times.into_histogram()
    }

    fn starts_and_counts(over_time: &ArrivalHistogram) -> Vec<(i64, u64)> {
        over_time.spans.iter().map(|span| (span.start.timestamp(), span.by_error_type["A"])).collect()
    }

    #[test]
    fn a_short_period_is_counted_by_the_minute() {
        let short = arrival_histogram([0, 59, 60, 300]);
        assert_eq!(short.span_seconds, 60);
        assert_eq!(starts_and_counts(&short), [(0, 2), (60, 1), (300, 1)]);
        assert_eq!(arrival_histogram([]), ArrivalHistogram { span_seconds: 60, spans: Vec::new() });
    }

    #[test]
    fn a_long_period_has_wider_spans_and_loses_no_message() {
        let fortnight = arrival_histogram((0..14 * 24 * 60).map(|minute| minute * 60));
        assert_eq!(fortnight.span_seconds, 86_400);
        assert_eq!(
            starts_and_counts(&fortnight),
            (0..14).map(|day| (day * 86_400, 1440)).collect::<Vec<_>>()
        );
        let decades = arrival_histogram([-1, 4_000_000_000]);
        assert!(decades.spans.len() == 2 && decades.span_seconds > 60 * 86_400, "{decades:?}");
    }
}
