//! An HTTP/1.1 server for a public port. It sends one response per connection, and limits everything a client can do,
//! so that no client can lock out others.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// Maximum number of concurrent connections. A further connection closes the oldest one that has not sent a request
/// yet, or else the oldest of all, so that idle clients lose their connections first, and clients that send their
/// requests immediately get a response.
pub const CONNECTIONS_MAX: usize = 256;
/// The time limit from accepting a connection to the end of the request header.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// The pause after a failed accept, for example when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a router forever, with one request per connection and at most 256 concurrent connections. The request header
/// must arrive within 5 seconds, and have at most 16 KiB and 64 fields.
pub async fn serve_router(listener: TcpListener, router: Router) -> Infallible {
    let mut tasks = JoinSet::new();
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while tasks.try_join_next().is_some() {}
                connections.make_room();
                let has_request = Arc::default();
                let task = tasks.spawn(serve_connection(stream, router.clone(), Arc::clone(&has_request)));
                connections.0.push_back(OpenConnection { task, has_request });
                // The request might have arrived already. Let it be read before the connection can be closed as idle.
                tokio::task::yield_now().await;
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The open connections, oldest first.
#[derive(Debug, Default)]
struct Connections(VecDeque<OpenConnection>);

#[derive(Debug)]
struct OpenConnection {
    task: AbortHandle,
    /// True once the request header has arrived.
    has_request: Arc<AtomicBool>,
}

impl Connections {
    fn make_room(&mut self) {
        self.0.retain(|open| !open.task.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            let idle = self.0.iter().position(|open| !open.has_request.load(Ordering::Relaxed));
            let closed = self.0.remove(idle.unwrap_or(0));
            closed.iter().for_each(|closed| closed.task.abort());
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, has_request: Arc<AtomicBool>) {
    let service = TowerToHyperService::new(router);
    let recorded = service_fn(move |request| {
        has_request.store(true, Ordering::Relaxed);
        service.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), recorded);
    // Client errors are not logged.
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Returns the indices of the connections that `make_room` closes when the maximum number is open.
    fn closed_indices(has_request: impl Fn(usize) -> bool) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            let open = |index| OpenConnection {
                task: tasks.spawn(pending::<()>()),
                has_request: Arc::new(has_request(index).into()),
            };
            let mut connections = Connections((0..CONNECTIONS_MAX).map(open).collect());
            let ids: Vec<_> = connections.0.iter().map(|open| open.task.id()).collect();
            connections.make_room();
            let is_closed = |index: &usize| !connections.0.iter().any(|open| open.task.id() == ids[*index]);
            (0..CONNECTIONS_MAX).filter(is_closed).collect()
        })
    }

    #[test]
    fn a_new_connection_closes_the_oldest_silent_one_first() {
        assert_eq!(closed_indices(|_| false), [0]);
        assert_eq!(closed_indices(|index| index < 7), [7]);
        assert_eq!(closed_indices(|_| true), [0]);
    }
}
