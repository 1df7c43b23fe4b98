//! HTTP/1.1 on a bare socket: a server that can also break off at any byte, which no framework offers.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const HEADERS_MAX: usize = 64;

/// A request with its whole body.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// A header's value; empty where it is absent.
    pub(super) fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        header.map_or("", |(_, value)| value)
    }
}

/// A client's connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// The next request; `None` where the client has ended the connection, or does not speak as our clients do.
    pub(super) async fn next(&mut self) -> Option<Request> {
        loop {
            if let Some((mut request, head)) = parsed_head(&self.buffer) {
                // The SDK and the target's client know the length of what they send; a followed redirect has none.
                let end = head + request.header("content-length").parse().unwrap_or(0);
                while self.buffer.len() < end {
                    self.read().await?;
                }
                request.body = self.buffer[head..end].to_vec();
                self.buffer.drain(..end);
                return Some(request);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Option<()> {
        let read = self.stream.read_buf(&mut self.buffer).await.ok()?;
        (read > 0).then_some(())
    }

    /// Answers; whether the client was still there.
    pub(super) async fn answer(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> bool {
        let bytes = answer(status, headers, body.len(), body);
        self.stream.write_all(&bytes).await.is_ok()
    }

    /// Answers with the first `bytes` of the answer, head included, and ends the connection.
    pub(super) async fn answer_truncated(mut self, status: u16, body: &[u8], bytes: usize) {
        let answer = answer(status, &[], body.len(), body);
        let _client_is_gone = self.stream.write_all(&answer[..bytes.min(answer.len() - 1)]).await;
        let _client_is_gone = self.stream.shutdown().await;
    }

    /// Answers with a head that promises more than `body`, and ends the connection.
    pub(super) async fn answer_short(mut self, status: u16, body: &[u8]) -> bool {
        let written = self.stream.write_all(&answer(status, &[], body.len() + 100, body)).await.is_ok();
        written && self.stream.shutdown().await.is_ok()
    }

    /// Answers nothing for so long, then breaks the connection.
    pub(super) async fn hang(self, time: Duration) {
        tokio::time::sleep(time).await;
        self.reset();
    }

    /// Breaks the connection (RST).
    pub(super) fn reset(self) {
        let _already_broken = self.stream.set_zero_linger();
    }
}

fn parsed_head(buffer: &[u8]) -> Option<(Request, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(buffer).ok()? else { return None };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = request.headers.iter().map(|header| (header.name.to_owned(), text(header.value))).collect();
    let path = request.path.unwrap_or_default().to_owned();
    Some((Request { path, headers, body: Vec::new() }, head))
}

fn answer(status: u16, headers: &[(&str, &str)], length: usize, body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {length}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "\r\n";
    [head.as_bytes(), body].concat()
}

/// Serves every connection to a free port of loopback with `serve`; ends with the handle's abortion.
pub(super) async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(Connection) -> F + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let server = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a listening socket accepts");
            let _answers_wait_for_acknowledgements = stream.set_nodelay(true);
            connections.spawn(serve(Connection { stream, buffer: Vec::new() }));
            while connections.try_join_next().is_some() {}
        }
    });
    (address, server)
}
