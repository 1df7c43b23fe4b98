//! Rotation of a key while it is in use.

use futures_util::future::join_all;

use super::*;
use crate::tests::loopback::Request;

const ARN: &str = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:s";
const AGE_MAX: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_secs(30);

fn secret_response(key: &str) -> ScriptedResponse {
    let text = format!(r#"{{\"Authorization\":\"{key}\"}}"#);
    ScriptedResponse::keep_alive(200, &[], &format!(r#"{{"SecretString":"{text}"}}"#))
}

fn repeated_call() -> Event {
    repeated_call_after_error("HttpStatus.401")
}

fn repeated_call_after_error(error_type: &str) -> Event {
    Event::RetriedImmediately {
        message_id: message("{}").message_id.to_owned(),
        retry_attempt: 3,
        error_type: error_type.to_owned(),
    }
}

fn failed_refresh(code: &str) -> Event {
    Event::HeadersNotRefreshed { code: code.to_owned() }
}

fn keys(server: &Loopback) -> Vec<String> {
    server.requests().iter().map(|request| request.header("authorization").concat()).collect()
}

/// Responds with 200 to this key, and with 401 to any other.
fn accept_only(key: &'static str) -> impl FnMut(&Request) -> ScriptedResponse + Send {
    move |request| {
        ScriptedResponse::keep_alive(
            if request.header("authorization") == [key] { 200 } else { 401 },
            &[],
            "{}",
        )
    }
}

/// A target, its key in Secrets Manager, and the client that uses both.
struct Setup {
    secrets: Loopback,
    server: Loopback,
    clock: ManualClock,
    noted: RecordingObserver,
    target: HttpTarget<ManualClock>,
}

impl Setup {
    async fn new(secrets: impl IntoIterator<Item = ScriptedResponse>, server: Loopback) -> Self {
        Self::with_servers(Loopback::start(secrets).await, server, ManualClock::default()).await
    }

    async fn with_servers(secrets: Loopback, server: Loopback, clock: ManualClock) -> Self {
        let url = UrlSetting::Given(TargetUrl(server.url().parse().unwrap()));
        Self::with_settings(EndpointSettings { url, sigv4: None }, secrets, server, clock).await
    }

    async fn with_settings(
        settings: EndpointSettings,
        secrets: Loopback,
        server: Loopback,
        clock: ManualClock,
    ) -> Self {
        let noted = RecordingObserver::default();
        let observer = Arc::new(noted.clone());
        let config = secrets.sdk_config();
        let secret =
            SecretEndpoint::read_secret(&config, ARN, settings, clock.clone(), observer).await.unwrap();
        let client = harden_client(Client::builder(), LONG).build().unwrap();
        let target = HttpTarget::with_clock(client, EndpointSource::Secret(secret), clock.clone());
        Self { secrets, server, clock, noted, target }
    }

    async fn call(&self) -> Result<(), ErrorType> {
        self.call_until(Timestamp::MAX_UTC).await
    }

    async fn call_until(&self, end: Timestamp) -> Result<(), ErrorType> {
        let message = message("{}");
        complete_soon(self.target.call_until(HttpCall { message: &message, trace: None, end }))
            .await
            .map_err(|error| error.error_type)
    }

    /// Waits until no read is in progress.
    async fn settle(&self) {
        let EndpointSource::Secret(secret) = &self.target.endpoint else { panic!("a secret") };
        complete_soon(secret.wait_until_settled()).await;
    }

    /// Ends all sleeps once `server` has received this number of requests.
    async fn end_sleeps_after_requests(&self, server: &Loopback, requests: usize) {
        server.wait_until(|server| server.requests().len() == requests).await;
        self.clock.end_sleeps();
    }
}

const REFUSED: Result<(), ErrorType> = Err(ErrorType::HttpStatus(401));

#[tokio::test]
async fn a_rotated_key_is_reloaded_without_spending_an_attempt() {
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(accept_only("new")).await,
    )
    .await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "new", "new"]);
    assert_eq!((setup.secrets.requests().len(), setup.noted.events()), (2, vec![repeated_call()]));
}

