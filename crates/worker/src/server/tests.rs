use redeliver_core::ports::Clock as _;
use redeliver_embedded::VirtualClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use std::time::Duration;

use super::*;
use redeliver_aws::Stop;

use crate::health::Heartbeat;

struct RunningServer {
    address: SocketAddr,
    clock: VirtualClock,
    stop: Stop,
}

/// Runs `client` against a health endpoint for one poller.
fn with_server<T>(client: impl AsyncFnOnce(&RunningServer) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (clock, stop) = (VirtualClock::new(Timestamp::UNIX_EPOCH), Stop::default());
        let pollers = vec![Arc::new(Heartbeat::new("message-processor", clock.now()))];
        let metrics = Arc::new(WorkerMetrics::new(["message-processor".to_owned()]));
        let server = HealthServer::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = server.address();
        let serving = tokio::spawn(server.serve_forever(
            ServedState { health: Health { pollers, stop: stop.clone() }, metrics },
            clock.clone(),
        ));
        let outcome = client(&RunningServer { address, clock, stop }).await;
        serving.abort();
        outcome
    })
}

impl RunningServer {
    /// Returns the status line and the body of a response; the server closes the connection.
    async fn send_request(&self, request: &str) -> (String, String) {
        let (head, body) = self.fetch_response(request).await;
        (head.lines().next().unwrap_or_default().to_owned(), body)
    }

    /// Returns the complete head and the body of a response.
    async fn fetch_response(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may close the connection before the whole request is written.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (String, String) {
        self.send_request(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
    }
}

fn expected_response(status: &str, body: &str) -> (String, String) {
    (format!("HTTP/1.1 {status}"), body.to_owned())
}

#[test]
fn healthz_lists_each_function_and_fails_without_polls() {
    with_server(async |server| {
        let well = concat!(
            r#"{"functions":[{"batches_in_flight":0,"function":"message-processor","healthy":true,"#,
            r#""seconds_since_poll":0}],"healthy":true}"#,
            "\n"
        );
        assert_eq!(server.get("/healthz").await, expected_response("200 OK", well));
        assert_eq!(server.get("/healthz?verbose=1").await, expected_response("200 OK", well));
        server.clock.run(server.clock.sleep(Duration::from_secs(61))).await.unwrap();
        let ill = well.replace("true", "false").replace(r#"poll":0"#, r#"poll":61"#);
        assert_eq!(server.get("/healthz").await, expected_response("503 Service Unavailable", &ill));
        assert_eq!(server.get("/readyz").await, expected_response("200 OK", "{\"ready\":true}\n"));
        server.stop.request();
        assert_eq!(server.get("/healthz").await.0, "HTTP/1.1 200 OK");
        assert_eq!(
            server.get("/readyz").await,
            expected_response("503 Service Unavailable", "{\"ready\":false}\n")
        );
    });
}

#[test]
fn metrics_are_openmetrics_with_batches_and_poll_ages() {
    with_server(async |server| {
        server.clock.run(server.clock.sleep(Duration::from_secs(61))).await.unwrap();
        let (head, body) = server.fetch_response("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let kind = "\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
        assert!(head.contains(kind), "{head}");
        for line in [
            "# TYPE redeliver_batches_in_flight gauge",
            r#"redeliver_batches_in_flight{function="message-processor"} 0"#,
            r#"redeliver_seconds_since_poll{function="message-processor"} 61.0"#,
            r#"redeliver_not_confirmed_total{function="message-processor"} 0"#,
        ] {
            assert!(body.lines().any(|one| one == line), "{line} in\n{body}");
        }
        assert!(body.ends_with("# EOF\n"), "{body}");
        assert_eq!(
            server.send_request("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await,
            expected_response("200 OK", "")
        );
    });
}

#[test]
fn other_paths_and_methods_are_refused_and_a_head_response_has_no_body() {
    with_server(async |server| {
        assert_eq!(server.get("/").await.0, "HTTP/1.1 404 Not Found");
        assert_eq!(server.get("/healthz/").await.0, "HTTP/1.1 404 Not Found");
        let post = "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(server.send_request(post).await.0, "HTTP/1.1 405 Method Not Allowed");
        assert_eq!(
            server.send_request("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await,
            expected_response("200 OK", "")
        );
        assert_eq!(server.send_request("GET /healthz HTTP/1.0\r\n\r\n").await.0, "HTTP/1.0 200 OK");
        assert_eq!(server.send_request("nonsense\r\n\r\n").await.0, "HTTP/1.1 400 Bad Request");
    });
}

#[test]
fn an_endless_head_is_refused_and_a_silent_client_blocks_no_others() {
    with_server(async |server| {
        let _silent = TcpStream::connect(server.address).await.unwrap();
        let endless = format!("GET /healthz HTTP/1.1\r\nX: {}", "x".repeat(100_000));
        assert_eq!(server.send_request(&endless).await.0, "HTTP/1.1 431 Request Header Fields Too Large");
        let many = "X: y\r\n".repeat(1000);
        let many = format!("GET /healthz HTTP/1.1\r\n{many}\r\n");
        assert_eq!(server.send_request(&many).await.0, "HTTP/1.1 431 Request Header Fields Too Large");
        assert_eq!(server.get("/healthz").await.0, "HTTP/1.1 200 OK");
    });
}

#[test]
fn a_health_probe_is_answered_despite_many_half_sent_requests() {
    with_server(async |server| {
        let mut held = Vec::new();
        for _ in 0..2 * http_server::CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
            held.push(stream);
        }
        assert_eq!(server.get("/healthz").await.0, "HTTP/1.1 200 OK");
    });
}

#[test]
fn a_bind_error_names_the_occupied_address() {
    with_server(async |server| {
        let error = HealthServer::bind(server.address).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("--health: cannot listen on {}: ", server.address)), "{error}");
    });
}
