//! Programs other than Rust that the tests need, installed from Debian's and Ubuntu's packages.

use std::process::Command;

use crate::tools::{TaskFailure, command_output, is_ci, run_command};

/// Programs that the tests run, and the packages that provide them.
struct Requirement {
    /// Command lines that succeed if the programs are installed.
    programs: &'static [&'static [&'static str]],
    packages: &'static [&'static str],
}

const NEEDS: [Requirement; 10] = [
    Requirement {
        programs: &[&["python3", "-c", "import ensurepip, venv"]],
        packages: &["python3", "python3-venv"],
    },
    Requirement { programs: &[&["node", "--version"], &["npm", "--version"]], packages: &["nodejs", "npm"] },
    Requirement {
        programs: &[&["javac", "--version"], &["mvn", "--version"]],
        packages: &["default-jdk-headless", "maven"],
    },
    Requirement { programs: &[&["go", "version"]], packages: &["ca-certificates", "golang-go"] },
    Requirement { programs: &[&["chromium", "--version"]], packages: &["chromium"] },
    Requirement { programs: &[&["c++", "--version"], &["make", "--version"]], packages: &["g++", "make"] },
    Requirement { programs: &[&["valgrind", "--version"]], packages: &["valgrind"] },
    Requirement { programs: &[&["umoci", "--version"]], packages: &["ca-certificates", "umoci"] },
    Requirement { programs: &[&["curl", "--version"]], packages: &["curl"] },
    // aws-lambda-ric's npm package uses xz to unpack the sources that it builds.
    Requirement { programs: &[&["xz", "--version"]], packages: &["xz-utils"] },
];

/// Installs the packages for all missing programs: as root, or through `sudo` if `CI` is set and `sudo` requires no
/// password. Otherwise, prints the command that installs them, and the steps that need them are skipped.
///
/// # Errors
/// apt-get fails with `CI` set.
pub(crate) fn install_missing() -> Result<(), TaskFailure> {
    let packages = missing_packages(program_runs);
    if packages.is_empty() || !program_runs(&["apt-get", "--version"]) {
        return Ok(());
    }
    let Some(sudo) = root_command() else {
        println!("missing on this machine: run `sudo apt-get install {}`", packages.join(" "));
        return Ok(());
    };
    let apt_get = |arguments: &[&str]| {
        let words: Vec<&str> = sudo.iter().chain(&["apt-get"]).chain(arguments).copied().collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        run_command(&mut command)
    };
    let install = [&["install", "--yes", "--no-install-recommends"], &packages[..]].concat();
    match apt_get(&["update"]).and_then(|()| apt_get(&install)) {
        // Without the packages, steps are skipped.
        Err(TaskFailure(error)) if !is_ci() => {
            println!("{error}");
            Ok(())
        }
        done => done,
    }
}

/// Returns the command prefix for running as root: empty if this program runs as root, `None` if it cannot.
fn root_command() -> Option<&'static [&'static str]> {
    let is_root = command_output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if is_root {
        return Some(&[]);
    }
    let sudo: &[&str] = &["sudo", "--non-interactive"];
    (is_ci() && program_runs(&["sudo", "--non-interactive", "true"])).then_some(sudo)
}

fn missing_packages(runs: impl Fn(&[&str]) -> bool) -> Vec<&'static str> {
    let unmet = NEEDS.iter().filter(|need| !need.programs.iter().all(|program| runs(program)));
    let mut packages: Vec<&str> = unmet.flat_map(|need| need.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn program_runs(program: &[&str]) -> bool {
    command_output(Command::new(program[0]).args(&program[1..])).is_ok()
}

#[cfg(test)]
mod tests {
    use super::missing_packages;

    #[test]
    fn packages_for_missing_programs_are_listed_once() {
        assert_eq!(missing_packages(|_| true), [""; 0]);
        assert_eq!(missing_packages(|program| program[0] != "npm"), ["nodejs", "npm"]);
        assert_eq!(
            missing_packages(|program| !["go", "umoci"].contains(&program[0])),
            ["ca-certificates", "golang-go", "umoci"]
        );
    }
}