#[tokio::test]
async fn the_call_with_the_new_key_has_the_same_trace() {
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(accept_only("new")).await,
    )
    .await;
    let parent = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01";
    let attributes = Attributes::from([("traceparent".to_owned(), Attribute::string(parent))]);
    let message = Message { attributes: &attributes, ..message("{}") };
    let invocation = Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record(None),
        end: Timestamp::MAX_UTC,
    };
    assert_eq!(complete_soon(setup.target.invoke(invocation)).await, Ok(()));
    let parents: Vec<_> =
        setup.server.requests().iter().map(|request| request.header("traceparent").join("|")).collect();
    assert_eq!(parents, [parent; 2]);
}

/// If the call were repeated, the target would be called sooner than it requested.
#[tokio::test]
async fn a_refusal_with_retry_after_is_not_repeated_immediately() {
    let answer = |_: &Request| ScriptedResponse::keep_alive(403, &[("Retry-After", "60")], "{}");
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(answer).await,
    )
    .await;
    assert_eq!(setup.call().await, Err(ErrorType::HttpStatus(403)));
    assert_eq!((keys(&setup.server), setup.secrets.requests().len()), (vec!["old".to_owned()], 1));
}

/// Some gateways respond with 403 to an unknown key.
#[tokio::test]
async fn a_403_reloads_the_secret() {
    let answer = |request: &Request| {
        ScriptedResponse::keep_alive(
            if request.header("authorization") == ["new"] { 200 } else { 403 },
            &[],
            "{}",
        )
    };
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(answer).await,
    )
    .await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "new"]);
}

#[tokio::test]
async fn a_refusal_with_a_recorded_code_reloads_the_secret() {
    for status in [401, 403] {
        let answer = move |request: &Request| {
            let is_new = request.header("authorization") == ["new"];
            ScriptedResponse::keep_alive(if is_new { 200 } else { status }, &[], r#"{"code":"expired_key"}"#)
        };
        let setup = Setup::new(
            [secret_response("old"), secret_response("new")],
            Loopback::start_with_script(answer).await,
        )
        .await;
        let excerpt = crate::targets::ErrorExcerpt::parse("/code").unwrap();
        let setup = Setup { target: setup.target.with_error_excerpt(Some(excerpt)), ..setup };
        assert_eq!(setup.call().await, Ok(()));
        assert_eq!(keys(&setup.server), ["old", "new"]);
        assert_eq!(setup.noted.events(), [repeated_call_after_error(&format!("HttpStatus.{status}"))]);
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_does_not_prevent_refreshes() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(3600));
    let secrets = Loopback::start([secret_response("old"), secret_response("new")]).await;
    let setup = Setup::with_servers(secrets, server, clock).await;
    setup.clock.set_back(Duration::from_secs(600));
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "new"]);
}

#[tokio::test]
async fn ten_calls_refused_together_read_the_secret_once() {
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(accept_only("new")).await,
    )
    .await;
    let outcomes = join_all((0..10).map(|_| setup.call())).await;
    assert_eq!(outcomes, vec![Ok(()); 10]);
    let mut keys = keys(&setup.server);
    keys.sort_unstable();
    assert_eq!(keys, [["new"; 10], ["old"; 10]].concat());
    assert_eq!((setup.secrets.requests().len(), setup.noted.events()), (2, vec![repeated_call(); 10]));
}

#[tokio::test]
async fn repeated_refusals_reread_the_secret_at_most_every_30_seconds() {
    let secrets = [secret_response("old"), secret_response("old"), secret_response("new")];
    let setup = Setup::new(secrets, Loopback::start_with_script(accept_only("new")).await).await;
    assert_eq!((setup.call().await, setup.secrets.requests().len()), (REFUSED, 2));
    setup.clock.advance(PAUSE - Duration::from_millis(1));
    assert_eq!((setup.call().await, setup.secrets.requests().len()), (REFUSED, 2));
    setup.clock.advance(Duration::from_millis(1));
    assert_eq!((setup.call().await, setup.secrets.requests().len()), (Ok(()), 3));
    assert_eq!(keys(&setup.server), ["old", "old", "old", "new"]);
    assert_eq!(setup.noted.events(), [repeated_call()], "a call is only repeated with another key");
}

