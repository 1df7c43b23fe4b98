//! The permissions for the archive and notices: they suffice, each is needed, and nothing is lost if one is missing.

use std::sync::{Arc, Mutex};

use aws_sdk_sqs::config::Credentials;
use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_aws::settings::{ArchiveSettings, FinalDlqAnnotatorSettings, Logging};
use redeliver_core::archive::{OmitList, Prefix};
use redeliver_core::events::Event;
use redeliver_core::ports::{Clock as _, Function as _, Observer};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_testing::functions::nth_record;
use redeliver_tests::moto::MotoAccount;
use redeliver_tests::sqs::REGION;
use serde_json::{Value, json};

const ROLE: &str = "FinalDlqAnnotator";

/// One action on one resource.
type ResourcePermission = (&'static str, String);

/// A deployment with an archive and notices, in which only the final-dlq-annotator exists.
struct ArchiveDeployment {
    account: MotoAccount,
    key: Credentials,
    /// Unique across all accounts.
    bucket: String,
    final_dlq_url: String,
    notify: String,
}

/// The recorded events of a function.
#[derive(Clone, Default)]
struct FunctionEvents(Arc<Mutex<Vec<Event>>>);

impl Observer for FunctionEvents {
    fn observe(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl ArchiveDeployment {
    async fn new(service: &str) -> Self {
        let account = MotoAccount::new();
        let bucket = format!("letters-{}", account.id);
        account.create_bucket(&bucket).await;
        let notify = match service {
            "sns" => account.create_topic("letters").await,
            _ => account.create_event_bus("letters").await,
        };
        let queue = json!({ "QueueName": "redeliver-test-final-dlq" });
        let final_dlq_url =
            account.send_sqs_request("CreateQueue", &queue).await["QueueUrl"].as_str().unwrap().to_owned();
        let key = account.create_user(ROLE, "/").await;
        let case = Self { account, key, bucket, final_dlq_url, notify };
        case.allow_all_but(None).await;
        case
    }

    /// Returns all of the role's permissions.
    fn permissions(&self) -> Vec<ResourcePermission> {
        let bucket = &self.bucket;
        let publish = if self.notify.contains(":sns:") { "sns:Publish" } else { "events:PutEvents" };
        vec![
            ("sqs:SendMessage", format!("arn:aws:sqs:{REGION}:{}:redeliver-test-final-dlq", self.account.id)),
            ("s3:PutObject", format!("arn:aws:s3:::{bucket}/prod/dead-letters/*")),
            (publish, self.notify.clone()),
        ]
    }

    async fn allow_all_but(&self, missing: Option<&str>) {
        let permissions = self.permissions().into_iter().filter(|(action, _)| Some(*action) != missing);
        let statement = |(action, on)| {
            let mut statement = json!({ "Effect": "Allow", "Action": action, "Resource": on });
            if action == "events:PutEvents" {
                // The condition from infra/lib/notify.ts.
                let only =
                    json!({ "events:source": "redeliver", "events:detail-type": "Redeliver Cause Appeared" });
                statement["Condition"] = json!({ "ForAllValues:StringEquals": only });
            }
            statement
        };
        self.account.set_user_policy(ROLE, &permissions.map(statement).collect::<Vec<_>>()).await;
    }

    /// Delivers the same record to a new environment. Returns true if it was processed, and the events about the
    /// archive and the notices.
    async fn receive(&self) -> (bool, Vec<String>) {
        let recorder = FunctionEvents::default();
        let settings = FinalDlqAnnotatorSettings {
            final_dlq_url: self.final_dlq_url.clone(),
            archive: Some(ArchiveSettings {
                bucket: self.bucket.clone(),
                bucket_owner: self.account.id.parse().unwrap(),
                prefix: Prefix::new("prod").unwrap(),
                omit: OmitList::default(),
            }),
            notify: Some(self.notify.parse().unwrap()),
            logging: Logging::default(),
        };
        let config = self.account.sdk_config(self.key.clone());
        let annotator = FinalDlqAnnotator::on_aws(settings, &config, recorder.clone());
        let deadline = SystemClock.now() + TimeDelta::minutes(5);
        let failed = annotator.batch_item_failures(vec![nth_record(1, "a dead letter")], deadline).await;
        let events = recorder.0.lock().unwrap();
        let reported = events.iter().filter_map(|event| match event {
            Event::ArchiveRefused { code, .. } => Some(format!("archive refused: {code}")),
            Event::NoticePublished { .. } => Some("notice".to_owned()),
            Event::NoticeRefused { code, .. } => Some(format!("notice refused: {code}")),
            _ => None,
        });
        (failed.is_empty(), reported.collect())
    }

    async fn final_record_count(&self) -> usize {
        let request = json!({ "QueueUrl": self.final_dlq_url, "AttributeNames": ["All"] });
        let answer = self.account.send_sqs_request("GetQueueAttributes", &request).await;
        let count: &Value = &answer["Attributes"]["ApproximateNumberOfMessages"];
        count.as_str().unwrap().parse().unwrap()
    }

    /// Returns the folders of the archive's objects.
    async fn archive_folders(&self) -> Vec<String> {
        let keys = self.account.bucket_keys(&self.bucket).await;
        let folder = |key: &String| key.split('/').take(2).collect::<Vec<_>>().join("/");
        keys.iter().map(folder).collect()
    }

    fn is_denied(&self, action: &str) -> bool {
        self.account.decisions().iter().any(|decision| !decision.allowed && decision.action == action)
    }
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn archive_and_notice_permissions_suffice_and_are_all_used() {
    for service in ["sns", "events"] {
        let case = ArchiveDeployment::new(service).await;
        assert_eq!(case.receive().await, (true, to_strings(&["notice"])));
        // The record is received again, in another environment; it adds no second object.
        assert_eq!(case.receive().await, (true, to_strings(&["notice"])));
        assert_eq!(case.archive_folders().await, ["prod/dead-letters"]);
        let decisions = case.account.decisions();
        assert!(decisions.iter().all(|decision| decision.allowed), "{decisions:?}");
        for (action, _) in case.permissions() {
            assert!(decisions.iter().any(|decision| decision.action == action), "{action} is not used");
        }
    }
}

#[tokio::test]
async fn a_record_refused_by_the_archive_waits_until_the_permission_is_restored() {
    let case = ArchiveDeployment::new("sns").await;
    case.allow_all_but(Some("s3:PutObject")).await;
    assert_eq!(case.receive().await, (false, to_strings(&["archive refused: AccessDenied"])));
    assert_eq!((case.final_record_count().await, case.archive_folders().await), (0, Vec::new()));
    case.allow_all_but(None).await;
    assert_eq!(case.receive().await, (true, to_strings(&["notice"])));
    assert_eq!(case.final_record_count().await, 1);
    assert_eq!(case.archive_folders().await, ["prod/dead-letters"]);
}

#[tokio::test]
async fn a_record_whose_notice_is_refused_arrives() {
    for (service, action, notice) in [
        // moto's refusal has a different form from SNS's, so the SDK finds no code in it.
        ("sns", "sns:Publish", "notice refused: HTTP 403"),
        ("events", "events:PutEvents", "notice refused: AccessDeniedException"),
    ] {
        let case = ArchiveDeployment::new(service).await;
        case.allow_all_but(Some(action)).await;
        assert_eq!(case.receive().await, (true, to_strings(&[notice])), "{action}");
        assert!(case.is_denied(action), "{action}");
        assert_eq!(case.final_record_count().await, 1, "{action}");
        assert!(case.archive_folders().await.contains(&"prod/dead-letters".to_owned()), "{action}");
    }
}

#[tokio::test]
async fn a_record_waits_while_its_bucket_is_deleted() {
    let case = ArchiveDeployment::new("events").await;
    case.account.delete_bucket(&case.bucket).await;
    assert_eq!(case.receive().await, (false, to_strings(&["archive refused: NoSuchBucket"])));
    assert_eq!(case.final_record_count().await, 0);
    case.account.create_bucket(&case.bucket).await;
    assert_eq!(case.receive().await, (true, to_strings(&["notice"])));
    assert_eq!(case.final_record_count().await, 1);
}
