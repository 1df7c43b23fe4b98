//! The test harness: as much of AWS as the three functions use, on loopback.
//!
//! It runs the compiled programs as Lambda does ([`runtime_api`]) and feeds them as an event source mapping does
//! ([`esm`]), from a third-party SQS emulator ([`ministack`]). It shares no code with the programs under test.
//! Another emulator ([`moto`]) enforces the functions' permissions, using the policy statements in a [`template`].
//! The requests to both emulators are checked against AWS's own service models (`tests/support/aws_models.py`).
//! The harness can also deploy the stack to an emulator that runs the functions itself ([`deployment`]).
//! The [`conformance`] suite is separate: rules that every implementation of the queue ports must follow.

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
mod validated_requests;
pub mod wire;
