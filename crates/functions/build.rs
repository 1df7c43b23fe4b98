//! Nobody needs the symbols of a function in Lambda, two fifths of the program. The profile keeps them for callgrind, which
//! counts by name. The build script of the floor, too, which the functions are compared with.

use std::env::var;

#[expect(clippy::disallowed_methods, reason = "it is how Cargo tells what it builds")]
fn main() {
    let is = |variable, value| var(variable).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
