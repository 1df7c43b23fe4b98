//! Invalid requests, and the site as a browser sees it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use redeliver_core::message::schema::MessageSchema;
use redeliver_operator::http_server;
use redeliver_operator::queues::{AwsConnection, OneQueue};
use redeliver_operator::trace_url::TraceUrlArgs;
use redeliver_testing::loopback::Loopback;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::*;
use crate::dead_letters::snapshot::Snapshot;
use crate::deployment::{ConsoleDeployment, ConsoleFiles};
use crate::guard::{Guard, SecretToken};
use crate::session::Session;

mod cause_pages;
mod plan_pages;

/// Serves a site with one DLQ until the test ends, and stores its plans in a folder.
async fn serve_site(folder: &Path) -> SocketAddr {
    serve_site_with_snapshot(folder, None, None).await
}

/// Like [`serve_site`], but with a source queue and dead letters that have already been read.
async fn serve_site_with_snapshot(folder: &Path, to: Option<&str>, seen: Option<Snapshot>) -> SocketAddr {
    let arn = "arn:aws:sqs:eu-central-1:000000000000:orders";
    let sqs = Loopback::start_with_handler(move |request| {
        let is_dlq = request.1.contains("orders-dlq");
        let arn = if is_dlq { format!("{arn}-dlq") } else { arn.to_owned() };
        Some((200, json!({ "Attributes": { "QueueArn": arn } }).into()))
    });
    let connection =
        AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(sqs.url().to_owned()));
    let which = OneQueue::from_names(Some("http://127.0.0.1:1/0/orders-dlq".parse().unwrap()), None, None);
    let to = to.map(|to| to.parse().unwrap());
    let deployment = ConsoleDeployment::open_queues(
        which,
        to,
        connection,
        ConsoleFiles { folder, known_causes: None },
        None,
    )
    .await
    .unwrap();
    seen.into_iter().for_each(|seen| deployment.reading.last_seen.publish_result(Ok(seen)));
    serve_deployment(deployment, folder).await
}

/// Serves a deployment until the test ends, and stores its session in a folder.
async fn serve_deployment(deployment: ConsoleDeployment, folder: &Path) -> SocketAddr {
    let connection = deployment.connection.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let [path, token] = ["path", "secret"].map(SecretToken::from_text);
    let site = Site {
        guard: Guard { address, path, token, read_only: false },
        session: Session::restore_from(Some(folder), 1, "the same".to_owned()),
        deployments: vec![deployment],
        schema: MessageSchema::new(None),
        traces: TraceUrlArgs::default(),
        max_generation: 3,
        refresh_every: None,
        fleet: None,
        connection,
        switch_lock: Mutex::default(),
    };
    tokio::spawn(http_server::serve_router(listener, build_router(Arc::new(site))));
    address
}

/// Sends a request. Returns the response's status line, headers and body.
async fn send_request(address: SocketAddr, method: &str, path: &str, form: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /path{path} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n\
         cookie: redeliver_console=secret\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_owned(), headers.to_owned(), body.to_owned())
}

#[tokio::test]
async fn an_invalid_request_gets_an_error_page_with_a_link_back() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve_site(folder.path()).await;
    let look = "This address is only for a button. Opening it shows and changes nothing.";
    for (method, path, form, status, words, back) in [
        ("GET", "/0/refresh", "", "405 Method Not Allowed", look, "/0/"),
        ("GET", "/fleet", "", "405 Method Not Allowed", look, "/"),
        ("GET", "/0/plans/7/start", "", "405 Method Not Allowed", look, "/0/plans/7"),
        (
            "POST",
            "/0/letters",
            "",
            "405 Method Not Allowed",
            "This address only shows a page, so nothing was done.",
            "/0/",
        ),
        (
            "GET",
            "/0/letters?page=-1",
            "",
            "400 Bad Request",
            "The address has an invalid parameter: page: invalid digit found in string.",
            "/0/letters",
        ),
        (
            "POST",
            "/0/pause",
            "",
            "400 Bad Request",
            "The form is invalid, so nothing was done: missing field `wanted`.",
            "/0/",
        ),
        ("GET", "/%FF/letters", "", "404 Not Found", "There is no such page.", "/"),
        ("GET", "/x/", "", "404 Not Found", "There is no such page.", "/"),
        ("GET", "/0/plans/%FF", "", "404 Not Found", "There is no such page.", "/"),
    ] {
        let (found, headers, body) = send_request(address, method, path, form).await;
        assert_eq!(found, format!("HTTP/1.1 {status}"), "{method} {path}: {body}");
        assert!(headers.contains("content-type: text/html"), "{method} {path}: {headers}");
        assert!(body.contains("<nav aria-label=\"Pages\">"), "{method} {path}: {body}");
        assert!(body.contains(&format!("role=\"alert\">{words}</p>")), "{method} {path}: {body}");
        assert!(body.contains(&format!("<p><a href=\"/path{back}\">Return to ")), "{method} {path}: {body}");
    }
}

