//! `redeliver watch`, the program, on a DLQ of anybody: with exactly the rights that `redeliver permissions watch` prints.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};
use std::time::Duration;

use aws_sdk_sqs::config::Credentials;
use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_aws::settings::{ArchiveSettings, FinalDlqAnnotatorSettings, Logging};
use redeliver_core::archive::{Omit, Prefix};
use redeliver_core::events::Event;
use redeliver_core::message::{AttributeValue, ReceivedMessage};
use redeliver_core::ports::{Clock as _, Function as _, Observer};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_testing::foreign::message;
use redeliver_testing::functions::record;
use redeliver_tests::moto::{Account, printed};
use redeliver_tests::sqs::REGION;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::sleep;

const DLQ: &str = "orders-dlq";

struct Case {
    account: Account,
    key: Credentials,
    bucket: String,
    topic: String,
    dlq_url: String,
    /// Subscribes to the topic.
    inbox_url: String,
}

/// Nobody reads what the annotator logs.
struct Silent;

impl Observer for Silent {
    fn observe(&self, _: &Event) {}
}

impl Case {
    async fn new() -> Self {
        let account = Account::new();
        let bucket = format!("watched-{}", account.id);
        account.bucket(&bucket).await;
        let topic = account.topic("dead-letters").await;
        let mut urls = Vec::new();
        for name in [DLQ, "inbox"] {
            let created = account.sqs("CreateQueue", &json!({ "QueueName": name })).await;
            urls.push(created["QueueUrl"].as_str().unwrap().to_owned());
        }
        let [dlq_url, inbox_url] = urls.try_into().unwrap();
        account.subscribe(&topic, &format!("arn:aws:sqs:{REGION}:{}:inbox", account.id)).await;
        let key = account.user("Watch", "/").await;
        let case = Self { account, key, bucket, topic, dlq_url, inbox_url };
        case.allow(&[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })]).await;
        case
    }

    async fn allow(&self, statements: &[Value]) {
        self.account.allow("Watch", statements).await;
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.account.redeliver(&self.key);
        command.args(arguments);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    async fn watch(&self) -> Output {
        let archive = format!("s3://{}/prod", self.bucket);
        let to = ["--archive", &archive, "--notify", &self.topic];
        self.run(&[&["watch", "--queue", DLQ, "--once"], &to[..]].concat()).await
    }

    /// The printed policy, with the names of this case.
    async fn statements(&self) -> Vec<Value> {
        let policy = self.run(&["permissions", "watch"]).await;
        let policy = String::from_utf8(policy.stdout).unwrap();
        let names = [
            ("BUCKET", self.bucket.as_str()),
            ("PREFIX", "prod"),
            ("FINAL_DLQ", DLQ),
            ("TOPIC", "dead-letters"),
            ("REGION", REGION),
            ("ACCOUNT", &self.account.id),
        ];
        let named = names.iter().fold(policy, |policy, (name, value)| policy.replace(name, value));
        let policy: Value = serde_json::from_str(&named).unwrap();
        policy["Statement"].as_array().unwrap().clone()
    }

    /// The annotator writes a final record to the DLQ, and to the archive if it has one.
    async fn annotate(&self, n: usize, has_archive: bool) {
        let archive = ArchiveSettings {
            bucket: self.bucket.clone(),
            prefix: Prefix::new("prod").unwrap(),
            omit: Omit::default(),
        };
        let settings = FinalDlqAnnotatorSettings {
            final_dlq_url: self.dlq_url.clone(),
            archive: has_archive.then_some(archive),
            notify: None,
            logging: Logging::default(),
        };
        let config = self.account.sdk_config(self.key.clone());
        let annotator = FinalDlqAnnotator::on_aws(settings, &config, Silent);
        let deadline = SystemClock.now() + TimeDelta::minutes(5);
        assert_eq!(annotator.batch_item_failures(vec![record(n, "x")], deadline).await, [""; 0]);
    }

    async fn send(&self, ReceivedMessage { body, attributes, .. }: ReceivedMessage) {
        let attribute = |(name, attribute): (String, redeliver_core::message::Attribute)| {
            let AttributeValue::Text(text) = attribute.value else { panic!("{name} is binary") };
            (name, json!({ "DataType": attribute.data_type, "StringValue": text }))
        };
        let attributes: BTreeMap<_, _> = attributes.into_iter().map(attribute).collect();
        let request =
            json!({ "QueueUrl": self.dlq_url, "MessageBody": body, "MessageAttributes": attributes });
        self.account.sqs("SendMessage", &request).await;
    }

    /// The error types and counts of the notices since the last call, in order.
    async fn notices(&self) -> Vec<(String, u64)> {
        let mut notices = Vec::new();
        loop {
            let request = json!({ "QueueUrl": self.inbox_url, "MaxNumberOfMessages": 10 });
            let received = self.account.sqs("ReceiveMessage", &request).await;
            let Some(messages) = received["Messages"].as_array().filter(|messages| !messages.is_empty())
            else {
                notices.sort();
                return notices;
            };
            for message in messages {
                let notice: Value = serde_json::from_str(message["Body"].as_str().unwrap()).unwrap();
                assert_eq!(
                    (&notice["schema"], &notice["kind"]),
                    (&"redeliver.notice/1".into(), &"appeared".into())
                );
                let error_type = notice["error_type"].as_str().unwrap().to_owned();
                notices.push((error_type, notice["count"].as_u64().unwrap()));
                let handle = json!({ "QueueUrl": self.inbox_url, "ReceiptHandle": message["ReceiptHandle"] });
                self.account.sqs("DeleteMessage", &handle).await;
            }
        }
    }

    /// Keys without times and ids.
    async fn folders(&self) -> BTreeMap<String, usize> {
        let mut folders = BTreeMap::new();
        for key in self.account.keys(&self.bucket).await {
            *folders.entry(key.split('/').take(3).collect::<Vec<_>>().join("/")).or_default() += 1;
        }
        folders
    }

    async fn depth(&self) -> (Value, Value) {
        let request = json!({ "QueueUrl": self.dlq_url, "AttributeNames": ["All"] });
        let answer = self.account.sqs("GetQueueAttributes", &request).await;
        let count = |name: &str| answer["Attributes"][name].clone();
        (count("ApproximateNumberOfMessages"), count("ApproximateNumberOfMessagesNotVisible"))
    }
}

