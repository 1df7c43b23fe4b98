//! The languages of a handler, each in the runtime that Lambda has for it.

use std::path::{Path, PathBuf};

use crate::settings::{existing, root, tested_program, variable, venv_file};

/// A language in which a handler can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Its function is a program.
    Rust,
    /// In AWS's `awslambdaric`, with a handler that is a plain function.
    Python,
    /// The same with a coroutine.
    PythonAsync,
    /// In AWS's `aws-lambda-ric`.
    Node,
}

/// A program for Lambda, and the variables that say what it runs.
pub struct Program {
    /// What is started.
    pub path: PathBuf,
    /// For it.
    pub variables: Vec<(&'static str, String)>,
}

impl Language {
    /// The function whose handler does what each message's `data.script` says.
    ///
    /// # Panics
    /// If it, or its runtime, has not been built.
    #[must_use]
    pub fn scripted(self) -> Program {
        match self {
            Self::Rust => Program { path: tested_program("scripted-processor"), variables: Vec::new() },
            Self::Python => python(&runtimes(), "scripted.handler"),
            Self::PythonAsync => python(&runtimes(), "scripted.async_handler"),
            Self::Node => node(&runtimes(), "scripted.handler"),
        }
    }
}

/// A function in AWS's own runtime for Python: `handler` is a module in the folder `task`, and what it has there.
///
/// # Panics
/// If the runtime is not installed.
#[must_use]
pub fn python(task: &Path, handler: &str) -> Program {
    let library = ("PYTHONPATH", root().join("libraries/python/src").display().to_string());
    let python = ("PYTHON", venv_file("bin/python").display().to_string());
    let variables = [library, python].into_iter().chain(of(task, handler));
    Program { path: existing(runtimes().join("lambda-python")), variables: variables.collect() }
}

/// The same in AWS's own runtime for Node.js.
///
/// # Panics
/// If the runtime is not installed.
#[must_use]
pub fn node(task: &Path, handler: &str) -> Program {
    existing(runtimes().join("node_modules/aws-lambda-ric/rapid-client.node"));
    Program { path: existing(runtimes().join("lambda-node")), variables: of(task, handler).into() }
}

/// As Lambda sets them.
fn of(task: &Path, handler: &str) -> [(&'static str, String); 3] {
    [
        ("LAMBDA_TASK_ROOT", task.display().to_string()),
        ("_HANDLER", handler.to_owned()),
        ("PATH", variable("PATH").unwrap_or_default()),
    ]
}

fn runtimes() -> PathBuf {
    root().join("tests/runtimes")
}
