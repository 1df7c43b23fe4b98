//! Exports spans, metrics and log lines by OTLP, where OpenTelemetry's variables ask for it. Each signal has a task of its
//! own, and what it sends waits in a bounded buffer: a collector that is slow or gone delays no batch.

mod logs;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use redeliver_aws::otlp::{Exporter, Signal};
use redeliver_aws::settings::Variables;
use redeliver_aws::start::exporter;
use redeliver_aws::{Stop, SystemClock};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::otlp::{Request, SCOPE_NAME, SCOPE_VERSION};
use redeliver_core::trace::{Span, Tracer};
use tokio::task::{JoinHandle, spawn_blocking};

use super::health::Health;
use super::log::{Log, LogQueue, Waiting};
use super::metrics::{Metrics, Period};

/// The longest time that the end of the process waits for the last exports.
const LAST_EXPORTS_MAX: Duration = Duration::from_secs(3);
/// The span's attribute with the function's name: all functions of a process are one service.
const FUNCTION: &str = "redeliver.function";

/// The exports of a process.
pub(super) struct Exports {
    /// The process's log, which may be exported.
    pub(super) log: Log,
    traces: Option<Export>,
    metrics: Option<Export>,
    started: Timestamp,
    end: Stop,
    tasks: Vec<JoinHandle<()>>,
}

/// The export of one signal.
struct Export {
    exporter: Exporter,
    interval: Duration,
}

/// The content of one request.
struct Gathered {
    request: Vec<u8>,
    /// The number of spans or lines that had no room.
    dropped: u64,
}

/// A function's name, and the observer that has its tracer.
pub(super) type Traced = (String, Arc<dyn Observer>);

impl Exports {
    /// Begins to export the log. `service` is the service's name after `redeliver-`, unless the variables name another.
    pub(super) fn of_environment(service: &str) -> Self {
        let variables = Variables::of_environment();
        let mut refused = BTreeSet::new();
        let [traces, metrics, logs] = [Signal::Traces, Signal::Metrics, Signal::Logs].map(|signal| {
            let exporter = exporter(signal, service).unwrap_or_else(|error| {
                refused.insert(error);
                None
            });
            Some(Export { exporter: exporter?, interval: signal.interval(&variables) })
        });
        let exports = Self::new(traces, metrics, logs);
        for error in refused {
            exports.log.warn("otlp", &error);
        }
        exports
    }

    fn new(traces: Option<Export>, metrics: Option<Export>, logs: Option<Export>) -> Self {
        let exported = logs.as_ref().map(|_| Arc::<LogQueue>::default());
        let mut exports = Self {
            log: Log { exported: exported.clone() },
            traces,
            metrics,
            started: SystemClock.now(),
            end: Stop::default(),
            tasks: Vec::new(),
        };
        if let Some((export, queue)) = logs.zip(exported) {
            let resource = export.exporter.settings().resource.clone();
            exports.spawn(export, "log lines", move || {
                let Waiting { lines, dropped } = queue.take();
                let request = || logs::exported(&resource, &lines, SystemClock.now()).encode_to_vec();
                (!lines.is_empty()).then(|| Gathered { request: request(), dropped })
            });
        }
        exports
    }

    /// Begins to export the spans and metrics of the functions.
    pub(super) fn begin(&mut self, functions: Vec<Traced>, metrics: Arc<Metrics>, health: Health) {
        if let Some(export) = self.traces.take() {
            let resource = export.exporter.settings().resource.clone();
            self.spawn(export, "spans", move || {
                let (spans, dropped) = take_spans(&functions);
                let mut request = Request::begin(&resource, 0);
                spans.iter().for_each(|span| request.push(span));
                (!spans.is_empty()).then(|| Gathered { request: request.end(), dropped })
            });
        }
        if let Some(export) = self.metrics.take() {
            let (resource, start) = (export.exporter.settings().resource.clone(), self.started);
            self.spawn(export, "metrics", move || {
                let end = SystemClock.now();
                let exported = metrics.exported(&resource, &health.report(end), Period { start, end });
                Some(Gathered { request: exported.encode_to_vec(), dropped: 0 })
            });
        }
    }

    fn spawn(
        &mut self,
        export: Export,
        what: &'static str,
        gather: impl Fn() -> Option<Gathered> + Send + Sync + 'static,
    ) {
        let (log, end) = (self.log.clone(), self.end.clone());
        self.tasks.push(tokio::spawn(async move { export.run(what, gather, &log, &end).await }));
    }

    /// Exports what is left, for 3 s at most.
    pub(super) async fn finish(self, clock: &impl Clock) {
        self.end.request();
        select(join_all(self.tasks), pin!(clock.sleep(LAST_EXPORTS_MAX))).await;
    }
}

impl Export {
    /// Sends what `gather` returns, at each interval and once after `end` is requested.
    async fn run(
        self,
        what: &str,
        gather: impl Fn() -> Option<Gathered> + Send + Sync + 'static,
        log: &Log,
        end: &Stop,
    ) {
        let (gather, mut is_last) = (Arc::new(gather), false);
        while !is_last {
            select(pin!(SystemClock.sleep(self.interval)), pin!(end.requested())).await;
            is_last = end.is_requested();
            // On a thread of its own: the pollers share one, and 8,192 spans take milliseconds to encode.
            let gather = Arc::clone(&gather);
            let gathered = spawn_blocking(move || gather()).await;
            let Ok(Some(Gathered { request, dropped })) = gathered else { continue };
            let lost = match self.exporter.post(request).await {
                Err(error) => format!("{what} were not exported: {error}"),
                Ok(()) if dropped > 0 => format!("{dropped} {what} had no room and are lost"),
                Ok(()) => continue,
            };
            if self.exporter.may_warn() {
                log.warn("otlp", &lost);
            }
        }
    }
}

fn take_spans(functions: &[Traced]) -> (Vec<Span<'static>>, u64) {
    let (mut all, mut all_dropped) = (Vec::new(), 0);
    for (function, observer) in functions {
        let (mut spans, dropped) = observer.tracer().map(Tracer::take).unwrap_or_default();
        for span in &mut spans {
            span.attributes.push((FUNCTION, function.clone().into()));
        }
        all.append(&mut spans);
        all_dropped += dropped;
    }
    (all, all_dropped)
}

/// The resource that telemetry comes from.
pub(super) fn resource(attributes: &[(String, String)]) -> Resource {
    let attribute =
        |(name, value): &(String, String)| key_value(name.clone(), Value::StringValue(value.clone()));
    Resource { attributes: attributes.iter().map(attribute).collect(), ..Resource::default() }
}

/// The program that writes telemetry.
pub(super) fn scope() -> InstrumentationScope {
    let (name, version) = (SCOPE_NAME.to_owned(), SCOPE_VERSION.to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

pub(super) fn key_value(key: String, value: Value) -> KeyValue {
    KeyValue { key, value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

#[cfg(test)]
mod tests;
