//! The readers of a queue. Lambda lists event source mappings. Containers and other programs are not listed anywhere,
//! so they are inferred from receives.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use redeliver_core::message::Timestamp;
use serde::{Serialize, Serializer};

use super::metrics::{MetricsClient, RECEIVES_LOOK_BACK, Receives};
use crate::queues::AwsConnection;
use crate::queues::cloudwatch::Point;
use crate::queues::event_sources::LambdaMapping;
use crate::terminal::units::format_count;

/// Minimum number of minutes with receives that indicates a poller, which sends at least three requests per minute. An
/// audit ends after a minute or two.
const STEADY_MINUTES: usize = 5;

/// The readers of a queue, as far as they can be determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Readers {
    /// An event source mapping is enabled. Other readers cannot be distinguished from it.
    EventSourceMapping,
    /// Something receives from the queue, and no event source mapping is enabled.
    SomethingElse {
        /// True if Lambda listed the queue's event source mappings. If not, the reader may be one of them.
        mappings_known: bool,
        messages_received: u64,
        empty_receives: u64,
        minutes: u64,
        /// The number of minutes, out of `minutes`, in which there was a receive.
        minutes_with_receives: usize,
    },
    /// Messages are in flight, so something received them; CloudWatch has no data on receives.
    InFlight {
        mappings_known: bool,
        messages: u64,
        why: MissingDataReason,
    },
    /// CloudWatch counted no receives.
    NobodySeen {
        minutes: u64,
    },
    NotKnown {
        why: MissingDataReason,
    },
}

/// The reason CloudWatch returned no data on receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingDataReason {
    /// There is no data yet, as for an unused queue.
    NoFigures { minutes: u64 },
    /// The request failed, for this reason.
    Failed(String),
}

impl Display for MissingDataReason {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFigures { minutes } => {
                write!(formatter, "CloudWatch has no data for the last {}", format_count(*minutes, "minute"))
            }
            Self::Failed(why) => formatter.write_str(why),
        }
    }
}

impl Serialize for MissingDataReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Readers {
    /// Queries CloudWatch if no event source mapping is enabled. `mappings` is `None` if Lambda did not list them.
    pub async fn query_readers(
        connection: &AwsConnection,
        queue_arn: &str,
        mappings: Option<&[LambdaMapping]>,
        in_flight: Option<u64>,
        now: Timestamp,
    ) -> Self {
        if mappings.is_some_and(|mappings| mappings.iter().any(LambdaMapping::is_on)) {
            return Self::EventSourceMapping;
        }
        let receives = async {
            MetricsClient::for_queue_region(connection, queue_arn).await?.query_receives(queue_arn, now).await
        };
        let receives = receives.await.map_err(|error: crate::CommandFailure| error.to_string());
        Self::from_receives(mappings, in_flight, receives, now)
    }

    /// Infers the readers of a queue without a known enabled event source mapping.
    fn from_receives(
        mappings: Option<&[LambdaMapping]>,
        in_flight: Option<u64>,
        receives: Result<Receives, String>,
        now: Timestamp,
    ) -> Self {
        // Messages that a mapping received before it was disabled may still be in flight, so they prove nothing.
        let switched_off = mappings.into_iter().flatten().filter_map(|mapping| mapping.last_modified).max();
        let in_flight = in_flight.filter(|_| mappings.is_none_or(<[_]>::is_empty));
        Self::without_mapping(mappings.is_some(), switched_off, in_flight, receives, now)
    }

