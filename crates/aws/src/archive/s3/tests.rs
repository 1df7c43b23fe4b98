//! Tests against local servers that respond like S3.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use aws_config::Region;
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Provided;
use aws_sdk_s3::config::{ProvideCredentials, RequestChecksumCalculation};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_types::service_config::LoadServiceConfig;

use super::*;
use crate::tests::loopback::{Loopback, REFUSED_URL, ScriptedResponse, sdk_config};

const KEY: &str = "team=orders/a b+'()!*&?#~-._.jsonl.gz";
const KEY_IN_PATH: &str = "team%3Dorders/a%20b%2B%27%28%29%21%2A%26%3F%23~-._.jsonl.gz";
const OWNER: &str = "123456789012";

fn bucket(server: &Loopback) -> S3Bucket {
    S3Bucket::new(&server.sdk_config(), "letters", Some(OWNER.parse().unwrap()))
}

fn error<T>(fault: Fault, code: &str) -> Result<T, EntryError> {
    Err(EntryError::new(fault, code))
}

/// Returns an S3 error response with a message that must not be repeated.
fn error_response(status: u16, code: &str) -> ScriptedResponse {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>CANARY</Message></Error>"
    );
    ScriptedResponse::new(status, &[("content-type", "application/xml")], &body)
}

fn response_with_etag(status: u16, etag: &str, body: &str) -> ScriptedResponse {
    ScriptedResponse::new(status, &[("etag", etag)], body)
}

#[tokio::test]
async fn an_object_is_created_conditionally_with_a_checksum_and_the_expected_owner() {
    let server =
        Loopback::start([response_with_etag(200, "\"1\"", ""), response_with_etag(200, "\"1\"", "")]).await;
    assert_eq!(bucket(&server).create_object(KEY, b"abc".to_vec()).await, Ok(true));
    assert_eq!(bucket(&server).create_object("empty", Vec::new()).await, Ok(true));
    let [full, empty] = server.requests().try_into().unwrap();
    assert_eq!(full.line, format!("PUT /letters/{KEY_IN_PATH}?x-id=PutObject HTTP/1.1"));
    assert_eq!(full.body, b"abc");
    for (header, value) in [
        ("if-none-match", "*"),
        ("x-amz-expected-bucket-owner", OWNER),
        ("x-amz-checksum-crc32", "NSRBwg=="),
        ("content-length", "3"),
    ] {
        assert_eq!(full.header(header), [value], "{header}");
    }
    // S3 rejects a write without a length, even for an empty object.
    assert_eq!((empty.header("content-length"), empty.body.len()), (vec!["0"], 0));
    assert_eq!(empty.header("x-amz-checksum-crc32"), ["AAAAAA=="]);
}

