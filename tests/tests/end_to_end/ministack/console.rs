//! `redeliver console` with the real program: access control, and the error messages on its pages.

mod browser;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use axum::Router;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{PATIENCE, debug_binary};
use redeliver_tests::sqs::{REGION, unique_name};
use redeliver_tests::topology::TestTopology;
use redeliver_tests::wire::serve_router;
use reqwest::header::{COOKIE, HOST, HeaderName, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::id;

const HOSTILE: [&str; 3] = [
    "<script>alert('run')</script>",
    "\u{202e}turned\u{202c} \u{9b}31m",
    "'\"><img src=x onerror=alert('run')>",
];

/// Includes CloudWatch and Lambda, which the pages also query.
static EMULATOR: LazyLock<Ministack> = LazyLock::new(Ministack::with_all_services);

/// Creates the queues for a test.
async fn console_topology() -> TestTopology {
    TestTopology::create(&EMULATOR.endpoint_url(), "orders").await
}

/// The number of the message that has SQS's maximum size.
const LARGE_MESSAGE: u32 = 900;

fn text_attribute(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
}

/// Returns the body and the error type of the n-th dead letter.
fn dead_letter(n: u32) -> (String, Option<&'static str>) {
    let note = HOSTILE[n as usize % HOSTILE.len()];
    let ours = |n: u32| {
        json!({"metadata": {"message_id": id(n), "retry_attempt": 2}, "data": {"n": n, "currency": "eur", "note": note}})
            .to_string()
    };
    match n {
        LARGE_MESSAGE => {
            let body = ours(n);
            (body.replace("eur", &"x".repeat(1_048_576 - 200 - body.len())), Some("NON_RETRYABLE_ERROR"))
        }
        _ if n.is_multiple_of(10) => (format!("no JSON {note} {n}"), None),
        _ if n % 10 < 6 => (ours(n), Some("RETRY_ATTEMPT_EXCEEDED")),
        _ if n % 10 < 9 => (ours(n), Some("NON_RETRYABLE_ERROR")),
        _ => (ours(n), Some("MESSAGE_EXPIRED")),
    }
}

/// Sends these dead letters to the final DLQ and returns their SQS message ids by number.
async fn fill_dlq(topology: &TestTopology, numbers: &[u32]) -> BTreeMap<u32, String> {
    let mut ids = BTreeMap::new();
    for batch in numbers.chunks(10) {
        let entries = batch.iter().map(|n| {
            let (body, error_type) = dead_letter(*n);
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body);
            let entry = match error_type {
                Some(error_type) => {
                    entry.message_attributes("ErrorType", text_attribute(error_type)).message_attributes(
                        "ErrorDetails",
                        text_attribute("HTTP 503 <b>Service</b> Unavailable"),
                    )
                }
                None => entry,
            };
            entry.build().unwrap()
        });
        let request = topology.client.send_message_batch().queue_url(&topology.final_dlq.url);
        let sent = request.set_entries(Some(entries.collect())).send().await.unwrap();
        assert!(sent.failed.is_empty(), "{:?}", sent.failed);
        ids.extend(sent.successful.into_iter().map(|sent| (sent.id.parse().unwrap(), sent.message_id)));
    }
    ids
}

/// A running console.
struct RunningConsole {
    process: Child,
    link: String,
    folder: PathBuf,
}

impl RunningConsole {
    async fn start(topology: &TestTopology, folder: &Path, more: &[&str]) -> Self {
        let queues = ["--queue", &topology.final_dlq.url, "--to", &topology.source.url];
        Self::start_on(&EMULATOR.endpoint_url(), folder, &[&queues[..], more].concat()).await
    }

    async fn start_on(endpoint_url: &str, folder: &Path, more: &[&str]) -> Self {
        let mut process = Self::command(endpoint_url, folder, more).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let link = lines.next_line().await.unwrap().expect("the console prints its link");
        Self { process, link, folder: folder.to_owned() }
    }

    fn command(endpoint_url: &str, folder: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(debug_binary("redeliver"));
        command.args(["console", "--endpoint-url", endpoint_url, "--region", REGION]);
        command.arg("--folder").arg(folder).args(more);
        command.env_clear().env("XDG_RUNTIME_DIR", folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.link.split_once("/?").unwrap().0)
    }

    fn origin(&self) -> String {
        reqwest::Url::parse(&self.link).unwrap().origin().ascii_serialization()
    }

    fn allocated_kibibytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap())).unwrap();
        let allocated = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        allocated.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

