//! Reads from AWS: queues and their attributes, functions, event source mappings, subscribers, alarms, and the ages of
//! the oldest messages. An error is reported with its region and profile and does not stop the other reads.

mod ages;
mod alarms;
mod functions;
mod queues;
mod subscribers;

use std::collections::BTreeSet;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use futures_util::{StreamExt as _, join, stream};
use indicatif::ProgressBar;
use redeliver_core::message::Timestamp;

use super::facts::{OldestMessageAges, QueueId, ReceivesByQueue, Survey};
use super::judge::FleetSurvey;
use super::report::Fleet;
use crate::CommandFailure;
use crate::queues::{AwsConnection, RequestLog};

/// Maximum number of regions read concurrently.
const REGIONS_AT_ONCE: usize = 4;
/// Maximum number of attempts for a request that is throttled or gets no response. The pauses between them add up to at
/// most seven seconds.
const TRIES_MAX: u32 = 4;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const TRY_TIMEOUT: Duration = Duration::from_secs(30);

/// The clients for one region and profile.
struct RegionClients<'a> {
    connection: &'a AwsConnection,
    name: String,
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    cloudwatch: aws_sdk_cloudwatch::Client,
    events: aws_sdk_eventbridgev2::Client,
    /// False if a custom endpoint is used, such as an emulator's.
    is_aws: bool,
}

/// Surveys all regions, then reads the metrics of the non-empty DLQs, and checks all DLQs.
pub(super) async fn survey_connections(
    connections: &[AwsConnection],
    now: Timestamp,
    progress: &ProgressBar,
) -> Fleet {
    let regions = connections.iter().map(async |connection| {
        let region = RegionClients::open(connection).await;
        let survey = match &region {
            Ok(region) => region.survey_region(progress).await,
            Err(error) => failed_survey(connection, error),
        };
        (region.ok(), survey)
    });
    let (regions, mut surveys): (Vec<_>, Vec<_>) =
        stream::iter(regions).buffered(REGIONS_AT_ONCE).unzip().await;

    let fleet = FleetSurvey::new(&surveys);
    let not_empty: BTreeSet<QueueId> = fleet.non_empty_dlqs().into_iter().cloned().collect();
    let unread: BTreeSet<QueueId> =
        not_empty.iter().filter(|id| fleet.functions_reading(id).is_empty()).cloned().collect();
    let (mut ages, mut received) = (OldestMessageAges::new(), ReceivesByQueue::new());
    for (region, survey) in regions.iter().zip(&mut surveys) {
        let Some(region) = region else { continue };
        let in_region = not_empty
            .iter()
            .filter(|id| id.region == region.name && survey.account.as_ref() == Some(&id.account));
        let in_region: Vec<_> = in_region.filter(|id| !ages.contains_key(id)).collect();
        let without_function: Vec<_> = in_region.iter().copied().filter(|id| unread.contains(id)).collect();
        // The ages are fetched first: if CloudWatch rejects that request, the second one is not sent.
        let metrics = async {
            ages.extend(region.fetch_ages(&in_region, now).await?);
            received.extend(region.fetch_receives(&without_function, now).await?);
            Ok(())
        };
        survey.problems.extend(metrics.await.err());
    }
    FleetSurvey::new(&surveys).judge_dlqs(&ages, &received, now)
}

/// Returns the survey of a region whose connection cannot be opened.
fn failed_survey(connection: &AwsConnection, error: &CommandFailure) -> Survey {
    let profile = connection.profile();
    let error = error.to_string();
    let reason = profile.and_then(|name| error.strip_prefix(&format!("--profile {name}: ")));
    let problem = format_problem(profile, connection.region(), reason.unwrap_or(&error));
    Survey { profile: profile.map(str::to_owned), problems: vec![problem], ..Survey::default() }
}

impl<'a> RegionClients<'a> {
    async fn open(connection: &'a AwsConnection) -> Result<Self, CommandFailure> {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT);
        let timeouts = timeouts.operation_attempt_timeout(TRY_TIMEOUT).build();
        let config = connection.sdk_config(None).await?.into_builder().timeout_config(timeouts);
        let config = config.retry_config(RetryConfig::standard().with_max_attempts(TRIES_MAX)).build();
        Ok(Self::new(connection, &config))
    }

