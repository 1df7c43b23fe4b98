//! Lambda: the functions and event source mappings whose failures go to queues, and the functions that read queues.

use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionConfiguration};

use super::Region;
use crate::fleet::facts::{QueueId, Reader, Sender};
use crate::queues::event_sources::{function_name, is_on};

/// Functions of an account.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub(super) account: Option<String>,
    pub(super) senders: Vec<Sender>,
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
        Some(Reader { function: function_of(mapping)?, of })
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