/// Creates a new folder for plans, journals and backups.
fn new_folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("console"));
    let _of_an_earlier_run = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A client that sends only the given headers, unlike a browser.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    async fn sign_in(console: &RunningConsole) -> Self {
        let client = Client::builder().redirect(Policy::none()).build().unwrap();
        let entered = client.get(&console.link).send().await.unwrap();
        let start_page = entered.headers()[LOCATION].to_str().unwrap();
        assert_eq!((entered.status(), start_page.len()), (StatusCode::SEE_OTHER, "//".len() + 64));
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with(&format!("; Path={start_page}; HttpOnly; SameSite=Strict")), "{cookie}");
        Self { client, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    async fn send_request(
        &self,
        method: Method,
        url: String,
        headers: &[(HeaderName, &str)],
    ) -> (StatusCode, String) {
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let response = request.send().await.unwrap();
        let headers = response.headers();
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["referrer-policy"], "same-origin");
        let policy = headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
        (response.status(), response.text().await.unwrap())
    }
}

#[tokio::test]
async fn a_console_serves_and_obeys_only_its_owner() {
    let topology = console_topology().await;
    fill_dlq(&topology, &[1]).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;
    let visitor = Visitor::sign_in(&console).await;
    let cookie = (COOKIE, visitor.cookie.as_str());
    let origin = console.origin();
    let own = (ORIGIN, origin.as_str());
    let page = || console.url("/0/letters");
    let plans = || console.url("/0/plans");
    let look = || console.url("/0/refresh");

    let (status, _) = visitor.send_request(Method::GET, page(), std::slice::from_ref(&cookie)).await;
    assert_eq!(status, StatusCode::OK);
    for (method, url, headers, expected, words) in [
        (Method::GET, page(), vec![], StatusCode::UNAUTHORIZED, "the link with its token"),
        (
            Method::GET,
            format!("{origin}/0/letters"),
            vec![cookie.clone()],
            StatusCode::UNAUTHORIZED,
            "the link with its token",
        ),
        (
            Method::GET,
            page(),
            vec![cookie.clone(), (HeaderName::from_static("sec-fetch-site"), "same-site")],
            StatusCode::FORBIDDEN,
            "into the browser's address bar",
        ),
        (
            Method::GET,
            console.url("/console.js"),
            vec![],
            StatusCode::UNAUTHORIZED,
            "the link with its token",
        ),
        (
            Method::GET,
            format!("{}?token=wrong", page()),
            vec![],
            StatusCode::UNAUTHORIZED,
            "the link with its token",
        ),
        (
            Method::GET,
            page(),
            vec![cookie.clone(), (HOST, "rebound.example.com")],
            StatusCode::MISDIRECTED_REQUEST,
            "responds only at the address",
        ),
        (Method::POST, look(), vec![cookie.clone()], StatusCode::FORBIDDEN, "nothing was changed"),
        (
            Method::POST,
            plans(),
            vec![cookie.clone(), (ORIGIN, "https://example.com")],
            StatusCode::FORBIDDEN,
            "nothing was changed",
        ),
        (Method::POST, plans(), vec![own.clone()], StatusCode::UNAUTHORIZED, "the link with its token"),
        (Method::GET, console.url("/9/"), vec![cookie.clone()], StatusCode::NOT_FOUND, "no such deployment"),
        (
            Method::GET,
            console.url("/0/letters/nobody"),
            vec![cookie.clone()],
            StatusCode::NOT_FOUND,
            "refresh",
        ),
        (
            Method::GET,
            console.url("/0/plans/nobody"),
            vec![cookie.clone()],
            StatusCode::BAD_REQUEST,
            "create it again",
        ),
        (Method::GET, console.url("/nowhere"), vec![cookie.clone()], StatusCode::NOT_FOUND, "no such page"),
    ] {
        // The letters are read in the background.
        while visitor
            .send_request(Method::GET, page(), std::slice::from_ref(&cookie))
            .await
            .1
            .contains("letters/live")
        {
            sleep(Duration::from_millis(50)).await;
        }
        let (status, text) = visitor.send_request(method, url.clone(), &headers).await;
        assert_eq!(status, expected, "{url} {headers:?}: {text}");
        assert!(text.contains(words), "{url} {headers:?}: {text}");
        assert!(!text.contains(&id(1)), "{url} {headers:?}: {text}");
    }
    assert_eq!(topology.source.message_counts(&topology.client).await, [0, 0, 0]);
}

