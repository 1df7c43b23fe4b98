//! A proxy between the client and an HTTPS target.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::targets::TargetProxy;

/// A name that cannot be resolved, so the target is only reachable through the proxy.
const NAME: &str = "orders.example.invalid";

/// An HTTPS server for [`NAME`] that records its requests and responds with 200.
struct TlsServer {
    address: SocketAddr,
    certificate: reqwest::Certificate,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl TlsServer {
    async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let private_key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private_key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut bytes = vec![0; 16 * 1024];
            let length = stream.read(&mut bytes).await.unwrap();
            kept.lock().unwrap().push(String::from_utf8(bytes[..length].to_vec()).unwrap());
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            stream.shutdown().await.unwrap();
        });
        let certificate = reqwest::Certificate::from_der(certificate.der()).unwrap();
        Self { address, certificate, requests, task }
    }
}

/// A proxy that responds to `CONNECT` with this status, and connects every tunnel to `tls`.
struct ConnectProxy {
    proxy: TargetProxy,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl ConnectProxy {
    async fn start(status: &'static str, tls: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = TargetProxy::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let heads = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(client.read_u8().await.unwrap());
            }
            kept.lock().unwrap().push(String::from_utf8(head).unwrap());
            client.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.unwrap();
            if status.starts_with("200") {
                let mut server = TcpStream::connect(tls).await.unwrap();
                let _ends = copy_bidirectional(&mut client, &mut server).await;
            }
        });
        Self { proxy, heads, task }
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Creates a target behind the proxy. Its endpoint has a key in its path and in a header.
fn target_behind(proxy: &ConnectProxy, tls: &TlsServer) -> HttpTarget {
    let client = harden_client(Client::builder(), LONG).proxy(proxy.proxy.proxy_rule().unwrap());
    let client = client.tls_certs_only([tls.certificate.clone()]).build().unwrap();
    let endpoint =
        endpoint_with_secret(&format!("https://{NAME}/{CANARY}"), r#"{"Authorization":"Bearer CANARY"}"#);
    HttpTarget::with_clock(client, endpoint, SystemClock)
}

#[tokio::test]
async fn a_call_is_tunneled_and_the_proxy_sees_only_the_host_name() {
    let tls = TlsServer::start().await;
    let proxy = ConnectProxy::start("200 OK", tls.address).await;
    assert_eq!(complete_soon(target_behind(&proxy, &tls).handle(&message(r#"{"n":1}"#))).await, Ok(()));
    let head = proxy.heads.lock().unwrap().concat();
    assert!(head.starts_with(&format!("CONNECT {NAME}:443 HTTP/1.1\r\n")), "{head}");
    assert!(!head.contains(CANARY), "{head}");
    let request = tls.requests.lock().unwrap().concat();
    assert!(request.starts_with(&format!("POST /{CANARY} HTTP/1.1\r\n")), "{request}");
    assert!(
        request.contains("authorization: Bearer CANARY\r\n") && request.ends_with(r#"{"n":1}"#),
        "{request}"
    );
}

#[tokio::test]
async fn a_refusal_by_the_proxy_counts_as_no_connection() {
    for status in ["403 Forbidden", "407 Proxy Authentication Required", "502 Bad Gateway"] {
        let tls = TlsServer::start().await;
        let proxy = ConnectProxy::start(status, tls.address).await;
        let error = complete_soon(target_behind(&proxy, &tls).handle(&message("{}"))).await.unwrap_err();
        assert_eq!((error.error_type, error.kind), ("Http.Proxy".into(), FailureKind::Transient), "{status}");
        assert_eq!(tls.requests.lock().unwrap().len(), 0);
    }
}

/// `http://` is meant for this machine and for services on the local network, which are called without the proxy.
#[tokio::test]
async fn a_call_without_tls_bypasses_the_proxy() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let proxy = TargetProxy::parse(REFUSED_URL).unwrap();
    let target = HttpTarget::new(public_endpoint(server.url()), Some(&proxy), LONG).unwrap();
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    assert_eq!(server.requests().len(), 1);
}

/// The target's certificate is not trusted here, so the call fails once the proxy has opened the tunnel.
#[tokio::test]
async fn a_target_uses_its_configured_proxy() {
    let tls = TlsServer::start().await;
    let proxy = ConnectProxy::start("200 OK", tls.address).await;
    let target =
        HttpTarget::new(public_endpoint(&format!("https://{NAME}/")), Some(&proxy.proxy), LONG).unwrap();
    let error = complete_soon(target.handle(&message("{}"))).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::Explained("Http.Tls", "unknown issuer"));
    assert_eq!(proxy.heads.lock().unwrap().len(), 1);
}
