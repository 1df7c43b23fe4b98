//! An HTTPS endpoint on loopback with a valid or invalid certificate.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use redeliver_tests::sqs::unique_name;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A certificate authority that the tests' functions trust, through `SSL_CERT_FILE`.
pub(crate) struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The file with the authority's certificate.
    pub(crate) file: PathBuf,
}

/// The kind of certificate that a target has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    Good,
    /// From the trusted authority, but for another name.
    OtherName,
    Expired,
    /// For the right name, but from an untrusted authority.
    SelfSigned,
}

/// A running endpoint at `https://localhost:PORT` that answers every request with 200; it stops when dropped.
pub(crate) struct TlsTarget {
    pub(crate) url: String,
    requests: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl TestAuthority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("authority"));
        std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), file }
    }
}

impl TlsTarget {
    pub(crate) async fn start(authority: &TestAuthority, certificate: Certificate) -> Self {
        let name = if certificate == Certificate::OtherName { "localhost.example.com" } else { "localhost" };
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if certificate == Certificate::Expired {
            params.not_after = date_time_ymd(2001, 1, 1);
        }
        let signed = match certificate {
            Certificate::SelfSigned => params.self_signed(&key),
            _ => params.signed_by(&key, &authority.issuer),
        };
        let config = ServerConfig::builder().with_no_client_auth();
        let private_key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = config.with_single_cert(vec![signed.unwrap().der().clone()], private_key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let requests = Arc::new(AtomicUsize::new(0));
        let server =
            tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&requests)));
        Self { url, requests, server }
    }

    /// Returns the number of completed requests.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for TlsTarget {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, requests: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        if answer(&tls, stream).await.is_ok() {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Answers a request; fails if none arrives.
async fn answer(tls: &TlsAcceptor, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    // The tests' messages are short: one read receives the start of the request, and the rest does not matter.
    if stream.read(&mut [0; 16 * 1024]).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
    stream.shutdown().await
}