#[tokio::test]
async fn a_terminated_console_returns_the_messages_it_was_reading() {
    let topology = console_topology().await;
    fill_dlq(&topology, &(0..500).collect::<Vec<_>>()).await;
    let mut console = RunningConsole::start(&topology, &new_folder(), &[]).await;
    let visitor = Visitor::sign_in(&console).await;
    let cookie = (COOKIE, visitor.cookie.as_str());
    let _looks = visitor.send_request(Method::GET, console.url("/0/letters"), &[cookie]).await;
    while topology.final_dlq.message_counts(&topology.client).await[1] == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    let pid = console.process.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    let ended = timeout(PATIENCE, console.process.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(130));
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [500, 0, 0]);
}

/// The limit is the size documented in docs/console.md, with a margin for other allocators. The program's code does not
/// count: the operating system decides how much of it is in memory.
#[tokio::test]
async fn a_console_with_ten_thousand_dead_letters_uses_40_mebibytes_at_most() {
    const COUNT: u32 = 10_000;
    let topology = console_topology().await;
    fill_dlq(&topology, &(0..COUNT).filter(|n| *n != LARGE_MESSAGE).collect::<Vec<_>>()).await;
    fill_dlq(&topology, &[LARGE_MESSAGE]).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;
    let visitor = Visitor::sign_in(&console).await;
    let cookie = (COOKIE, visitor.cookie.as_str());
    let mut most = 0;
    let mut page = async |path: &str| {
        let page =
            visitor.send_request(Method::GET, console.url(path), std::slice::from_ref(&cookie)).await.1;
        most = most.max(console.allocated_kibibytes());
        page
    };
    let looked = async {
        while !page("/0/letters").await.contains("<h2>10,000 messages") {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, looked).await.expect("the console reads all of them");
    assert!(page("/0/letters?q=turned&type=MESSAGE_EXPIRED").await.contains("<h2>333 messages"));
    assert!(page("/0/letters?where=.body.data%3F.n%20%3D%3D%209999").await.contains("<h2>1 message<"));
    assert!((1..40 * 1024).contains(&most), "{most} KiB");
}

/// Returns the error message on the dead letters page.
async fn page_alert(console: &RunningConsole) -> String {
    let visitor = Visitor::sign_in(console).await;
    let cookie = (COOKIE, visitor.cookie.as_str());
    let alert = async {
        loop {
            let url = console.url("/0/letters");
            let (status, text) = visitor.send_request(Method::GET, url, std::slice::from_ref(&cookie)).await;
            assert_eq!(status, StatusCode::OK);
            if let Some((_, rest)) = text.split_once("role=\"alert\">") {
                return rest.split('<').next().unwrap().to_owned();
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, alert).await.unwrap()
}

#[tokio::test]
async fn a_console_page_reports_a_deleted_queue_in_a_sentence() {
    let topology = console_topology().await;
    fill_dlq(&topology, &[1]).await;
    let console = RunningConsole::start(&topology, &new_folder(), &[]).await;
    topology.client.delete_queue().queue_url(&topology.final_dlq.url).send().await.unwrap();
    let alert = page_alert(&console).await;
    assert!(alert.contains("check the queue, the region, the account"), "{alert}");
}

#[tokio::test]
async fn a_console_page_reports_expired_credentials_and_throttling() {
    for (status, code, expected) in [
        (403, "ExpiredTokenException", "the AWS credentials have expired"),
        (400, "ThrottlingException", "check the queue, the region, the account"),
    ] {
        // The console opens both queues on startup; after that, every request fails.
        let answers = Arc::new(AtomicU32::new(0));
        let answer = async move || match answers.fetch_add(1, Ordering::Relaxed) {
            0 => (StatusCode::OK, queue_attributes("orders-final-dlq")),
            1 => (StatusCode::OK, queue_attributes("orders")),
            _ => (
                StatusCode::from_u16(status).unwrap(),
                json!({ "__type": code, "message": code }).to_string(),
            ),
        };
        let (address, _serving) = serve_router(Router::new().fallback(answer)).await;
        let endpoint = format!("http://{address}");
        let urls = ["orders-final-dlq", "orders"].map(|name| format!("{endpoint}/000000000000/{name}"));
        let more = ["--queue", &urls[0], "--to", &urls[1]];
        let console = RunningConsole::start_on(&endpoint, &new_folder(), &more).await;
        let alert = page_alert(&console).await;
        assert!(alert.contains(code) && alert.contains(expected), "{alert}");
    }
}

fn queue_attributes(name: &str) -> String {
    json!({ "Attributes": { "QueueArn": format!("arn:aws:sqs:{REGION}:000000000000:{name}") } }).to_string()
}
