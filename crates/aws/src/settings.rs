//! The settings of all functions, from environment variables. Only this module reads the environment, and it validates
//! all settings before the function starts.

mod logging;
mod messages;
mod reader;
#[cfg(feature = "targets")]
mod target;

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(feature = "archive")]
use redeliver_core::archive::{OmitList, Prefix};
use redeliver_core::decide::QueueTimes;
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::{OnGiveUp, Policy};
use redeliver_core::strategy::{
    ASYNC_RETRY, MissingSetting, OnFailure, Role, Strategy, StrategyDefinition, Wiring,
};

#[cfg(feature = "archive")]
use crate::archive::AccountId;
#[cfg(feature = "archive")]
use crate::notifier::NotifyArn;
pub use logging::{LogDetail, LogLevel, Logging, TracingSettings};
use messages::read_schema;
#[cfg(feature = "archive")]
use reader::RecordedError;
use reader::SettingsReader;
pub use reader::{QueueKind, SettingsError, Variables};
#[cfg(feature = "targets")]
pub use target::{CalledTarget, EndpointSetting, HttpSettings, OwnFunctionSettings, TargetSettings};

/// The default of `MAX_CONCURRENCY`, the number of concurrent calls to the target.
const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("ten is not zero");
/// The largest batch has 10,000 records.
const CONCURRENCY_MAX: usize = 10_000;
/// The valid range of a queue's retention ("Amazon SQS message quotas").
const RETENTION_SECONDS: RangeInclusive<u64> = 60..=1_209_600;

/// Variables that Lambda sets for every function and that the runtime requires.
const LAMBDA_VARIABLES: [&str; 4] = [
    "AWS_LAMBDA_RUNTIME_API",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_VERSION",
];

/// Checks that Lambda or an emulator started the program.
///
/// # Errors
/// Lists the missing variables.
pub fn check_started_by_lambda() -> Result<(), SettingsError> {
    const REMEDY: &str = "Lambda sets it; to try the loop without Lambda, run `redeliver local`";
    SettingsReader::from_env().read_settings(|reader| {
        LAMBDA_VARIABLES.into_iter().for_each(|name| drop(reader.required(name, REMEDY)));
        Some(())
    })
}

/// Returns the function's name in Lambda, or `None` outside Lambda.
#[must_use]
pub fn function_name() -> Option<String> {
    aws_variable("AWS_LAMBDA_FUNCTION_NAME")
}

/// Returns the function's name and version in Lambda, `NAME:VERSION`, or `None` outside Lambda.
#[cfg(feature = "targets")]
pub(crate) fn function_version() -> Option<String> {
    Some(format!("{}:{}", function_name()?, aws_variable("AWS_LAMBDA_FUNCTION_VERSION")?))
}

/// Reads a variable that AWS defines.
pub(crate) fn aws_variable(name: &str) -> Option<String> {
    SettingsReader::from_env().optional(name)
}

/// Reads the URL of a queue that the program itself polls, without an event source mapping.
///
/// # Errors
/// If the variable `name` is missing or is not the URL of a queue of this kind.
pub fn polled_queue_url(name: &str, kind: QueueKind) -> Result<String, SettingsError> {
    SettingsReader::from_env().read_settings(|reader| reader.queue_url_of_kind(name, kind))
}

/// Returns the variable `name`, if set, without validating it, for programs that inspect queues without polling them.
#[must_use]
pub fn queue_url_if_set(name: &str) -> Option<String> {
    SettingsReader::from_env().optional(name)
}

/// Settings common to all message-processors, regardless of their target.
#[derive(Debug)]
pub struct MessageProcessorSettings {
    /// `STRATEGY`, with the URLs of its queues.
    pub on_failure: OnFailure<String>,
    /// `RETRY_POLICY`. If failed messages are handed off, only `immediate`, `circuit_breaker` and the lists of error
    /// types apply.
    pub policy: Policy,
    pub annotation_queue_url: String,
    /// `MAX_CONCURRENCY`, from 1 to 10,000; 10 by default.
    pub max_concurrency: NonZeroUsize,
    /// The accepted messages: `ENVELOPE`, `DATA_SCHEMA_PATH`, and the settings for messages without an envelope.
    pub schema: MessageSchema,
    /// `RESEND_SENDER_IDS`.
    pub resenders: Resenders,
    pub logging: Logging,
}

