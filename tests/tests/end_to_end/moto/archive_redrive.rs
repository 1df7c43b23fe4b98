//! Dead letters of an archive go back to a queue, once, with exactly the rights that docs/archive.md names.

use std::process::Output;

use aws_sdk_sqs::config::Credentials;
use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_core::archive::{ArchivedMessage, Death, Folder, Layout, Prefix, gzip};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock as _, ObjectStore as _};
use redeliver_testing::dead_letters::record;
use redeliver_tests::moto::{Account, printed};
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

const DEAD_LETTERS: u32 = 25;
const MARKS: &str = "prod/sent-back/deployment=orders-final-dlq/date=*";
const LEASE: &str = "prod/sent-back/deployment=orders-final-dlq/sending.json";

/// An archive with a dead letter of yesterday and older ones, an empty queue, and one who may send back.
struct Case {
    account: Account,
    key: Credentials,
    bucket: String,
    source_url: String,
}

impl Case {
    async fn new() -> Self {
        let account = Account::new();
        let bucket = format!("letters-{}", account.id);
        account.bucket(&bucket).await;
        let created = account.sqs("CreateQueue", &json!({ "QueueName": "orders" })).await;
        let source_url = created["QueueUrl"].as_str().unwrap().to_owned();
        let key = account.user("Operator", "/").await;
        let case = Self { account, key, bucket, source_url };
        case.account.allow("Operator", &[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })]).await;
        case.archive("orders-final-dlq").await;
        case
    }

    async fn archive(&self, deployment: &str) {
        let store = S3Bucket::new(
            &self.account.sdk_config(self.key.clone()),
            &self.bucket,
            self.account.id.parse().ok(),
        );
        let layout = Layout { prefix: Prefix::new("prod").unwrap(), deployment: deployment.to_owned() };
        for number in 1..=DEAD_LETTERS {
            let at = match number {
                1 => SystemClock.now() - TimeDelta::days(1),
                _ => Timestamp::UNIX_EPOCH + TimeDelta::hours(i64::from(number)),
            };
            let death = Death::new(at, "0123456789abcdef", &format!("id-{number}"));
            let line = ArchivedMessage::new(&record("RETRY_ATTEMPT_EXCEEDED", "down", number));
            let key = layout.key(Folder::DeadLetters, &death);
            assert_eq!(store.create(&key, gzip(&line)).await, Ok(true));
        }
    }

    /// The rights to send back, with those to write objects below these keys.
    async fn allow_to_write(&self, keys: &[&str]) {
        let bucket = format!("arn:aws:s3:::{}", self.bucket);
        let source = format!("arn:aws:sqs:{REGION}:{}:orders", self.account.id);
        let mut statements = vec![
            json!({ "Effect": "Allow", "Action": "s3:ListBucket", "Resource": bucket }),
            json!({ "Effect": "Allow", "Action": "s3:GetObject", "Resource": format!("{bucket}/prod/*") }),
            json!({ "Effect": "Allow", "Action": ["sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:SendMessage"],
                    "Resource": source }),
        ];
        let write = |key: &&str| json!({ "Effect": "Allow", "Action": "s3:PutObject", "Resource": format!("{bucket}/{key}") });
        statements.extend(keys.iter().map(write));
        self.account.allow("Operator", &statements).await;
    }

    async fn redrive(&self, folder: &tempfile::TempDir, arguments: &[&str]) -> Output {
        let mut command = self.account.redeliver(&self.key);
        command.args(["redrive", &format!("s3://{}/prod", self.bucket), "--to", "orders", "--into-paused"]);
        command.args(arguments).current_dir(folder.path());
        command.output().await.unwrap()
    }

    /// The dead letters that an audit of the archive counts.
    async fn audited(&self, arguments: &[&str]) -> u32 {
        let mut command = self.account.redeliver(&self.key);
        command.args(["audit", &format!("s3://{}/prod", self.bucket), "--format", "json"]).args(arguments);
        let audit = command.output().await.unwrap();
        let report: Value =
            serde_json::from_slice(&audit.stdout).unwrap_or_else(|_| panic!("{}", printed(&audit)));
        report["total"].as_u64().unwrap().try_into().unwrap()
    }

    async fn in_queue(&self) -> u32 {
        let request = json!({ "QueueUrl": self.source_url, "AttributeNames": ["All"] });
        let answer = self.account.sqs("GetQueueAttributes", &request).await;
        let count: &Value = &answer["Attributes"]["ApproximateNumberOfMessages"];
        count.as_str().unwrap().parse().unwrap()
    }

    async fn marks(&self) -> usize {
        let keys = self.account.keys(&self.bucket).await;
        keys.iter().filter(|key| key.starts_with(MARKS.trim_end_matches('*'))).count()
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Asserts the exit code, and returns what was printed.
fn ended(output: &Output, code: i32) -> String {
    let text = printed(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// The count in this line of the table.
fn count(text: &str, name: &str) -> Option<u32> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    line.trim().parse().ok()
}

#[tokio::test]
async fn an_archive_is_sent_back_once_and_a_second_machine_finds_the_marks() {
    let case = Case::new().await;
    case.allow_to_write(&[MARKS, LEASE]).await;
    let before = case.account.decisions().len();

    let planned = ended(&case.redrive(&folder(), &[]).await, 0);
    assert_eq!(count(&planned, "would be sent back"), Some(DEAD_LETTERS), "{planned}");
    assert!(planned.contains("1 dead letter of the last 14 days"), "{planned}");
    let keys = case.account.keys(&case.bucket).await;
    assert_eq!(keys.len(), DEAD_LETTERS as usize, "a dry run writes nothing: {keys:?}");

    let applied = ended(&case.redrive(&folder(), &["--apply"]).await, 0);
    assert_eq!(count(&applied, "sent back"), Some(DEAD_LETTERS), "{applied}");
    assert_eq!((case.in_queue().await, case.marks().await), (DEAD_LETTERS, DEAD_LETTERS as usize));

    let again = ended(&case.redrive(&folder(), &["--apply"]).await, 0);
    assert_eq!(count(&again, "sent back"), Some(0), "{again}");
    assert!(again.contains("25 dead letters left out: sent back before"), "{again}");
    assert_eq!((case.in_queue().await, case.marks().await), (DEAD_LETTERS, DEAD_LETTERS as usize));

    assert_eq!(case.audited(&[]).await, 0);
    assert_eq!(case.audited(&["--sent-back"]).await, DEAD_LETTERS);

    let decisions = case.account.decisions().split_off(before);
    let denied = |action: &str| decisions.iter().any(|one| !one.allowed && one.action.starts_with(action));
    assert!(!denied("s3:") && !denied("sqs:"), "{decisions:?}");
}

#[tokio::test]
async fn without_the_right_to_write_few_or_none_are_sent_and_none_is_sent_twice() {
    let case = Case::new().await;
    let (here, elsewhere) = (folder(), folder());
    case.allow_to_write(&[]).await;
    let refused = ended(&case.redrive(&here, &["--apply"]).await, 2);
    assert!(refused.contains("you need s3:PutObject there"), "{refused}");
    assert_eq!(case.in_queue().await, 0);

    case.allow_to_write(&[LEASE]).await;
    let not_marked = ended(&case.redrive(&here, &["--apply"]).await, 6);
    let sent = count(&not_marked, "sent, NOT marked in the archive").unwrap();
    assert!(not_marked.contains("Allow s3:PutObject on the archive's objects"), "{not_marked}");
    assert_eq!((case.in_queue().await, case.marks().await), (sent, 0));

    case.allow_to_write(&[MARKS, LEASE]).await;
    let refused = ended(&case.redrive(&elsewhere, &["--apply"]).await, 2);
    assert!(refused.contains("its journal is not here"), "{refused}");
    assert_eq!(case.in_queue().await, sent);
    let finished = ended(&case.redrive(&here, &["--apply"]).await, 0);
    assert_eq!(count(&finished, "sent before, now marked"), Some(sent), "{finished}");
    assert_eq!((case.in_queue().await, case.marks().await), (DEAD_LETTERS, DEAD_LETTERS as usize));
    let again = ended(&case.redrive(&elsewhere, &["--apply"]).await, 0);
    assert_eq!(count(&again, "sent back"), Some(0), "{again}");
}

#[tokio::test]
async fn of_several_deployments_one_is_named() {
    let case = Case::new().await;
    case.archive("payments-final-dlq").await;
    let refused = ended(&case.redrive(&folder(), &[]).await, 2);
    let named = format!("s3://{}/prod/dead-letters/deployment=payments-final-dlq", case.bucket);
    assert!(refused.contains(&named), "{refused}");
}
