//! Tests against a scripted server that answers as S3 does.

use aws_config::{Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};
use redeliver_core::ports::{EntryError, Fault, Listing, ObjectStore as _, Page, StoredObject};

use super::client::Endpoint;
use super::*;
use crate::tests::loopback::{Answer, Loopback, REFUSED_URL, Request, sdk_config};

const KEY: &str = "team=orders/a b+'()!*&?#~-._.jsonl.gz";
const KEY_IN_PATH: &str = "team%3Dorders/a%20b%2B%27%28%29%21%2A%26%3F%23~-._.jsonl.gz";
const SHA256_OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const SHA256_OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn bucket(server: &Loopback) -> S3Bucket {
    S3Bucket::new(&server.sdk_config(), "letters")
}

fn error<T>(fault: Fault, code: &str) -> Result<T, EntryError> {
    Err(EntryError::new(fault, code))
}

/// An error of S3, whose text must not be repeated.
fn refusal(status: u16, code: &str) -> Answer {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>CANARY</Message></Error>"
    );
    Answer::new(status, &[("content-type", "application/xml")], &body)
}

fn etag(status: u16, etag: &str, body: &str) -> Answer {
    Answer::new(status, &[("etag", etag)], body)
}

/// The scope and the signed headers of a request's signature, without its day.
fn signature(request: &Request) -> String {
    let authorization = request.header("authorization").concat();
    let (key, rest) = authorization.split_once('/').unwrap();
    let (_day, rest) = rest.split_once('/').unwrap();
    let (signed, signature) = rest.split_once(", Signature=").unwrap();
    assert_eq!((key, signature.len()), ("AWS4-HMAC-SHA256 Credential=key", 64));
    signed.to_owned()
}

#[tokio::test]
async fn an_object_is_created_on_condition_that_there_is_none() {
    let server = Loopback::start([etag(200, "\"1\"", ""), etag(200, "\"1\"", "")]).await;
    assert_eq!(bucket(&server).create(KEY, b"abc".to_vec()).await, Ok(true));
    assert_eq!(bucket(&server).create("empty", Vec::new()).await, Ok(true));
    let [whole, empty] = server.requests().try_into().unwrap();
    assert_eq!(whole.line, format!("PUT /letters/{KEY_IN_PATH} HTTP/1.1"));
    assert_eq!(whole.body, b"abc");
    assert_eq!(
        whole.header_names(),
        ["authorization", "content-length", "host", "if-none-match", "x-amz-content-sha256", "x-amz-date"]
    );
    assert_eq!(whole.header("if-none-match"), ["*"]);
    assert_eq!(whole.header("x-amz-content-sha256"), [SHA256_OF_ABC]);
    let signed =
        "eu-central-1/s3/aws4_request, SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date";
    assert_eq!(signature(&whole), signed);
    // S3 refuses a write without a length, that of an empty object, too.
    assert_eq!((empty.header("content-length"), empty.body.len()), (vec!["0"], 0));
    assert_eq!(empty.header("x-amz-content-sha256"), [SHA256_OF_NOTHING]);
}

#[tokio::test]
async fn an_object_is_replaced_on_condition_of_its_version() {
    let server = Loopback::start([etag(200, "\"2\"", "")]).await;
    assert_eq!(bucket(&server).replace("causes/x.json", "\"1\"", b"abc".to_vec()).await, Ok(true));
    let request = server.request();
    assert_eq!(request.line, "PUT /letters/causes/x.json HTTP/1.1");
    assert_eq!(request.header("if-match"), ["\"1\""]);
    assert_eq!(request.header("if-none-match"), Vec::<&str>::new());
    assert_eq!(
        signature(&request),
        "eu-central-1/s3/aws4_request, SignedHeaders=host;if-match;x-amz-content-sha256;x-amz-date"
    );
}

#[tokio::test]
async fn an_object_is_read_with_its_version_or_absent() {
    let server = Loopback::start([
        etag(200, "\"1\"", "abc"),
        refusal(404, "NoSuchKey"),
        Answer::new(200, &[], "abc"),
        Answer::new(404, &[], ""),
    ])
    .await;
    let bucket = bucket(&server);
    let object = StoredObject { content: b"abc".to_vec(), version: "\"1\"".to_owned() };
    assert_eq!(bucket.read(KEY).await, Ok(Some(object)));
    assert_eq!(bucket.read(KEY).await, Ok(None));
    assert_eq!(bucket.read(KEY).await, error(Fault::NoAnswer, "UnreadableAnswer"));
    assert_eq!(bucket.read(KEY).await, error(Fault::Sender, "HTTP 404"));
    let request = &server.requests()[0];
    assert_eq!(request.line, format!("GET /letters/{KEY_IN_PATH} HTTP/1.1"));
    assert_eq!(request.header("x-amz-content-sha256"), [SHA256_OF_NOTHING]);
}

