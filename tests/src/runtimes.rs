//! The languages for handlers, each with its Lambda runtime.

use std::path::{Path, PathBuf};

use crate::settings::{
    assert_exists, bundle_path, debug_binary, env_variable, target_dir, venv_file, workspace_root,
};

/// A language in which a handler can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A handler compiled into the message-processor.
    Rust,
    /// An unmodified function run by AWS's `awslambdaric`; one record per event.
    Python,
    /// Like [`Language::Python`], with all records in one event.
    PythonBatch,
    /// An unmodified function run by AWS's `aws-lambda-ric`; one record per event.
    Node,
    /// Like [`Language::Node`], with all records in one event.
    NodeBatch,
    /// An unmodified program for an OS-only runtime.
    OsOnly,
    /// An unmodified stream handler run by AWS's Java runtime; one record per event.
    Java,
    /// Like [`Language::Java`], but with a method that takes an object.
    JavaPojo,
    /// A `RequestHandler<SQSEvent, SQSBatchResponse>` with all records in one event; it returns the failed ones.
    JavaBatch,
    /// An unmodified program that uses AWS's Go library, for an OS-only runtime.
    Go,
}

/// A program for Lambda, with its environment variables.
pub struct LambdaProgram {
    /// The program's path.
    pub path: PathBuf,
    /// The program's variables.
    pub variables: Vec<(&'static str, String)>,
}

impl Language {
    /// Returns the function whose handler follows each message's `data.script`.
    ///
    /// # Panics
    /// If the function or its runtime has not been built.
    #[must_use]
    pub fn scripted_program(self) -> LambdaProgram {
        match self {
            Self::Rust => LambdaProgram { path: debug_binary("scripted-processor"), variables: Vec::new() },
            Self::Python => python_program(&runtimes_folder(), "scripted.handler").with_layer(),
            Self::PythonBatch => {
                python_program(&runtimes_folder(), "scripted.batch_handler").with_layer().with_batch_handler()
            }
            Self::Node => node_program(&runtimes_folder(), "scripted.handler").with_layer(),
            Self::NodeBatch => {
                node_program(&runtimes_folder(), "scripted.batchHandler").with_layer().with_batch_handler()
            }
            Self::OsOnly => os_only_program(&debug_binary("scripted-function")),
            Self::Java => java_program("functions.Streaming").with_layer(),
            Self::JavaPojo => java_program("functions.Pojo::work").with_layer(),
            Self::JavaBatch => java_program("functions.Plain").with_layer().with_batch_handler(),
            Self::Go => os_only_program(&built_functions_folder("go").join("scripted")),
        }
    }

    /// Returns true if the handler gets all records in one event.
    #[must_use]
    pub fn is_batch(self) -> bool {
        matches!(self, Self::PythonBatch | Self::NodeBatch | Self::JavaBatch)
    }
}

impl LambdaProgram {
    /// Adds the message-processor as a wrapper, as the layer does.
    ///
    /// # Panics
    /// If the message-processor has not been built.
    #[must_use]
    pub fn with_layer(mut self) -> Self {
        let wrapper = bundle_path("message-processor").display().to_string();
        self.variables.push(("AWS_LAMBDA_EXEC_WRAPPER", wrapper));
        self
    }

    /// Switches to a handler that gets all records in one event.
    #[must_use]
    pub fn with_batch_handler(mut self) -> Self {
        self.variables.push(("HANDLER_EVENT", "batch".to_owned()));
        self
    }
}

/// Returns a function run by AWS's own Python runtime. `handler` names a module in the folder `task` and a function in
/// it.
///
/// # Panics
/// If the runtime is not installed.
#[must_use]
pub fn python_program(task: &Path, handler: &str) -> LambdaProgram {
    let python = ("PYTHON", venv_file("bin/python").display().to_string());
    // With this variable set, the runtime can process signals while it polls.
    let environment = ("AWS_EXECUTION_ENV", "AWS_Lambda_python3.13".to_owned());
    let variables = runtime_variables(task, handler).into_iter().chain([python, environment]).collect();
    LambdaProgram { path: assert_exists(runtimes_folder().join("lambda-python")), variables }
}

/// Returns a function run by AWS's own Node.js runtime, with the same parameters as [`python_program`].
///
/// # Panics
/// If the runtime is not installed.
#[must_use]
pub fn node_program(task: &Path, handler: &str) -> LambdaProgram {
    assert_exists(runtimes_folder().join("node_modules/aws-lambda-ric/rapid-client.node"));
    LambdaProgram {
        path: assert_exists(runtimes_folder().join("lambda-node")),
        variables: runtime_variables(task, handler).into(),
    }
}

/// Returns a function run by AWS's own Java runtime. `handler` is a class in `tests/runtimes/java`.
///
/// # Panics
/// If the class has not been built.
#[must_use]
pub fn java_program(handler: &str) -> LambdaProgram {
    let client = ("NATIVE_CLIENT", native_client().display().to_string());
    let variables =
        runtime_variables(&built_functions_folder("java"), handler).into_iter().chain([client]).collect();
    LambdaProgram { path: assert_exists(runtimes_folder().join("lambda-java")), variables }
}

/// Returns the unpacked native library of AWS's Java runtime. Without it, each process would unpack the library to the
/// same file in `/tmp`, and concurrent starts would collide.
///
/// # Panics
/// If it has not been unpacked.
#[must_use]
pub fn native_client() -> PathBuf {
    let architecture = if cfg!(target_arch = "aarch64") { "aarch_64" } else { "x86_64" };
    assert_exists(
        built_functions_folder("java").join(format!("jni/libaws-lambda-jni.linux-{architecture}.so")),
    )
}

/// Returns the folder with the functions in this language, compiled by `cargo xtask runtimes`.
///
/// # Panics
/// If they have not been built.
#[must_use]
pub fn built_functions_folder(language: &str) -> PathBuf {
    let folder = target_dir().join("functions").join(language);
    assert_exists(folder.join("built-sources.txt"));
    folder
}

/// Returns a program that needs no runtime, wrapped by the message-processor.
///
/// # Panics
/// If the message-processor has not been built.
#[must_use]
pub fn os_only_program(program: &Path) -> LambdaProgram {
    let message_processor = ("MESSAGE_PROCESSOR", bundle_path("message-processor").display().to_string());
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let task = program.parent().unwrap_or(program);
    let variables = runtime_variables(task, &name).into_iter().chain([message_processor]).collect();
    LambdaProgram { path: assert_exists(runtimes_folder().join("lambda-os-only")), variables }
}

/// Returns the variables that Lambda sets for a runtime.
fn runtime_variables(task: &Path, handler: &str) -> [(&'static str, String); 3] {
    [
        ("LAMBDA_TASK_ROOT", task.display().to_string()),
        ("_HANDLER", handler.to_owned()),
        ("PATH", env_variable("PATH").unwrap_or_default()),
    ]
}

/// Returns the folder with the scripted handlers.
#[must_use]
pub fn runtimes_folder() -> PathBuf {
    workspace_root().join("tests/runtimes")
}
