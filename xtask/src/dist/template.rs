//! The CloudFormation templates with parameters: redeliver, redeliver for a user's own function, and redeliver with the
//! strategy `ordered`. They refer to the zips next to them.

use std::path::Path;

use crate::bundle::LambdaArchitecture;
use crate::npm::{self, STACK};
use crate::tools::{TaskFailure, run_command};

/// Writes the templates for one architecture. The functions must have been built already.
///
/// # Errors
/// Node.js is missing, or a file cannot be written.
pub(super) fn pack_template(folder: &Path, architecture: LambdaArchitecture) -> Result<(), TaskFailure> {
    npm::set_up()?.require_node()?;
    let name = architecture.lambda_name();
    let mut script = STACK.command("node");
    script.args(["--import", "tsx", "template/write.ts", name]);
    let file = |of: &str| folder.join(format!("redeliver-{of}{name}.template.yaml"));
    run_command(script.args(["", "own-function-", "ordered-"].map(file)))
}
