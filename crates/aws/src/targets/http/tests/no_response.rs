//! Calls without a response: each cause has its own error type, and its kind depends on whether the target may have
//! handled the request.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, Issuer, KeyPair, date_time_ymd};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::*;
use crate::targets::http::no_response::handshake_failure;

/// A test server, which stops when it is dropped.
struct Server {
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server that writes these bytes to each connection and closes it.
    async fn raw(bytes: &'static [u8]) -> Self {
        let (listener, url) = listen().await;
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // Closing a connection with unread bytes would reset it.
                let mut hello = [0; 16 * 1024];
                let _read = tokio::io::AsyncReadExt::read(&mut stream, &mut hello).await;
                let _written = stream.write_all(bytes).await;
            }
        });
        Self { url, task }
    }

    async fn tls(config: ServerConfig) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (listener, url) = listen().await;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let mut request = [0; 16 * 1024];
                    let _read = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    let _written = stream.write_all(answer).await;
                }
            }
        });
        Self { url, task }
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/{CANARY}", listener.local_addr().unwrap());
    (listener, url)
}

/// A certificate authority.
struct Authority(Issuer<'static, KeyPair>, rcgen::Certificate);

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self(Issuer::new(params, key), certificate)
    }

    /// Returns a server's configuration with a certificate for this name.
    fn server_config(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> ServerConfig {
        let builder = ServerConfig::builder().with_no_client_auth();
        let (certificate, key) = self.leaf(name, change);
        builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()
    }

    fn leaf(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (rcgen::Certificate, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }

    /// Returns the error from a call by a client that trusts only this authority.
    async fn call_error(&self, url: &str) -> HandlerError {
        let root = reqwest::Certificate::from_der(self.1.der()).unwrap();
        let client = harden_client(Client::builder(), LONG).tls_certs_only([root]).build().unwrap();
        let target = HttpTarget::with_clock(client, public_endpoint(url), SystemClock);
        let error = complete_soon(target.handle(&message("{}"))).await.unwrap_err();
        assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
        error
    }
}

async fn assert_tls_failure(authority: &Authority, server: &Server, reason: &'static str) {
    let error = authority.call_error(&server.url).await;
    assert_eq!(error.error_type, ErrorType::Explained("Http.Tls", reason));
    assert_eq!(error.details, format!("no TLS connection: {reason}"));
    assert_eq!(error.kind, FailureKind::Transient);
}

#[tokio::test]
async fn the_error_says_why_a_certificate_is_invalid() {
    let (authority, other, renewed) = (Authority::new(), Authority::named("other"), Authority::new());
    let expired = |params: &mut CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
    let future = |params: &mut CertificateParams| params.not_before = date_time_ymd(4000, 1, 1);
    for (config, reason) in [
        (other.server_config("127.0.0.1", |_| {}), "unknown issuer"),
        (renewed.server_config("127.0.0.1", |_| {}), "certificate with a wrong signature"),
        (authority.server_config("other.example", |_| {}), "certificate of another name"),
        (authority.server_config("127.0.0.1", expired), "expired certificate"),
        (authority.server_config("127.0.0.1", future), "certificate not valid yet"),
    ] {
        assert_tls_failure(&authority, &Server::tls(config).await, reason).await;
    }
}

/// With TLS 1.3, the server's alert arrives after the client's handshake: the request was sent but not handled.
#[tokio::test]
async fn the_error_says_that_a_client_certificate_is_required() {
    let authority = Authority::new();
    for version in [&tokio_rustls::rustls::version::TLS12, &tokio_rustls::rustls::version::TLS13] {
        let mut roots = RootCertStore::empty();
        roots.add(authority.1.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
        let builder = ServerConfig::builder_with_protocol_versions(&[version]);
        let (certificate, key) = authority.leaf("127.0.0.1", |_| {});
        let config = builder
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        assert_tls_failure(
            &authority,
            &Server::tls(config).await,
            "the target asks for a client certificate",
        )
        .await;
    }
}

#[tokio::test]
async fn the_error_says_why_a_handshake_failed() {
    // A record has a type, a version and a length; an alert has a level and a number (RFC 8446, sections 5.1 and 6).
    for (bytes, reason) in [
        (&b"\x15\x03\x01\x00\x02\x02\x46"[..], "protocol version"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "no common cipher or algorithm"),
        (b"\x15\x03\x01\x00\x02\x02\x70", "the target does not serve this host name"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the target does not speak TLS"),
        (b"", "connection closed"),
    ] {
        assert_tls_failure(&Authority::new(), &Server::raw(bytes).await, reason).await;
    }
}

/// When a late alert arrives, the target may already have handled the request, so the message is not held.
#[test]
fn a_late_tls_alert_is_a_broken_connection_except_for_client_auth() {
    use tokio_rustls::rustls::{AlertDescription as A, Error};
    for (alert, before, after) in [
        (A::CertificateRequired, Some("the target asks for a client certificate"), true),
        (A::ProtocolVersion, Some("protocol version"), true),
        (A::HandshakeFailure, Some("no common cipher or algorithm"), false),
        (A::UnrecognisedName, Some("the target does not serve this host name"), false),
        (A::InternalError, Some("handshake failed"), false),
    ] {
        let failure = |is_connecting| handshake_failure(&Error::AlertReceived(alert), is_connecting);
        assert_eq!((failure(true), failure(false)), (before, before.filter(|_| after)), "{alert:?}");
    }
}

#[tokio::test]
async fn an_unresolvable_name_is_distinguished_from_a_refused_connection() {
    let authority = Authority::new();
    let error = authority.call_error("https://no-such-host.invalid/CANARY").await;
    assert_eq!(error, HandlerError::transient("Http.Dns", "the host name cannot be resolved"));
    let error = authority.call_error("https://127.0.0.1:1/CANARY").await;
    assert_eq!(error, HandlerError::transient("Http.Refused", "the target refuses connections"));
}

/// The target may have handled the request, so the message is not held.
#[tokio::test]
async fn an_invalid_response_is_distinguished_from_a_failed_connection() {
    let headers = vec![("x-many", "1"); 200];
    for answer in [
        ScriptedResponse::new(200, &headers, ""),
        ScriptedResponse::new(200, &[("bad header", "1")], ""),
        ScriptedResponse::new(200, &[("content-length", "-1")], ""),
        ScriptedResponse::raw("SSH-2.0-OpenSSH_9.6\r\n"),
    ] {
        let error = call(&Loopback::start([answer]).await, LONG).await.unwrap_err();
        assert_eq!((&error.error_type, error.kind), (&"Http.InvalidResponse".into(), FailureKind::Transient));
    }
}