#[tokio::test]
async fn a_failed_refresh_keeps_the_old_key_and_is_reported_without_secrets() {
    let text =
        |text: &str| ScriptedResponse::keep_alive(200, &[], &format!(r#"{{"SecretString":"{text}"}}"#));
    let secrets = [
        secret_response("old"),
        ScriptedResponse::keep_alive(400, &[], r#"{"__type":"AccessDeniedException","Message":"CANARY"}"#),
        text("CANARY"),
        text(r#"{\"CANARY CANARY\":\"v\"}"#),
        text(r#"{\"X-Canary\":\"CANARY\\n\"}"#),
        text(r#"{\"X-Canary\":\"v\",\"x-canary\":\"v\"}"#),
        text(r#"{\"Host\":\"CANARY\"}"#),
        secret_response("new"),
    ];
    let setup = Setup::new(secrets, Loopback::start_with_script(accept_only("new")).await).await;
    let codes = ["AccessDeniedException", "NotAnObject", "NotAName", "NotAValue", "Twice", "Reserved"];
    for _ in codes {
        assert_eq!(setup.call().await, REFUSED);
        setup.clock.advance(PAUSE);
    }
    assert_eq!(setup.noted.events(), codes.map(failed_refresh));
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), [&["old"; 7][..], &["new"]].concat());
}

#[tokio::test]
async fn a_five_minute_old_key_is_refreshed_in_the_background() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let setup = Setup::new([secret_response("old"), secret_response("new")], server).await;
    setup.clock.advance(AGE_MAX - Duration::from_millis(1));
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.secrets.requests().len(), 1);
    setup.clock.advance(Duration::from_millis(1));
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "old", "new"]);
    assert_eq!((setup.secrets.requests().len(), setup.noted.events()), (2, vec![]));
}

#[tokio::test]
async fn a_hanging_refresh_delays_no_call_and_is_retried_after_30_seconds() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let setup =
        Setup::new([secret_response("old"), ScriptedResponse::hang(), secret_response("new")], server).await;
    setup.clock.advance(AGE_MAX);
    for _ in 0..3 {
        assert_eq!(setup.call().await, Ok(()));
    }
    setup.end_sleeps_after_requests(&setup.secrets, 2).await;
    setup.settle().await;
    assert_eq!(setup.noted.events(), [failed_refresh("Timeout")]);
    setup.clock.advance(PAUSE - Duration::from_millis(1));
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.secrets.requests().len(), 2);
    setup.clock.advance(Duration::from_millis(1));
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "old", "old", "old", "old", "new"]);
}

#[tokio::test]
async fn a_refresh_cut_off_by_a_freeze_is_retried_not_reported() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let setup =
        Setup::new([secret_response("old"), ScriptedResponse::hang(), secret_response("new")], server).await;
    setup.clock.advance(AGE_MAX);
    assert_eq!(setup.call().await, Ok(()));
    setup.secrets.wait_until(|secrets| secrets.requests().len() == 2).await;
    setup.clock.advance(Duration::from_secs(600));
    setup.clock.end_sleeps();
    setup.settle().await;
    assert_eq!(setup.noted.events(), []);
    assert_eq!(setup.call().await, Ok(()));
    setup.settle().await;
    assert_eq!(setup.call().await, Ok(()));
    assert_eq!(keys(&setup.server), ["old", "old", "new"]);
}

