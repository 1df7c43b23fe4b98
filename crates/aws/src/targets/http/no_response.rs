//! Classifies calls without a response. The descriptions are our own, since the messages of the original errors may
//! contain the URL, with a key in its query.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter;

use redeliver_core::handler::{ErrorType, HandlerError};
use rustls::{AlertDescription, CertificateError, PeerIncompatible};

/// Returns the outcome of a call without a response.
///
/// Without a connection, the target received nothing: these errors are "not now" in `redeliver_core::decide`. Once
/// connected, the target may have handled the request, so later errors are faults.
pub(in super::super) fn no_response(error: &reqwest::Error) -> HandlerError {
    // The rejection of a client certificate is only reported on the first read (RFC 8446, appendix E.1.2), although the
    // request was not handled.
    if let Some(reason) =
        find_cause::<rustls::Error>(error).and_then(|tls| handshake_failure(tls, error.is_connect()))
    {
        return tls_failure(reason);
    }
    // Checked before other timeouts: connecting can also time out, which is not the message's fault.
    if error.is_connect() {
        no_connection(error)
    } else if error.is_timeout() {
        HandlerError::transient("Http.Timeout", "the target did not answer in time")
    } else if find_cause::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
        HandlerError::transient(
            "Http.InvalidResponse",
            "the target's answer is not valid HTTP, or its head is too large",
        )
    } else {
        HandlerError::transient("Http.Reset", "the connection to the target broke before it answered")
    }
}

fn no_connection(error: &reqwest::Error) -> HandlerError {
    if error.is_dns() {
        return HandlerError::transient("Http.Dns", "the host name cannot be resolved");
    }
    if error.is_timeout() {
        return HandlerError::transient("Http.ConnectTimeout", "the connection to the target timed out");
    }
    // The error type is not public, so the start of its message is checked.
    if iter_causes(error).any(|cause| cause.to_string().starts_with("tunnel error")) {
        return HandlerError::transient("Http.Proxy", "the proxy did not open a tunnel to the target");
    }
    let mut kinds = iter_causes(error).filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()));
    let is_https = error.url().is_some_and(|url| url.scheme() == "https");
    let known = kinds.find_map(|kind| match kind {
        ErrorKind::ConnectionRefused => {
            Some(HandlerError::transient("Http.Refused", "the target refuses connections"))
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe if is_https => {
            Some(tls_failure("connection closed"))
        }
        _ => None,
    });
    known.unwrap_or_else(|| HandlerError::transient("Http.Connect", "could not connect to the target"))
}

fn tls_failure(reason: &'static str) -> HandlerError {
    HandlerError::transient(
        ErrorType::Explained("Http.Tls", reason),
        format_args!("no TLS connection: {reason}"),
    )
}

/// Returns the reason why a TLS handshake failed. After connecting, only alerts about certificates and versions count
/// as handshake failures.
pub(super) fn handshake_failure(error: &rustls::Error, is_connecting: bool) -> Option<&'static str> {
    use rustls::Error as E;
    Some(match error {
        E::InvalidCertificate(error) => certificate_failure(error),
        E::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )
        | E::AlertReceived(AlertDescription::ProtocolVersion) => "protocol version",
        E::AlertReceived(
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::NoCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate,
        ) => "the target asks for a client certificate",
        _ if !is_connecting => return None,
        E::AlertReceived(AlertDescription::UnrecognisedName) => "the target does not serve this host name",
        E::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity)
        | E::PeerIncompatible(_) => "no common cipher or algorithm",
        E::InvalidMessage(_) => "the target does not speak TLS",
        _ => "handshake failed",
    })
}

#[expect(deprecated, reason = "other versions of the verifier may still return it")]
const fn certificate_failure(error: &CertificateError) -> &'static str {
    use CertificateError as E;
    match error {
        E::UnknownIssuer => "unknown issuer",
        E::NotValidForName | E::NotValidForNameContext { .. } => "certificate of another name",
        E::Expired | E::ExpiredContext { .. } => "expired certificate",
        E::NotValidYet | E::NotValidYetContext { .. } => "certificate not valid yet",
        E::Revoked => "revoked certificate",
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => "certificate for another purpose",
        E::BadSignature => "certificate with a wrong signature",
        E::UnsupportedSignatureAlgorithm
        | E::UnsupportedSignatureAlgorithmContext { .. }
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "certificate with an unsupported signature"
        }
        _ => "invalid certificate",
    }
}

fn find_cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    iter_causes(error).find_map(|cause| cause.downcast_ref())
}

/// Iterates over all causes of an error. The `source` of an [`io::Error`] skips the error that it wraps.
fn iter_causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| {
        let cause = *cause;
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| cause.source())
    })
}
