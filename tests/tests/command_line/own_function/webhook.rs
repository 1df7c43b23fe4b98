//! examples/webhook/receiver.py: a target that verifies the signatures made by the HTTP target.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout};
use std::time::Duration;

use redeliver_aws::targets::{
    Endpoint, EndpointSettings, EndpointSource, HttpTarget, TargetAddress, UrlSetting,
};
use redeliver_core::handler::{BodyForm, ErrorType, Handler as _, Message};

use super::*;

const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "0191f3a2-7b1c-7d3e-8f00-000000000001";
const FOLDER: &str = "examples/webhook";

/// The running example; it stops when dropped.
struct WebhookReceiver {
    child: Child,
    url: String,
    printed: Lines<BufReader<ChildStdout>>,
}

impl WebhookReceiver {
    /// Starts the example with these secrets and a clock that runs ahead by this number of seconds.
    fn start(secrets: &str, seconds_ahead: i32) -> Self {
        let program = format!(
            "import receiver, time\nnow = time.time\ntime.time = lambda: now() + {seconds_ahead}\nreceiver.main()"
        );
        let mut child = Command::new(venv_file("bin/python"))
            .args(["-B", "-c", &program])
            .current_dir(workspace_root().join(FOLDER))
            .env("SIGNING_SECRETS", secrets)
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let mut printed = BufReader::new(child.stdout.take().expect("the stream is piped")).lines();
        let url = printed.next().expect("the example prints its URL").expect("UTF-8");
        Self { child, url, printed }
    }

    /// Returns the error from a call signed with these secrets, if it fails.
    async fn call_error(&self, secrets: &str) -> Option<ErrorType> {
        let Ok(TargetAddress::Url(url)) = TargetAddress::parse(&self.url, false) else {
            panic!("{} is not a URL of this machine", self.url);
        };
        let settings = EndpointSettings { url: UrlSetting::Given(url), sigv4: None };
        let secret = json!({ ":signing-secrets": secrets }).to_string();
        let endpoint =
            EndpointSource::Fixed(Endpoint::parse(&settings, &secret).expect("the endpoint is valid"));
        let target =
            HttpTarget::new(endpoint, None, Duration::from_secs(600)).expect("there are certificates");
        let message = Message {
            body: "{ \"n\": 1e400, \"é\": \"😀\" }\r\n",
            message_id: ID,
            form: &BodyForm::Envelope,
            retry_attempt: 0,
            redrive_generation: 0,
            held_seconds: 0,
            attributes: &BTreeMap::new(),
        };
        target.handle(&message).await.err().map(|error| error.error_type)
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn the_webhook_receiver_processes_only_signed_calls() {
    let refused = Some(ErrorType::HttpStatus(401));
    let mut receiver = WebhookReceiver::start(OLD, 0);
    assert_eq!(receiver.call_error(NEW).await, refused, "another secret");
    assert_eq!(receiver.call_error(OLD).await, None);
    assert_eq!(receiver.call_error(&format!("{NEW} {OLD}")).await, None, "the producer rotates first");
    for _ in 0..2 {
        let processed = receiver.printed.next().expect("the example processes the call").expect("UTF-8");
        assert_eq!(processed, ID);
    }
    let rotating = WebhookReceiver::start(&format!("{OLD} {NEW}"), 0);
    for secret in [OLD, NEW] {
        assert_eq!(rotating.call_error(secret).await, None, "the receiver rotates first");
    }
    // Outside the tolerance, even on a slow machine.
    for seconds_ahead in [301, -1200] {
        let stale = WebhookReceiver::start(OLD, seconds_ahead);
        assert_eq!(stale.call_error(OLD).await, refused, "{seconds_ahead}");
    }
}

/// Variations on the signed test vector in the Standard Webhooks libraries.
const CASES: &str = r#"
import receiver

SECRET, OTHER, AT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", 1614265330
ID, BODY, SIGNATURE = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

def verified(body=BODY, secrets=[SECRET], now=AT, **changed):
    headers = {"webhook-id": ID, "webhook-timestamp": str(AT), "webhook-signature": SIGNATURE}
    headers |= {f"webhook-{name}": value for name, value in changed.items()}
    try:
        return receiver.verify(body, headers, secrets, now) == ID
    except receiver.VerificationError as error:
        return str(error)

for case in [
    {}, {"now": AT + 300}, {"now": AT - 300}, {"secrets": [OTHER, SECRET]},
    {"signature": f"v1,AAAA {SIGNATURE}"}, {"signature": f"v1a,AAAA {SIGNATURE} v1,é"},
    {"now": AT + 301}, {"now": AT - 301}, {"timestamp": ""}, {"timestamp": "-1"}, {"timestamp": "9" * 5000},
    {"timestamp": str(AT + 1)}, {"id": ID + "x"}, {"body": b"{}"}, {"body": BODY + b"\n"}, {"secrets": [OTHER]}, {"secrets": []},
    {"signature": ""}, {"signature": SIGNATURE[3:]}, {"signature": SIGNATURE.replace("v1", "v2")}, {"signature": SIGNATURE[:-1]},
]:
    print(verified(**case))
"#;

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn the_receiver_verifies_the_timestamp_to_the_second_and_each_signed_byte() {
    let mut python = Command::new(venv_file("bin/python"));
    let output = python
        .args(["-B", "-c", CASES])
        .current_dir(workspace_root().join(FOLDER))
        .output()
        .expect("the program starts");
    let results = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let expected = ["True\n".repeat(6), "timestamp\n".repeat(5), "signature\n".repeat(10)].concat();
    assert_eq!(results, expected, "{}", stderr_text(&output));
}
