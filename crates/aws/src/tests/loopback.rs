//! A scripted local HTTP server for tests. It records each request and sends the scripted responses in order, byte for
//! byte. It stops when it is dropped.

mod closing;
mod endless;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use closing::ClosingServer;
pub(crate) use endless::EndlessServer;

/// Far longer than the tested calls take, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two bytes of a slow response.
const DRIP: Duration = Duration::from_millis(50);

/// Timeouts for calls without a response. On a busy machine, a request might not arrive within the first timeout.
pub(crate) fn timeouts() -> impl Iterator<Item = Duration> {
    (0..9).map(|doublings| Duration::from_millis(200 << doublings))
}

/// The scripted reaction to one request.
pub(crate) struct ScriptedResponse {
    bytes: Vec<u8>,
    then: ConnectionAction,
}

/// The connection's state after the response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionAction {
    Close,
    /// The connection serves the next request.
    Keep,
    /// The connection remains open and silent.
    Hold,
    /// The server keeps sending single bytes at intervals.
    Drip,
}

impl ScriptedResponse {
    /// Returns a complete response, after which the connection is closed.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers = [&[("connection", "close")][..], headers].concat();
        Self { then: ConnectionAction::Close, ..Self::keep_alive(status, &headers, body) }
    }

    /// Returns a complete response, after which the connection serves the next request.
    pub(crate) fn keep_alive(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut bytes = head(status, headers, body.len());
        bytes.extend(body.bytes());
        Self { bytes, then: ConnectionAction::Keep }
    }

    /// Returns these bytes as a response, after which the connection is closed.
    pub(crate) fn raw(bytes: &str) -> Self {
        Self { bytes: bytes.into(), then: ConnectionAction::Close }
    }

    /// Closes the connection without a response.
    pub(crate) fn closed() -> Self {
        Self { bytes: Vec::new(), then: ConnectionAction::Close }
    }

    /// Keeps the connection open without a response.
    pub(crate) fn hang() -> Self {
        Self { bytes: Vec::new(), then: ConnectionAction::Hold }
    }

    /// Returns a head that announces a gibibyte, followed by only this number of bytes.
    pub(crate) fn unfinished(status: u16, body_bytes: usize) -> Self {
        Self::unfinished_with_headers(status, &[], body_bytes)
    }

    /// Like [`Self::unfinished`], with headers.
    pub(crate) fn unfinished_with_headers(status: u16, headers: &[(&str, &str)], body_bytes: usize) -> Self {
        let mut bytes = head(status, headers, 1024 * 1024 * 1024);
        bytes.resize(bytes.len() + body_bytes, b'x');
        Self { bytes, then: ConnectionAction::Hold }
    }

    /// Like [`Self::unfinished`] with ten bytes, but then closes the connection.
    pub(crate) fn cut_off(status: u16) -> Self {
        Self::unfinished(status, 10).then_closed()
    }

    /// Closes the connection after sending the bytes.
    pub(crate) fn then_closed(self) -> Self {
        Self { then: ConnectionAction::Close, ..self }
    }

    /// Returns a head that announces a gibibyte, followed by single bytes at intervals.
    pub(crate) fn dripping(status: u16) -> Self {
        Self { then: ConnectionAction::Drip, ..Self::unfinished(status, 1) }
    }

    /// Returns an unfinished head of this length.
    pub(crate) fn endless_head(bytes: usize) -> Self {
        let mut head = b"HTTP/1.1 200 Scripted\r\nx-endless: ".to_vec();
        head.resize(head.len() + bytes, b'x');
        Self { bytes: head, then: ConnectionAction::Hold }
    }
}

fn head(status: u16, headers: &[(&str, &str)], content_length: usize) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {content_length}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n").into_bytes()
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `POST /path?query HTTP/1.1`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Returns all values of the header with this lowercase name.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns the lowercase names of all headers, sorted.
    pub(crate) fn header_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Loopback {
    url: String,
    seen: Arc<Observations>,
    task: JoinHandle<()>,
}

