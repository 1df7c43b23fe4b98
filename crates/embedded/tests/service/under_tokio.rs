//! Real sockets and virtual time in one run, as needed by `redeliver local --target URL`.

use std::time::Duration;

use redeliver_core::ports::{Clock, QueueService, QueueSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{elapsed, message, receive, send, service};

#[test]
fn a_real_call_takes_no_virtual_time_while_time_is_held() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let (clock, sqs) = service();
    let (seen_at, polled, ended_at) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(b"pong").await.unwrap();
        });
        let work = async {
            let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
            let call = async {
                clock.sleep(Duration::from_secs(5)).await;
                let hold = clock.hold_time();
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"ping").await.unwrap();
                let mut answer = [0; 4];
                stream.read_exact(&mut answer).await.unwrap();
                drop(hold);
                let seen_at = elapsed(&clock);
                send(&queue, &[message("answered", 10)]).await;
                seen_at
            };
            let (seen_at, polled) = futures_util::future::join(call, receive(&queue, 20)).await;
            (seen_at, polled.len(), elapsed(&clock))
        };
        let result = clock.run(work).await.unwrap();
        server.await.unwrap();
        result
    });
    assert_eq!((seen_at, polled, ended_at), (5, 1, 15));
}