/// A refusal by S3, and its meaning to all operations.
fn refusals() -> Vec<(Answer, EntryError)> {
    let of = |status, code, fault| (refusal(status, code), EntryError::new(fault, code));
    let bare =
        |status, fault| (Answer::new(status, &[], ""), EntryError::new(fault, format!("HTTP {status}")));
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
        (Answer::new(403, &[], "<html>CANARY"), EntryError::new(Fault::Sender, "HTTP 403")),
    ]
}

#[tokio::test]
async fn what_s3_refuses_has_its_code_and_its_fault_in_every_operation() {
    let twice = || refusals().into_iter().chain(refusals()).chain(refusals()).chain(refusals());
    let server = Loopback::start(twice().map(|(answer, _)| answer)).await;
    let bucket = bucket(&server);
    for (_, expected) in refusals() {
        assert_eq!(bucket.create(KEY, Vec::new()).await, Err(expected));
    }
    for (_, expected) in refusals() {
        assert_eq!(bucket.replace(KEY, "\"1\"", Vec::new()).await, Err(expected));
    }
    for (_, expected) in refusals() {
        assert_eq!(bucket.read(KEY).await, Err(expected));
    }
    for (_, expected) in refusals() {
        assert_eq!(bucket.list(Listing::default()).await, Err(expected));
    }
}

#[tokio::test]
async fn a_condition_that_does_not_hold_is_no_error() {
    let failed = || refusal(412, "PreconditionFailed");
    let server =
        Loopback::start([failed(), failed(), refusal(404, "NoSuchKey"), refusal(404, "NoSuchKey")]).await;
    let bucket = bucket(&server);
    assert_eq!(bucket.create(KEY, Vec::new()).await, Ok(false));
    assert_eq!(bucket.replace(KEY, "\"1\"", Vec::new()).await, Ok(false));
    assert_eq!(bucket.replace(KEY, "\"1\"", Vec::new()).await, Ok(false), "the object is gone");
    assert_eq!(bucket.create(KEY, Vec::new()).await, error(Fault::Sender, "NoSuchKey"));
}

/// The write is repeated then, and its condition tells if the first one was done.
#[tokio::test]
async fn a_write_whose_answer_is_lost_may_be_done() {
    let server = Loopback::start([
        Answer::cut_off(200),
        Answer::closed(),
        Answer::cut_off(403),
        refusal(412, "PreconditionFailed"),
    ])
    .await;
    let bucket = bucket(&server);
    for _ in 0..3 {
        let lost = bucket.create(KEY, Vec::new()).await.unwrap_err();
        assert_eq!(lost, EntryError::new(Fault::NoAnswer, "Connection"));
        assert!(lost.fault.may_be_done());
    }
    assert_eq!(bucket.create(KEY, Vec::new()).await, Ok(false));
}

