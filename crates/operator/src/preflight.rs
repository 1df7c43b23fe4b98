//! Checks before a deployment: may it resume a paused stack, and does the account have the concurrency that it wants?

mod concurrency;

use std::path::Path;

use redeliver_core::ports::Queue as _;
use serde::Serialize;
use serde_json::Value;

use crate::files::read_text;
use crate::queues::event_sources::EventSources;
use crate::queues::{Connection, OpenQueue, Queues, Requests, name_in, stack};
use crate::{ExitCode, Failure};
pub use concurrency::Concurrency;

/// The findings before a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// Event source mappings that are off, which a deployment may enable; `None` if they are not known.
    pub paused: Option<Vec<Paused>>,
    /// `None` without a template, or if the account's concurrency is not known.
    pub concurrency: Option<Concurrency>,
    /// Errors about what could not be read.
    pub problems: Vec<String>,
}

/// An event source mapping that is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Paused {
    pub queue: String,
    pub function: String,
    pub state: String,
}

/// Checks a stack, which need not be deployed yet, and the template that will be deployed.
///
/// # Errors
/// The template cannot be read, is not JSON, or has no resources.
pub async fn look(
    connection: &Connection,
    stack: &str,
    template: Option<&Path>,
) -> Result<Preflight, Failure> {
    let mut found = Preflight::default();
    if let Some(path) = template {
        let template = serde_json::from_str(&read_text(path)?);
        let template: Value =
            template.map_err(|error| format!("{}: not a template in JSON: {error}", path.display()))?;
        if !template["Resources"].is_object() {
            return Err(
                format!("{}: not a CloudFormation template: it has no Resources", path.display()).into()
            );
        }
        let wanted = concurrency::wanted(&template);
        found.problems.extend(wanted.unlimited.into_iter().map(|id| {
            format!(
                "the event source mapping {id} has no limit in the template, so its concurrency is not known"
            )
        }));
        match concurrency(connection, wanted.concurrency).await {
            Ok(concurrency) => found.concurrency = Some(concurrency),
            Err(error) => found.problems.push(format!("the account's concurrency is not known: {error}")),
        }
    }
    match paused(connection, stack).await {
        Ok(paused) => found.paused = Some(paused),
        Err(error) => found.problems.push(format!("it is not known whether {stack} is paused: {error}")),
    }
    Ok(found)
}

async fn concurrency(connection: &Connection, wanted: u64) -> Result<Concurrency, Failure> {
    let config = connection.sdk_config(None).await?;
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    let lambda = aws_sdk_lambda::config::Builder::from(&config).interceptor(Requests::default()).build();
    let asked = aws_sdk_lambda::Client::from_conf(lambda).get_account_settings().send().await;
    let settings = match asked {
        Ok(settings) => settings,
        Err(error) => {
            let failed = |reason: &str| format!("lambda:GetAccountSettings: {reason}");
            return Err(connection.failed(&error, failed).await);
        }
    };
    let quota = settings.account_limit.map_or(0, |limit| limit.concurrent_executions);
    let quota = u64::try_from(quota).ok().filter(|quota| *quota > 0);
    let quota = quota.ok_or("lambda:GetAccountSettings: the answer has no limit")?;
    Ok(Concurrency::new(wanted, quota, &region))
}

async fn paused(connection: &Connection, name: &str) -> Result<Vec<Paused>, Failure> {
    if stack(connection, name).await?.is_none() {
        return Ok(Vec::new());
    }
    let mut paused = Vec::new();
    for OpenQueue { known, .. } in Queues::of_stack(name).open(connection).await? {
        let queue = known.queue.arn();
        let mappings = EventSources::near(connection, queue).await?.of(queue).await?;
        paused.extend(mappings.into_iter().filter(|mapping| !mapping.is_on()).map(|mapping| Paused {
            queue: name_in(queue).to_owned(),
            function: mapping.function,
            state: mapping.state,
        }));
    }
    Ok(paused)
}

impl Preflight {
    pub fn exit_code(&self) -> ExitCode {
        let is_enough = self.concurrency.as_ref().is_none_or(|concurrency| concurrency.advice.is_none());
        match (self.problems.is_empty(), self.paused.iter().flatten().next().is_none() && is_enough) {
            (false, _) => ExitCode::Incomplete,
            (true, true) => ExitCode::Done,
            (true, false) => ExitCode::Found,
        }
    }

    /// A line for each finding.
    pub fn lines(&self) -> String {
        let concurrency = self.concurrency.as_ref().and_then(|concurrency| concurrency.advice.as_ref());
        let concurrency = concurrency.map(|sentence| format!("concurrency: {sentence}\n"));
        self.paused.iter().flatten().map(Paused::in_words).chain(concurrency).collect()
    }
}

impl Paused {
    fn in_words(&self) -> String {
        let Self { queue, function, state } = self;
        format!("paused: {function} at {queue} is {state}; a deployment may enable it\n")
    }
}

#[cfg(test)]
mod tests;
