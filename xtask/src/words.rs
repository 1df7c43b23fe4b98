//! Checks that the words in `tests/style/words.txt` do not occur in the files that it lists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use regex_lite::Regex;

use crate::tools::{TaskFailure, read_file, workspace_root};

const WORDS: &str = "tests/style/words.txt";
const EXTENSIONS: [&str; 4] = ["md", "rs", "ts", "mjs"];
const DOC_COMMENTS: [&str; 3] = ["///", "//!", "/**"];

#[derive(Default)]
struct Words {
    paths: Vec<String>,
    rules: Vec<WordRule>,
}

struct WordRule {
    /// True if the rule applies only to the beginnings of doc comments.
    is_doc_rule: bool,
    words: Regex,
    except: Option<Regex>,
    instead: String,
}

/// Checks the files that the list names.
///
/// # Errors
/// Words from the list were found: the error gives the file, the line and the replacement for each.
pub(crate) fn check_words() -> Result<(), TaskFailure> {
    let words = Words::parse(&read_file(&workspace_root().join(WORDS))?)?;
    let mut found = Vec::new();
    for (path, lines) in words.candidate_lines()? {
        found.extend(
            words.find_words(&path, &read_file(&workspace_root().join(&path))?, |line| lines.contains(&line)),
        );
    }
    if found.is_empty() {
        Ok(())
    } else {
        Err(TaskFailure(format!("words of {WORDS}:\n{}", found.join("\n"))))
    }
}

impl Words {
    fn parse(list: &str) -> Result<Self, TaskFailure> {
        let mut words = Self::default();
        for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = |reason: &str| TaskFailure(format!("{WORDS}: {line}: {reason}"));
            match line.split_once(' ') {
                Some(("path", path)) => words.paths.push(path.to_owned()),
                Some((kind @ ("text" | "doc"), rule)) => {
                    let (searched, rest) = rule.split_once(" => ").ok_or_else(|| wrong("it has no =>"))?;
                    let (instead, except) = match rest.split_once(" ; except ") {
                        Some((instead, except)) => (instead, Some(except)),
                        None => (rest, None),
                    };
                    let regex = |text: &str| {
                        Regex::new(&format!("(?i){text}")).map_err(|error| wrong(&error.to_string()))
                    };
                    words.rules.push(WordRule {
                        is_doc_rule: kind == "doc",
                        words: regex(searched)?,
                        except: except.map(regex).transpose()?,
                        instead: instead.to_owned(),
                    });
                }
                _ => return Err(wrong("it does not start with path, text or doc")),
            }
        }
        Ok(words)
    }

    /// Returns the lines that might match a rule, by file. git searches a thousand files in an instant.
    fn candidate_lines(&self) -> Result<BTreeMap<String, BTreeSet<usize>>, TaskFailure> {
        let mut git = Command::new("git");
        git.args([
            "grep",
            "--untracked",
            "-I",
            "--null",
            "--line-number",
            "--ignore-case",
            "--extended-regexp",
        ]);
        for rule in &self.rules {
            let words = rule.words.as_str().trim_start_matches("(?i)");
            let in_docs = format!("(///|//!|/[*][*]) *{}", words.trim_start_matches('^'));
            git.args(["-e", if rule.is_doc_rule { &in_docs } else { words }]);
        }
        let paths = self.paths.iter().map(|path| workspace_root().join(path));
        let ran = git.arg("--").args(paths).current_dir(workspace_root()).output();
        let ran = ran.map_err(|error| TaskFailure(format!("git does not start: {error}")))?;
        // git grep exits with 1 if it finds nothing.
        if !matches!(ran.status.code(), Some(0 | 1)) {
            return Err(TaskFailure(format!("git grep: {}", String::from_utf8_lossy(&ran.stderr))));
        }
        let mut candidates: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&ran.stdout).lines() {
            let mut parts = line.splitn(3, '\0');
            let (path, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let is_text =
                Path::new(path).extension().is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known));
            if let Some(number) = number.parse().ok().filter(|_| is_text) {
                candidates.entry(path.to_owned()).or_default().insert(number);
            }
        }
        Ok(candidates)
    }

    fn find_words(&self, path: &str, text: &str, is_candidate: impl Fn(usize) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut in_docs = false;
        for (number, line) in (1..).zip(text.lines()) {
            let docs = DOC_COMMENTS.iter().find_map(|start| line.trim_start().strip_prefix(start));
            let first_of_docs = docs.filter(|_| !in_docs).map(str::trim_start);
            in_docs = docs.is_some();
            for rule in self.rules.iter().filter(|_| is_candidate(number)) {
                let searched = if rule.is_doc_rule { first_of_docs.unwrap_or_default() } else { line };
                if let Some(words) = rule.first_match(searched) {
                    found.push(format!("{path}:{number}: \"{words}\": write {}", rule.instead));
                }
            }
        }
        found
    }
}

impl WordRule {
    fn first_match(&self, text: &str) -> Option<String> {
        let text = self.except.as_ref().map_or(text.into(), |except| except.replace_all(text, ""));
        self.words.find(&text).map(|found| found.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in_text(text: &str) -> Vec<String> {
        Words::parse(&read_file(&workspace_root().join(WORDS)).unwrap()).unwrap().find_words(
            "a.rs",
            text,
            |_| true,
        )
    }

    /// Joins the parts of a word, which are split so that the check does not find the word in this file.
    fn join_parts(parts: &[&str]) -> String {
        parts.concat()
    }

    #[test]
    fn a_listed_word_is_reported_with_its_location_and_replacement() {
        let text = join_parts(&["/// Returns it.\n", "/// It is written a", "new.\n"]);
        assert_eq!(find_in_text(&text), [join_parts(&["a.rs:2: \"a", "new\": write again, or a new …"])]);
        for text in
            [["S", "o many lines"], ["it t", "old of it"], ["this is n", "o list"], ["for w", "ho reads"]]
        {
            assert_eq!(find_in_text(&join_parts(&text)).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn doc_rules_apply_to_the_beginning_of_doc_comments() {
        let text = join_parts(&[
            "    //",
            "/ What it is.\n    /// What follows.\n// What a comment says.\nWhat a text says.",
        ]);
        assert_eq!(find_in_text(&text).len(), 1, "{text}");
    }

    #[test]
    fn text_matching_an_exception_is_not_reported() {
        for text in ["there is no list", "it is no longer here", "so many that it takes long", "nobody knows"]
        {
            assert_eq!(find_in_text(text), [""; 0], "{text}");
        }
    }
}