#[tokio::test]
async fn without_a_connection_or_credentials_nothing_is_sent() {
    let unreachable = S3Bucket::new(&sdk_config(REFUSED_URL), "letters");
    assert_eq!(unreachable.create(KEY, Vec::new()).await, error(Fault::NotSent, "Connect"));
    let server = Loopback::start([]).await;
    let mut config = server.sdk_config().into_builder();
    config.set_credentials_provider(None);
    let without = S3Bucket::new(&config.build(), "letters");
    assert_eq!(without.create(KEY, Vec::new()).await, error(Fault::Sender, "NoCredentials"));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_roles_session_token_is_sent_and_signed() {
    let server = Loopback::start([etag(200, "\"1\"", "")]).await;
    let credentials = Credentials::new("key", "secret", Some("of-the-session".to_owned()), None, "loopback");
    let config = server.sdk_config().into_builder();
    let config = config.credentials_provider(SharedCredentialsProvider::new(credentials)).build();
    assert_eq!(S3Bucket::new(&config, "letters").create(KEY, Vec::new()).await, Ok(true));
    let request = server.request();
    assert_eq!(request.header("x-amz-security-token"), ["of-the-session"]);
    assert!(signature(&request).ends_with(";x-amz-date;x-amz-security-token"));
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
    let server = Loopback::start([listed, last].map(|body| Answer::new(200, &[], body))).await;
    let bucket = bucket(&server);
    let page = bucket.list(Listing { prefix: "team=x/", ..Listing::default() }).await;
    let expected = Page {
        keys: vec!["a/<x> &'y\"".to_owned(), "a/z".to_owned()],
        folders: vec!["a/b&c/".to_owned()],
        next: Some("1ueGc/+a=".to_owned()),
    };
    assert_eq!(page, Ok(expected));
    let all = Listing { prefix: "team=x/", by_folder: true, page: Some("1ueGc/+a=") };
    assert_eq!(bucket.list(all).await, Ok(Page::default()));
    let lines: Vec<_> = server.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(
        lines,
        [
            "GET /letters/?list-type=2&prefix=team%3Dx%2F HTTP/1.1",
            "GET /letters/?list-type=2&prefix=team%3Dx%2F&continuation-token=1ueGc%2F%2Ba%3D&delimiter=%2F HTTP/1.1",
        ]
    );
}

/// An unread listing must not pass for an empty one.
#[tokio::test]
async fn a_listing_that_cannot_be_read_is_an_error() {
    let unreadable = [
        "",
        "<html>",
        "{}",
        "<Error><Code>InternalError</Code></Error>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ];
    let server = Loopback::start(unreadable.map(|body| Answer::new(200, &[], body))).await;
    for body in unreadable {
        let listed = bucket(&server).list(Listing::default()).await;
        assert_eq!(listed, error(Fault::NoAnswer, "UnreadableAnswer"), "{body}");
    }
}

/// Settings of single services, such as `AWS_ENDPOINT_URL_S3`.
#[derive(Debug)]
struct OfService(&'static str);

impl LoadServiceConfig for OfService {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        assert_eq!(key.env(), "AWS_ENDPOINT_URL");
        (key.service_id() == self.0).then(|| "http://127.0.0.1:2/own/".to_owned())
    }
}

#[test]
fn a_service_is_at_its_host_or_at_a_custom_endpoint() {
    let host = |service, region, fips, dual_stack| {
        let config = SdkConfig::builder().use_fips(fips).use_dual_stack(dual_stack).build();
        Endpoint::of(&config, service, region)
    };
    for (endpoint, expected) in [
        (host("s3", "eu-central-1", false, false), "s3.eu-central-1.amazonaws.com"),
        (host("s3", "us-east-1", true, false), "s3-fips.us-east-1.amazonaws.com"),
        (host("s3", "us-east-1", true, true), "s3-fips.dualstack.us-east-1.amazonaws.com"),
        (host("s3", "eu-central-1", false, true), "s3.dualstack.eu-central-1.amazonaws.com"),
        (host("s3", "cn-north-1", false, false), "s3.cn-north-1.amazonaws.com.cn"),
        (host("sns", "us-gov-west-1", false, true), "sns.us-gov-west-1.amazonaws.com"),
        (host("sns", "us-east-1", true, false), "sns-fips.us-east-1.amazonaws.com"),
        (host("events", "us-east-1", true, true), "events-fips.us-east-1.amazonaws.com"),
        (host("events", "cn-north-1", false, false), "events.cn-north-1.amazonaws.com.cn"),
    ] {
        assert_eq!(endpoint, Endpoint::Aws(expected.to_owned()));
    }
    for (service, id) in [("s3", "s3"), ("sns", "sns"), ("events", "eventbridge")] {
        let config = |id| {
            SdkConfig::builder().endpoint_url("http://127.0.0.1:1").service_config(OfService(id)).build()
        };
        let custom = |url: &str| Endpoint::Custom(url.to_owned());
        assert_eq!(Endpoint::of(&config(id), service, "x"), custom("http://127.0.0.1:2/own"));
        assert_eq!(Endpoint::of(&config("sqs"), service, "x"), custom("http://127.0.0.1:1"));
    }
}

#[test]
fn a_bucket_is_a_host_unless_its_name_has_a_dot_or_the_endpoint_is_custom() {
    let config = || SdkConfig::builder().region(Region::from_static("eu-central-1"));
    let url = |config, name| S3Bucket::new(&config, name).url("a=b/c");
    assert_eq!(url(config().build(), "letters"), "https://letters.s3.eu-central-1.amazonaws.com/a%3Db/c");
    assert_eq!(
        url(config().build(), "dead.letters"),
        "https://s3.eu-central-1.amazonaws.com/dead.letters/a%3Db/c"
    );
    let custom = config().endpoint_url("http://127.0.0.1:1/").build();
    assert_eq!(url(custom, "letters"), "http://127.0.0.1:1/letters/a%3Db/c");
}

#[test]
fn an_address_of_a_bucket_is_taken_apart() {
    assert_eq!(bucket_of_uri("s3://letters"), Some(("letters", "")));
    assert_eq!(bucket_of_uri("s3://letters/"), Some(("letters", "")));
    assert_eq!(bucket_of_uri("s3://letters/a/b/"), Some(("letters", "a/b/")));
    for other in ["s3://", "s3:///a", "letters", "https://letters"] {
        assert_eq!(bucket_of_uri(other), None, "{other}");
    }
}