    fn new(connection: &'a AwsConnection, config: &SdkConfig) -> Self {
        let sqs = aws_sdk_sqs::config::Builder::from(config).interceptor(RequestLog::default()).build();
        let lambda = aws_sdk_lambda::config::Builder::from(config).interceptor(RequestLog::default()).build();
        let cloudwatch =
            aws_sdk_cloudwatch::config::Builder::from(config).interceptor(RequestLog::default()).build();
        let is_aws = config.endpoint_url().is_none();
        let mut events =
            aws_sdk_eventbridgev2::config::Builder::from(config).interceptor(RequestLog::default());
        if !is_aws {
            // An emulator that does not support the service might respond to every request with status 500.
            events = events.retry_config(RetryConfig::disabled());
        }
        Self {
            connection,
            name: config.region().map(ToString::to_string).unwrap_or_default(),
            sqs: aws_sdk_sqs::Client::from_conf(sqs),
            lambda: aws_sdk_lambda::Client::from_conf(lambda),
            cloudwatch: aws_sdk_cloudwatch::Client::from_conf(cloudwatch),
            events: aws_sdk_eventbridgev2::Client::from_conf(events.build()),
            is_aws,
        }
    }

    async fn survey_region(&self, progress: &ProgressBar) -> Survey {
        let (queues, functions, mappings, subscribers, alarms) = join!(
            self.fetch_queues(progress),
            self.fetch_functions(),
            self.fetch_mappings(),
            self.fetch_subscribers(),
            self.fetch_alarms()
        );
        let mut problems = Vec::new();
        let queues = ok_or_record(queues, &mut problems);
        let functions = ok_or_record(functions, &mut problems).unwrap_or_default();
        let (mapping_senders, readers) = ok_or_record(mappings, &mut problems)
            .map_or_else(Default::default, |mappings| (mappings.senders, Some(mappings.readers)));
        let subscribers =
            subscribers.into_iter().filter_map(|read| ok_or_record(read, &mut problems)).collect();
        let alarms = ok_or_record(alarms, &mut problems);
        problems.extend(queues.iter().flatten().filter_map(|queue| self.unreadable_queue_problem(queue)));
        let account = queues.iter().flatten().next().map(|queue| queue.id.account.clone());
        Survey {
            profile: self.connection.profile().map(str::to_owned),
            region: self.name.clone(),
            account: account.or(functions.account),
            queues,
            functions: functions.senders,
            timeouts: functions.timeouts,
            mappings: mapping_senders,
            subscribers,
            readers,
            alarms,
            problems,
        }
    }

    /// Returns the response, or an error that names the failed request.
    async fn check_response<T, E>(
        &self,
        action: &str,
        answer: Result<T, SdkError<E, HttpResponse>>,
    ) -> Result<T, String>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.describe_failure(action, &error).await),
        }
    }

    async fn describe_failure<E>(&self, action: &str, error: &SdkError<E, HttpResponse>) -> String
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let why = self.connection.explain_failure(error, |reason| format!("{action}: {reason}")).await;
        self.format_region_problem(&why.to_string())
    }

    fn format_region_problem(&self, what: &str) -> String {
        format_problem(self.connection.profile(), Some(&self.name), what)
    }
}

fn format_problem(profile: Option<&str>, region: Option<&str>, what: &str) -> String {
    match (profile, region) {
        (Some(profile), Some(region)) => format!("{region}, profile {profile}: {what}"),
        (Some(profile), None) => format!("profile {profile}: {what}"),
        (None, Some(region)) => format!("{region}: {what}"),
        (None, None) => what.to_owned(),
    }
}

/// Returns the value, or records the problem. A problem common to all services, such as a failed connection, is
/// recorded only once.
fn ok_or_record<T>(read: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(read) => return Some(read),
        Err(problem) if problems.contains(&problem) => {}
        Err(problem) => problems.push(problem),
    }
    None
}
