//! The real programs, released as they are, on an SQS and under a Runtime API that no one here wrote.
#![expect(clippy::unwrap_used, reason = "clippy takes only #[test] functions for tests, not their helpers")]

mod install;
mod lambda_rie;
mod ministack;
mod moto;
mod requests;
mod tls_target;
