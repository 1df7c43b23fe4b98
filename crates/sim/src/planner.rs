//! The planner: what a policy will do, before it is deployed.
//!
//! The schedule of retries and the outages that a message survives are computed from the policy. Load, dead letters and
//! requests are measured: the functions run in virtual time against a target that is down, fails, or is at its capacity.

mod environments;
mod forecast;
mod load;
pub(crate) mod log_bytes;
mod request_counter;
mod run;
mod scenario;
mod schedule;
mod survival;
mod target;

pub use forecast::{Outcome, PerMillion, PolicyReport, Report, Span};
pub use load::{AfterReturn, Load, Second, Wasted};
pub use run::{CircuitBreaker, Measured, SimulationError, run};
pub use scenario::{Concurrency, Scenario, Trouble};
pub use schedule::{Attempt, Schedule};
pub use survival::{Held, Survival};
