//! `cargo xtask bundle`: builds the functions' deployment packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::glibc;
use crate::tools::{TaskFailure, command_output, env_variable, run_command, workspace_root};
use crate::venv;

/// The processor architecture of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LambdaArchitecture {
    Arm64,
    X86_64,
}

/// The functions, each with its own program.
pub(crate) const FUNCTIONS: [&str; 4] =
    ["message-processor", "failed-message-processor", "final-dlq-annotator", "async-retry-handler"];

/// Returns the name of the Cargo package that contains a function's program.
pub(crate) fn package_name(function: &str) -> String {
    format!("redeliver-{function}")
}

/// Builds `target/lambda/FUNCTION/bootstrap` for each function. The functions share all compiled crates and are only
/// linked separately.
///
/// # Errors
/// The Rust target or Python is missing, or the build fails.
pub(crate) fn bundle_functions(architecture: LambdaArchitecture) -> Result<(), TaskFailure> {
    build_programs(architecture, &[], &FUNCTIONS)
}

/// Builds the floor, a minimal function with the same dependencies and features, to which the benchmark compares the
/// others.
///
/// # Errors
/// See [`bundle_functions`].
pub(crate) fn bundle_floor_function(architecture: LambdaArchitecture) -> Result<(), TaskFailure> {
    build_programs(architecture, &["redeliver-floor"], &["floor"])
}

/// Builds the program whose instructions are counted, with the same dependencies and features as the bundles. If the
/// bundles were built, these dependencies are already compiled.
///
/// # Errors
/// See [`bundle_functions`].
pub(crate) fn build_costs_program() -> Result<PathBuf, TaskFailure> {
    build_programs(LambdaArchitecture::HOST, &["redeliver-costs"], &["costs"])?;
    Ok(program_path("costs"))
}

/// Builds programs with only the features that the functions and these packages enable. Otherwise, the features of the
/// entire workspace would be linked in.
fn build_programs(
    architecture: LambdaArchitecture,
    packages: &[&str],
    programs: &[&str],
) -> Result<(), TaskFailure> {
    architecture.require_target()?;
    let venv = venv::set_up(&venv::BUNDLE)?.require_environment()?;
    let mut build = Command::new(venv.join("bin/cargo-lambda"));
    build.args(["lambda", "build", "--profile", "bundle", "--locked"]);
    build.args(["--target", &format!("{}.{}", architecture.rust_target(), glibc::FOR_FUNCTIONS)]);
    // Uses the workspace's profile with `panic = "unwind"`: cargo-lambda's own profile would abort on a panic.
    build.args(["--disable-optimizations", "--skip-target-check"]);
    build.args(FUNCTIONS.map(|function| format!("--package={}", package_name(function))));
    build.args(packages.iter().map(|name| format!("--package={name}")));
    build.args(programs.iter().map(|name| format!("--bin={name}")));
    build.arg("--lambda-dir").arg(bundles_folder());
    // A third of the cryptography code consists of tables and variants for heavy traffic, which a function does not
    // have.
    build.env("AWS_LC_SYS_SMALL", "1").env("RUSTFLAGS", reproducible_flags());
    run_command(build.current_dir(workspace_root()).env("PATH", prepend_to_path(&venv.join("bin"))?))?;
    programs.iter().try_for_each(|name| {
        println!("{}", program_path(name).display());
        glibc::check_glibc(&program_path(name), glibc::FOR_FUNCTIONS)
    })
}

/// Returns the path of a built function or tool.
pub(crate) fn program_path(name: &str) -> PathBuf {
    bundles_folder().join(name).join("bootstrap")
}

/// Returns the folder in which the stack looks for bundles.
fn bundles_folder() -> PathBuf {
    workspace_root().join("target/lambda")
}

impl LambdaArchitecture {
    /// This machine's architecture, which the tests and the local deployment use.
    pub(crate) const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Arm64 } else { Self::X86_64 };

    /// Returns the other architecture.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Arm64 => Self::X86_64,
            Self::X86_64 => Self::Arm64,
        }
    }

    /// Returns Lambda's name for the architecture.
    pub(crate) fn lambda_name(self) -> &'static str {
        match self {
            Self::Arm64 => "arm64",
            Self::X86_64 => "x86-64",
        }
    }

    /// Returns the architecture's name on Linux and in Python.
    pub(crate) fn machine_name(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64",
            Self::X86_64 => "x86_64",
        }
    }

    /// Returns the Rust target.
    pub(crate) fn rust_target(self) -> &'static str {
        match self {
            Self::Arm64 => "aarch64-unknown-linux-gnu",
            Self::X86_64 => "x86_64-unknown-linux-gnu",
        }
    }

    /// Checks that Rust can build for this architecture. cargo-lambda would download a missing target without asking.
    ///
    /// # Errors
    /// The target is missing: the error says what to install.
    pub(crate) fn require_target(self) -> Result<(), TaskFailure> {
        let target = self.rust_target();
        let rustc = env_variable("RUSTC").unwrap_or_else(|| "rustc".into());
        let libraries =
            command_output(Command::new(rustc).args(["--print", "target-libdir", "--target", target]))?;
        if Path::new(libraries.trim()).is_dir() {
            return Ok(());
        }
        Err(TaskFailure(format!(
            "Rust's target {target} is missing: run `rustup target add {target}`, or bundle for {}",
            self.other().lambda_name()
        )))
    }
}

/// Returns the flags that replace the path of Cargo's crates in panic messages, so that builds are reproducible.
pub(crate) fn reproducible_flags() -> String {
    let home = std::env::home_dir().unwrap_or_default();
    let cargo_home = env_variable("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    format!("--remap-path-prefix={}=/cargo", cargo_home.display())
}

/// Returns the search path with this folder first. zig is found through the environment's Python.
pub(crate) fn prepend_to_path(first: &Path) -> Result<std::ffi::OsString, TaskFailure> {
    let rest = env_variable("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).map_err(|error| TaskFailure(format!("PATH: {error}")))
}
