//! A histogram that can be read: `prometheus-client` only writes its own as text, and OTLP needs the numbers.

use std::fmt;
use std::sync::Mutex;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use redeliver_core::lock;

#[derive(Debug)]
pub(super) struct Histogram {
    /// The buckets' upper bounds, ascending.
    pub(super) bounds: &'static [f64],
    values: Mutex<Values>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Values {
    pub(super) sum: f64,
    /// The values of each bucket, and of one without an upper bound.
    pub(super) counts: Vec<u64>,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, values: Mutex::new(Values { sum: 0.0, counts: vec![0; bounds.len() + 1] }) }
    }

    pub(super) fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        let mut values = lock(&self.values);
        values.sum += value;
        values.counts[bucket] += 1;
    }

    pub(super) fn values(&self) -> Values {
        lock(&self.values).clone()
    }
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Values { sum, counts } = self.values();
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(counts.iter().copied()).collect();
        encoder.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}
