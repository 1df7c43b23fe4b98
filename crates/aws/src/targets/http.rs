//! An HTTP endpoint as the target.

mod asked;
mod no_response;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use redeliver_core::decide::is_permanent_status;
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::handler::{BodyForm, ErrorType, FailureKind, Handler, HandlerError, Invocation, Message};
use redeliver_core::json::value;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::trace::{CallSpan, SpanKind, TRACEPARENT, TRACESTATE, TraceContext, XRAY_TRACE_ID};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, tls};

use asked::{RequestedWait, requested_wait};
pub(super) use no_response::no_response;

use super::drain::{self, Drains, settle_connections};
use super::{CONNECT_TIMEOUT, Endpoint, ErrorExcerpt, IDLE_TIMEOUT, SecretEndpoint, TargetProxy};
use crate::SystemClock;

/// The maximum number of bytes read from a response body so that its connection can be reused.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// An HTTP endpoint to which each body is POSTed; the response status determines the outcome.
pub struct HttpTarget<C = SystemClock> {
    client: Client,
    endpoint: EndpointSource<C>,
    clock: C,
    drains: Drains<C>,
    observer: Option<Arc<dyn Observer>>,
    error_excerpt: Option<ErrorExcerpt>,
}

/// A call's message and trace context, and the deadline for its outcome.
#[derive(Clone, Copy)]
struct HttpCall<'a> {
    message: &'a Message<'a>,
    trace: Option<&'a TraceContext>,
    end: Timestamp,
}

/// The source of the endpoint.
#[derive(Debug)]
pub enum EndpointSource<C = SystemClock> {
    /// The settings alone.
    Fixed(Endpoint),
    /// A secret, which may be rotated.
    Secret(SecretEndpoint<C>),
}

impl HttpTarget {
    /// Creates a target that POSTs each body to this endpoint. `timeout` limits a whole call, including the connection.
    ///
    /// # Errors
    /// If the system's root certificates cannot be loaded.
    pub fn new(
        endpoint: EndpointSource,
        proxy: Option<&TargetProxy>,
        timeout: Duration,
    ) -> Result<Self, reqwest::Error> {
        let client = harden_client(Client::builder(), timeout);
        let client = match proxy {
            Some(proxy) => client.proxy(proxy.proxy_rule()?),
            None => client,
        };
        let client = client.build()?;
        Ok(Self::with_clock(client, endpoint, SystemClock))
    }
}

impl<C: Clock + Clone + 'static> HttpTarget<C> {
    fn with_clock(client: Client, endpoint: EndpointSource<C>, clock: C) -> Self {
        let drains = Drains::new(clock.clone());
        Self { client, endpoint, clock, drains, observer: None, error_excerpt: None }
    }

    /// Sets the observer, which receives an event for each response in which `Retry-After` or a similar header cannot
    /// be parsed.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Selects the values in the body of an error response that are added to the error; none by default.
    #[must_use]
    pub fn with_error_excerpt(self, error_excerpt: Option<ErrorExcerpt>) -> Self {
        Self { error_excerpt, ..self }
    }

    /// Makes one request. The response head determines the outcome.
    async fn post_message(&self, called: HttpCall<'_>, endpoint: &Endpoint) -> Result<(), HandlerError> {
        let HttpCall { message, trace, .. } = called;
        settle_connections().await;
        let request = self
            .client
            .post(endpoint.url.0.clone())
            .headers(endpoint.headers.clone())
            .header(CONTENT_TYPE, content_type(message))
            .header("Idempotency-Key", message.idempotency_key())
            .header("X-Redeliver-Attempt", message.retry_attempt)
            .headers(trace_headers(trace, &endpoint.headers))
            .body(message.body.to_owned());
        let request = endpoint.sign_request(request, message, self.clock.now()).await?;
        let response = self.client.execute(request).await.map_err(|error| no_response(&error))?;
        let wait = requested_wait(response.status(), response.headers(), self.clock.now());
        let outcome = classify_response(response.status(), wait);
        if let (Err(error), RequestedWait::Unreadable, Some(observer)) = (&outcome, wait, &self.observer) {
            observer.observe(&Event::RetryAfterUnreadable {
                message_id: message.message_id.to_owned(),
                error_type: error.error_type.loggable_name().into_owned(),
            });
        }
        match (outcome, &self.error_excerpt) {
            (Err(error), Some(excerpt)) => {
                let body = self.read_body_until(response, called.end).await;
                Err(excerpt.add_to(error, &body))
            }
            (outcome, _) => {
                // Waiting for the body could turn a success into a timeout, and thus cause a duplicate.
                self.drains.spawn_drain(read_to_end(response, |_| {}));
                outcome
            }
        }
    }

    /// Reads the body of an error response until the time limit. Returns an empty string if the body is not UTF-8. A
    /// truncated JSON document is invalid, so no value is extracted from it.
    async fn read_body_until(&self, response: Response, end: Timestamp) -> String {
        let time = drain::TIMEOUT.min(time_until(self.clock.now(), end));
        let mut body = Vec::new();
        let read = read_to_end(response, |chunk| body.extend_from_slice(chunk));
        select(pin!(read), pin!(self.clock.sleep(time))).await;
        String::from_utf8(body).unwrap_or_default()
    }

    /// Repeats the call if the secret now contains an endpoint other than the refused one. The target did not handle
    /// the refused request, so the second call is not a duplicate, and a rotation spends no attempt. Returns `None` if
    /// the refusal stands: there is no other endpoint, or not enough time for the second call.
    async fn call_again(
        &self,
        called: HttpCall<'_>,
        secret: &SecretEndpoint<C>,
        refused: &Endpoint,
        error: &HandlerError,
    ) -> Option<Result<(), HandlerError>> {
        // Without this check, a call with the full timeout could start at the deadline.
        let time = time_until(self.clock.now(), called.end);
        if time.is_zero() {
            return None;
        }
        let again = pin!(async {
            let endpoint = secret.replacement_endpoint(refused).await?;
            secret.observer().observe(&Event::RetriedImmediately {
                message_id: called.message.message_id.to_owned(),
                retry_attempt: called.message.retry_attempt,
                error_type: error.error_type.loggable_name().into_owned(),
            });
            Some(self.post_message(called, &endpoint).await)
        });
        match select(again, pin!(self.clock.sleep(time))).await {
            Either::Left((newer, _)) => newer,
            Either::Right(_) => None,
        }
    }
}

