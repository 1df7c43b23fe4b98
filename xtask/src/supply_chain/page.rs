//! `cargo xtask dependencies`: docs/dependencies.md, and whether it is still true.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::count::Graph;
use super::manifests;
use crate::bundle::{FUNCTIONS, package};
use crate::tools::{Failure, root};

const PAGE: &str = "docs/dependencies.md";

/// The program that people run, and its package.
const COMMAND_LINE: &str = "redeliver";

const TOP: &str = "# Dependencies

What the five programs are built from, and why. `cargo xtask dependencies` prints this page and fails if it is not what the
repository says, as the tests do: another crate in a program is a decision, made with `cargo xtask dependencies --write`.

`cargo xtask test` runs `cargo deny check bans licenses sources` by the rules of `deny.toml`: permissive licences, crates.io
alone, no second version of a crate except those listed there with what keeps them. It does not look for known vulnerabilities,
whose list comes from the network and changes while the tree does not: run `cargo deny check advisories` for those, every day
where you deploy from.

";

/// By a crate's name: why it is there, and for which of ours.
type Reasons = BTreeMap<String, Vec<(String, Vec<String>)>>;

/// Prints the page; it must be the one in the repository, or becomes it.
///
/// # Errors
/// If the page is another.
pub(crate) fn dependencies(write: bool) -> Result<(), Failure> {
    let page = page()?;
    println!("{}", page.trim_start_matches(TOP));
    let path = root().join(PAGE);
    let failure = |error: std::io::Error| Failure(format!("{PAGE}: {error}"));
    if write {
        return fs::write(path, page).map_err(failure);
    }
    if fs::read_to_string(path).map_err(failure)? == page {
        return Ok(());
    }
    Err(Failure(format!(
        "{PAGE} is not this: if the programs are to be built from this, run `cargo xtask dependencies --write`"
    )))
}

fn page() -> Result<String, Failure> {
    let mut page = TOP.to_owned();
    page += "| program | crates that we name | crates in it | with derive macros and what they need |\n";
    page += "| --- | ---: | ---: | ---: |\n";
    let mut graphs = Vec::new();
    for function in FUNCTIONS {
        graphs.push((function, Graph::of(&package(function))?));
    }
    graphs.push((COMMAND_LINE, Graph::of(COMMAND_LINE)?));
    for (program, graph) in &graphs {
        page += &format!("| {program} | {} | {} | {} |\n", graph.direct().len(), graph.linked(), graph.all());
    }
    page += "\nWhy each crate that we name is there, by the crate of ours that names it; and how many crates would go with it from a\n\
             program, itself among them: 0 where other crates need it too. What belongs together is counted together.\n\n";
    let programs: Vec<_> = graphs.iter().map(|(program, _)| *program).collect();
    page += &format!(
        "| crate | {} | why |\n| --- |{} --- |\n",
        programs.join(" | "),
        " ---: |".repeat(programs.len())
    );
    let named: BTreeSet<_> = graphs.iter().flat_map(|(_, graph)| graph.direct()).collect();
    let (reasons, mut families) = (reasons()?, BTreeSet::new());
    for name in named {
        let family = family(name);
        let count = |graph: &Graph| match graph.direct().contains(name) {
            true if families.contains(family) => "as above".to_owned(),
            true => graph.only_by(|other| self::family(other) == family).to_string(),
            false => String::new(),
        };
        let counts: Vec<_> = graphs.iter().map(|(_, graph)| count(graph)).collect();
        page += &format!("| `{name}` | {} | {} |\n", counts.join(" | "), why(&reasons, name));
        families.insert(family);
    }
    Ok(page)
}

/// What would only go together.
fn family(name: &str) -> &str {
    ["aws-", "clap", "jaq-", "serde"].into_iter().find(|family| name.starts_with(family)).unwrap_or(name)
}

/// `aws, core: timestamps; cli: …`.
fn why(reasons: &Reasons, name: &str) -> String {
    let reasons = reasons.get(name).into_iter().flatten();
    let reasons: Vec<_> =
        reasons.map(|(reason, members)| format!("{}: {reason}", members.join(", "))).collect();
    reasons.join("; ")
}

/// Why each crate is named, from the comments beside it, and by which of ours.
fn reasons() -> Result<Reasons, Failure> {
    let mut all = Reasons::new();
    for (member, manifest) in manifests::members()? {
        if !is_in_a_program(&member) {
            continue;
        }
        let member = if member == "redeliver" { "cli" } else { member.trim_start_matches("redeliver-") };
        let dependencies = manifests::dependencies(&manifest).into_iter();
        for dependency in dependencies.filter(|dependency| dependency.section == "dependencies") {
            let reasons = all.entry(dependency.name).or_default();
            match reasons.iter_mut().find(|(reason, _)| *reason == dependency.reason) {
                Some((_, members)) => members.push(member.to_owned()),
                None => reasons.push((dependency.reason, vec![member.to_owned()])),
            }
        }
    }
    Ok(all)
}

fn is_in_a_program(member: &str) -> bool {
    ![
        "xtask",
        "redeliver-tests",
        "redeliver-simulation",
        "redeliver-fuzz",
        "redeliver-costs",
        "redeliver-floor",
        "redeliver-testing",
    ]
    .contains(&member)
}
