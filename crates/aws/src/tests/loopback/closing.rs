//! A server that closes an idle connection without the client noticing.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A server that responds to two requests on two connections, in its own thread.
pub(crate) struct ClosingServer {
    url: String,
    close: Sender<()>,
    closed: Receiver<()>,
    thread: JoinHandle<()>,
}

impl ClosingServer {
    /// Starts the server; both responses have this status.
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ((close, reported), (notify, closed)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            let first = respond(&listener, status);
            reported.recv().unwrap();
            drop(first);
            notify.send(()).unwrap();
            respond(&listener, status);
        });
        Self { url, close, closed, thread }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Closes the first connection while this thread is blocked, as in a freeze, so that the client does not notice.
    pub(crate) fn close_unnoticed(&self) {
        self.close.send(()).unwrap();
        self.closed.recv().unwrap();
    }

    /// Waits until both requests have received a response.
    pub(crate) fn join(self) {
        self.thread.join().unwrap();
    }
}

/// Responds to one request and returns its open connection.
fn respond(listener: &TcpListener, status: u16) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    // Each body in these tests ends with its only `}`.
    while request.last() != Some(&b'}') {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&request));
        request.extend(&bytes[..read]);
    }
    let answer = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: 2\r\n\r\n{{}}");
    stream.write_all(answer.as_bytes()).unwrap();
    stream
}
