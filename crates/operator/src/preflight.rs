//! A look before a deployment: would it resume a paused deployment, and has the account the concurrency that it wants?

use redeliver_core::ports::Queue as _;
use serde::Serialize;

use crate::Failure;
use crate::queues::event_sources::EventSources;
use crate::queues::{Connection, OpenQueue, Queues, name_in, stack};

/// The findings before a deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preflight {
    /// Event source mappings that are off. A deployment may enable them.
    pub paused: Vec<Paused>,
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

/// Looks at a stack, which need not be deployed yet.
pub async fn look(connection: &Connection, stack: &str) -> Preflight {
    let mut found = Preflight::default();
    match paused(connection, stack).await {
        Ok(paused) => found.paused = paused,
        Err(error) => found.problems.push(format!("it is not known whether {stack} is paused: {error}")),
    }
    found
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
    /// As documented in `--help`.
    pub fn exit_code(&self) -> u8 {
        match (self.problems.is_empty(), self.paused.is_empty()) {
            (false, _) => 1,
            (true, true) => 0,
            (true, false) => 3,
        }
    }

    /// A line for each finding.
    pub fn lines(&self) -> String {
        self.paused.iter().map(Paused::in_words).collect()
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
