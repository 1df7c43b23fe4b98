//! Reads counters from containers' `/metrics`, since they are not in CloudWatch. A counter has no history, so counting
//! starts with the first read.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use redeliver_core::message::Timestamp;
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};

use super::target::{OngoingOutage, QUIET, TargetStatus};
use super::{Problem, QueriedService};
use crate::CommandFailure;
use crate::queues::cloudwatch::Point;

/// The counters to read, in the order of the points in [`CounterHistory`].
const COUNTERS: [&str; 4] = [
    "redeliver_processed_total",
    "redeliver_held_total",
    "redeliver_dead_lettered_total",
    "redeliver_circuit_open_total",
];
const CIRCUIT_OPEN: usize = 3;

const TIMEOUT: Duration = Duration::from_secs(2);
const BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of series per URL whose values are remembered: replicas come and go.
const SERIES_MAX: usize = 50_000;

/// After a longer gap between two reads, it is unknown when a counter grew, so counting restarts.
const GAP_MAX: TimeDelta = QUIET;
/// Maximum time between two signs of the same outage, as read here. Signs are at most [`QUIET`] apart, and each is read
/// up to a minute late, plus some time for the request.
const SIGNS_APART: TimeDelta = TimeDelta::minutes(17);

/// The URL of a container's `/metrics`, or of a Prometheus `/federate` endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsUrl(Url);

impl FromStr for MetricsUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url: Url = text.parse().map_err(|error| format!("{error}"))?;
        match url.scheme() {
            "http" | "https" => Ok(Self(url)),
            _ => Err("must begin with http:// or https://".to_owned()),
        }
    }
}

/// A client that reads containers' counters.
#[derive(Clone, Debug)]
pub struct Containers {
    client: Client,
    urls: Vec<MetricsUrl>,
}

impl Containers {
    /// Creates a client that follows no redirects, uses no proxy, and has a timeout of 2 s per request.
    ///
    /// # Errors
    /// If the client cannot be built, for example without a TLS library.
    pub fn new(urls: Vec<MetricsUrl>) -> Result<Self, CommandFailure> {
        // Each connection is closed after its response: the next request may come from a different thread.
        let client =
            Client::builder().redirect(Policy::none()).no_proxy().timeout(TIMEOUT).pool_max_idle_per_host(0);
        let client = client.build().map_err(|error| format!("--metrics: {}", last_cause(&error)))?;
        Ok(Self { client, urls })
    }

    /// Reads all URLs concurrently, and returns their counters in the order of the URLs. A URL is reported as a problem
    /// if it does not return a 2xx response within 2 s, or if the response is longer than 1 MiB or contains none of
    /// redeliver's counters.
    pub async fn read_counters(&self) -> Vec<Result<CounterValues, Problem>> {
        let reads = self.urls.iter().map(async |MetricsUrl(url)| {
            self.fetch_counters(url).await.map_err(|why| {
                let about = vec![hide_password(url)];
                Problem { service: QueriedService::Container, missing: "metrics", about, why }
            })
        });
        join_all(reads).await
    }

    async fn fetch_counters(&self, url: &Url) -> Result<CounterValues, String> {
        let answer = self.client.get(url.clone()).send().await.map_err(|error| last_cause(&error))?;
        if !answer.status().is_success() {
            return Err(format!("HTTP {}", answer.status().as_u16()));
        }
        let counters = parse_counters(&read_text(answer).await?);
        if counters.is_empty() {
            return Err("the response has no redeliver counters".to_owned());
        }
        Ok(counters)
    }
}

async fn read_text(mut answer: Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| last_cause(&error))? {
        if bytes.len() + chunk.len() > BYTES_MAX {
            return Err("the response is longer than 1 MiB".to_owned());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no response within {} s", TIMEOUT.as_secs());
    }
    // The last cause is the reason; the earlier ones name layers of the client, and repeat the URL.
    let mut why = error.source();
    while let Some(next) = why.and_then(|why| why.source()) {
        why = Some(next);
    }
    why.map_or_else(|| "the request failed".to_owned(), ToString::to_string)
}

fn hide_password(url: &Url) -> String {
    let mut shown = url.clone();
    // Fails only for a URL without a host, which has no credentials.
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.to_string()
}

