//! The checks before a deployment: it must not resume a paused stack, the event source mappings must have the settings
//! that redeliver needs, the queue names must be free, and the account must have enough concurrency.

mod concurrency;
mod event_sources;

use std::collections::BTreeSet;
use std::path::Path;

use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;
use serde::Serialize;
use serde_json::Value;

use crate::files::read_text;
use crate::queues::event_sources::{EventSources, LambdaMapping};
use crate::queues::{AwsConnection, OpenQueue, QueueSelection, RequestLog, find_stack, queue_name_from_arn};
use crate::{CommandFailure, ExitCode};
pub use concurrency::Concurrency;
pub use event_sources::EventSourceProblem;

/// The findings of the checks before a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// True if the deployment exists; `None` if this could not be determined.
    pub deployed: Option<bool>,
    /// Disabled event source mappings, which a deployment might enable; `None` if they are unknown.
    pub paused: Option<Vec<DisabledMapping>>,
    /// Mappings that let messages bypass redeliver or get lost; `None` if the mappings are unknown.
    pub event_sources: Option<Vec<EventSourceProblem>>,
    /// Queues that the template would create although they already exist; `None` if unknown.
    pub taken_queues: Option<Vec<String>>,
    /// `None` without a template, or if the account's concurrency is unknown.
    pub concurrency: Option<Concurrency>,
    /// Errors about data that could not be read.
    pub problems: Vec<String>,
}

/// A disabled event source mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DisabledMapping {
    pub queue: String,
    pub function: String,
    pub state: String,
}

/// Checks a deployment, which does not have to exist yet, and the template to deploy. Requests that AWS rejects are
/// listed as problems, not returned as errors.
///
/// # Errors
/// If the template cannot be read, is not JSON, or has no resources. In these cases, no request is made.
pub async fn run_preflight(
    connection: &AwsConnection,
    deployment: &QueueSelection,
    template: Option<&Path>,
) -> Result<Preflight, CommandFailure> {
    let mut found = Preflight::default();
    let template = template.map(read_template).transpose()?;
    if let Some(template) = &template {
        let required = concurrency::sum_concurrency(template);
        found.problems.extend(required.unlimited.into_iter().map(|id| {
            format!(
                "the event source mapping {id} has no limit in the template, so its concurrency is unknown"
            )
        }));
        match check_concurrency(connection, required.concurrency).await {
            Ok(concurrency) => found.concurrency = Some(concurrency),
            Err(error) => {
                found.problems.push(format!("could not determine the account's concurrency: {error}"))
            }
        }
    }
    if let Err(error) = found.add_deployment_findings(connection, deployment, template.as_ref()).await {
        let name = deployment.deployment_name().unwrap_or_default();
        found.problems.push(format!("could not read all of {name}: {error}"));
    }
    Ok(found)
}

fn read_template(path: &Path) -> Result<Value, CommandFailure> {
    let template: Value = serde_json::from_str(&read_text(path)?)
        .map_err(|error| format!("{}: not a template in JSON: {error}", path.display()))?;
    if !template["Resources"].is_object() {
        return Err(format!("{}: not a CloudFormation template: it has no Resources", path.display()).into());
    }
    Ok(template)
}

/// Returns the queue names in a template.
fn queue_names(template: &Value) -> Vec<&str> {
    let resources = template["Resources"].as_object().into_iter().flatten();
    let queues = resources.filter(|(_, resource)| resource["Type"] == "AWS::SQS::Queue");
    queues.filter_map(|(_, queue)| queue["Properties"]["QueueName"].as_str()).collect()
}

async fn find_existing_queues(
    connection: &AwsConnection,
    names: Vec<&str>,
) -> Result<Vec<String>, CommandFailure> {
    let mut existing = Vec::new();
    for name in names {
        if connection.has_queue(name).await? {
            existing.push(name.to_owned());
        }
    }
    Ok(existing)
}

async fn check_concurrency(connection: &AwsConnection, wanted: u64) -> Result<Concurrency, CommandFailure> {
    let config = connection.sdk_config(None).await?;
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    let lambda = aws_sdk_lambda::config::Builder::from(&config).interceptor(RequestLog::default()).build();
    let response = aws_sdk_lambda::Client::from_conf(lambda).get_account_settings().send().await;
    let settings = match response {
        Ok(settings) => settings,
        Err(error) => {
            let failed = |reason: &str| format!("lambda:GetAccountSettings: {reason}");
            return Err(connection.explain_failure(&error, failed).await);
        }
    };
    let quota = settings.account_limit.map_or(0, |limit| limit.concurrent_executions);
    let quota = u64::try_from(quota).ok().filter(|quota| *quota > 0);
    let quota = quota.ok_or("lambda:GetAccountSettings: the response has no limit")?;
    Ok(Concurrency::new(wanted, quota, &region))
}

/// A queue and the mappings that read it. The queue is one of the deployment's, or its reader also reads the source
/// queue.
#[derive(Debug)]
struct MappedQueue {
    arn: String,
    /// `None` if the queue is not part of the deployment.
    role: Option<Role>,
    mappings: Vec<LambdaMapping>,
}

