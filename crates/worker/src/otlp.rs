//! Exports the functions' spans over OTLP if OpenTelemetry's environment variables enable it. The exporter is a
//! separate task with bounded buffers, so a slow or unreachable collector delays no batch.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use redeliver_aws::otlp::{Exporter, span_interval};
use redeliver_aws::settings::Variables;
use redeliver_aws::start::exporter_from_env;
use redeliver_aws::{Stop, SystemClock};
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::{EndedSpans, Tracer};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::log;

/// The longest time that shutdown waits for the last export.
const LAST_EXPORT_MAX: Duration = Duration::from_secs(3);
/// The span attribute for the function's name, since all functions in a process form one service.
const FUNCTION: &str = "redeliver.function";

/// A function's name, and the observer that holds its tracer.
pub(crate) type TracedFunction = (String, Arc<dyn Observer>);

/// The destination of spans, and the export interval.
pub(crate) struct SpanExport {
    exporter: Exporter,
    interval: Duration,
}

impl SpanExport {
    /// Reads OpenTelemetry's environment variables. Returns `None` if they do not enable spans, or if they set an
    /// unsupported protocol, which is logged. `service` is the service name without `redeliver-`; the variables can
    /// override it.
    pub(crate) fn from_environment(service: &str) -> Option<Self> {
        let exporter = exporter_from_env(service).unwrap_or_else(|error| {
            log::warn("otlp", &error);
            None
        });
        Some(Self { exporter: exporter?, interval: span_interval(&Variables::from_env()) })
    }

    /// Starts exporting the spans of these functions.
    pub(crate) fn start_export(self, functions: Vec<TracedFunction>) -> RunningExport {
        let end = Stop::default();
        let task = tokio::spawn(self.export_until_end(end.clone(), functions));
        RunningExport { end, task }
    }

    /// Sends ended spans at each interval, and once more after `end` is requested.
    async fn export_until_end(self, end: Stop, functions: Vec<TracedFunction>) {
        let (exporter, functions) = (self.exporter, Arc::new(functions));
        let mut is_last = false;
        while !is_last {
            select(pin!(SystemClock.sleep(self.interval)), pin!(end.wait_until_requested())).await;
            is_last = end.is_requested();
            // On a separate thread: the pollers share one, and encoding 8,192 spans takes milliseconds.
            let (encoder, functions) = (exporter.clone(), Arc::clone(&functions));
            let taken = spawn_blocking(move || build_export_request(&encoder, &functions)).await;
            let Ok(Some(ExportRequest { request, dropped })) = taken else { continue };
            let lost = match exporter.post_spans(request).await {
                Err(error) => format!("spans were not exported: {error}"),
                Ok(()) if dropped > 0 => format!("{dropped} spans exceeded the buffer and are lost"),
                Ok(()) => continue,
            };
            if exporter.may_warn() {
                log::warn("otlp", &lost);
            }
        }
    }
}

/// The span export in a running process.
pub(crate) struct RunningExport {
    end: Stop,
    task: JoinHandle<()>,
}

impl RunningExport {
    /// Exports the remaining spans, for at most 3 s.
    pub(crate) async fn finish_export(self, clock: &impl Clock) {
        self.end.request();
        select(self.task, pin!(clock.sleep(LAST_EXPORT_MAX))).await;
    }
}

/// A request with the spans that have ended since the previous request.
struct ExportRequest {
    request: Vec<u8>,
    /// The number of spans dropped because the buffer was full.
    dropped: u64,
}

/// Takes the ended spans and encodes them; `None` if no span has ended.
fn build_export_request(exporter: &Exporter, functions: &[TracedFunction]) -> Option<ExportRequest> {
    let (mut all, mut all_dropped) = (Vec::new(), 0);
    for (function, observer) in functions {
        let EndedSpans { mut spans, dropped } = observer.tracer().map(Tracer::take_ended).unwrap_or_default();
        for span in &mut spans {
            span.attributes.push((FUNCTION, function.clone().into()));
        }
        all.append(&mut spans);
        all_dropped += dropped;
    }
    if all.is_empty() {
        return None;
    }
    Some(ExportRequest { request: exporter.encode_spans(all), dropped: all_dropped })
}

#[cfg(test)]
mod tests;
