//! Exports spans in OpenTelemetry's protocol, OTLP over HTTP with Protobuf, if the standard environment variables
//! enable it ("OpenTelemetry Protocol Exporter", OpenTelemetry Specification).

mod encoding;
mod settings;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use chrono::TimeDelta;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use redeliver_core::deliver::time_until;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use redeliver_core::trace::{EndedSpans, Span, Tracer};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::SystemClock;
use crate::http_client::new_connector;
use crate::stderr;
pub use settings::{OtlpSettings, span_interval};

/// The maximum time that an invocation waits for the export before it ends. The export then continues until Lambda
/// freezes the process.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// The timeout for one request ("OTLP Exporter Configuration", OpenTelemetry).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum length of a response, which consists of a number and an error message ("OTLP/HTTP Response",
/// OpenTelemetry Protocol). The protocol allows 4 MiB, too much for the smallest function with several exports in
/// progress.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The maximum number of concurrent exports. If the collector cannot keep up, further exports are dropped.
const CONCURRENT_EXPORTS_MAX: usize = 4;
/// The minimum time between two warnings.
const WARNING_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// The reason why an export was lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    #[error("the collector did not answer within {REQUEST_TIMEOUT:?}")]
    NoAnswer,
    #[error("the collector cannot be reached")]
    NotReached,
    #[error("the collector answered HTTP {0}; check its log")]
    Refused(u16),
    #[error("the collector rejected some of them; check its log")]
    Rejected,
    #[error("the response exceeds {} KiB; check that the endpoint is an OTLP collector", ANSWER_BYTES_MAX >> 10)]
    AnswerTooLong,
    #[error("{CONCURRENT_EXPORTS_MAX} exports are under way; the collector is too slow")]
    TooSlow,
    #[error("the endpoint or a header is not valid in HTTP; check OTEL_EXPORTER_OTLP_ENDPOINT and _HEADERS")]
    NotBuilt,
}

/// An exporter that sends spans to an endpoint.
#[derive(Clone)]
pub struct Exporter {
    settings: Arc<OtlpSettings>,
    connector: SharedHttpConnector,
    under_way: Arc<Semaphore>,
    warned_at: Arc<Mutex<Option<Timestamp>>>,
}

/// Omits the settings, which may contain secrets.
impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl Exporter {
    /// Creates an exporter for the configured endpoint. Requests to a local endpoint bypass the environment's proxy.
    #[must_use]
    pub fn new(settings: OtlpSettings) -> Self {
        // A collector on this machine is not behind the proxy that requests to AWS use.
        let proxy =
            if is_local(&settings.endpoint) { ProxyConfig::disabled() } else { ProxyConfig::from_env() };
        Self {
            settings: Arc::new(settings),
            connector: new_connector(None, None, proxy),
            under_way: Arc::new(Semaphore::new(CONCURRENT_EXPORTS_MAX)),
            warned_at: Arc::default(),
        }
    }

    /// Exports the ended spans, and waits for at most 50 ms or half of the time until `deadline`, whichever is shorter.
    /// If the export fails, only the spans are lost.
    pub async fn export_spans(&self, tracer: &Tracer, deadline: Timestamp) {
        let EndedSpans { spans, dropped } = tracer.take_ended();
        if dropped > 0 {
            self.log_warning(format_args!("{dropped} spans of one batch exceeded the buffer and are lost"));
        }
        if spans.is_empty() {
            return;
        }
        let (exporter, body) = (self.clone(), self.encode_spans(spans));
        let export = tokio::spawn(async move {
            if let Err(error) = exporter.post_spans(body).await {
                exporter.log_warning(format_args!("spans are lost: {error}"));
            }
        });
        // The task continues even when it is no longer awaited.
        let _still_under_way = timeout(wait_limit(SystemClock.now(), deadline), export).await;
    }

    /// Encodes these spans as the body of a request.
    #[must_use]
    pub fn encode_spans(&self, spans: Vec<Span<'_>>) -> Vec<u8> {
        encoding::encode_request(&self.settings.resource, spans).encode_to_vec()
    }

    /// Sends one request.
    ///
    /// # Errors
    /// If the collector does not accept the request. The spans are then lost, since exports are not retried.
    pub async fn post_spans(&self, body: Vec<u8>) -> Result<(), ExportError> {
        let _under_way = self.under_way.try_acquire().map_err(|_| ExportError::TooSlow)?;
        timeout(REQUEST_TIMEOUT, self.send_request(body)).await.unwrap_or(Err(ExportError::NoAnswer))
    }

    async fn send_request(&self, body: Vec<u8>) -> Result<(), ExportError> {
        let content_length = body.len().to_string();
        let mut request = HttpRequest::new(SdkBody::from(body));
        let not_built = |_| ExportError::NotBuilt;
        request.set_method("POST").map_err(|_| ExportError::NotBuilt)?;
        request.set_uri(self.settings.endpoint.clone()).map_err(|_| ExportError::NotBuilt)?;
        let ours = [("content-type", "application/x-protobuf"), ("content-length", &content_length)];
        let users = self.settings.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in users.chain(ours) {
            let (name, value) = (name.to_owned(), value.to_owned());
            request.headers_mut().try_insert(name, value).map_err(not_built)?;
        }
        let answer = self.connector.call(request).await.map_err(|_| ExportError::NotReached)?;
        if !answer.status().is_success() {
            return Err(ExportError::Refused(answer.status().as_u16()));
        }
        let body = answer.into_body();
        if body.content_length() == Some(0) {
            return Ok(());
        }
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { ExportError::AnswerTooLong } else { ExportError::NoAnswer }
        })?;
        let body = body.to_bytes();
        if has_rejected_spans(&body) { Err(ExportError::Rejected) } else { Ok(()) }
    }

    fn log_warning(&self, text: std::fmt::Arguments<'_>) {
        if self.may_warn() {
            stderr::write_line(format_args!("warning: OpenTelemetry: {text}"));
        }
    }

    /// Returns true at most once per minute, so that an unavailable collector does not fill the log.
    #[must_use]
    pub fn may_warn(&self) -> bool {
        let now = SystemClock.now();
        let mut warned_at = lock(&self.warned_at);
        let may_warn = warned_at.is_none_or(|before| now - before >= WARNING_INTERVAL);
        if may_warn {
            *warned_at = Some(now);
        }
        may_warn
    }
}

/// True if the collector reports rejected spans. Any other response means that it accepted all spans.
fn has_rejected_spans(response: &[u8]) -> bool {
    let partial_success = ExportTraceServiceResponse::decode(response).ok().and_then(|it| it.partial_success);
    partial_success.is_some_and(|partial_success| partial_success.rejected_spans > 0)
}

/// Returns the time that an invocation waits for the export before it ends.
fn wait_limit(now: Timestamp, deadline: Timestamp) -> Duration {
    WAIT_MAX.min(time_until(now, deadline) / 2)
}

/// True for an endpoint on this machine.
fn is_local(endpoint: &str) -> bool {
    let Some((_, rest)) = endpoint.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(ipv6) => ipv6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests;
