//! A scripted HTTP server on this machine, for tests. It records each request, and sends the responses in order or
//! computes them from the requests. After the last response, it closes further connections without responding.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The request line, `GET /path?query HTTP/1.1`, and the body.
pub type LoopbackRequest = (String, String);

/// A response body, and the headers that describe it.
pub struct LoopbackBody {
    headers: &'static str,
    bytes: Vec<u8>,
}

impl From<Value> for LoopbackBody {
    fn from(value: Value) -> Self {
        Self { headers: "content-type: application/json\r\n", bytes: value.to_string().into_bytes() }
    }
}

impl LoopbackBody {
    /// Replaces a string with another of the same length.
    pub fn with_replaced(mut self, from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len());
        for start in 0..=self.bytes.len().saturating_sub(from.len()) {
            if self.bytes[start..].starts_with(from.as_bytes()) {
                self.bytes[start..start + from.len()].copy_from_slice(to.as_bytes());
            }
        }
        self
    }

    /// Creates an XML response, as from CloudFormation or STS.
    pub fn from_xml(text: &str) -> Self {
        Self { headers: "content-type: text/xml\r\n", bytes: text.as_bytes().to_vec() }
    }

    /// Creates a CBOR response, as from CloudWatch.
    pub fn from_cbor(bytes: Vec<u8>) -> Self {
        let headers = "content-type: application/cbor\r\nsmithy-protocol: rpc-v2-cbor\r\n";
        Self { headers, bytes }
    }
}

pub struct Loopback {
    url: String,
    requests: Arc<Mutex<Vec<LoopbackRequest>>>,
}

impl Loopback {
    /// Starts a server that sends these responses in order. It stops when the test process exits.
    pub fn start_scripted<B: Into<LoopbackBody>>(answers: impl IntoIterator<Item = (u16, B)>) -> Self {
        let answers: Vec<(_, LoopbackBody)> =
            answers.into_iter().map(|(status, body)| (status, body.into())).collect();
        let mut answers = answers.into_iter();
        Self::start_with_handler(move |_| answers.next())
    }

    /// Starts a server that computes each response from its request, for requests in any order. It stops when the test
    /// process exits.
    pub fn start_with_handler(
        mut answer: impl FnMut(&LoopbackRequest) -> Option<(u16, LoopbackBody)> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read_request(&stream);
                recorded.lock().unwrap().push(request.clone());
                let Some((status, LoopbackBody { headers, bytes })) = answer(&request) else { continue };
                let length = bytes.len();
                let head = format!(
                    "HTTP/1.1 {status} Scripted\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
                );
                let _ = stream.write_all(&[head.as_bytes(), &bytes].concat());
            }
        });
        Self { url, requests }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn requests(&self) -> Vec<LoopbackRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> LoopbackRequest {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).unwrap();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        match header.trim_end().split_once(':') {
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (first, String::from_utf8_lossy(&body).into_owned()) // in CBOR, only strings are legible
}
