//! Signatures, as a receiver verifies them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::tests::hmac::hmac_sha256;
use crate::tests::loopback::Request;

const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The time of the first attempt.
const AT: u64 = 1_674_087_231;

/// Verifies a request as "Verifying signatures" of the specification asks for. Returns its id.
fn verified(request: &Request, secret: &str, now: u64) -> Result<String, &'static str> {
    let [id, timestamp, signatures] =
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| request.header(name).concat());
    if timestamp.parse::<u64>().map_or(true, |sent| sent.abs_diff(now) > 300) {
        return Err("timestamp");
    }
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let signed = [id.as_bytes(), timestamp.as_bytes(), &request.body[..]].join(&b'.');
    let expected = STANDARD.encode(hmac_sha256(&key, &signed));
    let is_genuine = signatures.split(' ').any(|one| one.split_once(',') == Some(("v1", expected.as_str())));
    if is_genuine { Ok(id) } else { Err("signature") }
}

/// A target with these signing secrets, at [`AT`].
fn signing(url: &str, secrets: &str) -> (HttpTarget<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(AT) + Duration::from_millis(999));
    let client = hardened(Client::builder(), LONG).build().unwrap();
    let endpoint = with_secret(url, &format!(r#"{{":signing-secrets":"{secrets}","X-Tenant":"a"}}"#));
    (HttpTarget::with_clock(client, endpoint, clock.clone()), clock)
}

#[tokio::test]
async fn a_receiver_verifies_the_bytes_that_it_got() {
    for body in ["{}", "{ \"n\": 1e400,\r\n\"é\":\"\u{fffd}😀\" }\n", ""] {
        let server = Loopback::start([Answer::new(200, &[], "")]).await;
        let (target, _) = signing(server.url(), NEW);
        assert_eq!(target.handle(&message(body)).await, Ok(()));
        let request = server.request();
        assert_eq!(verified(&request, NEW, AT), Ok(message(body).message_id.to_owned()), "{body}");
        assert_eq!(verified(&request, OLD, AT), Err("signature"));
        let mut forged = request.clone();
        forged.body = b"{\"forged\":1}".to_vec();
        assert_eq!(verified(&forged, NEW, AT), Err("signature"));
        assert_eq!(verified(&request, NEW, AT + 301), Err("timestamp"));
        assert_eq!(request.header("x-tenant"), ["a"]);
    }
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_its_own_time() {
    let server = Loopback::answering(|_| Answer::kept(503, &[], "")).await;
    let (target, clock) = signing(server.url(), NEW);
    for _ in 0..2 {
        assert!(target.handle(&message("{}")).await.is_err());
        clock.advance(Duration::from_secs(3600));
    }
    let requests = server.requests();
    let values =
        |name: &str| requests.iter().map(|request| request.header(name).concat()).collect::<Vec<_>>();
    assert_eq!(values("webhook-id"), [message("{}").message_id; 2]);
    assert_eq!(values("webhook-timestamp"), ["1674087231", "1674090831"]);
    for (request, at) in requests.iter().zip([AT, AT + 3600]) {
        assert_eq!(verified(request, NEW, at), Ok(message("{}").message_id.to_owned()));
    }
    let signatures = values("webhook-signature");
    assert_ne!(signatures[0], signatures[1]);
}

/// The receiver changes over from one secret to the other at any time, and each call is genuine.
#[tokio::test]
async fn with_two_secrets_a_receiver_of_either_accepts_the_call() {
    let server = Loopback::start([Answer::new(200, &[], "")]).await;
    let (target, _) = signing(server.url(), &format!("{OLD} {NEW}"));
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    let request = server.request();
    for secret in [OLD, NEW] {
        assert_eq!(verified(&request, secret, AT), Ok(message("{}").message_id.to_owned()));
    }
    assert_eq!(request.header("webhook-signature").concat().split(' ').count(), 2);
}

/// A producer's own id may have full stops, which separate the parts that are signed.
#[tokio::test]
async fn the_id_is_the_messages_uuid_also_without_an_envelope() {
    let server = Loopback::start([Answer::new(200, &[], "")]).await;
    let form = &Form::Plain { idempotency_key: Some("order.17".to_owned()) };
    let (target, _) = signing(server.url(), NEW);
    assert_eq!(target.handle(&Message { form, ..message("a,b") }).await, Ok(()));
    let request = server.request();
    assert_eq!(request.header("idempotency-key"), ["order.17"]);
    assert_eq!(verified(&request, NEW, AT), Ok(message("").message_id.to_owned()));
}
