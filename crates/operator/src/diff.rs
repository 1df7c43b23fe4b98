//! A line diff of two texts.

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// Maximum number of lines between the first and the last change. Above this limit, all of these lines count as
/// changed.
const COMPARED_MAX: usize = 400;

/// A line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'t> {
    Same(&'t str),
    Old(&'t str),
    New(&'t str),
    /// The number of unchanged lines that are hidden.
    Hidden(usize),
}

/// Returns the lines that differ between two texts, with context.
#[must_use]
pub fn diff_lines<'t>(before: &'t str, after: &'t str) -> Vec<DiffLine<'t>> {
    abridge_lines(&compare_lines(before, after))
}

/// Returns true if the texts are compared line by line, that is, if there are at most 400 lines from the first to the
/// last change. Above this limit, all of these lines count as changed.
pub(crate) fn is_compared_line_by_line(before: &str, after: &str) -> bool {
    let [before, after] = [before, after].map(|text| text.lines().collect::<Vec<_>>());
    let (first, last) = common_ends(&before, &after);
    before.len().max(after.len()) - first - last <= COMPARED_MAX
}

/// Counts the common lines at the beginning and at the end.
fn common_ends(before: &[&str], after: &[&str]) -> (usize, usize) {
    let first = before.iter().zip(after).take_while(|(old, new)| old == new).count();
    let pairs = before[first..].iter().rev().zip(after[first..].iter().rev());
    (first, pairs.take_while(|(old, new)| old == new).count())
}

/// Returns all lines of both texts in order, with the longest common subsequence marked as unchanged.
fn compare_lines<'t>(before: &'t str, after: &'t str) -> Vec<DiffLine<'t>> {
    let [before, after] = [before, after].map(|text| text.lines().collect::<Vec<_>>());
    let (first, last) = common_ends(&before, &after);
    let [old, new] = [&before[first..before.len() - last], &after[first..after.len() - last]];
    let mut all: Vec<_> = before[..first].iter().map(|line| DiffLine::Same(line)).collect();
    if old.len().max(new.len()) > COMPARED_MAX {
        all.extend(old.iter().map(|line| DiffLine::Old(line)));
        all.extend(new.iter().map(|line| DiffLine::New(line)));
    } else {
        all.extend(diff_changed_lines(old, new));
    }
    all.extend(before[before.len() - last..].iter().map(|line| DiffLine::Same(line)));
    all
}

/// Computes the diff of two short texts from their longest common subsequence.
fn diff_changed_lines<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<DiffLine<'t>> {
    // The length of the longest common subsequence of `old[i..]` and `new[j..]`.
    let mut longest = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j, mut all) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            all.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            all.push(DiffLine::Old(old[i]));
            i += 1;
        } else {
            all.push(DiffLine::New(new[j]));
            j += 1;
        }
    }
    all
}

/// Hides the lines that are far from any change.
fn abridge_lines<'t>(all: &[DiffLine<'t>]) -> Vec<DiffLine<'t>> {
    let is_same = |line: &DiffLine<'_>| matches!(line, DiffLine::Same(_));
    let is_near = |index: usize| {
        let around = index.saturating_sub(CONTEXT_LINES)..(index + CONTEXT_LINES + 1).min(all.len());
        !all[around].iter().all(is_same)
    };
    let mut shown = Vec::new();
    for (index, line) in all.iter().enumerate() {
        match shown.last_mut() {
            _ if is_near(index) => shown.push(*line),
            Some(DiffLine::Hidden(count)) => *count += 1,
            _ => shown.push(DiffLine::Hidden(1)),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_diff(before: &str, after: &str) -> Vec<String> {
        let shown = diff_lines(before, after).into_iter().map(|line| match line {
            DiffLine::Same(text) => format!(" {text}"),
            DiffLine::Old(text) => format!("-{text}"),
            DiffLine::New(text) => format!("+{text}"),
            DiffLine::Hidden(count) => format!("…{count}"),
        });
        shown.collect()
    }

    #[test]
    fn a_difference_is_shown_with_three_lines_of_context() {
        assert_eq!(
            format_diff("1\n2\n3\n4\n5\n6", "1\n2\n3\n4\nfive\n6"),
            ["…1", " 2", " 3", " 4", "-5", "+five", " 6"]
        );
        assert_eq!(format_diff("a\nb\nc\nd", "a\nx\nc\ny\nd"), [" a", "-b", "+x", " c", "+y", " d"]);
        assert_eq!(format_diff("", "a"), ["+a"]);
        assert_eq!(format_diff("a\na\nb", "a\nb"), [" a", "-a", " b"]);
        assert_eq!(format_diff("a\nb", "a\nb"), ["…2"]);
    }

    #[test]
    fn a_very_large_change_is_shown_as_all_old_lines_then_all_new_lines() {
        let [old, new] = ["old", "new"].map(|text| vec![text; COMPARED_MAX + 1].join("\n"));
        let shown = format_diff(&format!("a\n{old}\nz"), &format!("a\n{new}\nz"));
        assert_eq!(
            (shown.len(), shown[0].as_str(), shown[COMPARED_MAX + 2].as_str()),
            (2 * COMPARED_MAX + 4, " a", "+new")
        );
    }

    #[test]
    fn an_insertion_is_compared_line_by_line_up_to_the_limit() {
        let grown = |lines: usize| {
            let new = vec!["new"; lines].join("\n");
            format!("a\n{new}\nb\n{new}\nz")
        };
        let news = |lines: usize| vec!["+new"; lines];
        let (few, many) = (grown(COMPARED_MAX / 2 - 1), grown(COMPARED_MAX / 2));
        assert!(is_compared_line_by_line("a\nb\nz", &few) && !is_compared_line_by_line("a\nb\nz", &many));
        assert_eq!(
            format_diff("a\nb\nz", &few),
            [&[" a"][..], &news(199), &[" b"], &news(199), &[" z"]].concat()
        );
        assert_eq!(
            format_diff("a\nb\nz", &many),
            [&[" a", "-b"][..], &news(200), &["+b"], &news(200), &[" z"]].concat()
        );
    }
}
