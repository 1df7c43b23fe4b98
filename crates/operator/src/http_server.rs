//! An HTTP/1.1 server on a public port: one response per connection, with limits on everything a client can do, so that
//! no client can lock another one out.

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

/// Maximum number of concurrent connections. One more closes the oldest that has not sent a request yet: idle clients
/// lose their connections, while a client that sends its request immediately gets a response.
pub const CONNECTIONS_MAX: usize = 256;
/// From accept to the end of the request header.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// Pause after a failed accept, for example when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves a router forever: one request per connection, a header of at most 16 KiB and 64 fields within 5 seconds, and
/// 256 connections at a time.
pub async fn serve_router(listener: TcpListener, router: Router) -> Infallible {
    let mut tasks = JoinSet::new();
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while tasks.try_join_next().is_some() {}
                connections.make_room();
                let has_asked = Arc::default();
                let task = tasks.spawn(serve_connection(stream, router.clone(), Arc::clone(&has_asked)));
                connections.0.push_back(OpenConnection { task, has_asked });
                // Its request may have arrived already: it must be read before the connection can be closed as idle.
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
    /// True once the header of its request has arrived.
    has_asked: Arc<AtomicBool>,
}

impl Connections {
    fn make_room(&mut self) {
        self.0.retain(|open| !open.task.is_finished());
        if self.0.len() >= CONNECTIONS_MAX {
            let silent = self.0.iter().position(|open| !open.has_asked.load(Ordering::Relaxed));
            let closed = self.0.remove(silent.unwrap_or(0));
            closed.iter().for_each(|closed| closed.task.abort());
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, has_asked: Arc<AtomicBool>) {
    let service = TowerToHyperService::new(router);
    let noticed = service_fn(move |request| {
        has_asked.store(true, Ordering::Relaxed);
        service.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), noticed);
    // Client errors are not logged.
    let _ = served.await;
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// The positions that `make_room` closes at the maximum number of connections.
    fn closed(asked: impl Fn(usize) -> bool) -> Vec<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut tasks = JoinSet::new();
            let open = |place| OpenConnection {
                task: tasks.spawn(pending::<()>()),
                has_asked: Arc::new(asked(place).into()),
            };
            let mut connections = Connections((0..CONNECTIONS_MAX).map(open).collect());
            let ids: Vec<_> = connections.0.iter().map(|open| open.task.id()).collect();
            connections.make_room();
            let is_closed = |place: &usize| !connections.0.iter().any(|open| open.task.id() == ids[*place]);
            (0..CONNECTIONS_MAX).filter(is_closed).collect()
        })
    }

    #[test]
    fn a_new_connection_closes_the_oldest_silent_one_first() {
        assert_eq!(closed(|_| false), [0]);
        assert_eq!(closed(|place| place < 7), [7]);
        assert_eq!(closed(|_| true), [0]);
    }
}
