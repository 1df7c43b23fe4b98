//! A console whose session expires while it is open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use chrono::SecondsFormat;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

use crate::stub::{PAST_MILLISECONDS, PortalStub};
use crate::{CORP, Home, IN_2020};

/// A running console, and the cookie that it set when its link was opened.
struct ConsoleProcess {
    process: Child,
    address: String,
    path: String,
    cookie: String,
}

impl ConsoleProcess {
    fn start(home: &Home, stub: &PortalStub) -> Self {
        let queue = format!("{}/123456789012/orders", stub.url);
        let folder = home.0.path().to_str().expect("UTF-8");
        let arguments =
            ["console", "--queue", &queue, "--profile", "corp", "--port", "0", "--folder", folder];
        let mut process = home
            .command(stub, &arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut link = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut link).expect("the console prints its link");
        let (address, path) = link.trim_end().trim_start_matches("http://").split_once('/').expect("a link");
        let mut console =
            Self { process, address: address.to_owned(), path: String::new(), cookie: String::new() };
        let entered = console.send("GET", &format!("/{path}"));
        let header = |name: &str| {
            let line =
                entered.lines().find_map(|line| line.strip_prefix(name)).expect("the link is accepted");
            line.split(';').next().unwrap_or(line).to_owned()
        };
        console.path = header("location: ");
        console.cookie = header("set-cookie: ");
        console
    }

    /// Sends a request. Returns the response's headers and body.
    fn send(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("the console listens");
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {0}\r\norigin: http://{0}\r\ncookie: {1}\r\nconnection: close\r\n\
             content-length: 0\r\n\r\n",
            self.address, self.cookie
        )
        .expect("the console reads the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the console responds");
        answer
    }

    /// Reads the queue again. Returns the page of dead letters once the reading is complete.
    fn reread_queue(&self) -> String {
        let page = self.send("POST", &format!("{}0/refresh", self.path));
        assert!(page.starts_with("HTTP/1.1 303 "), "{page}");
        loop {
            let page = self.send("GET", &format!("{}0/letters", self.path));
            if !page.contains("letters/live") {
                return page;
            }
            // The response ends when there is something new to display.
            self.send("GET", &format!("{}0/letters/live", self.path));
        }
    }
}

impl Drop for ConsoleProcess {
    fn drop(&mut self) {
        let _ignored = self.process.kill();
        let _ignored = self.process.wait();
    }
}

/// Returns the page's error.
fn alert(page: &str) -> Option<&str> {
    page.split_once("role=\"alert\">").and_then(|(_, rest)| rest.split('<').next())
}

#[test]
fn a_console_reports_an_ended_session_and_recovers_after_login() {
    // The SDK caches neither these credentials nor a token that expires within five minutes.
    let (home, stub) = (Home::new(), PortalStub::start(PAST_MILLISECONDS));
    let soon = (SystemClock.now() + Duration::from_secs(240)).to_rfc3339_opts(SecondsFormat::Secs, true);
    home.sign_in(CORP, "first", &soon);
    let console = ConsoleProcess::start(&home, &stub);
    assert_eq!(alert(&console.reread_queue()), None);
    assert!(stub.take_distinct_requests().contains(&"ReceiveMessage KEY-first-ops".to_owned()));

    home.sign_in(CORP, "first", IN_2020);
    let page = console.reread_queue();
    assert_eq!(
        alert(&page),
        Some(
            "the single sign-on session of profile corp has expired or does not exist (the SSO token has expired and \
             cannot be refreshed): run `aws sso login --profile corp`"
        )
    );

    home.sign_in(CORP, "second", &soon);
    assert_eq!(alert(&console.reread_queue()), None);
    assert!(stub.take_distinct_requests().contains(&"ReceiveMessage KEY-second-ops".to_owned()));
}