#[tokio::test]
async fn dead_letters_of_anybody_are_archived_once_and_each_cause_is_told_once() {
    let case = Case::new().await;
    case.annotate(1, true).await;
    case.annotate(2, false).await;
    case.send(message("sns-subscription")).await;
    case.send(message("eventbridge-rule")).await;
    case.send(record(3, "not a known shape")).await;
    let statements = case.statements().await;
    case.allow(&statements).await;
    let before = case.account.decisions().len();

    let first = case.watch().await;
    assert_eq!(first.status.code(), Some(0), "{}", printed(&first));
    assert!(printed(&first).contains("orders-dlq: 5 messages read, 4 new; notices: "), "{}", printed(&first));
    let folders = BTreeMap::from([
        (format!("prod/causes/deployment={DLQ}"), 4),
        (format!("prod/dead-letters/deployment={DLQ}"), 5),
    ]);
    assert_eq!(case.folders().await, folders);
    let told = ["EVENTBRIDGE_DLQ", "ORCHESTRATION_FAILED", "SNS_DLQ", "UNANNOTATED"];
    assert_eq!(case.notices().await, told.map(|error_type| (error_type.to_owned(), 1)));
    assert_eq!(case.depth().await, ("5".into(), "0".into()));

    let keys = case.account.keys(&case.bucket).await;
    let second = case.watch().await;
    assert_eq!(second.status.code(), Some(0), "{}", printed(&second));
    assert!(printed(&second).contains("orders-dlq: 5 messages read, 0 new\n"), "{}", printed(&second));
    assert_eq!(case.account.keys(&case.bucket).await, keys);
    assert_eq!(case.notices().await, []);
    assert_eq!(case.depth().await, ("5".into(), "0".into()));

    let decisions = case.account.decisions().split_off(before);
    let denied: Vec<_> =
        decisions.iter().filter(|one| !one.allowed && !one.action.starts_with("sts:")).collect();
    assert!(denied.is_empty(), "{denied:?}");
    let mut writes: Vec<_> = decisions.iter().filter(|one| one.action == "s3:PutObject").collect();
    writes.dedup_by_key(|one| &one.resource);
    assert_eq!(writes.len(), 8, "four dead letters and four causes: {writes:?}");
    for statement in statements.iter().filter(|one| !one["Resource"].as_str().unwrap().contains("event-bus"))
    {
        for action in statement["Action"].as_array().unwrap() {
            assert!(decisions.iter().any(|one| *action == *one.action), "{action} is not used");
        }
    }

    case.allow(&[json!({ "Effect": "Allow", "Action": "*", "Resource": "*" })]).await;
    let audit = case.run(&["audit", &format!("s3://{}/prod", case.bucket), "--format", "json"]).await;
    let report: Value =
        serde_json::from_slice(&audit.stdout).unwrap_or_else(|_| panic!("{}", printed(&audit)));
    assert_eq!(report["total"], 5);
    assert_eq!(
        report["by_error_type"],
        json!({ "EVENTBRIDGE_DLQ": 1, "ORCHESTRATION_FAILED": 2, "SNS_DLQ": 1, "UNANNOTATED": 1 })
    );
}

