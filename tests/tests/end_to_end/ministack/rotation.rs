//! The target's key is rotated during traffic: no attempt is spent, either in Lambda or with `redeliver work`.

use redeliver_tests::fake_aws::FakeAws;
use redeliver_tests::http_target::HttpTargetServer;
use redeliver_tests::topology::{TestTopology, TopologySetup};
use serde_json::json;

use super::{final_records, id, new_topology, test_message};

const ARN: &str = "arn:aws:secretsmanager:eu-west-1:000000000000:secret:headers";
const MESSAGES: u32 = 60;

/// A target that accepts one key at a time, and the secret with that key.
pub(super) struct Rotation {
    pub(super) target: HttpTargetServer,
    aws: FakeAws,
}

impl Rotation {
    pub(super) async fn start() -> Self {
        let (target, aws) =
            (HttpTargetServer::start().await, FakeAws::with_secret(&secret_text("old")).await);
        target.require_key("old");
        Self { target, aws }
    }

    pub(super) fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("TARGET_HEADERS_SECRET_ARN", ARN.to_owned()),
            ("AWS_ENDPOINT_URL_SECRETS_MANAGER", self.aws.endpoint_url().to_owned()),
        ]
    }

    /// Sends messages continuously, and rotates the key once half of them are sent and some are handled.
    pub(super) async fn rotate_during_traffic(&self, topology: &TestTopology) {
        for first in (0..MESSAGES).step_by(10) {
            if first == MESSAGES / 2 {
                while self.target.request_count() == 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                self.aws.rotate_secret(&secret_text("new"));
                self.target.require_key("new");
            }
            let bodies: Vec<_> = (first..first + 10).map(|n| test_message(n, &json!({ "n": n }))).collect();
            topology.send_all(&bodies).await;
        }
    }

    /// Checks that every call was a first attempt, and that each refused call was repeated with the new key.
    pub(super) async fn assert_no_attempt_was_spent(&self, topology: &TestTopology, log: &str) {
        let mut refused = 0;
        for n in 0..MESSAGES {
            let requests = self.target.requests_for(&id(n));
            let calls: Vec<_> = requests
                .iter()
                .map(|request| {
                    ["x-redeliver-attempt", "authorization"]
                        .map(|name| request.headers[name].to_str().unwrap())
                })
                .collect();
            match &calls[..] {
                [["0", "old"]] | [["0", "new"]] => {}
                [["0", "old"], ["0", "new"]] => refused += 1,
                other => panic!("message {n}: {other:?}\n{log}"),
            }
        }
        assert!(refused > 0, "the old key was in use when it was rotated\n{log}");
        assert!(final_records(topology).await.is_empty(), "{log}");
        let reported = log.lines().filter(|line| line.contains(r#""event":"retried_immediately""#)).count();
        assert_eq!(reported, refused, "{log}");
        assert!(!log.contains(r#""event":"handed_off""#), "{log}");
    }
}

fn secret_text(key: &str) -> String {
    json!({ "Authorization": key }).to_string()
}

#[tokio::test]
async fn a_key_rotated_during_lambda_traffic_spends_no_attempt() {
    let (topology, rotation) = (new_topology().await, Rotation::start().await);
    let mut setup = TopologySetup::for_http_target(rotation.target.url());
    setup.processor_variables.extend(rotation.variables());
    let running = topology.start_functions(&setup);
    rotation.rotate_during_traffic(&topology).await;
    topology.wait_until_settled(&running).await;
    rotation.assert_no_attempt_was_spent(&topology, &running.full_log()).await;
}