/// The server's observations.
#[derive(Default)]
struct Observations {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    left: AtomicUsize,
    changed: Notify,
}

type Script = Arc<Mutex<dyn FnMut(&Request) -> ScriptedResponse + Send>>;

impl Loopback {
    /// Starts the server. After the last response, it still records requests, but closes their connections.
    pub(crate) async fn start(answers: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        let mut answers = answers.into_iter().collect::<Vec<_>>().into_iter();
        Self::start_with_script(move |_| answers.next().unwrap_or_else(ScriptedResponse::closed)).await
    }

    /// Starts a server that selects the response based on the request.
    pub(crate) async fn start_with_script(
        script: impl FnMut(&Request) -> ScriptedResponse + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Observations::default());
        let task = tokio::spawn(serve(listener, Arc::new(Mutex::new(script)), Arc::clone(&seen)));
        Self { url, seen, task }
    }

    /// Makes a call that times out after the server has received its request; returns the outcome and the server. On a
    /// busy machine, the timeout might expire before the request is sent; the call is then repeated with twice the
    /// timeout.
    pub(crate) async fn call_until_timeout<T>(
        answer: impl Fn() -> ScriptedResponse,
        call: impl AsyncFn(&Self, Duration) -> T,
    ) -> (T, Self) {
        for timeout in timeouts() {
            let server = Self::start([answer()]).await;
            let outcome = call(&server, timeout).await;
            if !server.requests().is_empty() {
                return (outcome, server);
            }
        }
        panic!("no request arrived");
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns all received requests.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Returns the only request.
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    /// Returns the number of times that the client hung up before the end of a response.
    pub(crate) fn hangups(&self) -> usize {
        self.seen.left.load(SeqCst)
    }

    /// Waits until the server's observations satisfy `is_seen`.
    pub(crate) async fn wait_until(&self, is_seen: impl Fn(&Self) -> bool) {
        let seen = async {
            loop {
                let changed = self.seen.changed.notified();
                if is_seen(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the observations match");
    }

    /// Returns the configuration for AWS clients that call this server.
    pub(crate) fn sdk_config(&self) -> SdkConfig {
        sdk_config(&self.url)
    }
}

/// Returns the configuration for AWS clients that call the server at `url`.
pub(crate) fn sdk_config(url: &str) -> SdkConfig {
    let credentials = Credentials::new("key", "secret", None, None, "loopback");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(crate::http_client())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .build()
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address without a listener, since no test server is ever assigned this port.
pub(crate) const REFUSED_URL: &str = "http://127.0.0.1:1";

async fn serve(listener: TcpListener, script: Script, seen: Arc<Observations>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        seen.connections.fetch_add(1, SeqCst);
        connections.spawn(serve_connection(stream, Arc::clone(&script), Arc::clone(&seen)));
    }
}

async fn serve_connection(mut stream: TcpStream, script: Script, seen: Arc<Observations>) {
    while let Some(request) = read_request(&mut stream).await {
        let ScriptedResponse { bytes, then } = (script.lock().unwrap())(&request);
        seen.requests.lock().unwrap().push(request);
        seen.changed.notify_waiters();
        // The client may hang up early.
        let written = stream.write_all(&bytes).await;
        match then {
            ConnectionAction::Close => return,
            ConnectionAction::Keep => continue,
            ConnectionAction::Hold if written.is_ok() => {
                let _hung_up = stream.read_u8().await;
            }
            ConnectionAction::Drip => drip(&mut stream).await,
            ConnectionAction::Hold => {}
        }
        seen.left.fetch_add(1, SeqCst);
        seen.changed.notify_waiters();
        return;
    }
}

/// Sends bytes at intervals until the client hangs up.
async fn drip(stream: &mut TcpStream) {
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(DRIP).await;
    }
}

/// Reads a request. Returns `None` if the connection ends first.
async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let head_bytes = loop {
        if let Some(position) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break position;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(head_bytes + 4);
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request { line, headers, body })
}
