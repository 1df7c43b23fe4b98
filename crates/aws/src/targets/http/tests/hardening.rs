//! Limits on how far a target, a name server or a message can influence the client.

use std::net::SocketAddr;

use redeliver_core::message::Attribute;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_request_has_only_the_expected_headers() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let evil = [("Host", "evil.com"), ("X-Evil", "1\r\nX-Worse: 1"), ("Idempotency-Key", "another")];
    let attributes = evil.map(|(name, value)| (name.to_owned(), Attribute::string(value)));
    let body = r#"{"metadata":{"X-Evil":"1\r\nX-Worse: 1","url":"http://evil.com/"},"data":{}}"#;
    let message = Message { attributes: &attributes.into(), ..message(body) };
    target(server.url(), LONG).handle(&message).await.unwrap();
    let request = server.request();
    assert_eq!(request.header("idempotency-key"), [message.message_id]);
    // No `accept-encoding`, so no response is ever decompressed. No cookies, no `connection`, no `expect`.
    let names = [
        "accept",
        "content-length",
        "content-type",
        "host",
        "idempotency-key",
        "user-agent",
        "x-redeliver-attempt",
    ];
    assert_eq!(request.header_names(), names);
    assert_eq!(request.header("host"), [server.url().trim_start_matches("http://")]);
}

#[tokio::test]
async fn a_cookie_is_not_kept() {
    let cookie = [("set-cookie", "session=CANARY; Path=/")];
    let server =
        Loopback::start([ScriptedResponse::new(200, &cookie, ""), ScriptedResponse::new(200, &[], "")]).await;
    let target = target(server.url(), LONG);
    for _ in 0..2 {
        target.handle(&message("{}")).await.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].header("cookie"), [""; 0]);
}

#[tokio::test]
async fn an_endless_head_fails_before_it_fills_memory() {
    let server = Loopback::start([ScriptedResponse::endless_head(1024 * 1024)]).await;
    let error = complete_soon(call(&server, LONG)).await.unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Http.InvalidResponse".into(), FailureKind::Transient));
}

#[tokio::test]
async fn a_server_that_never_starts_tls_hits_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let error = complete_soon(target(&url, LONG).handle(&message("{}"))).await.unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Http.ConnectTimeout".into(), FailureKind::Transient));
}

/// A poisoned name server, which resolves every name to this address.
struct PoisonedResolver(SocketAddr);

impl Resolve for PoisonedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let decoy: Addrs = Box::new(std::iter::once(self.0));
        Box::pin(std::future::ready(Ok(decoy)))
    }
}

#[tokio::test]
async fn localhost_resolves_to_loopback_without_dns() {
    // No server listens on port 0 of 127.0.0.2, so a call that used the name server would fail.
    let decoy = PoisonedResolver("127.0.0.2:0".parse().unwrap());
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let endpoint = public_endpoint(&server.url().replace("127.0.0.1", "localhost"));
    let client = harden_client(Client::builder().dns_resolver(decoy), LONG).build().unwrap();
    let target = HttpTarget::with_clock(client, endpoint, SystemClock);
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    assert_eq!(server.requests().len(), 1);
}

/// The schema only allows UUIDs, but programs that call the handler directly have no schema.
#[tokio::test]
async fn a_message_id_with_a_control_character_is_not_sent() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let target = target(server.url(), LONG);
    for message_id in ["a\r\nX-Evil: 1", "a\nHost: evil.com", "\r", "\0", "a\r\n\r\nPOST /evil HTTP/1.1"] {
        let message = Message { message_id, ..message("{}") };
        assert!(target.handle(&message).await.is_err(), "{message_id:?}");
    }
    assert_eq!(server.requests().len(), 0);
}

/// "The Transport Layer Security (TLS) Protocol Version 1.3", RFC 8446, section 4.1.2; ALPN is RFC 7301.
#[tokio::test]
async fn only_tls_1_2_and_1_3_and_http_1_1_are_offered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let greeted = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut record = [0; 5];
        stream.read_exact(&mut record).await.unwrap();
        let mut hello = vec![0; usize::from(u16::from_be_bytes([record[3], record[4]]))];
        stream.read_exact(&mut hello).await.unwrap();
        hello
    };
    let target = target(&url, LONG);
    let message = message("{}");
    let (hello, error) = tokio::join!(greeted, target.handle(&message));
    assert_eq!(error.unwrap_err().error_type, ErrorType::Explained("Http.Tls", "connection closed"));
    let has = |bytes: &[u8]| hello.windows(bytes.len()).any(|window| window == bytes);
    let supported_versions = [0, 43, 0, 5, 4, 3, 4, 3, 3];
    assert!(has(&supported_versions), "{hello:x?}");
    let alpn = b"\x00\x10\x00\x0b\x00\x09\x08http/1.1";
    assert!(has(alpn), "{hello:x?}");
}
