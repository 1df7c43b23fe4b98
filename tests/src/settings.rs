//! The settings of the harness. All access to the environment and the clock is in this module.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The timeout for events that must happen: longer than the busiest machine needs, so only a hang exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// Returns an environment variable, or `None` if it is unset, empty or not UTF-8.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the harness's only access to the environment")]
pub fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the milliseconds since 1970, as in Lambda's deadlines.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the harness's only access to the time")]
pub fn epoch_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_millis()
}

/// Returns the workspace's root.
#[must_use]
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package is in the workspace's root")
}

/// Returns Cargo's target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    env_variable("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), |directory| workspace_root().join(directory))
}

/// Returns a file in the Python environment that `cargo xtask test` sets up (`REDELIVER_VENV` selects another).
///
/// # Panics
/// If it does not exist: a missing emulator is a failure, not a silent skip.
#[must_use]
pub fn venv_file(path: &str) -> PathBuf {
    let venv = env_variable("REDELIVER_VENV").map_or_else(|| target_dir().join("venv"), PathBuf::from);
    assert_exists(venv.join(path))
}

/// Returns a program built for Lambda: a function, or the benchmark's floor.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn bundle_path(name: &str) -> PathBuf {
    assert_exists(workspace_root().join("target/lambda").join(name).join("bootstrap"))
}

/// Returns a program from the tests' own build, e.g. `redeliver`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn debug_binary(name: &str) -> PathBuf {
    let path = target_dir().join("debug").join(name);
    assert!(path.exists(), "{} does not exist; run `cargo build --bin {name}`", path.display());
    path
}

/// Returns a program from the release build, for benchmarks.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn release_binary(name: &str) -> PathBuf {
    assert_exists(target_dir().join("release").join(name))
}

/// Ports outside the ephemeral ranges of Linux and macOS: no outgoing connection gets one, so a free port stays free.
const PORTS: RangeInclusive<u16> = 20_000..=32_000;

/// Returns a loopback address that was free a moment ago and that this process has not returned before.
///
/// # Panics
/// If no port is free.
#[must_use]
pub fn free_address() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let (first, count) = (u32::from(*PORTS.start()), u32::try_from(PORTS.len()).expect("few ports"));
    // Each process starts at a different port, so concurrent processes rarely collide.
    let begin = std::process::id().wrapping_mul(97);
    let mut candidates = (0..count).map(|_| {
        let next = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % count;
        SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(first + next).expect("one of the ports")))
    });
    candidates.find(|address| TcpListener::bind(address).is_ok()).expect("loopback has a free port")
}

/// Returns the path of a file that must exist.
///
/// # Panics
/// If the file does not exist.
pub fn assert_exists(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} does not exist; run `cargo xtask test`, which creates it", path.display());
    path
}
