//! The Java and Go functions that the tests run. They are rebuilt only when their sources change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{TaskFailure, command_output, run_command, target_dir, workspace_root};

/// The Maven goal that copies the libraries listed in a `pom.xml`.
const COPY_DEPENDENCIES: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies";

/// A folder with functions in one language.
pub(crate) struct FunctionsFolder {
    /// The folder's name in `tests/runtimes`, and in `functions` under the target directory.
    language: &'static str,
    tools: &'static [(&'static str, &'static str)],
    remedy: &'static str,
    build: fn(sources: &Path, into: &Path) -> Result<(), TaskFailure>,
}

/// The Java functions, which use AWS's runtime interface client.
pub(crate) const JAVA: FunctionsFolder = FunctionsFolder {
    language: "java",
    tools: &[("javac", "--version"), ("mvn", "--version")],
    remedy: "install a JDK 17 or later and Maven (on Debian: openjdk-17-jdk-headless maven)",
    build: build_java,
};
/// The Go functions, which use AWS's library.
pub(crate) const GO: FunctionsFolder = FunctionsFolder {
    language: "go",
    tools: &[("go", "version")],
    remedy: "install Go 1.18 or later (on Debian: golang-go)",
    build: build_go,
};

impl FunctionsFolder {
    /// Checks that the functions can be built on this machine.
    ///
    /// # Errors
    /// A tool is missing: the error says what to install.
    pub(crate) fn require_tools(&self) -> Result<(), &'static str> {
        let is_there =
            |(program, version): &(&str, &str)| command_output(Command::new(program).arg(version)).is_ok();
        self.tools.iter().all(is_there).then_some(()).ok_or(self.remedy)
    }

    /// Builds the functions if their sources have changed and the tools are available.
    ///
    /// # Errors
    /// A tool fails, or a file cannot be read or written.
    pub(crate) fn build_if_changed(&self) -> Result<(), TaskFailure> {
        if let Err(remedy) = self.require_tools() {
            println!("no functions in {}: {remedy}", self.language);
            return Ok(());
        }
        let built = target_dir().join("functions").join(self.language);
        let folder = workspace_root().join("tests/runtimes").join(self.language);
        let failed = |error: std::io::Error| TaskFailure(format!("{}: {error}", folder.display()));
        let sources = read_sources(&folder).map_err(failed)?;
        // Written last, so that an incomplete build is repeated.
        let stamp = built.join("built-sources.txt");
        if fs::read_to_string(&stamp).is_ok_and(|of| of == sources) {
            println!("{} is up to date", built.display());
            return Ok(());
        }
        if built.exists() {
            fs::remove_dir_all(&built).map_err(failed)?;
        }
        fs::create_dir_all(&built).map_err(failed)?;
        (self.build)(&folder, &built)?;
        fs::write(&stamp, sources).map_err(failed)
    }
}

/// Builds the Java functions with the compiler directly, because Maven would first have to fetch its plugins.
fn build_java(folder: &Path, into: &Path) -> Result<(), TaskFailure> {
    let libraries = into.join("lib");
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", COPY_DEPENDENCIES, "--file"]).arg(folder.join("pom.xml"));
    run_command(maven.arg(format!("-DoutputDirectory={}", libraries.display())))?;
    unpack_native_client(&libraries, into)?;
    let files = list_files(&folder.join("src"))
        .map_err(|error| TaskFailure(format!("{}: {error}", folder.display())))?;
    let mut compiler = Command::new("javac");
    compiler.args(["-encoding", "UTF-8", "-nowarn", "-cp"]).arg(libraries.join("*"));
    run_command(compiler.arg("-d").arg(into.join("classes")).args(files))
}

/// Unpacks the native part of AWS's runtime.
fn unpack_native_client(libraries: &Path, into: &Path) -> Result<(), TaskFailure> {
    let failed = |error: std::io::Error| TaskFailure(format!("{}: {error}", libraries.display()));
    let is_runtime = |path: &PathBuf| path.to_string_lossy().contains("runtime-interface-client");
    let runtime = list_files(libraries).map_err(failed)?.into_iter().find(is_runtime);
    let runtime =
        runtime.ok_or_else(|| TaskFailure(format!("{}: AWS's runtime is missing", libraries.display())))?;
    run_command(Command::new("jar").arg("--extract").arg("--file").arg(runtime).arg("jni").current_dir(into))
}

fn build_go(folder: &Path, into: &Path) -> Result<(), TaskFailure> {
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-o"]).arg(into.join("scripted")).arg(".");
    run_command(go.current_dir(folder).env("CGO_ENABLED", "0"))
}

/// Returns all sources as one string.
fn read_sources(folder: &Path) -> std::io::Result<String> {
    list_files(folder)?.into_iter().map(fs::read_to_string).collect()
}

/// Lists the files in a folder and its subfolders, sorted by path.
fn list_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    let found =
        entries.into_iter().map(|path| if path.is_dir() { list_files(&path) } else { Ok(vec![path]) });
    Ok(found.collect::<std::io::Result<Vec<_>>>()?.concat())
}