/// Starts a fake S3 bucket of this account, with Object Lock and a default retention. It stores only keys, not
/// contents.
async fn locked_bucket(owner: &'static str) -> Loopback {
    let mut keys = BTreeSet::new();
    Loopback::start_with_script(move |request| {
        let has = |name: &str| request.header_names().iter().any(|header| header.starts_with(name));
        if request.header("x-amz-expected-bucket-owner").iter().any(|expected| *expected != owner) {
            return error_response(403, "AccessDenied");
        }
        if !request.line.starts_with("PUT ") {
            return error_response(404, "NoSuchKey");
        }
        match () {
            // "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock
            // parameters"
            () if !has("content-md5") && !has("x-amz-checksum-") => error_response(400, "InvalidRequest"),
            () if has("if-none-match") && keys.contains(&request.line) => {
                error_response(412, "PreconditionFailed")
            }
            () => {
                keys.insert(request.line.clone());
                response_with_etag(200, "\"1\"", "")
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_bucket_with_object_lock_accepts_a_write_once() {
    let server = locked_bucket(OWNER).await;
    assert_eq!(bucket(&server).create_object(KEY, b"abc".to_vec()).await, Ok(true));
    assert_eq!(bucket(&server).create_object(KEY, b"abc".to_vec()).await, Ok(false));
}

#[tokio::test]
async fn a_bucket_with_object_lock_refuses_a_write_without_a_checksum() {
    let server = locked_bucket(OWNER).await;
    let config = server.sdk_config().into_builder();
    let config = config.request_checksum_calculation(RequestChecksumCalculation::WhenRequired).build();
    let without = S3Bucket::new(&config, "letters", None);
    assert_eq!(without.create_object(KEY, b"abc".to_vec()).await, error(Fault::Sender, "InvalidRequest"));
}

#[tokio::test]
async fn another_accounts_bucket_is_neither_read_nor_written() {
    let server = locked_bucket("999999999999").await;
    let denied = EntryError::new(Fault::Sender, "AccessDenied");
    assert_eq!(bucket(&server).create_object(KEY, b"abc".to_vec()).await, Err(denied.clone()));
    assert_eq!(bucket(&server).read_object(KEY).await, Err(denied.clone()));
    assert_eq!(bucket(&server).list_keys(Listing::default()).await, Err(denied));
    let any_owner = S3Bucket::new(&server.sdk_config(), "letters", None);
    assert_eq!(any_owner.create_object(KEY, b"abc".to_vec()).await, Ok(true));
}

#[test]
fn an_account_id_has_12_digits() {
    for id in [OWNER, "000000000001"] {
        assert_eq!(id.parse::<AccountId>().map(|account| account.to_string()), Ok(id.to_owned()));
    }
    for other in ["", "12345678901", "1234567890123", "12345678901x", " 123456789012"] {
        assert_eq!(other.parse::<AccountId>(), Err(AccountIdError), "{other}");
    }
}

#[tokio::test]
async fn a_read_returns_the_object_or_none() {
    let server = Loopback::start([
        response_with_etag(200, "\"1\"", "abc"),
        error_response(404, "NoSuchKey"),
        ScriptedResponse::cut_off(200),
        ScriptedResponse::new(404, &[], "<html>"),
    ])
    .await;
    let bucket = bucket(&server);
    assert_eq!(bucket.read_object(KEY).await, Ok(Some(b"abc".to_vec())));
    assert_eq!(bucket.read_object(KEY).await, Ok(None));
    assert_eq!(bucket.read_object(KEY).await, error(Fault::NoAnswer, "Connection"));
    assert_eq!(bucket.read_object(KEY).await, error(Fault::Sender, "HTTP 404"));
    let request = &server.requests()[0];
    assert_eq!(request.line, format!("GET /letters/{KEY_IN_PATH}?x-id=GetObject HTTP/1.1"));
    assert_eq!(request.header("x-amz-expected-bucket-owner"), [OWNER]);
}

/// Returns error responses from S3, with the error that every operation returns for each.
fn error_responses() -> Vec<(ScriptedResponse, EntryError)> {
    let of = |status, code, fault| (error_response(status, code), EntryError::new(fault, code));
    let bare = |status, fault| {
        (ScriptedResponse::new(status, &[], ""), EntryError::new(fault, format!("HTTP {status}")))
    };
    vec![
        of(301, "PermanentRedirect", Fault::Sender),
        bare(301, Fault::Sender),
        of(307, "TemporaryRedirect", Fault::Sender),
        of(400, "AuthorizationHeaderMalformed", Fault::Sender),
        of(403, "AccessDenied", Fault::Sender),
        bare(403, Fault::Sender),
        of(404, "NoSuchBucket", Fault::Sender),
        of(409, "ConditionalRequestConflict", Fault::Throttled),
        bare(409, Fault::Throttled),
        of(500, "InternalError", Fault::Service),
        of(503, "SlowDown", Fault::Throttled),
        bare(503, Fault::Throttled),
        (ScriptedResponse::new(403, &[], "<html>CANARY"), EntryError::new(Fault::Sender, "HTTP 403")),
    ]
}

#[tokio::test]
async fn every_operation_reports_an_s3_errors_code_and_fault() {
    let thrice = || error_responses().into_iter().chain(error_responses()).chain(error_responses());
    let server = Loopback::start(thrice().map(|(answer, _)| answer)).await;
    let bucket = bucket(&server);
    for (_, expected) in error_responses() {
        assert_eq!(bucket.create_object(KEY, Vec::new()).await, Err(expected));
    }
    for (_, expected) in error_responses() {
        assert_eq!(bucket.read_object(KEY).await, Err(expected));
    }
    for (_, expected) in error_responses() {
        assert_eq!(bucket.list_keys(Listing::default()).await, Err(expected));
    }
}

/// The write is repeated, and its condition then shows whether the first write succeeded.
#[tokio::test]
async fn a_write_with_a_lost_response_may_have_succeeded() {
    let server = Loopback::start([
        ScriptedResponse::cut_off(200),
        ScriptedResponse::closed(),
        ScriptedResponse::cut_off(403),
        error_response(412, "PreconditionFailed"),
    ])
    .await;
    let bucket = bucket(&server);
    for _ in 0..3 {
        let lost = bucket.create_object(KEY, Vec::new()).await.unwrap_err();
        assert_eq!(lost.fault, Fault::NoAnswer, "{lost}");
        assert!(lost.fault.may_have_succeeded());
    }
    assert_eq!(bucket.create_object(KEY, Vec::new()).await, Ok(false));
}

/// The credentials provider of a function without a role.
#[derive(Debug)]
struct NoCredentials;

impl ProvideCredentials for NoCredentials {
    fn provide_credentials<'a>(&'a self) -> Provided<'a>
    where
        Self: 'a,
    {
        Provided::ready(Err(CredentialsError::not_loaded("no role")))
    }
}

fn bucket_with_credentials(server: &Loopback, provider: impl ProvideCredentials + 'static) -> S3Bucket {
    let config = server.sdk_config().into_builder();
    let config = config.credentials_provider(SharedCredentialsProvider::new(provider)).build();
    S3Bucket::new(&config, "letters", None)
}

#[tokio::test]
async fn no_request_is_sent_without_a_connection_or_credentials() {
    let unreachable = S3Bucket::new(&sdk_config(REFUSED_URL), "letters", None);
    assert_eq!(unreachable.create_object(KEY, Vec::new()).await, error(Fault::NotSent, "Connect"));
    let server = Loopback::start([]).await;
    let without = bucket_with_credentials(&server, NoCredentials);
    assert_eq!(without.create_object(KEY, Vec::new()).await, error(Fault::Sender, "NoCredentials"));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_roles_session_token_is_sent() {
    let server = Loopback::start([response_with_etag(200, "\"1\"", "")]).await;
    let credentials = Credentials::new("key", "secret", Some("of-the-session".to_owned()), None, "loopback");
    assert_eq!(bucket_with_credentials(&server, credentials).create_object(KEY, Vec::new()).await, Ok(true));
    assert_eq!(server.request().header("x-amz-security-token"), ["of-the-session"]);
}

#[tokio::test]
async fn a_page_of_keys_and_folders_is_listed() {
    let listed = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>letters</Name><Prefix>a/</Prefix>
<NextContinuationToken>1ueGc/+a=</NextContinuationToken><KeyCount>3</KeyCount><IsTruncated>true</IsTruncated>
<Contents><Key>a/&lt;x&gt; &amp;&#39;y&quot;</Key><ETag>&quot;1&quot;</ETag><Size>1</Size></Contents>
<Contents><Key>a/z</Key><Size>1</Size></Contents>
<CommonPrefixes><Prefix>a/b&amp;c/</Prefix></CommonPrefixes></ListBucketResult>"#;
    let last = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    let server = Loopback::start([listed, last].map(|body| ScriptedResponse::new(200, &[], body))).await;
    let bucket = bucket(&server);
    let page = bucket.list_keys(Listing { prefix: "team=x/", ..Listing::default() }).await;
    let expected = ListingPage {
        keys: vec!["a/<x> &'y\"".to_owned(), "a/z".to_owned()],
        folders: vec!["a/b&c/".to_owned()],
        next: Some("1ueGc/+a=".to_owned()),
    };
    assert_eq!(page, Ok(expected));
    let all = Listing { prefix: "team=x/", by_folder: true, page: Some("1ueGc/+a=") };
    assert_eq!(bucket.list_keys(all).await, Ok(ListingPage::default()));
    let lines: Vec<_> = server.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(
        lines,
        [
            "GET /letters/?list-type=2&prefix=team%3Dx%2F HTTP/1.1",
            "GET /letters/?list-type=2&delimiter=%2F&prefix=team%3Dx%2F&continuation-token=1ueGc%2F%2Ba%3D HTTP/1.1",
        ]
    );
}

/// An unreadable listing must not be mistaken for an empty one.
#[tokio::test]
async fn an_unreadable_listing_is_an_error() {
    let unreadable = [
        "",
        "<html>",
        "{}",
        "<Error><Code>InternalError</Code></Error>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ];
    let server = Loopback::start(unreadable.map(|body| ScriptedResponse::new(200, &[], body))).await;
    for body in unreadable {
        let listed = bucket(&server).list_keys(Listing::default()).await;
        assert_eq!(listed.map_err(|error| error.fault), Err(Fault::NoAnswer), "{body}");
    }
}

/// A connector that records the URIs of requests without sending them.
#[derive(Clone, Debug, Default)]
struct UriRecorder(Arc<Mutex<Vec<String>>>);

impl HttpConnector for UriRecorder {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.0.lock().unwrap().push(request.uri().to_owned());
        HttpConnectorFuture::ready(Err(ConnectorError::io("not sent".into())))
    }
}

/// The endpoint setting for a single service, such as `AWS_ENDPOINT_URL_S3`.
#[derive(Debug)]
struct ServiceEndpoint(&'static str);

impl LoadServiceConfig for ServiceEndpoint {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        (key.env() == "AWS_ENDPOINT_URL" && key.service_id() == self.0)
            .then(|| "http://localhost:2/own/".to_owned())
    }
}

/// Returns the URI of an object in the bucket.
async fn uri(config: aws_types::sdk_config::Builder, bucket: &str) -> String {
    let uris = UriRecorder::default();
    let connector = SharedHttpConnector::new(uris.clone());
    let config = config
        .behavior_version(aws_config::BehaviorVersion::latest())
        .credentials_provider(SharedCredentialsProvider::new(Credentials::new(
            "key", "secret", None, None, "test",
        )))
        .http_client(http_client_fn(move |_, _| connector.clone()));
    S3Bucket::new(&config.build(), bucket, None).create_object("a=b/c", Vec::new()).await.unwrap_err();
    let uris = uris.0.lock().unwrap();
    assert_eq!(uris.len(), 1);
    uris[0].trim_end_matches("?x-id=PutObject").to_owned()
}

#[tokio::test]
async fn a_buckets_host_matches_its_partition() {
    for (region, fips, dual_stack, host) in [
        ("eu-central-1", false, false, "letters.s3.eu-central-1.amazonaws.com"),
        ("us-east-1", true, false, "letters.s3-fips.us-east-1.amazonaws.com"),
        ("us-east-1", true, true, "letters.s3-fips.dualstack.us-east-1.amazonaws.com"),
        ("eu-central-1", false, true, "letters.s3.dualstack.eu-central-1.amazonaws.com"),
        ("cn-north-1", false, false, "letters.s3.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", true, false, "letters.s3-fips.us-gov-west-1.amazonaws.com"),
        ("us-iso-east-1", false, false, "letters.s3.us-iso-east-1.c2s.ic.gov"),
        ("eusc-de-east-1", false, false, "letters.s3.eusc-de-east-1.amazonaws.eu"),
    ] {
        let config = SdkConfig::builder().region(Region::from_static(region));
        let config = config.use_fips(fips).use_dual_stack(dual_stack);
        assert_eq!(uri(config, "letters").await, format!("https://{host}/a%3Db/c"));
    }
    let dotted = SdkConfig::builder().region(Region::from_static("eu-central-1"));
    assert_eq!(
        uri(dotted, "dead.letters").await,
        "https://s3.eu-central-1.amazonaws.com/dead.letters/a%3Db/c"
    );
}

#[tokio::test]
async fn a_custom_endpoint_has_the_bucket_in_the_path() {
    let config = || SdkConfig::builder().region(Region::from_static("eu-central-1"));
    let custom = config().endpoint_url("http://localhost:1/");
    assert_eq!(uri(custom, "letters").await, "http://localhost:1/letters/a%3Db/c");
    let for_s3 = config().service_config(ServiceEndpoint("S3"));
    assert_eq!(uri(for_s3, "letters").await, "http://localhost:2/own/letters/a%3Db/c");
    let for_sqs = config().service_config(ServiceEndpoint("SQS"));
    assert_eq!(uri(for_sqs, "letters").await, "https://letters.s3.eu-central-1.amazonaws.com/a%3Db/c");
}

#[test]
fn an_s3_uri_is_split_into_bucket_and_prefix() {
    assert_eq!(parse_s3_uri("s3://letters"), Some(("letters", "")));
    assert_eq!(parse_s3_uri("s3://letters/"), Some(("letters", "")));
    assert_eq!(parse_s3_uri("s3://letters/a/b/"), Some(("letters", "a/b/")));
    for other in ["s3://", "s3:///a", "letters", "https://letters"] {
        assert_eq!(parse_s3_uri(other), None, "{other}");
    }
}
