//! A server whose responses never end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The maximum number of bytes that the sockets and the client can buffer, in addition to those that were read.
const BUFFERED_MAX: usize = 16 << 20;

/// A server that sends a head and then spaces for as long as the client reads them. It stops when it is dropped.
pub(crate) struct EndlessServer {
    url: String,
    sent: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl EndlessServer {
    pub(crate) async fn start(head: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(respond_endlessly(stream, head, Arc::clone(&counted)));
            }
        });
        Self { url, sent, task }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the number of body bytes sent so far.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Relaxed)
    }

    /// Checks that the client has read no more than this number of bytes.
    pub(crate) fn assert_read_at_most(&self, bytes: usize) {
        let sent = self.sent();
        assert!(sent < bytes + BUFFERED_MAX, "{sent} bytes were read instead of {bytes}");
    }
}

impl Drop for EndlessServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond_endlessly(mut stream: TcpStream, head: &str, sent: Arc<AtomicUsize>) {
    let _read = stream.read(&mut [0; 4096]).await;
    let mut is_taken = stream.write_all(head.as_bytes()).await.is_ok();
    let chunk = [b' '; 65_536];
    while is_taken {
        is_taken = stream.write_all(&chunk).await.is_ok();
        sent.fetch_add(chunk.len(), Relaxed);
    }
}
