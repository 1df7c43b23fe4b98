//! Fuzzing: all that takes bytes from strangers, each with its properties.
//!
//! `cargo xtask fuzz` runs every target for its share of three minutes, `cargo xtask fuzz --seconds 600 envelope` one for ten.
//! The engine is libFuzzer, coverage-guided, on stable Rust: LLVM's coverage pass is switched on by compiler flags, and no
//! sanitizer is needed where there is no `unsafe`. It wants a C++ compiler.
//!
//! A target is a function of bytes that panics where a property does not hold:
//!
//! | target | what is fuzzed | what must hold |
//! | --- | --- | --- |
//! | `envelope` | the body's parser and splicer | accepted is exactly what the rules accept; a splice changes our members only |
//! | `edit` | the splicer of `redeliver redrive --edit` | the result means the edit; what was not edited keeps its bytes |
//! | `event` | the SQS event decoder | no record lost, none changed, each read as if it were alone |
//! | `policy` | the retry policy | what is accepted is what it says, and its delays are in range for every attempt |
//! | `documents` | `Failure` and `DeadLetter` on arrival | what was folded is restored, what is not ours is left alone |
//! | `decision` | policy, failure and message together | attempts grow and end, the result is a valid message |
//! | `annotation` | a final record's attributes | SQS takes them, and no producer attribute is lost |
//! | `failure` | a hand-off's and a verdict's attributes | the same |
//! | `retry_after` | `Retry-After` | limits, and the delay that comes of it |
//!
//! The oracle of JSON is [`json`], written from RFC 8259 and held against `serde_json` with every input.
//!
//! Three collections of inputs begin every run, and are regression tests without a fuzzer (`tests/corpus.rs`):
//! `corpus/<target>`, `json-test-suite` (public, see its README) and the examples of `schemas/`. A run's own findings are kept
//! under `target/fuzz`; `cargo xtask fuzz --keep` adds those that reach new code to `corpus`. A crash is reported
//! with its file and the command that replays it. Mend it, and add the file to `corpus/<target>`.

mod aws;
/// The splicer alone: its crate would bring jq.
#[path = "../../../crates/dead-letters/src/edit.rs"]
#[expect(unreachable_pub, reason = "what is public there is private here")]
mod edit;
pub mod json;
mod made;
mod messages;
mod targets;

use aws::received; // where the decoders of `crates/aws` look for it
pub use targets::{TARGETS, Target};