/// Without the cookie, a request only reveals that a console exists.
#[tokio::test]
async fn responses_to_strangers_contain_neither_path_nor_token() {
    let folder = tempfile::tempdir().unwrap();
    let address = serve_site(folder.path()).await;
    for head in [
        format!("GET / HTTP/1.1\r\nhost: {address}\r\n"),
        format!("GET /path/0/letters HTTP/1.1\r\nhost: {address}\r\n"),
        format!("GET /path/?token=wrong HTTP/1.1\r\nhost: {address}\r\n"),
        format!("POST /path/0/plans HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n"),
        format!("GET /path/ HTTP/1.1\r\nhost: {address}\r\nsec-fetch-site: same-site\r\n"),
        format!("DELETE /alive HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n"),
        format!("POST /alive HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n"),
        "GET /path/ HTTP/1.1\r\nhost: localhost\r\n".to_owned(),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{head}: {answer}");
        assert!(!answer.contains("/path") && !answer.contains("secret"), "{head}: {answer}");
    }
}

/// An open page switches to the restarted console, but to no other.
#[tokio::test]
async fn a_restarted_console_exchanges_a_pages_ticket_for_the_new_link() {
    let folder = tempfile::tempdir().unwrap();
    let first = serve_site(folder.path()).await;
    let (_, _, script) = send_request(first, "GET", "/console.js", "").await;
    let known = script.lines().next().unwrap().strip_prefix("const session = ").unwrap();
    let known: serde_json::Value = serde_json::from_str(known.strip_suffix(';').unwrap()).unwrap();
    let ask = async |address: SocketAddr, method: &str, ticket: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} /alive HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\ncontent-length: {}\r\n\r\n{ticket}",
            ticket.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        (head[9..12].to_owned(), answer)
    };
    let alive = json!({ "id": known["id"], "proof": null });
    assert_eq!(ask(first, "GET", "").await, ("200".to_owned(), alive));

    let second = serve_site(folder.path()).await;
    let (_, alive) = ask(second, "GET", "").await;
    assert_eq!(alive["proof"], known["proof"]);
    assert_ne!(alive["id"], known["id"]);
    let (status, renewed) = ask(second, "POST", known["ticket"].as_str().unwrap()).await;
    let link = format!("http://{second}/path/?token=secret");
    assert_eq!((status.as_str(), renewed["link"].as_str()), ("200", Some(link.as_str())));
    assert_eq!(renewed["id"], alive["id"]);
    for ticket in ["", known["proof"].as_str().unwrap(), renewed["ticket"].as_str().unwrap()] {
        assert_eq!(ask(second, "POST", ticket).await, ("401".to_owned(), json!(null)), "{ticket}");
    }
}

#[tokio::test]
async fn shutdown_waits_for_a_deployment_that_is_being_paused() {
    let site = Site {
        guard: Guard {
            address: (Ipv4Addr::LOCALHOST, 1).into(),
            path: SecretToken::from_text("path"),
            token: SecretToken::from_text("secret"),
            read_only: false,
        },
        session: Session::new(String::new()),
        deployments: Vec::new(),
        schema: MessageSchema::new(None),
        traces: TraceUrlArgs::default(),
        max_generation: 3,
        refresh_every: None,
        fleet: None,
        connection: AwsConnection::from_parts(
            None,
            Some("eu-central-1".to_owned()),
            Some("http://127.0.0.1:1".to_owned()),
        ),
        switch_lock: Mutex::default(),
    };
    let switching = site.switch_lock.lock().await;
    let mut stopping = std::pin::pin!(site.stop_work());
    assert!(futures_util::poll!(stopping.as_mut()).is_pending());
    drop(switching);
    assert!(futures_util::poll!(stopping.as_mut()).is_ready());
}