/// Returns the headers of a trace context, except those that the endpoint's secret sets.
fn trace_headers(trace: Option<&TraceContext>, endpoint_headers: &HeaderMap) -> HeaderMap {
    let Some(trace) = trace else { return HeaderMap::new() };
    let headers = [
        (TRACEPARENT, Some(trace.traceparent())),
        (TRACESTATE, trace.tracestate().map(str::to_owned)),
        (XRAY_TRACE_ID, Some(trace.xray_header())),
    ];
    let headers = headers.into_iter().filter(|(name, _)| !endpoint_headers.contains_key(*name));
    let header = |(name, value): (_, Option<String>)| {
        Some((HeaderName::from_static(name), HeaderValue::try_from(value?).ok()?))
    };
    headers.filter_map(header).collect()
}

/// Restricts a client to single requests to the URL itself: no redirects, no proxies from the environment and no
/// retries. Also sets the timeouts.
fn harden_client(client: ClientBuilder, timeout: Duration) -> ClientBuilder {
    client
        .redirect(Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never()) // the retry policy retries
        .resolve_to_addrs("localhost", &LOOPBACK)
        .tls_version_min(tls::Version::TLS_1_2)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .user_agent(concat!("redeliver/", env!("CARGO_PKG_VERSION")))
}

/// The addresses of `localhost`, for which plain HTTP is allowed and which therefore must not depend on a name server
/// (RFC 6761, section 6.3). The URL determines the port.
const LOOPBACK: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

/// Omits the endpoint, which may be secret.
impl<C> fmt::Debug for HttpTarget<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTarget").finish_non_exhaustive()
    }
}

impl<C: Clock + Clone + 'static> Handler for HttpTarget<C> {
    /// Includes the host, but not the rest of the URL, which may contain a key. Omits an endpoint that comes from a
    /// secret.
    fn call_span(&self) -> CallSpan<'_> {
        let mut attributes = Vec::with_capacity(4);
        attributes.push(("http.request.method", "POST".into()));
        if let EndpointSource::Fixed(endpoint) = &self.endpoint {
            let url = &endpoint.url.0;
            attributes.extend(url.host_str().map(|host| ("server.address", host.into())));
            let port = url.port_or_known_default().map(u32::from);
            attributes.extend(port.map(|port| ("server.port", port.into())));
        }
        CallSpan { name: "POST".into(), kind: SpanKind::Client, attributes }
    }

    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.call_until(HttpCall { message, trace: None, end: Timestamp::MAX_UTC }).await
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        let trace = invocation.trace_context();
        let Invocation { message, end, .. } = invocation;
        self.call_until(HttpCall { message, trace: trace.as_ref(), end }).await
    }
}

impl<C: Clock + Clone + 'static> HttpTarget<C> {
    async fn call_until(&self, called: HttpCall<'_>) -> Result<(), HandlerError> {
        let secret = match &self.endpoint {
            EndpointSource::Fixed(endpoint) => return self.post_message(called, endpoint).await,
            EndpointSource::Secret(secret) => secret,
        };
        let endpoint = secret.current_endpoint();
        let error = match self.post_message(called, &endpoint).await {
            Err(error) if is_refusal(&error) => error,
            outcome => return outcome,
        };
        self.call_again(called, secret, &endpoint, &error).await.unwrap_or(Err(error))
    }
}

/// True for a response that suggests a rotated key. A target that requests a delay is not called again immediately:
/// some gateways respond with 403 to clients that call too often.
fn is_refusal(error: &HandlerError) -> bool {
    matches!(error.error_type, ErrorType::HttpStatus(401 | 403) | ErrorType::HttpProblem(401 | 403, _))
        && error.kind == FailureKind::Transient
}

/// Returns the content type: JSON, except for a message without an envelope whose body is not JSON.
fn content_type(message: &Message<'_>) -> &'static str {
    match message.form {
        BodyForm::Plain { .. } if !value::is_json(message.body) => "text/plain; charset=utf-8",
        BodyForm::Plain { .. } | BodyForm::Envelope => "application/json",
    }
}

fn classify_response(status: StatusCode, wait: RequestedWait) -> Result<(), HandlerError> {
    if status.is_success() {
        return Ok(());
    }
    let error_type = ErrorType::HttpStatus(status.as_u16());
    let details = format!("HTTP {status}");
    let error = if is_permanent_status(status.as_u16()) {
        HandlerError::permanent(error_type, details)
    } else {
        HandlerError::transient(error_type, details)
    };
    // Whatever the status, `Retry-After` requests another call (413: RFC 9110, section 15.5.14).
    match wait {
        RequestedWait::After(delay) => Err(error.retry_after(delay)),
        RequestedWait::Nothing | RequestedWait::Unreadable => Err(error),
    }
}

/// Reads the body up to the limit. If the body is longer, its connection is closed.
async fn read_to_end(mut response: Response, mut take: impl FnMut(&[u8])) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > ANSWER_BYTES_MAX {
            break;
        }
        take(&chunk);
    }
}

#[cfg(test)]
mod tests;
