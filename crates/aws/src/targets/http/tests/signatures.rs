//! Signatures, as a receiver verifies them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::targets::{SigV4Setting, SigV4Signer, SignedService};
use crate::tests::hmac::hmac_sha256;
use crate::tests::loopback::Request;

const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The time of the first attempt.
const ATTEMPTED_AT: u64 = 1_674_087_231;

/// Verifies a request as described in the specification ("Verifying signatures"). Returns its id.
fn verify_request(request: &Request, secret: &str, now: u64) -> Result<String, &'static str> {
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

/// Creates a target with these signing secrets, at the time [`ATTEMPTED_AT`].
fn signing_target(url: &str, secrets: &str) -> (HttpTarget<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(ATTEMPTED_AT) + Duration::from_millis(999));
    let client = harden_client(Client::builder(), LONG).build().unwrap();
    let endpoint =
        endpoint_with_secret(url, &format!(r#"{{":signing-secrets":"{secrets}","X-Tenant":"a"}}"#));
    (HttpTarget::with_clock(client, endpoint, clock.clone()), clock)
}

#[tokio::test]
async fn a_receiver_verifies_the_received_bytes() {
    for body in ["{}", "{ \"n\": 1e400,\r\n\"é\":\"\u{fffd}😀\" }\n", ""] {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
        let (target, _) = signing_target(server.url(), NEW);
        assert_eq!(target.handle(&message(body)).await, Ok(()));
        let request = server.request();
        assert_eq!(
            verify_request(&request, NEW, ATTEMPTED_AT),
            Ok(message(body).message_id.to_owned()),
            "{body}"
        );
        assert_eq!(verify_request(&request, OLD, ATTEMPTED_AT), Err("signature"));
        let mut forged = request.clone();
        forged.body = b"{\"forged\":1}".to_vec();
        assert_eq!(verify_request(&forged, NEW, ATTEMPTED_AT), Err("signature"));
        assert_eq!(verify_request(&request, NEW, ATTEMPTED_AT + 301), Err("timestamp"));
        assert_eq!(request.header("x-tenant"), ["a"]);
    }
}

#[tokio::test]
async fn a_retry_has_the_same_id_and_its_own_timestamp() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(503, &[], "")).await;
    let (target, clock) = signing_target(server.url(), NEW);
    for _ in 0..2 {
        assert!(target.handle(&message("{}")).await.is_err());
        clock.advance(Duration::from_secs(3600));
    }
    let requests = server.requests();
    let values =
        |name: &str| requests.iter().map(|request| request.header(name).concat()).collect::<Vec<_>>();
    assert_eq!(values("webhook-id"), [message("{}").message_id; 2]);
    assert_eq!(values("webhook-timestamp"), ["1674087231", "1674090831"]);
    for (request, at) in requests.iter().zip([ATTEMPTED_AT, ATTEMPTED_AT + 3600]) {
        assert_eq!(verify_request(request, NEW, at), Ok(message("{}").message_id.to_owned()));
    }
    let signatures = values("webhook-signature");
    assert_ne!(signatures[0], signatures[1]);
}

/// Every call is valid no matter when the receiver switches from one secret to the other.
#[tokio::test]
async fn a_call_signed_with_two_secrets_is_accepted_with_either() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let (target, _) = signing_target(server.url(), &format!("{OLD} {NEW}"));
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    let request = server.request();
    for secret in [OLD, NEW] {
        assert_eq!(verify_request(&request, secret, ATTEMPTED_AT), Ok(message("{}").message_id.to_owned()));
    }
    assert_eq!(request.header("webhook-signature").concat().split(' ').count(), 2);
}

/// A producer's own id may contain periods, which separate the signed parts.
#[tokio::test]
async fn the_webhook_id_is_the_messages_uuid_even_without_an_envelope() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let form = &BodyForm::Plain { idempotency_key: Some("order.17".to_owned()) };
    let (target, _) = signing_target(server.url(), NEW);
    assert_eq!(target.handle(&Message { form, ..message("a,b") }).await, Ok(()));
    let request = server.request();
    assert_eq!(request.header("idempotency-key"), ["order.17"]);
    assert_eq!(verify_request(&request, NEW, ATTEMPTED_AT), Ok(message("").message_id.to_owned()));
}

/// The SigV4 signature of a request, parsed as AWS would parse it.
struct SigV4Signature {
    access_key: String,
    scope: [String; 4],
    signed_headers: Vec<String>,
    signature: String,
}

impl SigV4Signature {
    fn from_request(request: &Request) -> Self {
        let authorization = request.header("authorization").concat();
        let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").expect("the algorithm");
        let field = |name: &str| {
            let mut fields = fields.split(", ").filter_map(|field| field.split_once('='));
            fields.find(|(known, _)| *known == name).expect("the field").1.to_owned()
        };
        let credential = field("Credential");
        let (access_key, scope) = credential.split_once('/').unwrap();
        Self {
            access_key: access_key.to_owned(),
            scope: scope.split('/').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap(),
            signed_headers: field("SignedHeaders").split(';').map(str::to_owned).collect(),
            signature: field("Signature"),
        }
    }

