//! The recipes in docs/recipes.md, whose code is in examples/recipes.

use std::fs;
use std::path::PathBuf;

use redeliver_tests::runtimes::runtimes_folder;
use redeliver_tests::settings::venv_file;

use super::*;

const FOLDER: &str = "examples/recipes";

/// A dead letter's error type, its retries, and the type and message of its cause.
type RecipeReason = (String, u64, String, String);

const PYTHON: [&str; 3] = ["plain.handler", "powertools.handler", "powertools.decorated_handler"];
const NODE: [&str; 3] = ["plain.handler", "powertools.handler", "middy.handler"];

/// A copy of the recipes, with the Node.js packages beside them.
struct Recipes {
    _folder: TempDir,
    /// The canonical path, as runtimes report it.
    path: PathBuf,
}

impl Recipes {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let path = folder.path().canonicalize().expect("the folder exists");
        for file in fs::read_dir(workspace_root().join(FOLDER)).expect("the recipes exist").flatten() {
            // Excludes Python's cache.
            if file.path().is_dir() {
                continue;
            }
            fs::copy(file.path(), path.join(file.file_name())).expect("the folder is writable");
        }
        std::os::unix::fs::symlink(runtimes_folder().join("node_modules"), path.join("node_modules"))
            .expect("the folder is writable");
        Self { _folder: folder, path }
    }

    /// Returns the dead letters from a run of the complete loop, by type: one of four orders succeeds, and the others
    /// fail for three reasons.
    fn dead_letters(&self, runtime: &str, handler: &str, handler_event: &str) -> Vec<RecipeReason> {
        let exec = format!("{runtime} {handler}");
        let dead = ScratchFile::absent("dead.jsonl");
        let arguments = [
            "local",
            "orders.jsonl",
            "--plain",
            "--policy",
            "policy.json",
            "--exec",
            &exec,
            "--handler-event",
            handler_event,
            "--final-dlq",
            dead.name(),
            "--format",
            "json",
        ];
        let output =
            program_command(&arguments).current_dir(&self.path).output().expect("the program starts");
        assert_eq!(
            json_report(&output)["processed"],
            1,
            "{handler} {handler_event}: {}",
            stderr_text(&output)
        );
        let mut reasons: Vec<_> = dead.text().lines().map(letter_reason).collect();
        reasons.sort_by(|one, other| one.2.cmp(&other.2));
        reasons
    }

    /// Returns the ids that a handler reports as failed when Lambda calls it with all orders, without redeliver.
    fn failed_ids_without_redeliver(&self, mut call: Command) -> Vec<String> {
        let record = |(n, body): (usize, &str)| json!({ "messageId": format!("id-{}", n + 1), "body": body });
        let orders = fs::read_to_string(self.path.join("orders.jsonl")).expect("the file was copied");
        let event = json!({ "Records": orders.lines().enumerate().map(record).collect::<Vec<_>>() });
        let output =
            call.arg(event.to_string()).current_dir(&self.path).output().expect("the runtime starts");
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", stderr_text(&output)));
        let failures =
            answer["batchItemFailures"].as_array().expect("the answer is a partial batch response");
        failures
            .iter()
            .map(|failure| failure["itemIdentifier"].as_str().expect("a text").to_owned())
            .collect()
    }
}

