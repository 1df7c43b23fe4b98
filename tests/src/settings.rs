//! Where the harness finds things: its one door to the environment and to the time.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The timeout for events that must come: longer than the busiest machine needs. Only a hang exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// An environment variable; `None` where it is unset, empty or not UTF-8.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the harness's one door to the environment")]
pub fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Milliseconds since 1970, as Lambda states a deadline.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the harness's one door to the time")]
pub fn epoch_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_millis()
}

/// The workspace's root.
#[must_use]
pub fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace's root")
}

/// Cargo's target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    env_variable("CARGO_TARGET_DIR")
        .map_or_else(|| workspace_root().join("target"), |directory| workspace_root().join(directory))
}

/// A program of the Python environment that `cargo xtask test` sets up (`REDELIVER_VENV` names another one).
///
/// # Panics
/// If it is not there: a missing emulator is a failure, not a silent skip.
#[must_use]
pub fn venv_file(path: &str) -> PathBuf {
    let venv = env_variable("REDELIVER_VENV").map_or_else(|| target_dir().join("venv"), PathBuf::from);
    assert_exists(venv.join(path))
}

/// A program as it is built for Lambda: a function, or the benchmark's floor.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn bundle_path(name: &str) -> PathBuf {
    assert_exists(workspace_root().join("target/lambda").join(name).join("bootstrap"))
}

/// A program of the tests' own build, e.g. `redeliver`.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn tested_program(name: &str) -> PathBuf {
    let path = target_dir().join("debug").join(name);
    assert!(path.exists(), "{} is not there; run `cargo build --bin {name}`", path.display());
    path
}

/// A program of the release build, for benchmarks.
///
/// # Panics
/// If it has not been built.
#[must_use]
pub fn release_program(name: &str) -> PathBuf {
    assert_exists(target_dir().join("release").join(name))
}

/// Ports outside the ephemeral ranges of Linux and macOS: no connection takes one, so a free one stays free.
const PORTS: RangeInclusive<u16> = 20_000..=32_000;

/// An address of loopback that was free a moment ago, and was not returned before in this process.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_address() -> SocketAddr {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let (first, count) = (u32::from(*PORTS.start()), u32::try_from(PORTS.len()).expect("few ports"));
    // Processes that run at once begin apart.
    let begin = std::process::id().wrapping_mul(97);
    let mut candidates = (0..count).map(|_| {
        let next = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % count;
        SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(first + next).expect("one of the ports")))
    });
    candidates.find(|address| TcpListener::bind(address).is_ok()).expect("loopback has a free port")
}

/// A file that must be there.
///
/// # Panics
/// If it is not.
pub fn assert_exists(path: PathBuf) -> PathBuf {
    assert!(path.exists(), "{} is not there; run `cargo xtask test`, which sets it up", path.display());
    path
}
