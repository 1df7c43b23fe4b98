//! Lambda: which functions and event source mappings send to queues what they give up, and which functions read queues.

use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionConfiguration};

use super::Region;
use crate::fleet::facts::{QueueId, Reader, Sender, SenderKind};

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
        let mut pages = self.lambda.list_functions().into_paginator().items().send();
        let mut found = Functions::default();
        while let Some(function) = pages.next().await {
            match function {
                Ok(function) => {
                    found.account = found.account.or_else(|| account(&function));
                    found.senders.extend(with_dlq(&function));
                }
                Err(error) => return Err(self.failed("lambda:ListFunctions", &error).await),
            }
        }
        Ok(found)
    }

    pub(super) async fn mappings(&self) -> Result<Mappings, String> {
        let mut pages = self.lambda.list_event_source_mappings().into_paginator().items().send();
        let mut found = Mappings::default();
        while let Some(mapping) = pages.next().await {
            match mapping {
                Ok(mapping) => {
                    found.senders.extend(with_destination(&mapping));
                    found.readers.extend(reader(&mapping));
                }
                Err(error) => return Err(self.failed("lambda:ListEventSourceMappings", &error).await),
            }
        }
        Ok(found)
    }
}

/// `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`
fn account(function: &FunctionConfiguration) -> Option<String> {
    function.function_arn()?.split(':').nth(4).map(str::to_owned)
}

fn with_dlq(function: &FunctionConfiguration) -> Option<Sender> {
    let to = QueueId::in_arn(function.dead_letter_config()?.target_arn()?)?;
    Some(Sender { kind: SenderKind::Function, name: function.function_name()?.to_owned(), to })
}

fn with_destination(mapping: &EventSourceMappingConfiguration) -> Option<Sender> {
    let to = QueueId::in_arn(mapping.destination_config()?.on_failure()?.destination()?)?;
    Some(Sender { kind: SenderKind::EventSourceMapping, name: function_of(mapping)?, to })
}

/// One that is paused reads nothing.
fn reader(mapping: &EventSourceMappingConfiguration) -> Option<Reader> {
    let of = QueueId::in_arn(mapping.event_source_arn()?)?;
    let is_paused = matches!(mapping.state(), Some("Disabled" | "Disabling" | "Deleting"));
    if is_paused { None } else { Some(Reader { function: function_of(mapping)?, of }) }
}

/// With its version or alias if it has one.
fn function_of(mapping: &EventSourceMappingConfiguration) -> Option<String> {
    let arn = mapping.function_arn()?;
    Some(arn.split_once(":function:").map_or(arn, |(_, name)| name).to_owned())
}

#[cfg(test)]
mod tests;