fn letter_reason(line: &str) -> RecipeReason {
    let record: Value = serde_json::from_str(line).expect("a final record is JSON");
    let attributes = &record["attributes"];
    let document = attributes["DeadLetter"].as_str().expect("the attribute is a string");
    let document: Value = serde_json::from_str(document).expect("the attribute is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cause = &document["cause"];
    let attempts = document["attempts"].as_u64().expect("the value is a number");
    (text(&attributes["ErrorType"]), attempts, text(&cause["type"]), text(&cause["message"]))
}

/// Returns the expected reasons: the permanent failure is not retried, and each reason is a separate cause.
fn expected_reasons(declined: String, insufficient: String, type_error: String) -> [RecipeReason; 3] {
    let exceeded = |cause: &str, message| ("RETRY_ATTEMPT_EXCEEDED".to_owned(), 2, cause.to_owned(), message);
    [
        ("NON_RETRYABLE_ERROR".to_owned(), 0, "CardDeclined".to_owned(), declined),
        exceeded("InsufficientFunds", insufficient),
        exceeded("TypeError", type_error),
    ]
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn each_recipe_in_python_names_the_reason_in_the_dead_letter() {
    let recipes = Recipes::new();
    let runtime = format!("{} -B -m awslambdaric", venv_file("bin/python").display());
    let at = |line: u32| format!("(at {}/charge.py:{line})", recipes.path.display());
    let expected = expected_reasons(
        format!("the card of order A-2 is declined {}", at(15)),
        format!("order A-4 needs 600 cents {}", at(17)),
        format!("'NoneType' object is not iterable {}", at(13)),
    );
    for handler in PYTHON {
        for handler_event in ["record", "batch"] {
            let reasons = recipes.dead_letters(&runtime, handler, handler_event);
            assert_eq!(reasons, expected, "{handler} {handler_event}");
        }
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn each_recipe_in_python_works_without_redeliver() {
    let recipes = Recipes::new();
    for recipe in PYTHON {
        let (module, handler) = recipe.split_once('.').expect("a module and its handler");
        let program = format!(
            "import json, sys, {module}\nprint(json.dumps({module}.{handler}(json.loads(sys.argv[1]), None)))"
        );
        let mut call = Command::new(venv_file("bin/python"));
        call.args(["-B", "-c", &program]);
        assert_eq!(recipes.failed_ids_without_redeliver(call), ["id-2", "id-3", "id-4"], "{recipe}");
    }
}

mod node {
    use super::*;

    #[test]
    #[ignore = "needs Node.js: cargo xtask test"]
    fn each_recipe_names_the_reason_in_the_dead_letter() {
        let recipes = Recipes::new();
        let at = |place: &str| format!("(at charge (file://{}/charge.mjs:{place}))", recipes.path.display());
        let expected = expected_reasons(
            format!("the card of order A-2 is declined {}", at("16:40")),
            format!("order A-4 needs 600 cents {}", at("17:34")),
            format!("Cannot read properties of null (reading 'reduce') {}", at("15:29")),
        );
        for handler in NODE {
            for handler_event in ["record", "batch"] {
                let reasons =
                    recipes.dead_letters("node_modules/.bin/aws-lambda-ric", handler, handler_event);
                assert_eq!(reasons, expected, "{handler} {handler_event}");
            }
        }
    }

    #[test]
    #[ignore = "needs Node.js: cargo xtask test"]
    fn each_recipe_works_without_redeliver() {
        let recipes = Recipes::new();
        for recipe in NODE {
            let (module, handler) = recipe.split_once('.').expect("a module and its handler");
            let program = format!(
                "import {{ {handler} }} from './{module}.mjs';\n\
                 console.log(JSON.stringify(await {handler}(JSON.parse(process.argv[1]), {{}})));"
            );
            let mut call = Command::new("node");
            call.args(["--input-type=module", "--eval", &program, "--"]);
            assert_eq!(recipes.failed_ids_without_redeliver(call), ["id-2", "id-3", "id-4"], "{recipe}");
        }
    }
}

#[test]
fn the_page_links_to_every_recipe_and_shows_the_python_code() {
    let page = fs::read_to_string(workspace_root().join("docs/recipes.md")).expect("the page exists");
    for name in
        ["reason.py", "plain.py", "powertools.py", "reason.mjs", "plain.mjs", "powertools.mjs", "middy.mjs"]
    {
        assert!(page.contains(&format!("(../{FOLDER}/{name})")), "docs/recipes.md does not link {name}");
    }
    for name in ["reason.py", "plain.py"] {
        let code = fs::read_to_string(workspace_root().join(FOLDER).join(name)).expect("the recipe exists");
        assert!(page.contains(&format!("```python\n{code}```\n")), "docs/recipes.md does not show {name}");
    }
}
