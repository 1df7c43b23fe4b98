//! Lambda: the functions and event source mappings whose failures go to queues, and the functions that read queues.

use std::collections::BTreeMap;

use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionConfiguration};

use super::Region;
use crate::fleet::facts::{QueueId, Reader, Sender};
use crate::queues::event_sources::{function_name, is_on, reports_failures};

/// Functions of an account.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub(super) account: Option<String>,
    pub(super) senders: Vec<Sender>,
    pub(super) timeouts: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Mappings {
    pub(super) senders: Vec<Sender>,
    pub(super) readers: Vec<Reader>,
}

impl Region<'_> {
    pub(super) async fn functions(&self) -> Result<Functions, String> {
        let request = self.lambda.list_functions();
        let functions: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let functions = self.read("lambda:ListFunctions", functions).await?;
        Ok(Functions {
            account: functions.iter().find_map(account),
            senders: functions.iter().filter_map(with_dlq).collect(),
            timeouts: functions.iter().filter_map(timeout).collect(),
        })
    }

    pub(super) async fn mappings(&self) -> Result<Mappings, String> {
        let request = self.lambda.list_event_source_mappings();
        let mappings: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let mappings = self.read("lambda:ListEventSourceMappings", mappings).await?;
        Ok(Mappings {
            senders: mappings.iter().filter_map(with_destination).collect(),
            readers: mappings.iter().filter_map(reader).collect(),
        })
    }
}

/// `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`
fn account(function: &FunctionConfiguration) -> Option<String> {
    function.function_arn()?.split(':').nth(4).map(str::to_owned)
}

fn timeout(function: &FunctionConfiguration) -> Option<(String, u64)> {
    Some((function.function_name()?.to_owned(), function.timeout()?.try_into().ok()?))
}

fn with_dlq(function: &FunctionConfiguration) -> Option<Sender> {
    let to = QueueId::in_arn(function.dead_letter_config()?.target_arn()?)?;
    Some(Sender { name: function.function_name()?.to_owned(), to })
}

fn with_destination(mapping: &EventSourceMappingConfiguration) -> Option<Sender> {
    let to = QueueId::in_arn(mapping.destination_config()?.on_failure()?.destination()?)?;
    Some(Sender { name: function_of(mapping)?, to })
}

/// `None` if the mapping is paused: it reads nothing.
fn reader(mapping: &EventSourceMappingConfiguration) -> Option<Reader> {
    let of = QueueId::in_arn(mapping.event_source_arn()?)?;
    if mapping.state().is_none_or(is_on) {
        Some(Reader {
            function: function_of(mapping)?,
            of,
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

/// The function's name, with its version or alias if it has one.
fn function_of(mapping: &EventSourceMappingConfiguration) -> Option<String> {
    Some(function_name(mapping.function_arn()?).to_owned())
}

#[cfg(test)]
mod tests;
