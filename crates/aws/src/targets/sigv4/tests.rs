use std::time::Duration;

use reqwest::Method;

use super::*;

/// Returns 30 August 2015, 12:36 UTC.
fn suite_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160)
}

fn suite_credentials(token: Option<&str>) -> Credentials {
    const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    Credentials::new("AKIDEXAMPLE", SECRET_KEY, token.map(str::to_owned), None, "suite")
}

fn signed_request(mut request: Request, token: Option<&str>) -> Request {
    let credentials = suite_credentials(token);
    add_signature(&mut request, "service", "us-east-1", credentials, suite_time(), true).unwrap();
    request
}

fn authorization(request: &Request) -> &str {
    request.headers()["authorization"].to_str().unwrap()
}

/// The vectors are from AWS's "Signature Version 4 test suite": `post-vanilla` and `get-vanilla-with-session-token`.
#[test]
fn signatures_match_the_aws_test_suite() {
    let url = || "https://example.amazonaws.com/".parse().unwrap();
    assert_eq!(
        authorization(&signed_request(Request::new(Method::POST, url()), None)),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
         SignedHeaders=host;x-amz-date, \
         Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    );
    let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    let request = signed_request(Request::new(Method::GET, url()), Some(token));
    assert_eq!(
        authorization(&request),
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
         SignedHeaders=host;x-amz-date;x-amz-security-token, \
         Signature=07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"
    );
    assert_eq!(request.headers()["x-amz-date"], "20150830T123600Z");
    assert_eq!(request.headers()["x-amz-security-token"], token);
}

#[test]
fn the_service_and_region_are_parsed_from_an_aws_host() {
    use SignedService::{ExecuteApi, Lambda, VpcLattice};
    for (host, service) in [
        ("abcdef.lambda-url.eu-west-1.on.aws", Some((Lambda, "eu-west-1"))),
        ("a1b2c3.execute-api.us-gov-west-1.amazonaws.com", Some((ExecuteApi, "us-gov-west-1"))),
        ("a1b2c3-vpce-0123.execute-api.eu-west-1.amazonaws.com", Some((ExecuteApi, "eu-west-1"))),
        ("a1b2c3.execute-api.cn-north-1.amazonaws.com.cn", Some((ExecuteApi, "cn-north-1"))),
        ("orders-0123.7d67968.vpc-lattice-svcs.us-west-2.on.aws", Some((VpcLattice, "us-west-2"))),
        ("orders.example.com", None),
        ("127.0.0.1", None),
        ("abcdef.lambda-url.eu-west-1.on.aws.example.com", None),
        ("execute-api.eu-west-1.amazonaws.com", None),
        ("a.execute-api.eu-west-1.amazonaws.com.evil", None),
        ("sqs.eu-west-1.amazonaws.com", None),
    ] {
        assert_eq!(parse_aws_host(host), service, "{host}");
    }
}

#[test]
fn a_setting_that_does_not_match_the_host_is_refused() {
    let service = |setting: &str, url: &str| {
        let url = url.parse().unwrap();
        setting
            .parse::<SigV4Setting>()?
            .resolve_service(&url)
            .map(|(service, region)| (service, region.map(str::to_owned)))
    };
    const API: &str = "https://a1b2c3.execute-api.eu-west-1.amazonaws.com/prod/hook";
    const OWN: &str = "https://orders.example.com/hook";
    let api = Ok((SignedService::ExecuteApi, Some("eu-west-1".to_owned())));
    assert_eq!(service("auto", API), api);
    assert_eq!(service("execute-api", API), api);
    assert_eq!(service("lambda", API), Err(SigV4Error::OtherService));
    assert_eq!(service("vpc-lattice-svcs", OWN), Ok((SignedService::VpcLattice, None)));
    assert_eq!(service("auto", OWN), Err(SigV4Error::UnknownHost));
    for unknown in ["true", "Auto", "sqs", "execute-api "] {
        assert_eq!(service(unknown, API), Err(SigV4Error::UnknownSetting), "{unknown}");
    }
}

#[tokio::test]
async fn missing_credentials_are_a_transient_error() {
    let signature = SigV4 {
        service: SignedService::Lambda,
        region: "eu-west-1".to_owned(),
        credentials: Arc::new(RoleCredentials::new(None)),
    };
    let mut request = Request::new(Method::POST, "https://example.com/".parse().unwrap());
    let error = signature.sign_request(&mut request, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert_eq!(error, HandlerError::transient("Http.NoCredentials", "no credentials to sign the call with"));
    assert!(request.headers().is_empty());
}

#[test]
fn debug_output_shows_no_credentials() {
    let signer = SigV4Signer {
        setting: SigV4Setting::ByHost,
        region: None,
        credentials: Arc::new(RoleCredentials::new(None)),
    };
    assert_eq!(format!("{signer:?}"), "SigV4Signer { setting: ByHost, .. }");
    assert_eq!(signer.for_url(&"https://example.com/".parse().unwrap()).err(), Some(SigV4Error::UnknownHost));
}

/// A target can be in a different region from the program.
#[test]
fn the_region_is_taken_from_the_host_or_from_the_program() {
    let signer = |region: Option<&'static str>, setting| {
        let config = SdkConfig::builder().region(region.map(aws_config::Region::from_static)).build();
        SigV4Signer::new(setting, &config)
    };
    let (host, own) = ("https://ab.lambda-url.eu-west-1.on.aws/", "https://orders.example.com/");
    let region = |signer: SigV4Signer, url: &str| {
        signer.for_url(&url.parse().unwrap()).map(|signature| signature.region)
    };
    let service = SigV4Setting::Service(SignedService::ExecuteApi);
    assert_eq!(region(signer(Some("us-east-1"), SigV4Setting::ByHost), host).as_deref(), Ok("eu-west-1"));
    assert_eq!(region(signer(None, SigV4Setting::ByHost), host).as_deref(), Ok("eu-west-1"));
    assert_eq!(region(signer(Some("us-east-1"), service), own).as_deref(), Ok("us-east-1"));
    assert_eq!(region(signer(None, service), own), Err(SigV4Error::NoRegion));
}
