//! Archived dead letters are saved and sent back with exactly the permissions in docs/deploy/permissions.md.

use std::process::Output;

use aws_sdk_sqs::config::Credentials;
use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_core::archive::{ArchiveLayout, ArchivedMessage, Death, Prefix, compress_line};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, ObjectStore as _};
use redeliver_testing::dead_letters::retried_record;
use redeliver_tests::moto::{MotoAccount, printed_text};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

const DEAD_LETTERS: u32 = 25;

/// An archive with one dead letter from yesterday and older ones, an empty queue, and an operator's access key.
struct ArchiveRedriveCase {
    account: MotoAccount,
    key: Credentials,
    bucket: String,
    source_url: String,
}

impl ArchiveRedriveCase {
    async fn new() -> Self {
        let account = MotoAccount::new();
        let bucket = format!("letters-{}", account.id);
        account.create_bucket(&bucket).await;
        let created = account.send_sqs_request("CreateQueue", &json!({ "QueueName": "orders" })).await;
        let source_url = created["QueueUrl"].as_str().unwrap().to_owned();
        let key = account.create_user("Operator", "/").await;
        let case = Self { account, key, bucket, source_url };
        case.account
            .set_user_policy("Operator", &[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })])
            .await;
        case.archive_dead_letters().await;
        case
    }

    async fn archive_dead_letters(&self) {
        let config = self.account.sdk_config(self.key.clone());
        let store = S3Bucket::new(&config, &self.bucket, self.account.id.parse().ok());
        let layout =
            ArchiveLayout { prefix: Prefix::new("prod").unwrap(), deployment: "orders-final-dlq".to_owned() };
        for number in 1..=DEAD_LETTERS {
            let at = match number {
                1 => SystemClock.now() - TimeDelta::days(1),
                _ => Timestamp::UNIX_EPOCH + TimeDelta::hours(i64::from(number)),
            };
            let death = Death::new(at, "0123456789abcdef", &format!("id-{number}"));
            let mut message = retried_record("RETRY_ATTEMPT_EXCEEDED", "down", number);
            message.sent_at = at;
            let line = ArchivedMessage::new(&message);
            assert_eq!(store.create_object(&layout.object_key(&death), compress_line(&line)).await, Ok(true));
        }
    }

    /// Grants the permissions to read the archive and to send.
    async fn allow_documented_permissions(&self) {
        let bucket = format!("arn:aws:s3:::{}", self.bucket);
        let source = format!("arn:aws:sqs:{REGION}:{}:orders", self.account.id);
        let statements = [
            json!({ "Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket }),
            json!({ "Effect": "Allow", "Action": "s3:GetObject", "Resource": format!("{bucket}/prod/*") }),
            json!({ "Effect": "Allow", "Action": ["sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:SendMessage"],
                    "Resource": source }),
            // AWS requires no permission for this ("GetCallerIdentity", AWS Security Token Service API Reference), but
            // moto does.
            json!({ "Effect": "Allow", "Action": "sts:GetCallerIdentity", "Resource": "*" }),
        ];
        self.account.set_user_policy("Operator", &statements).await;
    }

    async fn run(&self, folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
        let mut command = self.account.redeliver_command(&self.key);
        command.args(arguments).current_dir(folder.path()).output().await.unwrap()
    }

    async fn queue_depth(&self) -> u32 {
        let request = json!({ "QueueUrl": self.source_url, "AttributeNames": ["All"] });
        let answer = self.account.send_sqs_request("GetQueueAttributes", &request).await;
        let count: &Value = &answer["Attributes"]["ApproximateNumberOfMessages"];
        count.as_str().unwrap().parse().unwrap()
    }
}

/// Checks the exit code and returns the output.
fn checked_output(output: &Output, code: i32) -> String {
    let text = printed_text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Returns the count in the table row with this name.
fn count_in_row(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    line.trim().parse().ok()
}

#[tokio::test]
async fn an_archive_is_saved_and_sent_back_once_with_documented_permissions() {
    let case = ArchiveRedriveCase::new().await;
    case.allow_documented_permissions().await;
    let (before, folder) = (case.account.decisions().len(), tempfile::tempdir().unwrap());

    let audit = ["audit", &format!("s3://{}/prod", case.bucket), "--save", "saved.jsonl"];
    let saved = checked_output(&case.run(&folder, &audit).await, 3);
    assert!(saved.contains("1 dead letter of the last 14 days saved"), "{saved}");

    let redrive = ["redrive", "saved.jsonl", "--to", "orders", "--allow-paused", "--apply"];
    let applied = checked_output(&case.run(&folder, &redrive).await, 0);
    assert_eq!(count_in_row(&applied, "sent back"), Some(DEAD_LETTERS), "{applied}");
    let again = checked_output(&case.run(&folder, &redrive).await, 0);
    assert_eq!(count_in_row(&again, "sent before"), Some(DEAD_LETTERS), "{again}");
    assert_eq!(case.queue_depth().await, DEAD_LETTERS);

    let decisions = case.account.decisions().split_off(before);
    let denied = |action: &str| decisions.iter().any(|one| !one.allowed && one.action.starts_with(action));
    assert!(!denied("s3:") && !denied("sqs:"), "{decisions:?}");
}
