//! The planner: what a policy will do, before it is deployed.
//!
//! The schedule of retries and the outages that a message survives are computed from the policy. Load, dead letters and
//! requests are measured: the functions run in virtual time against a target that is down, flaps, fails, or is at its
//! capacity. Producers, calls, pollers, environments and requests to SQS take the times of [`Times`].

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

pub use delays::{ByGroup, Delays, LongestDelays};
pub use forecast::{
    Forecast, Outcome, PerMillion, PlainForecast, PolicyForecast, RETENTION_SHARE_MAX, WorstCase,
};
pub use inner_function::{Bottleneck, INNER_CONCURRENCY_MAX, InnerFunctionName, InnerLoad};
pub use load::{AfterReturn, Load, Second, Wasted};
pub use plain_sqs::PlainSqs;
pub use run::{CircuitBreaker, Measurements, run, run_plain};
pub use scenario::{FailedCall, Flap, Groups, Scenario, TARGET_TIMEOUT, TargetFault};
pub use schedule::{Attempt, Schedule};
pub use survival::{HoldPlan, Survival};
pub use times::Times;
