//! `redeliver local --exec` on a terminal: a function's output, Ctrl-C, and leftover processes.

use std::io::{BufRead as _, BufReader, Read as _};

use redeliver_tests::settings::venv_file;
use serde_json::json;

use super::*;

/// A handler that does what the order's `does` says.
const APP: &[u8] = br#"
import json, subprocess, sys, time

def handler(event, context):
    [record] = event["Records"]
    does = json.loads(record["body"])["data"]["does"]
    if does == "fails":
        return {}["id"]
    if does == "hangs":
        print("it hangs")
        time.sleep(1000)
    if does == "begins daemons":
        begin = """if True:
            import subprocess, sys
            print(subprocess.Popen(["sleep", "1000"], stdout=sys.stderr, start_new_session=True).pid)
        """
        orphan = subprocess.check_output([sys.executable, "-c", begin], start_new_session=True)
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={"PATH": "/usr/bin:/bin"})
        print("daemons:", int(orphan), child.pid)
"#;

/// Runs a program on a new terminal and copies its output unchanged.
const ON_A_TERMINAL: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

struct TerminalRun {
    app: ScratchFile,
    orders: ScratchFile,
}

impl TerminalRun {
    fn new(does: &[&str]) -> Self {
        let order = |(n, does): (usize, &&str)| {
            let metadata = json!({ "message_id": format!("{n:08}-0000-4000-8000-000000000000") });
            format!("{}\n", json!({ "metadata": metadata, "data": { "does": does } }))
        };
        let orders: String = does.iter().enumerate().map(order).collect();
        Self {
            app: ScratchFile::new("app.py", APP),
            orders: ScratchFile::new("orders.jsonl", orders.as_bytes()),
        }
    }

    fn arguments(&self) -> Vec<String> {
        let python = venv_file("bin/python");
        let exec = format!("{} -B -m awslambdaric app.handler", python.display());
        ["local", self.orders.name(), "--format", "json", "--exec", &exec].map(str::to_owned).into()
    }

    /// Returns the command, started in the function's folder.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.app.path.parent().expect("the file is in a folder"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn each_line_printed_by_a_function_is_readable_on_a_terminal() {
    let run = TerminalRun::new(&["fails"]);
    let mut command = run.command(venv_file("bin/python"));
    command.args(["-c", ON_A_TERMINAL]).arg(debug_binary("redeliver")).args(run.arguments());
    let output = command.output().expect("Python starts");
    let rows = text_rows(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0), "{rows:#?}");
    let place = format!("File \"{}\", line 8, in handler", run.app.path.display());
    // The runtime indents with non-breaking spaces.
    let printed: Vec<_> = rows.iter().map(|row| row.trim_matches([' ', '\u{a0}'])).collect();
    let traceback =
        ["[ERROR] KeyError: 'id'", "Traceback (most recent call last):", &place, "return {}[\"id\"]"];
    let tracebacks: Vec<_> = printed.windows(4).filter(|rows| *rows == traceback).collect();
    assert_eq!(tracebacks.len(), 6, "one for each attempt: {printed:#?}");
    let bars = rows.iter().filter(|row| row.contains("messages settled")).count();
    assert_eq!(bars, 0, "it was cleared: {rows:#?}");
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn carriage_returns_pass_unchanged_without_a_terminal() {
    let run = TerminalRun::new(&["fails"]);
    let output =
        run.command(debug_binary("redeliver")).args(run.arguments()).output().expect("the program starts");
    let errors = stderr_text(&output);
    assert!(errors.contains("[ERROR] KeyError: 'id'\rTraceback (most recent call last):\r"), "{errors:?}");
}

/// Returns the nonempty rows that a terminal shows for this output.
fn text_rows(text: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![Vec::new()], 0, 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                rows.resize(rows.len().max(row + 1), Vec::new());
            }
            '\u{1b}' => {
                let parameters: String =
                    characters.by_ref().skip(1).take_while(|c| !c.is_alphabetic()).collect();
                // Only indicatif's sequence for clearing a row has the parameter 2.
                if parameters == "2" {
                    rows[row].clear();
                }
            }
            character => {
                let line: &mut Vec<char> = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = character;
                column += 1;
            }
        }
    }
    let rows = rows.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned());
    rows.filter(|row| !row.is_empty()).collect()
}

/// A call has 30 s; reaching that limit would count as a failure.
#[test]
#[ignore = "needs Python: cargo xtask test"]
fn a_single_ctrl_c_ends_a_hanging_function_and_keeps_its_message() {
    let run = TerminalRun::new(&["hangs", "succeeds"]);
    let mut child =
        run.command(debug_binary("redeliver")).args(run.arguments()).spawn().expect("the program starts");
    let mut errors = BufReader::new(child.stderr.take().expect("the stream is piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("UTF-8");
    assert_eq!(line, "it hangs\n");
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status();
    assert!(kill.expect("the shell runs").success());
    let mut more = String::new();
    errors.read_to_string(&mut more).expect("UTF-8");
    let output = child.wait_with_output().expect("the program ends");
    let report = checked_report(130, &output);
    let counts = ["sent", "processed", "holds", "waiting", "unaccounted"].map(|name| report[name].clone());
    assert_eq!(counts, [2, 0, 0, 2, 0].map(Value::from), "{report}");
    assert_eq!((&report["interrupted"], &report["last_failure"]), (&true.into(), &Value::Null));
    assert_eq!(
        more,
        "interrupted: ending the function; Ctrl-C again does not wait\nerror: interrupted before every message \
         finished\nerror: 2 messages still waiting\n"
    );
}

/// A daemon would keep redeliver's standard error open, so `redeliver … 2>&1 | cat` would not end.
#[test]
#[ignore = "needs Python: cargo xtask test"]
fn daemons_started_by_a_function_end_with_it() {
    let run = TerminalRun::new(&["begins daemons"]);
    let output =
        run.command(debug_binary("redeliver")).args(run.arguments()).output().expect("the program starts");
    assert_eq!(json_report(&output)["processed"], 1);
    let errors = stderr_text(&output);
    let ids = errors.trim_end().strip_prefix("daemons: ").expect("the function printed their ids");
    for id in ids.split(' ') {
        while is_running(id) {
            std::thread::yield_now();
        }
    }
}

fn is_running(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