#[tokio::test]
async fn a_queue_with_a_redrive_policy_and_two_queues_of_one_name_are_refused() {
    let case = Case::new().await;
    let request = json!({ "QueueName": "chained", "Attributes": { "RedrivePolicy": json!({
        "deadLetterTargetArn": format!("arn:aws:sqs:{REGION}:{}:{DLQ}", case.account.id), "maxReceiveCount": 3,
    }).to_string() } });
    case.account.sqs("CreateQueue", &request).await;
    let to = ["--notify", &case.topic];
    for (arguments, why) in [
        (&["watch", "--queue", "chained"][..], "has a redrive policy"),
        (&["watch", "--queue", DLQ, "--queue", DLQ], "two queues have the name orders-dlq"),
    ] {
        let refused = case.run(&[arguments, &to[..]].concat()).await;
        assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
        assert!(printed(&refused).contains(why), "{}", printed(&refused));
    }
}

#[tokio::test]
async fn without_a_right_nothing_is_lost_and_the_next_run_makes_up_for_it() {
    for (missing, code, why) in [
        ("sqs:ReceiveMessage", 1, "you need sqs:ReceiveMessage on the queue"),
        ("s3:PutObject", 1, "you need s3:PutObject there"),
        ("s3:ListBucket", 2, "you need s3:ListBucket there"),
        ("sns:Publish", 1, "was not sent ("),
    ] {
        let case = Case::new().await;
        case.send(record(1, "a dead letter")).await;
        let statements = case.statements().await;
        let mut fewer = statements.clone();
        for statement in &mut fewer {
            statement["Action"].as_array_mut().unwrap().retain(|action| action != missing);
        }
        fewer.retain(|statement| !statement["Action"].as_array().unwrap().is_empty());
        case.allow(&fewer).await;
        let refused = case.watch().await;
        assert_eq!(refused.status.code(), Some(code), "{missing}: {}", printed(&refused));
        assert!(printed(&refused).contains(why), "{missing}: {}", printed(&refused));
        assert_eq!(case.notices().await, [], "{missing}");

        case.allow(&statements).await;
        let made_up = case.watch().await;
        assert_eq!(made_up.status.code(), Some(0), "{missing}: {}", printed(&made_up));
        assert_eq!(case.notices().await, [("UNANNOTATED".to_owned(), 1)], "{missing}");
        assert_eq!(case.folders().await[&format!("prod/dead-letters/deployment={DLQ}")], 1);
        assert_eq!(case.depth().await, ("1".into(), "0".into()));
    }
}

#[tokio::test]
async fn a_watch_that_goes_on_ends_at_a_signal_and_leaves_every_message_visible() {
    let case = Case::new().await;
    case.send(record(1, "a dead letter")).await;
    let archive = format!("s3://{}", case.bucket);
    let arguments = ["watch", "--queue", &case.dlq_url, "--archive", &archive, "--notify", &case.topic];
    let mut command = case.command(&arguments);
    let watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let notices = loop {
        let notices = case.notices().await;
        if !notices.is_empty() {
            break notices;
        }
        sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(notices, [("UNANNOTATED".to_owned(), 1)]);
    let id = Pid::from_raw(watch.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let ended = watch.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", printed(&ended));
    assert!(printed(&ended).contains("stopping: giving the messages back"), "{}", printed(&ended));
    assert_eq!(case.depth().await, ("1".into(), "0".into()));
}