/// Settings of the failed-message-processor.
#[derive(Debug)]
pub struct FailedMessageProcessorSettings {
    pub source_queue_url: String,
    /// `INTERMEDIATE_DLQ_URL`: the queue that the failed-message-processor consumes.
    pub intermediate_dlq_url: String,
    pub annotation_queue_url: String,
    pub policy: Policy,
    /// The accepted messages: `ENVELOPE`, `DATA_SCHEMA_PATH`, and the settings for messages without an envelope.
    pub schema: MessageSchema,
    /// `RESEND_SENDER_IDS`.
    pub resenders: Resenders,
    pub logging: Logging,
}

/// Settings of the final-dlq-annotator.
#[derive(Debug)]
pub struct FinalDlqAnnotatorSettings {
    pub final_dlq_url: String,
    /// `ARCHIVE_BUCKET`, with its settings.
    #[cfg(feature = "archive")]
    pub archive: Option<ArchiveSettings>,
    /// `NOTIFY_ARN`.
    #[cfg(feature = "archive")]
    pub notify: Option<NotifyArn>,
    pub logging: Logging,
}

/// Settings of the archive of final records.
#[cfg(feature = "archive")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    pub bucket: String,
    /// `ARCHIVE_BUCKET_OWNER`.
    pub bucket_owner: AccountId,
    /// `ARCHIVE_PREFIX`.
    pub prefix: Prefix,
    /// `ARCHIVE_OMIT`.
    pub omit: OmitList,
}

/// Settings of the async-retry-handler.
#[derive(Debug)]
pub struct AsyncRetryHandlerSettings {
    /// `RETRY_QUEUE_URL`: the queue that the async-retry-handler consumes.
    pub retry_queue_url: String,
    pub annotation_queue_url: String,
    pub functions: FunctionArns,
    /// `RETRY_POLICY`, with the defaults of [`ASYNC_RETRY`].
    pub policy: Policy,
    pub logging: Logging,
}

impl MessageProcessorSettings {
    /// Reads the settings of a message-processor with its own handler.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn from_env() -> Result<Self, SettingsError> {
        SettingsReader::from_env().read_settings(Self::from_reader)
    }

    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let max_concurrency = reader.read_number("MAX_CONCURRENCY", 1..=CONCURRENCY_MAX);
        let max_concurrency = max_concurrency.and_then(NonZeroUsize::new).unwrap_or(DEFAULT_CONCURRENCY);
        let logging = Logging::from_reader(reader);
        Self::with_concurrency(reader, max_concurrency, logging)
    }

    fn with_concurrency(
        reader: &mut SettingsReader<'_>,
        max_concurrency: NonZeroUsize,
        logging: Option<Logging>,
    ) -> Option<Self> {
        let on_failure = read_strategy(reader);
        let policy =
            read_policy(reader, on_failure.as_ref().map(|on_failure| on_failure.strategy().definition()));
        let annotation_queue_url = reader.queue_url(Role::Annotation.setting_name());
        let schema = read_schema(reader);
        let resenders = read_resenders(reader);
        Some(Self {
            on_failure: on_failure?,
            policy: policy?,
            annotation_queue_url: annotation_queue_url?,
            max_concurrency,
            schema: schema?,
            resenders: resenders?,
            logging: logging?,
        })
    }
}

/// Reads `STRATEGY` and its settings.
fn read_strategy(reader: &mut SettingsReader<'_>) -> Option<OnFailure<String>> {
    let strategy = match reader.optional("STRATEGY") {
        None => Ok(Strategy::default()),
        Some(name) => Strategy::from_name(&name).ok_or_else(|| {
            let mut names = Strategy::ALL.iter().map(|strategy| strategy.name());
            let last = names.next_back().unwrap_or_default();
            let others: Vec<_> = names.collect();
            format!("must be {} or {last}", others.join(", "))
        }),
    };
    OnFailure::from_wiring(reader.check_value("STRATEGY", strategy)?, reader)
}

