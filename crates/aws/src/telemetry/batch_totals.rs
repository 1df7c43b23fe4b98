//! The counts and measurements of a batch, written in as few lines as CloudWatch allows.

use redeliver_core::events::Event;
use redeliver_core::trace::SpanContext;

use super::log_line::{Directive, MetricLogLines, VALUES_MAX};
use super::metrics::{EventReport, Measure, Measurement, Metric, MetricValue};

/// The maximum number of request ids in one line: the maximum size of an SQS batch.
const REQUEST_IDS_MAX: usize = 10;

/// Counts and measurements since the last batch line.
#[derive(Debug, Default)]
pub(super) struct BatchTotals {
    /// One count per metric and dimension value.
    counts: Vec<MetricCount>,
    values: Vec<(Metric, Vec<MetricValue>)>,
    /// The failed messages by error type.
    failures: Vec<FailuresByType>,
}

/// The failed messages with one error type.
#[derive(Debug)]
pub(super) struct FailuresByType {
    pub(super) error_type: String,
    pub(super) count: u32,
    /// The distinct request ids in their log lines, at most [`REQUEST_IDS_MAX`].
    pub(super) request_ids: Vec<String>,
}

#[derive(Debug)]
struct MetricCount {
    metric: Metric,
    by: Option<&'static str>,
    count: u32,
}

impl FailuresByType {
    fn add_failure(&mut self, request_id: Option<&str>) {
        self.count = self.count.saturating_add(1);
        if let Some(id) = request_id.filter(|id| !self.request_ids.iter().any(|known| known == id))
            && self.request_ids.len() < REQUEST_IDS_MAX
        {
            self.request_ids.push(id.to_owned());
        }
    }
}

impl BatchTotals {
    pub(super) fn add_event(&mut self, event: &Event, observed: &EventReport) {
        for Measurement { metric, value } in &observed.metrics {
            match (metric.measure(), value) {
                (Measure::Count, MetricValue::Whole(count)) => {
                    let by = observed.by.filter(|_| metric.dimension().is_some());
                    self.add_count(*metric, by, *count);
                }
                _ => self.add_value(*metric, *value),
            }
        }
        if let Some((error_type, request_id)) = event_failure(event) {
            let known = self.failures.iter().position(|failures| failures.error_type == error_type);
            let index = known.unwrap_or_else(|| {
                let error_type = error_type.to_owned();
                self.failures.push(FailuresByType { error_type, count: 0, request_ids: Vec::new() });
                self.failures.len() - 1
            });
            self.failures[index].add_failure(request_id);
        }
    }

    fn add_count(&mut self, metric: Metric, by: Option<&'static str>, count: u32) {
        match self.counts.iter_mut().find(|known| (known.metric, known.by) == (metric, by)) {
            Some(known) => known.count = known.count.saturating_add(count),
            None => self.counts.push(MetricCount { metric, by, count }),
        }
    }

    fn add_value(&mut self, metric: Metric, value: MetricValue) {
        match self.values.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, values)) => values.push(value),
            None => self.values.push((metric, vec![value])),
        }
    }

    /// Writes the lines. A line has room for one value of each dimension, one error, and [`VALUES_MAX`] values of each
    /// metric; the rest is written in further lines.
    pub(super) fn write_lines(self, lines: &mut MetricLogLines<'_>, trace: Option<SpanContext>) {
        let trace_id = trace.map(|trace| trace.trace_id());
        let Self { counts, values, failures } = self;
        for number in 0.. {
            let mut line = BatchLine { trace_id: trace_id.as_deref(), ..BatchLine::default() };
            for metric in Metric::ALL {
                let mut metric_counts = counts.iter().filter(|count| count.metric == *metric);
                if let Some(count) = metric_counts.nth(number) {
                    line.push_count(count);
                }
            }
            for (metric, values) in &values {
                if let Some(chunk) = values.chunks(VALUES_MAX).nth(number) {
                    line.values.push((*metric, chunk));
                }
            }
            line.failure = failures.get(number);
            if line.is_empty() {
                return;
            }
            lines.push_batch(&line);
        }
    }
}

/// One log line for a batch.
#[derive(Debug, Default)]
pub(super) struct BatchLine<'a> {
    pub(super) counts: Vec<(Metric, u32)>,
    pub(super) values: Vec<(Metric, &'a [MetricValue])>,
    /// The counters' dimensions, with their values.
    pub(super) by: Vec<(Metric, &'static str, &'static str)>,
    pub(super) failure: Option<&'a FailuresByType>,
    pub(super) trace_id: Option<&'a str>,
}

impl BatchLine<'_> {
    fn push_count(&mut self, MetricCount { metric, by, count }: &MetricCount) {
        self.counts.push((*metric, *count));
        if let Some((dimension, value)) = metric.dimension().zip(*by) {
            self.by.push((*metric, dimension.name, value));
        }
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.values.is_empty() && self.failure.is_none()
    }

    /// Declares the metrics with only the function as a dimension, then each counter with its additional dimension.
    pub(super) fn directives(&self) -> Vec<Directive> {
        let has_dimension = |metric: &Metric| self.by.iter().any(|(counter, ..)| counter == metric);
        let counters = self.counts.iter().map(|(metric, _)| *metric).filter(|metric| !has_dimension(metric));
        let plain: Vec<_> = counters.chain(self.values.iter().map(|(metric, _)| *metric)).collect();
        let plain = (!plain.is_empty()).then(|| Directive::for_metrics(None, plain));
        let by = self
            .by
            .iter()
            .map(|(metric, dimension, _)| Directive::for_metrics(Some(dimension), vec![*metric]));
        plain.into_iter().chain(by).collect()
    }
}

/// Returns a failed message's error and the request id in its log lines.
fn event_failure(event: &Event) -> Option<(&str, Option<&str>)> {
    match event {
        Event::HandedOff { error_type, request_id, .. } => Some((error_type, request_id.as_deref())),
        Event::RetryScheduled { error_type, request_id, .. } => {
            Some((error_type.as_deref()?, request_id.as_deref()))
        }
        _ => None,
    }
}
