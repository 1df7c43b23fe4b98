//! Switches a mapping to the requested state, and waits until the switch is complete.

use std::time::Duration;

use redeliver_core::ports::Clock;

use crate::queues::event_sources::{EventSources, LambdaError, LambdaMapping};

/// The pause between two checks of a mapping in an intermediate state.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The time limit for switching a mapping. Most switches take less than a minute.
const SWITCH_TIMEOUT: Duration = Duration::from_secs(180);

/// The requested state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingState {
    Disabled,
    Enabled,
}

impl MappingState {
    /// Returns the name of the state in the Lambda API.
    pub const fn state_name(self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::Enabled => "Enabled",
        }
    }

    pub(super) const fn progress_phrase(self) -> &'static str {
        match self {
            Self::Disabled => "pausing the readers of",
            Self::Enabled => "resuming the readers of",
        }
    }

    const fn opposite(self) -> Self {
        match self {
            Self::Disabled => Self::Enabled,
            Self::Enabled => Self::Disabled,
        }
    }
}

/// Switches a mapping to the requested state. If this fails or takes more than three minutes, returns an error that
/// describes the attempt.
pub async fn switch_mapping(
    sources: &EventSources,
    clock: &impl Clock,
    mapping: &LambdaMapping,
    wanted: MappingState,
) -> Result<(), String> {
    let state = drive_to_state(sources, clock, mapping, wanted).await.map_err(|error| error.to_string())?;
    if state == wanted.state_name() {
        return Ok(());
    }
    Err(format!("is {state}, not {}, after {} s", wanted.state_name(), SWITCH_TIMEOUT.as_secs()))
}

/// Switches a mapping to the requested state, and returns the last state seen.
async fn drive_to_state(
    sources: &EventSources,
    clock: &impl Clock,
    mapping: &LambdaMapping,
    wanted: MappingState,
) -> Result<String, LambdaError> {
    let deadline = clock.now() + SWITCH_TIMEOUT;
    let mut state = mapping.state.clone();
    while state != wanted.state_name() {
        // Lambda rejects changes to a mapping in an intermediate state.
        if state == wanted.opposite().state_name() {
            match sources.set_enabled(&mapping.uuid, wanted == MappingState::Enabled).await {
                Ok(changed) => state = changed.state,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
        }
        // Lambda responds immediately with an intermediate state (`Disabling`), in which the function is still invoked.
        // Only the final state counts.
        if state == wanted.state_name() || clock.now() + POLL_INTERVAL > deadline {
            break;
        }
        clock.sleep(POLL_INTERVAL).await;
        match sources.get_mapping(&mapping.uuid).await {
            Ok(now) => state = now.state,
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(state)
}

#[cfg(test)]
mod tests;