#[tokio::test]
#[cfg(unix)]
async fn irregular_plan_files_do_not_block_pages_and_a_plan_names_its_account() {
    use crate::plans::plan::{ConsolePlan, PlanAction, StartedPlan};
    use redeliver_operator::redrive::RedrivePace;
    let folder = tempfile::tempdir().unwrap();
    let to = "arn:aws:sqs:eu-central-1:999999999999:orders";
    let action = PlanAction::SendBack {
        to: to.to_owned(),
        edit: None,
        program: None,
        new_id: false,
        max_generation: 3,
    };
    let from = "arn:aws:sqs:eu-central-1:000000000000:orders-dlq";
    let plan = ConsolePlan::new(
        "2026-01-01T00:00:00Z".to_owned(),
        from,
        action,
        "all".to_owned(),
        Vec::new(),
        vec!["a".to_owned()],
    );
    let id = plan.id.clone();
    StartedPlan::new(plan, RedrivePace::default()).write_file(folder.path()).unwrap();
    redeliver_testing::planted::create_pipe(&folder.path().join("redeliver-plan-0.json"));
    let zeros = folder.path().join("redeliver-plan-1.json");
    std::os::unix::fs::symlink("/dev/zero", zeros).unwrap();
    let address = serve_site(folder.path()).await;
    let (_, _, plans) = send_request(address, "GET", "/0/plans", "").await;
    assert!(plans.contains(&id), "{plans}");
    assert!(
        plans.contains("redeliver-plan-0.json cannot be read as a plan: it is not a regular file"),
        "{plans}"
    );
    assert!(plans.contains("redeliver-plan-1.json cannot be read as a plan: it is a link"), "{plans}");
    let (_, _, page) = send_request(address, "GET", &format!("/0/plans/{id}"), "").await;
    assert!(page.contains(&format!("of <code>{from}</code> to <code>{to}</code>")), "{page}");
    let path = format!("/0/plans/{id}/start");
    let (status, _, refusal) = send_request(address, "POST", &path, "").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(refusal.contains("The source queue is unknown, so nothing can be sent back"), "{refusal}");
}

#[tokio::test]
async fn dead_letters_from_a_file_are_shown_with_one_page_per_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dead-letters.jsonl");
    let messages = [
        redeliver_testing::dead_letters::retried_record(
            "NON_RETRYABLE_ERROR",
            "HTTP 422 Unprocessable Entity",
            1,
        ),
        redeliver_testing::dead_letters::retried_record(
            "NON_RETRYABLE_ERROR",
            "HTTP 422 Unprocessable Entity",
            2,
        ),
        redeliver_testing::dead_letters::retried_record(
            "RETRY_ATTEMPT_EXCEEDED",
            "<script>alert(1)</script>",
            3,
        ),
    ];
    redeliver_dead_letters::ArchiveFile::create(&path).unwrap().write_messages(&messages).unwrap();
    let connection = AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), None);
    let deployment =
        ConsoleDeployment::from_file(&path, Default::default(), connection, folder.path()).await.unwrap();
    let address = serve_deployment(deployment, folder.path()).await;
    let shown = async |path: &str| loop {
        let (status, _, page) = send_request(address, "GET", path, "").await;
        if !page.contains("data-live") {
            return (status, page);
        }
        tokio::task::yield_now().await;
    };
    let (_, page) = shown("/0/letters").await;
    assert!(
        page.contains(
            "<p><strong>3 dead letters</strong> of 2 causes in <strong>dead-letters.jsonl</strong>. Start with the first cause."
        ),
        "{page}"
    );
    assert!(page.contains("A file can only be shown: `redeliver redrive FILE` edits its messages"), "{page}");
    let cause = page.split("causes/").nth(1).unwrap().split('"').next().unwrap();
    assert!(page.contains("<bdi>HTTP 422 Unprocessable Entity</bdi></a>"), "{page}");
    let (_, narrowed) = shown("/0/letters?q=422").await;
    assert!(narrowed.contains("<p><strong>2</strong> of 3 dead letters in"), "{narrowed}");
    assert!(
        narrowed.contains(&format!("/path/0/causes/{cause}?q=422")),
        "a filter keeps the causes: {narrowed}"
    );
    let (_, page) = shown(&format!("/0/causes/{cause}")).await;
    assert!(page.contains("<h1>HTTP 422 Unprocessable Entity</h1>"), "{page}");
    assert!(page.contains("<p><strong>2 messages</strong> from <time"), "{page}");
    assert!(page.contains("after 2 retries. Nothing for "), "{page}");
    assert!(page.contains("The newest message") && page.contains("The oldest message"), "{page}");
    assert!(!page.contains("<button>"), "a file is only shown: {page}");
    let (status, page) = shown("/0/causes/no").await;
    assert_eq!(status, "HTTP/1.1 400 Bad Request");
    assert!(page.contains("No message in the last refresh has this cause"), "{page}");
    let (status, _, _) = send_request(address, "POST", &format!("/0/causes/{cause}/note"), "note=x").await;
    assert_eq!(status, "HTTP/1.1 404 Not Found", "a file's causes cannot be marked");
}