    /// Infers the readers of a queue that no event source mapping has read since `switched_off`.
    pub fn without_mapping(
        mappings_known: bool,
        switched_off: Option<Timestamp>,
        in_flight: Option<u64>,
        receives: Result<Receives, String>,
        now: Timestamp,
    ) -> Self {
        let since = switched_off.map_or(now - RECEIVES_LOOK_BACK, |off| off.max(now - RECEIVES_LOOK_BACK));
        // Rounded up, so that a mapping disabled just now counts as one minute.
        let minutes = u64::try_from((now - since).num_seconds()).unwrap_or(0).div_ceil(60).max(1);
        let why = match receives.map(|receives| RecentReceives::new(receives, since)) {
            Ok(RecentReceives { has_points: false, .. }) => MissingDataReason::NoFigures { minutes },
            Ok(RecentReceives { minutes_with_receives: 0, .. }) => return Self::NobodySeen { minutes },
            Ok(RecentReceives { messages_received, empty_receives, minutes_with_receives, .. }) => {
                return Self::SomethingElse {
                    mappings_known,
                    messages_received,
                    empty_receives,
                    minutes,
                    minutes_with_receives,
                };
            }
            Err(why) => MissingDataReason::Failed(why),
        };
        match in_flight {
            None | Some(0) => Self::NotKnown { why },
            Some(messages) => Self::InFlight { mappings_known, messages, why },
        }
    }

    /// Returns true if a program polls the queue: a mapping is enabled, or at least 5 of the last 15 minutes had a
    /// receive.
    pub fn is_steady(&self) -> bool {
        match self {
            Self::EventSourceMapping => true,
            Self::SomethingElse { minutes_with_receives, .. } => *minutes_with_receives >= STEADY_MINUTES,
            Self::InFlight { .. } | Self::NobodySeen { .. } | Self::NotKnown { .. } => false,
        }
    }

    /// Returns true if the queue's readers are unknown because the CloudWatch query failed.
    pub fn query_failed(&self) -> bool {
        matches!(
            self,
            Self::InFlight { why: MissingDataReason::Failed(_), .. }
                | Self::NotKnown { why: MissingDataReason::Failed(_) }
        )
    }

    /// Describes the readers in a sentence without a full stop, including the reason if something is unknown.
    pub fn describe(&self) -> String {
        let summary = self.summary();
        match self {
            Self::InFlight { why, .. } => format!("{summary}; the reader is unknown: {why}"),
            Self::NotKnown { why } => format!("{summary}: {why}"),
            _ => summary,
        }
    }

    /// Returns the same sentence as [`Self::describe`], without the reason.
    pub fn summary(&self) -> String {
        match self {
            Self::EventSourceMapping => "read by an event source mapping".to_owned(),
            Self::SomethingElse { mappings_known, messages_received, empty_receives, minutes, .. } => {
                let (messages, minutes) =
                    (format_count(*messages_received, "message"), format_count(*minutes, "minute"));
                format!(
                    "read by {}: {messages} received and {} in the last {minutes}",
                    unknown_reader(*mappings_known),
                    format_count(*empty_receives, "empty receive")
                )
            }
            Self::InFlight { mappings_known, messages, .. } => {
                let (verb, messages) =
                    (if *messages == 1 { "is" } else { "are" }, format_count(*messages, "message"));
                let something = unknown_reader(*mappings_known);
                format!("read by {something}: {messages} {verb} in flight")
            }
            Self::NobodySeen { minutes } => {
                format!("no reader seen in the last {}", format_count(*minutes, "minute"))
            }
            Self::NotKnown { .. } => "its readers are unknown".to_owned(),
        }
    }
}

const fn unknown_reader(mappings_known: bool) -> &'static str {
    if mappings_known {
        "something that is not an event source mapping (a container, or an audit?)"
    } else {
        "something (a function, a container, or an audit?)"
    }
}

/// The receives that CloudWatch counted since a given time.
struct RecentReceives {
    has_points: bool,
    messages_received: u64,
    empty_receives: u64,
    minutes_with_receives: usize,
}

impl RecentReceives {
    fn new(Receives { messages, empty }: Receives, since: Timestamp) -> Self {
        let [messages, empty] = [messages, empty]
            .map(|points| points.into_iter().filter(|(at, _)| *at >= since).collect::<Vec<_>>());
        let sum = |points: &[Point]| points.iter().map(|(_, count)| count.unsigned_abs()).sum();
        let received = messages.iter().chain(&empty).filter(|(_, count)| *count > 0);
        Self {
            has_points: !messages.is_empty() || !empty.is_empty(),
            messages_received: sum(&messages),
            empty_receives: sum(&empty),
            minutes_with_receives: received.map(|(at, _)| at).collect::<BTreeSet<_>>().len(),
        }
    }
}

#[cfg(test)]
mod tests;
