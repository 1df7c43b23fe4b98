#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER for the fuzzer: compiles our own crates with LLVM's coverage counters, which libFuzzer
# reads. cargo-fuzz would set RUSTFLAGS for all crates and so compile the complete tree again, and its default, the address
# sanitizer, needs a nightly Rust. The code is optimized, since speed matters for fuzzing, but debug checks stay on.
case "$*" in
*"--crate-name redeliver_"*)
    exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares -Copt-level=2
    ;;
*) exec "$@" ;;
esac
