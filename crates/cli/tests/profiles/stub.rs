//! A local stub of the AWS services for credentials (the single sign-on portal and STS), and of SQS with one empty
//! queue.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// Credential expiry times, in 2020 and in 2099, in milliseconds.
pub(crate) const PAST_MILLISECONDS: u64 = 1_577_836_800_000;
pub(crate) const FUTURE_MILLISECONDS: u64 = 4_070_908_800_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct PortalRequest {
    /// `GET /path?query`.
    pub(crate) line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A running server and the requests it received.
pub(crate) struct PortalStub {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<PortalRequest>>>,
}

impl PortalStub {
    /// Starts a server whose portal credentials expire at this time.
    pub(crate) fn start(credentials_expire: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let Some(request) = PortalRequest::read(&stream) else { continue };
                let (status, body) = request.response(credentials_expire);
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                let head = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                let _ignored = write!(&stream, "{head}{body}");
            }
        });
        Self { url, requests }
    }

    /// Returns the requests since the last call: each action with the key that signed it, or with its token.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        requests.iter().map(|request| format!("{} {}", request.action(), request.caller())).collect()
    }

    /// Like [`Self::take_requests`], without duplicates and in alphabetical order.
    pub(crate) fn take_distinct_requests(&self) -> Vec<String> {
        let mut actions = self.take_requests();
        actions.sort_unstable();
        actions.dedup();
        actions
    }
}

impl PortalRequest {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned())
        };
        let mut request = Self { line: line()?.trim_end_matches(" HTTP/1.1").to_owned(), ..Self::default() };
        while let Some((name, value)) = line()?.split_once(": ") {
            request.headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let mut body = vec![0; request.header("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        Some(Self { body: String::from_utf8_lossy(&body).into_owned(), ..request })
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the action in the SQS and STS protocols, or the path.
    fn action(&self) -> &str {
        if let Some(action) = self.header("x-amz-target").strip_prefix("AmazonSQS.") {
            return action;
        }
        let action = self.body.split('&').find_map(|pair| pair.strip_prefix("Action="));
        action.unwrap_or_else(|| self.line.split([' ', '?']).nth(1).unwrap_or_default())
    }

    fn token(&self) -> &str {
        self.header("x-amz-sso_bearer_token")
    }

    fn caller(&self) -> &str {
        let credential = self.header("authorization").split_once("Credential=");
        credential.and_then(|(_, key)| key.split('/').next()).unwrap_or(self.token())
    }

    fn response(&self, credentials_expire: u64) -> (&'static str, String) {
        const OK: &str = "200 OK";
        let role =
            self.line.split_once("role_name=").map_or("", |(_, role)| role.split('&').next().unwrap_or(""));
        match (self.action(), self.token()) {
            ("/federation/credentials", "revoked") => (
                "401 Unauthorized",
                r#"{"__type":"UnauthorizedException","message":"Session token not found or invalid"}"#.to_owned(),
            ),
            ("/federation/credentials", _) if role == "forbidden" => {
                ("403 Forbidden", r#"{"__type":"ForbiddenException","message":"No access"}"#.to_owned())
            }
            ("/federation/credentials", token) => (
                OK,
                format!(
                    r#"{{"roleCredentials":{{"accessKeyId":"KEY-{token}-{role}","secretAccessKey":"s","sessionToken":"t","expiration":{credentials_expire}}}}}"#
                ),
            ),
            ("/token", _) => {
                (OK, r#"{"accessToken":"refreshed","expiresIn":28800,"refreshToken":"r2","tokenType":"Bearer"}"#.to_owned())
            }
            ("AssumeRole", _) if self.body.contains("forbidden") => (
                "403 Forbidden",
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error></ErrorResponse>"
                    .to_owned(),
            ),
            ("AssumeRole", _) => (
                OK,
                format!(
                    "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE-OF-{}</AccessKeyId>\
                     <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
                     <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
                    self.caller()
                ),
            ),
            ("GetCallerIdentity", _) => (
                OK,
                "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>\
                 <Arn>arn:aws:iam::123456789012:user/ana</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
                    .to_owned(),
            ),
            ("GetQueueAttributes", _) => (
                OK,
                r#"{"Attributes":{"QueueArn":"arn:aws:sqs:eu-central-1:123456789012:orders","ApproximateNumberOfMessages":"0","ApproximateNumberOfMessagesNotVisible":"0","ApproximateNumberOfMessagesDelayed":"0"}}"#
                    .to_owned(),
            ),
            ("ListQueues" | "ReceiveMessage", _) => (OK, "{}".to_owned()),
            _ => ("404 Not Found", "no such service".to_owned()),
        }
    }
}
