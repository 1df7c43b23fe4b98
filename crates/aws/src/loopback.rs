//! A scripted HTTP server on this machine, for tests: it notes each request and gives the answers in their order, byte by
//! byte. It ends when it is dropped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Between two drops.
const DRIP: Duration = Duration::from_millis(50);

/// What the server does with one request. Every connection serves one.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

/// What becomes of the connection after the answer's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    /// It stays open without a word.
    Hold,
    /// A byte every now and then, for ever.
    Drip,
}

impl Answer {
    /// A whole answer.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut head =
            format!("HTTP/1.1 {status} Scripted\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self { bytes: format!("{head}\r\n{body}").into_bytes(), then: Then::Close }
    }

    /// The connection is closed without a word.
    pub(crate) fn closed() -> Self {
        Self { bytes: Vec::new(), then: Then::Close }
    }

    /// The connection stays open without a word.
    pub(crate) fn hang() -> Self {
        Self { bytes: Vec::new(), then: Then::Hold }
    }

    /// A head that promises a gibibyte, so much of it, and no more.
    pub(crate) fn unfinished(status: u16, body_bytes: usize) -> Self {
        let mut bytes =
            format!("HTTP/1.1 {status} Scripted\r\ncontent-length: 1073741824\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + body_bytes, b'x');
        Self { bytes, then: Then::Hold }
    }

    /// The same, and then the connection is closed.
    pub(crate) fn cut_off(status: u16) -> Self {
        Self { then: Then::Close, ..Self::unfinished(status, 10) }
    }

    /// A head that promises a gibibyte, and then a byte every now and then.
    pub(crate) fn dripping(status: u16) -> Self {
        Self { then: Then::Drip, ..Self::unfinished(status, 1) }
    }

    /// A head without an end, and so much of it.
    pub(crate) fn endless_head(bytes: usize) -> Self {
        let mut head = b"HTTP/1.1 200 Scripted\r\nx-endless: ".to_vec();
        head.resize(head.len() + bytes, b'x');
        Self { bytes: head, then: Then::Hold }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// `POST /path?query HTTP/1.1`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// All values of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The names of all its headers in lower case, sorted.
    pub(crate) fn header_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// The body, which is JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The server.
pub(crate) struct Loopback {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Loopback {
    /// Starts it. Requests after the last answer are noted and hung up on.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answers = answers.into_iter().collect();
        let task = tokio::spawn(serve(listener, answers, Arc::clone(&requests)));
        Self { url, requests, task }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The only request so far.
    pub(crate) fn request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    /// What AWS clients need to call this server.
    pub(crate) fn sdk_config(&self) -> SdkConfig {
        let credentials = Credentials::new("key", "secret", None, None, "loopback");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(&self.url)
            .build()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address of this machine where nobody listens.
pub(crate) async fn refused_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

async fn serve(listener: TcpListener, answers: Vec<Answer>, requests: Arc<Mutex<Vec<Request>>>) {
    let mut answers = answers.into_iter();
    let (mut held, mut drops) = (Vec::new(), Vec::new());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let Some(request) = read(&mut stream).await else { continue };
        requests.lock().unwrap().push(request);
        let Answer { bytes, then } = answers.next().unwrap_or_else(Answer::closed);
        // A client that has enough may hang up.
        let _ = stream.write_all(&bytes).await;
        match then {
            Then::Close => {}
            Then::Hold => held.push(stream),
            Then::Drip => drops.push(tokio::spawn(drip(stream))),
        }
    }
}

/// Until the client hangs up.
async fn drip(mut stream: TcpStream) {
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(DRIP).await;
    }
}

/// `None`: the connection ended before the request did.
async fn read(stream: &mut TcpStream) -> Option<Request> {
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
