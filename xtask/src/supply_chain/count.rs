//! Counting crates: which a program needs, and which only one dependency brings.

use std::collections::{BTreeMap, BTreeSet};

use crate::tools::{Failure, cargo, output};

/// What the programs are built for in Lambda; the numbers must not depend on the machine that counts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What needs what, as `cargo tree` shows it. A crate is its name and version.
#[derive(Default)]
pub(crate) struct Graph {
    needs: BTreeMap<String, BTreeSet<String>>,
    ours: BTreeSet<String>,
    macros: BTreeSet<String>,
    root: String,
}

impl Graph {
    /// The graph of one of our packages, without what only its tests need.
    ///
    /// # Errors
    /// If Cargo fails, above all because `Cargo.lock` does not fit.
    pub(crate) fn of(package: &str) -> Result<Self, Failure> {
        let mut tree = cargo(&["tree", "--locked", "--edges", "normal", "--prefix", "depth"]);
        tree.args(["--target", TARGET, "--package", package]);
        Ok(Self::parse(&output(&mut tree)?))
    }

    /// Each line is a depth, a crate, and what is said of it in brackets.
    fn parse(tree: &str) -> Self {
        let mut graph = Self::default();
        let mut path: Vec<String> = Vec::new();
        for line in tree.lines() {
            let name_at = line.find(|character: char| !character.is_ascii_digit()).unwrap_or(line.len());
            let (depth, crate_) = line.split_at(name_at);
            let Ok(depth) = depth.parse::<usize>() else { continue };
            let name = crate_.split(" (").next().unwrap_or_default().to_owned();
            if crate_.contains(" (proc-macro)") {
                graph.macros.insert(name.clone());
            }
            if crate_.contains(" (/") {
                graph.ours.insert(name.clone());
            }
            path.truncate(depth);
            match path.last() {
                Some(parent) => graph.needs.entry(parent.clone()).or_default().insert(name.clone()),
                None => {
                    graph.root.clone_from(&name);
                    false
                }
            };
            path.push(name);
        }
        graph
    }

    /// Other people's crates that end up in the program.
    pub(crate) fn linked(&self) -> usize {
        self.reached(|_, to| !self.macros.contains(to)).len()
    }

    /// Those, and what runs while it is compiled: derive macros and what they need.
    pub(crate) fn all(&self) -> usize {
        self.reached(|_, _| true).len()
    }

    /// Other people's crates that our own name.
    pub(crate) fn direct(&self) -> BTreeSet<&str> {
        let named = self.ours.iter().filter_map(|ours| self.needs.get(ours)).flatten();
        named.filter(|name| !self.ours.contains(*name)).map(|name| name_only(name)).collect()
    }

    /// How many crates, with themselves, would go if our own did without some.
    pub(crate) fn only_by(&self, some: impl Fn(&str) -> bool) -> usize {
        let without = self.reached(|from, to| !(self.ours.contains(from) && some(name_only(to))));
        self.all() - without.len()
    }

    /// Other people's crates that can be reached by the edges that count.
    fn reached(&self, counts: impl Fn(&str, &str) -> bool) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut left = vec![self.root.as_str()];
        while let Some(from) = left.pop() {
            for to in self.needs.get(from).into_iter().flatten() {
                if counts(from, to) && reached.insert(to.as_str()) {
                    left.push(to);
                }
            }
        }
        reached.retain(|name| !self.ours.contains(*name));
        reached
    }
}

/// `serde` of `serde v1.0.229`.
fn name_only(crate_: &str) -> &str {
    crate_.split(' ').next().unwrap_or(crate_)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0program v0.1.0 (/p)\n1core v0.1.0 (/c)\n2a v1.0.0\n3shared v1.0.0\n4deep v1.0.0\n\
                        2derive v1.0.0 (proc-macro)\n3syn v2.0.0\n3shared v1.0.0 (*)\n\
                        1b v1.0.0\n2shared v1.0.0 (*)\n2deep v2.0.0\n1a v1.0.0 (*)\n";

    #[test]
    fn crates_are_counted_once_with_and_without_derive_macros() {
        let graph = Graph::parse(TREE);
        assert_eq!((graph.linked(), graph.all()), (5, 7));
        assert_eq!(graph.direct().into_iter().collect::<Vec<_>>(), ["a", "b", "derive"]);
    }

    #[test]
    fn what_only_one_brings_is_what_would_go_with_it() {
        let graph = Graph::parse(TREE);
        // `shared` and `deep v1` would stay; what both our crates name goes only with both names.
        assert_eq!(graph.only_by(|name| name == "a"), 1);
        assert_eq!(graph.only_by(|name| name == "b"), 2);
        assert_eq!(graph.only_by(|name| name == "derive"), 2);
        assert_eq!(graph.only_by(|name| name == "shared"), 0);
        assert_eq!(graph.only_by(|name| name.len() == 1), 3);
    }
}