impl Wiring for &mut SettingsReader<'_> {
    type Queue = String;

    fn queue(&mut self, role: Role) -> Option<String> {
        self.queue_url(role.setting_name())
    }

    fn fifo_queue(&mut self, role: Role) -> Option<String> {
        self.queue_url_of_kind(role.setting_name(), QueueKind::Fifo)
    }

    fn batch_size(&mut self) -> Option<u16> {
        let is_set = self.optional(BATCH_SIZE).is_some();
        // FIFO queues do not support larger batches ("Using Lambda with Amazon SQS").
        if is_set { self.read_number(BATCH_SIZE, 1..=10) } else { Some(10) }
    }

    fn blocked_queue(&mut self, batch_size: Option<u16>) -> Result<Option<String>, MissingSetting> {
        // `read_policy` reports an invalid policy.
        let policy = Strategy::Ordered.definition().parse_policy(&read_policy_text(self));
        match policy.map(|policy| policy.on_give_up) {
            Ok(OnGiveUp::Block) => {
                let queue = self.queue_url(Role::Blocked.setting_name());
                // With larger batches, attempts are counted in the environment's memory, so a new environment would
                // call the target for a message that was already given up on.
                let is_one = match batch_size {
                    None | Some(1) => Ok(()),
                    Some(_) => Err(
                        "must be 1 with on_give_up block in RETRY_POLICY; set it, and the batch size of the event source \
                         mapping, to 1",
                    ),
                };
                self.check_value(BATCH_SIZE, is_one).and(queue).map(Some).ok_or(MissingSetting)
            }
            _ => Ok(None),
        }
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        const TIMEOUT: &str = "VISIBILITY_TIMEOUT_SECONDS";
        let timeout = self
            .required(TIMEOUT, "set it to the source queue's visibility timeout")
            .and_then(|_| self.read_number(TIMEOUT, 0..=u64::from(VisibilitySeconds::MAX.get())));
        const RETENTION: &str = "RETENTION_SECONDS";
        let retention = self
            .required(RETENTION, "set it to the source queue's retention (MessageRetentionPeriod)")
            .and_then(|_| self.read_number(RETENTION, RETENTION_SECONDS));
        let visibility_timeout = timeout.and_then(VisibilitySeconds::new)?;
        Some(QueueTimes { visibility_timeout, retention: Duration::from_secs(retention?) })
    }
}

impl FailedMessageProcessorSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn from_env() -> Result<Self, SettingsError> {
        SettingsReader::from_env().read_settings(Self::from_reader)
    }

    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let source_queue_url = reader.queue_url(Role::Source.setting_name());
        let intermediate_dlq_url = reader.queue_url(Role::IntermediateDlq.setting_name());
        let annotation_queue_url = reader.queue_url(Role::Annotation.setting_name());
        let policy = read_policy(reader, Some(Strategy::DelayedResend.definition()));
        let schema = read_schema(reader);
        let resenders = read_resenders(reader);
        let logging = Logging::from_reader(reader);
        Some(Self {
            source_queue_url: source_queue_url?,
            intermediate_dlq_url: intermediate_dlq_url?,
            annotation_queue_url: annotation_queue_url?,
            policy: policy?,
            schema: schema?,
            resenders: resenders?,
            logging: logging?,
        })
    }
}

impl FinalDlqAnnotatorSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn from_env() -> Result<Self, SettingsError> {
        SettingsReader::from_env().read_settings(Self::from_reader)
    }

    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let final_dlq_url = reader.queue_url(Role::FinalDlq.setting_name());
        #[cfg(feature = "archive")]
        let (archive, notify) = (read_archive(reader, final_dlq_url.as_deref()), read_notify_arn(reader));
        let logging = Logging::from_reader(reader);
        Some(Self {
            final_dlq_url: final_dlq_url?,
            #[cfg(feature = "archive")]
            archive: archive.ok()?,
            #[cfg(feature = "archive")]
            notify: notify.ok()?,
            logging: logging?,
        })
    }
}

impl AsyncRetryHandlerSettings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn from_env() -> Result<Self, SettingsError> {
        SettingsReader::from_env().read_settings(Self::from_reader)
    }

    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let retry_queue_url = reader.queue_url("RETRY_QUEUE_URL");
        let annotation_queue_url = reader.queue_url(Role::Annotation.setting_name());
        const FUNCTIONS: &str = "FUNCTION_ARNS";
        let functions = reader
            .required(FUNCTIONS, "set it to the ARNs of the functions to invoke again, separated by commas")
            .and_then(|text| reader.check_value(FUNCTIONS, FunctionArns::parse(&text)));
        let policy = read_policy(reader, Some(&ASYNC_RETRY));
        let logging = Logging::from_reader(reader);
        Some(Self {
            retry_queue_url: retry_queue_url?,
            annotation_queue_url: annotation_queue_url?,
            functions: functions?,
            policy: policy?,
            logging: logging?,
        })
    }
}

