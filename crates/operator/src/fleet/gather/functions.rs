//! Reads from Lambda: the functions and event source mappings whose failures are sent to queues, and the functions that
//! read queues.

use std::collections::BTreeMap;

use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionConfiguration};

use super::RegionClients;
use crate::fleet::facts::{FailureSender, FunctionReader, QueueId};
use crate::queues::event_sources::{function_name, is_on, reports_failures};

/// The functions in an account and region.
#[derive(Debug, Default)]
pub(super) struct ListedFunctions {
    pub(super) account: Option<String>,
    pub(super) senders: Vec<FailureSender>,
    pub(super) timeouts: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(super) struct ListedMappings {
    pub(super) senders: Vec<FailureSender>,
    pub(super) readers: Vec<FunctionReader>,
}

impl RegionClients<'_> {
    pub(super) async fn fetch_functions(&self) -> Result<ListedFunctions, String> {
        let request = self.lambda.list_functions();
        let functions: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let functions = self.check_response("lambda:ListFunctions", functions).await?;
        Ok(ListedFunctions {
            account: functions.iter().find_map(function_account),
            senders: functions.iter().filter_map(dlq_sender).collect(),
            timeouts: functions.iter().filter_map(function_timeout).collect(),
        })
    }

    pub(super) async fn fetch_mappings(&self) -> Result<ListedMappings, String> {
        let request = self.lambda.list_event_source_mappings();
        let mappings: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let mappings = self.check_response("lambda:ListEventSourceMappings", mappings).await?;
        Ok(ListedMappings {
            senders: mappings.iter().filter_map(destination_sender).collect(),
            readers: mappings.iter().filter_map(parse_reader).collect(),
        })
    }
}

/// Extracts the account from `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`.
fn function_account(function: &FunctionConfiguration) -> Option<String> {
    function.function_arn()?.split(':').nth(4).map(str::to_owned)
}

fn function_timeout(function: &FunctionConfiguration) -> Option<(String, u64)> {
    Some((function.function_name()?.to_owned(), function.timeout()?.try_into().ok()?))
}

fn dlq_sender(function: &FunctionConfiguration) -> Option<FailureSender> {
    let to = QueueId::from_arn(function.dead_letter_config()?.target_arn()?)?;
    Some(FailureSender { name: function.function_name()?.to_owned(), to })
}

fn destination_sender(mapping: &EventSourceMappingConfiguration) -> Option<FailureSender> {
    let to = QueueId::from_arn(mapping.destination_config()?.on_failure()?.destination()?)?;
    Some(FailureSender { name: mapping_function(mapping)?, to })
}

/// Parses the function that reads a queue; `None` if the mapping is paused and therefore reads nothing.
fn parse_reader(mapping: &EventSourceMappingConfiguration) -> Option<FunctionReader> {
    let queue = QueueId::from_arn(mapping.event_source_arn()?)?;
    if mapping.state().is_none_or(is_on) {
        Some(FunctionReader {
            function: mapping_function(mapping)?,
            queue,
            mapping_uuid: mapping.uuid().unwrap_or_default().to_owned(),
            reports_failures: reports_failures(mapping.function_response_types()),
            batching_window_seconds: mapping
                .maximum_batching_window_in_seconds()
                .map_or(0, i32::unsigned_abs)
                .into(),
        })
    } else {
        None
    }
}

/// Returns the function's name, with its version or alias, if any.
fn mapping_function(mapping: &EventSourceMappingConfiguration) -> Option<String> {
    Some(function_name(mapping.function_arn()?).to_owned())
}

#[cfg(test)]
mod tests;
