//! The real programs, exactly as released, on a third-party SQS and under a third-party Runtime API.
#![expect(clippy::unwrap_used, reason = "clippy treats only #[test] functions as tests, not their helpers")]

mod install;
mod lambda_rie;
mod ministack;
mod moto;
mod requests;
mod tls_target;
