//! Names help nobody in Lambda, and are two fifths of the program. The profile leaves them to those who count by name.

use std::env::var;

#[expect(clippy::disallowed_methods, reason = "it is how Cargo tells what it builds")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable, value| var(variable).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
