#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER for the fuzzer: compiles our own crates with LLVM's coverage counters, which libFuzzer
# reads. cargo-fuzz does the same to all crates by RUSTFLAGS, so it would compile the whole tree once more; its default, the
# address sanitizer, needs a nightly Rust. Optimised, since a fuzzer is as good as it is fast; debug checks stay.
case "$*" in
*"--crate-name redeliver_"*)
    exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares -Copt-level=2
    ;;
*) exec "$@" ;;
esac
