//! The test harness: AWS as far as the three functions see it, on loopback.
//!
//! It runs the compiled programs as Lambda would ([`runtime_api`]), feeds them as an event source mapping would ([`esm`]),
//! on an SQS that no one here wrote ([`ministack`]). It shares no code with what it tests.
//! Its rights are enforced by another emulator ([`moto`]), with the statements of a [`template`].
//! The requests to both emulators are compared with AWS's own service models (`tests/support/aws_models.py`).
//! It deploys the stack, too, to an emulator that runs the functions itself ([`deployment`]).
//! The [`conformance`] suite is apart from it: rules that every implementation of the queue ports must keep.

pub mod archive_stub;
pub mod async_lambda;
pub mod canaries;
pub mod conformance;
pub mod deployment;
pub mod esm;
pub mod fake_aws;
pub mod figures;
pub mod full_batch;
pub mod http_target;
mod judged;
pub mod ministack;
pub mod moto;
pub mod otlp;
pub mod runtime_api;
pub mod runtimes;
pub mod script;
pub mod settings;
pub mod skips;
pub mod sqs;
pub mod sqs_stub;
pub mod strangers;
pub mod template;
pub mod topology;
pub mod wire;
