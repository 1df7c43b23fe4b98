//! Fuzzing of everything that parses untrusted bytes. Each target checks its own properties.
//!
//! `cargo xtask fuzz` runs every target for an equal share of three minutes, `cargo xtask fuzz --seconds 600 envelope`
//! runs one for ten. The engine is libFuzzer, coverage-guided, on stable Rust: compiler flags turn on LLVM's coverage
//! pass, and code without `unsafe` needs no sanitizer. It needs a C++ compiler.
//!
//! A target is a function that takes bytes and panics if a property is violated:
//!
//! | target | input | properties |
//! | --- | --- | --- |
//! | `envelope` | the body's parser and splicer | exactly the valid bodies are accepted; splices change only our members |
//! | `edit` | the splicer of `redeliver redrive --edit` | the result equals the edit; unedited values keep their bytes |
//! | `event` | the SQS event decoder | no record is lost or changed, and each is parsed independently |
//! | `policy` | the retry policy | it is interpreted as written, and its delays are in range for every attempt |
//! | `documents` | `Failure` and `DeadLetter` on arrival | folded attributes are restored, and others stay unchanged |
//! | `decision` | policy, failure and message together | retries make progress and end, and each re-send is valid |
//! | `annotation` | a final record's attributes | SQS accepts them, and no producer attribute is lost |
//! | `failure` | the attributes of a hand-off and of a verdict | SQS accepts them, and no producer attribute is lost |
//! | `retry_after` | `Retry-After` | the parsed delay and the re-send's delay are within limits |
//!
//! The JSON oracle is [`json`], written from RFC 8259 and compared with `serde_json` for every input.
//!
//! Every run starts from three collections of inputs, which are also regression tests without a fuzzer
//! (`tests/corpus.rs`): `corpus/<target>`, `json-test-suite` (public, see its README) and the examples in `schemas/`.
//! New inputs found by a run are kept in `target/fuzz`; `cargo xtask fuzz --keep` adds those that reach new code to
//! `corpus`. A crash is reported with its file and the command that replays it. Fix the bug, and add the file to
//! `corpus/<target>`.

mod aws;
/// Includes only the splicer, because its crate depends on jq.
#[path = "../../../crates/dead-letters/src/edit.rs"]
#[expect(unreachable_pub, reason = "public in its crate, private here")]
mod edit;
mod generators;
pub mod json;
mod messages;
mod targets;

use aws::received; // the path that the decoders of `crates/aws` use
pub use targets::{FuzzTarget, TARGETS};
