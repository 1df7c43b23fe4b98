//! The planner: predicts the effects of a policy before it is deployed.
//!
//! The schedule of retries and the outages that a message survives are computed from the policy. Load, dead letters and
//! requests are measured: the functions run in virtual time against a target that is down, flaps, fails, or is at its
//! capacity. The timing of producers, calls, pollers, environments and SQS requests follows [`ModelTimes`].

mod delays;
mod environments;
mod forecast;
mod inner_function;
mod invocation_counter;
mod load;
mod plain_sqs;
mod run;
mod scenario;
mod schedule;
mod survival;
mod target;
pub(crate) mod telemetry;
mod timed_queue;
mod times;

pub use delays::{DelayPercentiles, DelaysByGroup, LongestDelays};
pub use forecast::{
    Forecast, ForecastOutcome, PerMillion, PlainForecast, PolicyForecast, RETENTION_SHARE_MAX, WorstCase,
};
pub use inner_function::{Bottleneck, INNER_CONCURRENCY_MAX, InnerFunctionName, InnerLoad};
pub use load::{CallsInSecond, LoadBySecond, RecoveryLoad, WastedCalls};
pub use plain_sqs::PlainSqs;
pub use run::{BreakerCounts, Measurements, run_plain, run_policy};
pub use scenario::{FailedCall, Flap, Scenario, ScenarioGroups, TARGET_TIMEOUT, TargetFault};
pub use schedule::{Schedule, ScheduledAttempt};
pub use survival::{HoldPlan, Survival};
pub use times::ModelTimes;