/// A secret's age is measured from the start of its read, even if a freeze delays the response.
#[tokio::test]
async fn a_secret_ages_from_the_start_of_its_read_despite_a_freeze() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let clock = ManualClock::default();
    let (mut next_keys, frozen) = (["a", "b", "c"].into_iter(), clock.clone());
    let secrets = Loopback::start_with_script(move |_| {
        let key = next_keys.next().unwrap();
        if key == "b" {
            frozen.advance(AGE_MAX);
        }
        secret_response(key)
    });
    let setup = Setup::with_servers(secrets.await, server, clock).await;
    setup.clock.advance(AGE_MAX);
    for _ in 0..3 {
        assert_eq!(setup.call().await, Ok(()));
        setup.settle().await;
    }
    assert_eq!(keys(&setup.server), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_refusal_stands_if_the_deadline_cuts_off_its_refresh_or_retry() {
    let end = Timestamp::UNIX_EPOCH + Duration::from_secs(10);
    let setup = Setup::new(
        [secret_response("old"), ScriptedResponse::hang()],
        Loopback::start_with_script(accept_only("new")).await,
    )
    .await;
    let (outcome, ()) =
        tokio::join!(setup.call_until(end), setup.end_sleeps_after_requests(&setup.secrets, 2));
    assert_eq!(outcome, REFUSED);

    let answers = [ScriptedResponse::keep_alive(401, &[], "{}"), ScriptedResponse::hang()];
    let setup =
        Setup::new([secret_response("old"), secret_response("new")], Loopback::start(answers).await).await;
    let (outcome, ()) =
        tokio::join!(setup.call_until(end), setup.end_sleeps_after_requests(&setup.server, 2));
    assert_eq!((outcome, keys(&setup.server)), (REFUSED, vec!["old".to_owned(), "new".to_owned()]));
}

#[tokio::test]
async fn at_the_deadline_no_secret_is_read_and_no_call_repeated() {
    let setup = Setup::new(
        [secret_response("old"), secret_response("new")],
        Loopback::start_with_script(accept_only("new")).await,
    )
    .await;
    assert_eq!(setup.call_until(Timestamp::UNIX_EPOCH).await, REFUSED);
    assert_eq!((setup.secrets.requests().len(), keys(&setup.server)), (1, vec!["old".to_owned()]));
}

/// Returns a response with a secret that contains a URL instead of a key.
fn url_in_secret(url: &str) -> ScriptedResponse {
    ScriptedResponse::keep_alive(200, &[], &format!(r#"{{"SecretString":"{{\":url\":\"{url}\"}}"}}"#))
}

#[tokio::test]
async fn a_rotated_url_is_reloaded_without_spending_an_attempt() {
    let server = Loopback::start_with_script(|request| {
        ScriptedResponse::keep_alive(
            if request.line.starts_with("POST /new ") { 200 } else { 403 },
            &[],
            "{}",
        )
    });
    let server = server.await;
    let secrets = ["old", "new"].map(|path| url_in_secret(&format!("{}/{path}", server.url())));
    let settings = EndpointSettings { url: UrlSetting::InSecret { allow_http: false }, sigv4: None };
    let secrets = Loopback::start(secrets).await;
    let setup = Setup::with_settings(settings, secrets, server, ManualClock::default()).await;
    assert_eq!(setup.call().await, Ok(()));
    let lines: Vec<_> = setup.server.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["POST /old HTTP/1.1", "POST /new HTTP/1.1"]);
    assert_eq!(setup.noted.events(), [repeated_call_after_error("HttpStatus.403")]);
}

/// If a rotation would leave the target without a URL, the known one is kept.
#[tokio::test]
async fn the_known_url_is_kept_if_the_secret_loses_its_url() {
    let server = Loopback::start_with_script(|_| ScriptedResponse::keep_alive(200, &[], "{}")).await;
    let secrets = Loopback::start([url_in_secret(server.url()), secret_response("key")]).await;
    let settings = EndpointSettings { url: UrlSetting::InSecret { allow_http: false }, sigv4: None };
    let setup = Setup::with_settings(settings, secrets, server, ManualClock::default()).await;
    setup.clock.advance(AGE_MAX);
    for _ in 0..2 {
        assert_eq!(setup.call().await, Ok(()));
        setup.settle().await;
    }
    assert_eq!(setup.noted.events(), [failed_refresh("NoUrl")]);
}

#[tokio::test]
async fn the_call_span_contains_nothing_from_a_secret() {
    let server = Loopback::start([ScriptedResponse::new(200, &[], "")]).await;
    let setup = Setup::new([secret_response("k")], server).await;
    let attributes = vec![("http.request.method", "POST".into())];
    let expected = CallSpan { name: "POST".into(), kind: SpanKind::Client, attributes };
    assert_eq!(setup.target.call_span(), expected);
}