/// Reads `ARCHIVE_BUCKET` and its settings, which must not be set without the bucket.
#[cfg(feature = "archive")]
fn read_archive(
    reader: &mut SettingsReader<'_>,
    final_dlq_url: Option<&str>,
) -> Result<Option<ArchiveSettings>, RecordedError> {
    const BUCKET: &str = "ARCHIVE_BUCKET";
    const OWNER: &str = "ARCHIVE_BUCKET_OWNER";
    const PREFIX: &str = "ARCHIVE_PREFIX";
    const OMIT: &str = "ARCHIVE_OMIT";
    let [owner, prefix, omit] = [OWNER, PREFIX, OMIT].map(|name| reader.optional(name));
    let Some(bucket) = reader.optional(BUCKET) else {
        for (name, value) in [(OWNER, owner), (PREFIX, prefix), (OMIT, omit)] {
            let unset =
                value.map_or(Ok(()), |_| Err("is set, but ARCHIVE_BUCKET is not; set both or neither"));
            reader.check_value(name, unset);
        }
        return Ok(None);
    };
    let bucket = is_bucket_name(&bucket).then_some(bucket).ok_or(
        "is not the name of a bucket: 3 to 63 characters of a-z 0-9 . -, without s3:// and without a prefix",
    );
    let bucket = reader.check_value(BUCKET, bucket);
    let bucket_owner = match owner.as_deref().or_else(|| account_in_url(final_dlq_url?)) {
        Some(account) => reader.check_value(OWNER, account.parse::<AccountId>()),
        // The invalid URL was already reported, and the correct one might contain the account.
        None if final_dlq_url.is_none() => None,
        None => reader.check_value(
            OWNER,
            Err("is missing, and FINAL_DLQ_URL has no account; set it to the bucket's account"),
        ),
    };
    let prefix = reader.check_value(PREFIX, prefix.map_or(Ok(Prefix::default()), |text| Prefix::new(&text)));
    let omit = reader.check_value(OMIT, omit.map_or(Ok(OmitList::default()), |text| OmitList::parse(&text)));
    let settings = || {
        Some(ArchiveSettings { bucket: bucket?, bucket_owner: bucket_owner?, prefix: prefix?, omit: omit? })
    };
    settings().map(Some).ok_or(RecordedError)
}

/// Returns the account in a queue's URL (`https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`).
#[cfg(feature = "archive")]
fn account_in_url(queue_url: &str) -> Option<&str> {
    let account = queue_url.rsplit('/').nth(1)?;
    account.parse::<AccountId>().is_ok().then_some(account)
}

/// True for a bucket name that is valid in a host name ("Bucket naming rules", Amazon S3 User Guide).
#[cfg(feature = "archive")]
fn is_bucket_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    (3..=63).contains(&name.len())
        && name.bytes().all(is_inner)
        && !name.starts_with(['.', '-'])
        && !name.ends_with(['.', '-'])
}

#[cfg(feature = "archive")]
fn read_notify_arn(reader: &mut SettingsReader<'_>) -> Result<Option<NotifyArn>, RecordedError> {
    const NAME: &str = "NOTIFY_ARN";
    let arn = reader.optional(NAME).map(|arn| arn.parse()).transpose();
    reader.check_value(NAME, arn).ok_or(RecordedError)
}

/// Reads the trusted senders. By default, there are none.
fn read_resenders(reader: &mut SettingsReader<'_>) -> Option<Resenders> {
    const NAME: &str = "RESEND_SENDER_IDS";
    let ids = reader.optional(NAME).map(|text| Resenders::parse(&text)).transpose();
    reader.check_value(NAME, ids).map(Option::unwrap_or_default)
}

/// Reads the policy. Without a valid strategy, strategy-specific rules are not checked.
fn read_policy(reader: &mut SettingsReader<'_>, strategy: Option<&StrategyDefinition>) -> Option<Policy> {
    let text = read_policy_text(reader);
    let policy = strategy.map_or_else(|| Policy::from_json(&text), |strategy| strategy.parse_policy(&text));
    let hint = if text.trim_start().starts_with('{') {
        ""
    } else {
        "; set it to the policy itself, not to a file name"
    };
    reader.check_value(POLICY, policy.map_err(|error| format!("{error}{hint}")))
}

const BATCH_SIZE: &str = "BATCH_SIZE";
const POLICY: &str = "RETRY_POLICY";

fn read_policy_text(reader: &SettingsReader<'_>) -> String {
    reader.optional(POLICY).unwrap_or_else(|| "{}".to_owned())
}

#[cfg(test)]
mod tests;