/// Finds the queues of a deployment, and other queues that are read by the functions that read its source queue.
async fn find_mapped_queues(
    connection: &AwsConnection,
    deployment: &QueueSelection,
) -> Result<Vec<MappedQueue>, CommandFailure> {
    let mut queues = Vec::new();
    for OpenQueue { role, known } in deployment.open_queues(connection).await? {
        let arn = known.queue.arn().to_owned();
        let mappings = EventSources::for_queue_region(connection, &arn).await?.list_for_queue(&arn).await?;
        queues.push(MappedQueue { arn, role, mappings });
    }
    let Some(source) = queues.iter().find(|queue| queue.role == Some(Role::Source)) else {
        return Ok(queues);
    };
    let sources = EventSources::for_queue_region(connection, &source.arn).await?;
    let functions: BTreeSet<String> =
        source.mappings.iter().map(|mapping| mapping.function.clone()).collect();
    for function in functions {
        for mapping in sources.list_for_function(&function).await? {
            let is_known = queues.iter().any(|queue| queue.arn == mapping.source);
            if !is_known && mapping.reads_queue() {
                let (arn, mappings) = (mapping.source.clone(), vec![mapping]);
                queues.push(MappedQueue { arn, role: None, mappings });
            }
        }
    }
    Ok(queues)
}

/// Returns the queue's disabled mappings, which a deployment might enable. Empty for queues outside the deployment.
fn paused_mappings(queue: &MappedQueue) -> impl Iterator<Item = DisabledMapping> {
    let mappings = queue.role.and(Some(&queue.mappings)).into_iter().flatten();
    mappings.filter(|mapping| !mapping.is_on()).map(|mapping| DisabledMapping {
        queue: queue_name_from_arn(&queue.arn).to_owned(),
        function: mapping.function.clone(),
        state: mapping.state.clone(),
    })
}

impl Preflight {
    /// Adds the findings about the deployment or, if it does not exist, the queues that its template could not create.
    async fn add_deployment_findings(
        &mut self,
        connection: &AwsConnection,
        deployment: &QueueSelection,
        template: Option<&Value>,
    ) -> Result<(), CommandFailure> {
        let name = deployment.deployment_name().unwrap_or_default();
        let is_deployed = match deployment.selects_by_stack() {
            true => find_stack(connection, &name).await?.is_some(),
            // Every deployment has this queue.
            false => connection.has_queue(&format!("{name}-final-dlq")).await?,
        };
        self.deployed = Some(is_deployed);
        let queues = if is_deployed { find_mapped_queues(connection, deployment).await? } else { Vec::new() };
        self.paused = Some(queues.iter().flat_map(paused_mappings).collect());
        self.event_sources = Some(event_sources::find_problems(&queues));
        let new = template.filter(|_| !is_deployed).map(queue_names).unwrap_or_default();
        self.taken_queues = Some(find_existing_queues(connection, new).await?);
        Ok(())
    }

    /// Returns `Incomplete` if something could not be read, `ProblemsFound` if there is a finding, otherwise `Done`.
    pub fn exit_code(&self) -> ExitCode {
        let is_enough = self.concurrency.as_ref().is_none_or(|concurrency| concurrency.advice.is_none());
        let is_paused = self.paused.iter().flatten().next().is_some();
        let is_taken = self.taken_queues.iter().flatten().next().is_some();
        let are_sound = self.event_sources.iter().flatten().next().is_none();
        match (self.problems.is_empty(), !is_paused && !is_taken && are_sound && is_enough) {
            (false, _) => ExitCode::Incomplete,
            (true, true) => ExitCode::Done,
            (true, false) => ExitCode::ProblemsFound,
        }
    }

    /// Describes the findings, one line each.
    pub fn describe_findings(&self) -> String {
        let deployed = (self.deployed == Some(false)).then(|| {
            "deployment: it does not exist, so there are no mappings to check; if it should, check its name, the region and \
             the profile\n"
                .to_owned()
        });
        let concurrency = self.concurrency.as_ref().and_then(|concurrency| concurrency.advice.as_ref());
        let concurrency = concurrency.map(|sentence| format!("concurrency: {sentence}\n"));
        let paused = self.paused.iter().flatten().map(DisabledMapping::describe_pause);
        let event_sources =
            self.event_sources.iter().flatten().map(|problem| format!("event source: {}\n", problem.advice));
        let taken = self.taken_queues.iter().flatten().map(|queue| {
            format!(
                "name: {queue} exists, so the new stack cannot create it; another stack owns it, or a removed one \
                 retained it: change the prefix or the stage, or delete the queue if its messages are not needed\n"
            )
        });
        deployed.into_iter().chain(paused).chain(event_sources).chain(taken).chain(concurrency).collect()
    }
}

impl DisabledMapping {
    fn describe_pause(&self) -> String {
        let Self { queue, function, state } = self;
        format!(
            "paused: {function} at {queue} is {state}; a deployment may enable it: resume first, or pause again \
             afterwards\n"
        )
    }
}

#[cfg(test)]
mod tests;
