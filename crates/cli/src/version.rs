//! `--version`: the release and the commit it was built from.

use std::sync::LazyLock;

/// In a tarball created by git (`git archive`, GitHub), git inserts the commit here (`export-subst` in
/// .gitattributes).
const ARCHIVED_COMMIT: &str = include_str!("commit.txt");

/// The commit of this build; empty outside a repository.
const DESCRIBED_COMMIT: &str = git_version::git_version!(
    args = ["--always", "--dirty=-modified", "--abbrev=12", "--exclude=*"],
    fallback = ""
);

/// `0.1.0 (commit 33b838b67b3e)`
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = choose_commit(ARCHIVED_COMMIT.trim(), DESCRIBED_COMMIT);
    format!("{} (commit {commit})", env!("CARGO_PKG_VERSION"))
});

fn choose_commit<'a>(archived: &'a str, described: &'a str) -> &'a str {
    match (archived.starts_with("$Format"), described) {
        (false, _) => archived,
        (true, "") => "unknown",
        (true, described) => described,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_comes_from_tarball_or_repository_or_is_unknown() {
        assert_eq!(choose_commit("33b838b67b3e", ""), "33b838b67b3e");
        assert_eq!(choose_commit("$Format:%h$", "33b838b67b3e-modified"), "33b838b67b3e-modified");
        assert_eq!(choose_commit("$Format:%h$", ""), "unknown");
    }
}
