use super::*;

/// Our own crates need no reason.
fn is_ours(name: &str) -> bool {
    name == "redeliver" || name.starts_with("redeliver-")
}

fn text(path: &str) -> String {
    read(&root().join(path)).unwrap()
}

#[test]
fn a_dependency_is_read_with_its_reason() {
    let manifest = "[package]\nname = \"x\" # no\n[dependencies]\na = \"1\" # why\n# b = \"1\"\n\n[lints]\nc = 1\n\
                    [dev-dependencies]\nd = { workspace = true }\n";
    let dependency = |name: &str, value: &str, reason: &str, section: &str| {
        let [name, value, reason, section] = [name, value, reason, section].map(str::to_owned);
        Dependency { name, value, reason, section }
    };
    assert_eq!(
        dependencies(manifest),
        [
            dependency("a", "\"1\"", "why", "dependencies"),
            dependency("d", "{ workspace = true }", "", "dev-dependencies")
        ]
    );
}

#[test]
fn every_dependency_says_why_beside_it_and_takes_its_version_from_the_workspace() {
    let mut wrong = Vec::new();
    for (member, manifest) in members().unwrap() {
        for dependency in dependencies(&manifest) {
            let Dependency { name, value, reason, section } = &dependency;
            if reason.is_empty() && !is_ours(name) {
                wrong.push(format!("{member}: {name} has no reason (`# …`) on its line"));
            }
            if !value.contains("workspace = true") {
                wrong.push(format!("{member}: {name} is not `workspace = true`"));
            }
            if !["dependencies", "dev-dependencies", "build-dependencies"].contains(&section.as_str()) {
                wrong.push(format!("{member}: {name} stands in [{section}], which nobody checks"));
            }
        }
        // `[dependencies.name]` would be a section of its own.
        if let Some(line) = manifest.lines().find(|line| line.contains("dependencies.")) {
            wrong.push(format!("{member}: write {line} as one line"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn every_dependency_of_the_workspace_stands_under_a_comment() {
    let manifest = text("Cargo.toml");
    let (mut in_section, mut explained, mut wrong) = (false, false, Vec::new());
    for line in manifest.lines() {
        match line {
            _ if line.starts_with('[') => in_section = line == "[workspace.dependencies]",
            _ if !in_section => {}
            "" => explained = false,
            _ if line.starts_with('#') => explained = true,
            _ if !explained => wrong.push(line),
            _ => {}
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(dependencies(&manifest).len() > 30, "the section is found");
}

#[test]
fn every_member_forbids_unsafe_code() {
    let workspace = parsed(&text("Cargo.toml")).unwrap();
    assert_eq!(workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
    let members = members().unwrap();
    assert!(members.len() >= 9, "{}", members.len());
    let inherited = toml::Table::from_iter([("workspace".to_owned(), true.into())]);
    for (member, manifest) in members {
        let lints = parsed(&manifest).unwrap().get("lints").cloned();
        // `forbid` cannot be taken back inside a crate: that does not compile.
        assert_eq!(lints, Some(inherited.clone().into()), "{member}");
    }
}

#[test]
fn the_product_keeps_all_that_the_tools_keep_of_clippys_bans() {
    // Clippy reads the nearest `clippy.toml` alone.
    let banned = |path: &str| parsed(&text(path)).unwrap()["disallowed-methods"].as_array().unwrap().clone();
    let (tools, product) = (banned("clippy.toml"), banned("crates/clippy.toml"));
    assert_eq!(product[..tools.len()], tools);
}

#[test]
fn what_is_tested_is_what_the_lock_file_says() {
    // Everything is run by way of xtask, whose own build refuses a lock file that would have to change.
    assert!(text(".cargo/config.toml").contains("xtask = \"run --quiet --locked --package xtask --\""));
    assert!(text("Cargo.lock").contains("name = \"redeliver-core\""));
    assert!(!text(".gitignore").contains("lock"));
}

#[test]
fn pythons_packages_are_pinned() {
    for path in ["tests/requirements.txt", "infra/requirements.txt", "infra/package/requirements.txt"] {
        let text = text(path);
        let packages: Vec<_> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert!(!packages.is_empty(), "{path}");
        for package in packages {
            let version = package.split_once("==").map_or("", |(_, version)| version);
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{path}: {package}");
            assert!(!version.contains('*'), "{path}: {package}");
        }
    }
}

#[test]
fn the_stacks_packages_are_pinned_by_their_hashes() {
    let lock = text("infra/package-lock.json");
    let count = |what: &str| lock.matches(what).count();
    // What is bundled is covered by the hash of the package that it came in.
    let hashed = count("\"integrity\": \"sha512-");
    assert_eq!(hashed + count("\"inBundle\": true"), count("\n    \"node_modules/"));
    assert!(hashed > 10, "{hashed}");
    let ranges = ["\": \"^", "\": \"~"];
    let manifest = text("infra/package.json");
    assert!(!ranges.iter().any(|range| manifest.contains(range)), "one version each: {manifest}");
}
