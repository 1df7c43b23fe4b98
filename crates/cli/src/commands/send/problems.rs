//! Collects the problems found in a file's lines, so that a problem shared by many lines is printed once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use redeliver_operator::terminal::units::{format_count, group_digits};

/// Maximum number of problems remembered. Further problems are printed for each line.
const PROBLEMS_MAX: usize = 1000;
/// Maximum number of line numbers listed per problem.
const LINES_MAX: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Problems(BTreeMap<String, ProblemLines>);

#[derive(Debug, Default)]
struct ProblemLines {
    count: u64,
    first: Vec<usize>,
}

impl Problems {
    /// Counts a line. Returns true if it is the first with this problem.
    pub(super) fn count_line(&mut self, line: usize, problem: &str) -> bool {
        let is_full = self.0.len() >= PROBLEMS_MAX;
        let lines = match self.0.entry(problem.to_owned()) {
            Entry::Vacant(_) if is_full => return true,
            entry => entry.or_default(),
        };
        lines.count += 1;
        if lines.first.len() < LINES_MAX {
            lines.first.push(line);
        }
        lines.count == 1
    }

    /// Describes the problems that affect several lines, most frequent first.
    pub(super) fn describe_repeated(&self) -> Vec<String> {
        let mut repeated: Vec<_> = self.0.iter().filter(|(_, lines)| lines.count > 1).collect();
        repeated.sort_by_key(|(_, lines)| std::cmp::Reverse(lines.count));
        let sentences = repeated.into_iter().map(|(problem, ProblemLines { count, first })| {
            let named: Vec<_> = first.iter().map(ToString::to_string).collect();
            let more = count - named.len() as u64;
            let more = if more > 0 { format!(" and {} more", group_digits(more)) } else { String::new() };
            format!("{} ({}{more}): {problem}", format_count(*count, "line"), named.join(", "))
        });
        sentences.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_problem_is_reported_once_with_its_first_ten_lines() {
        let mut problems = Problems::default();
        let reported: Vec<_> = (1..=200).filter(|line| problems.count_line(*line, "has no id")).collect();
        assert!(problems.count_line(7, "is empty") && problems.count_line(201, "is not JSON"));
        assert!(!problems.count_line(202, "is not JSON"));
        assert_eq!(reported, [1]);
        assert_eq!(
            problems.describe_repeated(),
            [
                "200 lines (1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 190 more): has no id",
                "2 lines (201, 202): is not JSON"
            ]
        );
    }

    #[test]
    fn problems_beyond_the_limit_are_reported_each_time() {
        let mut problems = Problems::default();
        assert!((0..PROBLEMS_MAX).all(|n| problems.count_line(n, &n.to_string())));
        assert!([1, 2].iter().all(|line| problems.count_line(*line, "one more")));
        assert!(!problems.count_line(9, "0"), "known problems are still counted");
    }
}