    /// Returns the signature that AWS calculates: "Create a signed AWS API request", IAM User Guide.
    fn expected(&self, request: &Request, secret_key: &str, payload_hash: &str) -> String {
        let mut line = request.line.split(' ');
        let (method, target) = (line.next().unwrap(), line.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers =
            self.signed_headers.iter().map(|name| format!("{name}:{}\n", request.header(name).concat()));
        let canonical =
            [method, path, query, &headers.collect::<String>(), &self.signed_headers.join(";"), payload_hash]
                .join("\n");
        let scope = self.scope.join("/");
        let date = request.header("x-amz-date").concat();
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
        let key = self
            .scope
            .iter()
            .fold(format!("AWS4{secret_key}").into_bytes(), |key, part| hmac_sha256(&key, part.as_bytes()));
        hex(&hmac_sha256(&key, to_sign.as_bytes()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    sha2::Digest::finalize(sha2::Digest::chain_update(<sha2::Sha256 as sha2::Digest>::new(), bytes)).to_vec()
}

/// Makes a call with the role's signature for this service, and returns the received request.
async fn call_signed_with_role(service: SignedService, body: &str) -> Request {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(ATTEMPTED_AT));
    let client = harden_client(Client::builder(), LONG).build().unwrap();
    let signer =
        SigV4Signer::new(SigV4Setting::Service(service), &sdk_config_with_session_token(server.url()));
    let settings = EndpointSettings {
        url: UrlSetting::Given(TargetUrl(format!("{}/prod/hook?a=b&c=d%20e", server.url()).parse().unwrap())),
        sigv4: Some(signer),
    };
    let endpoint = Endpoint::parse(&settings, r#"{"x-api-key":"k"}"#).unwrap();
    let target = HttpTarget::with_clock(client, EndpointSource::Fixed(endpoint), clock);
    assert_eq!(target.handle(&message(body)).await, Ok(()));
    server.request()
}

/// Returns a configuration with a role's credentials.
fn sdk_config_with_session_token(url: &str) -> aws_config::SdkConfig {
    let credentials =
        aws_credential_types::Credentials::new("key", "CANARY", Some("token".to_owned()), None, "role");
    let provider = aws_credential_types::provider::SharedCredentialsProvider::new(credentials);
    crate::tests::loopback::sdk_config(url).into_builder().credentials_provider(provider).build()
}

#[tokio::test]
async fn sigv4_covers_the_body_and_the_headers_that_redeliver_sets() {
    let body = r#"{"n":1e400,"é":"😀"}"#;
    for (service, name) in [(SignedService::Lambda, "lambda"), (SignedService::ExecuteApi, "execute-api")] {
        let request = call_signed_with_role(service, body).await;
        let signature = SigV4Signature::from_request(&request);
        assert_eq!(signature.access_key, "key");
        assert_eq!(signature.scope, ["20230119", "eu-central-1", name, "aws4_request"]);
        assert_eq!(
            signature.signed_headers,
            [
                "content-type",
                "host",
                "idempotency-key",
                "x-amz-date",
                "x-amz-security-token",
                "x-redeliver-attempt"
            ]
        );
        assert_eq!(request.header("x-amz-date"), ["20230119T001351Z"]);
        assert_eq!(request.header("x-amz-security-token"), ["token"]);
        assert_eq!(request.header("x-api-key"), ["k"]);
        let payload_hash = hex(&sha256(body.as_bytes()));
        assert_eq!(signature.signature, signature.expected(&request, "CANARY", &payload_hash), "{name}");
        assert_ne!(signature.signature, signature.expected(&request, "CANARY", &hex(&sha256(b"{}"))));
    }
}

#[tokio::test]
async fn a_signature_for_vpc_lattice_does_not_cover_the_body() {
    let request = call_signed_with_role(SignedService::VpcLattice, "{}").await;
    let signature = SigV4Signature::from_request(&request);
    assert_eq!(signature.scope, ["20230119", "eu-central-1", "vpc-lattice-svcs", "aws4_request"]);
    assert_eq!(request.header("x-amz-content-sha256"), ["UNSIGNED-PAYLOAD"]);
    assert!(signature.signed_headers.contains(&"x-amz-content-sha256".to_owned()));
    assert_eq!(signature.signature, signature.expected(&request, "CANARY", "UNSIGNED-PAYLOAD"));
}

#[tokio::test]
async fn a_signed_call_does_not_follow_a_redirect() {
    let elsewhere = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let location = [("location", elsewhere.url())];
    let server = Loopback::start([ScriptedResponse::new(307, &location, "")]).await;
    let signer = SigV4Signer::new(
        SigV4Setting::Service(SignedService::Lambda),
        &sdk_config_with_session_token(server.url()),
    );
    let endpoint = Endpoint::with_role(TargetUrl(server.url().parse().unwrap()), &signer).unwrap();
    let error =
        HttpTarget::new(EndpointSource::Fixed(endpoint), None, LONG).unwrap().handle(&message("{}")).await;
    assert_eq!(error.unwrap_err().error_type, ErrorType::HttpStatus(307));
    assert_eq!((server.requests().len(), elsewhere.requests().len()), (1, 0));
}