/// Series by name and labels, each with its counter's index in `COUNTERS` and its value.
pub type CounterValues = BTreeMap<String, (usize, u64)>;

/// Parses the counters from OpenMetrics or Prometheus text. All other lines are skipped.
fn parse_counters(text: &str) -> CounterValues {
    text.lines().filter_map(parse_counter).collect()
}

/// Parses `name{label="value",…} number`, optionally followed by a timestamp or an exemplar.
fn parse_counter(line: &str) -> Option<(String, (usize, u64))> {
    let place = COUNTERS
        .iter()
        .position(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', '\t'])))?;
    let name_end = COUNTERS[place].len();
    let series_end = name_end + labels_end(&line[name_end..])?;
    let number: f64 = line[series_end..].split_whitespace().next()?.parse().ok()?;
    let value = format!("{number:.0}").parse().ok()?; // not NaN, infinite or negative
    Some((line[..series_end].to_owned(), (place, value)))
}

/// Returns the length of the labels, including their braces. Label values can also contain braces.
fn labels_end(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return Some(0);
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The increases in the counters over the last day.
#[derive(Debug, Default)]
pub struct CounterHistory {
    /// The last read of each URL.
    last_reads: Vec<Option<CounterRead>>,
    points: [Vec<Point>; COUNTERS.len()],
    /// The time of the first read.
    since: Option<Timestamp>,
    /// The last read at which counting started: the first read of a URL, or the first after a long gap. An outage may
    /// have begun earlier.
    started_at: Option<Timestamp>,
}

#[derive(Debug)]
struct CounterRead {
    at: Timestamp,
    values: CounterValues,
}

impl CounterHistory {
    /// Adds the results of reading all URLs, in the order of the URLs.
    pub fn record_counters(&mut self, now: Timestamp, answers: &[Result<CounterValues, Problem>]) {
        self.last_reads.resize_with(answers.len(), || None);
        for points in &mut self.points {
            points.retain(|(at, _)| now - *at < TimeDelta::days(1));
        }
        for (last_read, counters) in self.last_reads.iter_mut().zip(answers) {
            let Ok(counters) = counters else { continue };
            match last_read {
                Some(last_read) if now - last_read.at <= GAP_MAX => {
                    for (series, (place, value)) in counters {
                        // A counter that is new or has decreased started at 0 with its process.
                        let before = last_read.values.get(series).map_or(0, |(_, before)| *before);
                        let increase = value.checked_sub(before).unwrap_or(*value);
                        if increase > 0 {
                            self.points[*place].push((now, increase.try_into().unwrap_or(i64::MAX)));
                        }
                    }
                    last_read.at = now;
                    if last_read.values.len() > SERIES_MAX {
                        last_read.values.clear();
                    }
                    // The values of temporarily missing series are kept.
                    last_read.values.extend(counters.clone());
                }
                _ => {
                    *last_read = Some(CounterRead { at: now, values: counters.clone() });
                    self.since.get_or_insert(now);
                    self.started_at = Some(now);
                }
            }
        }
    }

    /// Returns the time of the first read; `None` if no URL has been read successfully.
    pub(super) const fn first_read_at(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns the increases in the processed, held, dead-lettered and `CircuitOpen` counters.
    pub(super) const fn counter_points(&self) -> &[Vec<Point>; COUNTERS.len()] {
        &self.points
    }

    /// Returns the state of the target, as observed by containers.
    pub fn target_status(&self, now: Timestamp) -> TargetStatus {
        if !self.last_reads.iter().flatten().any(|last_read| now - last_read.at <= GAP_MAX) {
            return TargetStatus::Unknown;
        }
        TargetStatus::from_outages([OngoingOutage::from_points_with_max_gap(
            &self.points[CIRCUIT_OPEN],
            now,
            SIGNS_APART,
        )
        .map(|outage| {
            let is_first = self.started_at.is_some_and(|started_at| {
                outage.since >= started_at && outage.since - started_at <= SIGNS_APART
            });
            OngoingOutage { or_longer: is_first, ..outage }
        })])
    }
}

#[cfg(test)]
mod tests;
