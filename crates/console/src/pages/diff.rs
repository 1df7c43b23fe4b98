//! The lines that differ between two texts, as a block.

use maud::{Markup, html};
use redeliver_operator::diff::{DiffLine, diff_lines};

/// Renders the difference as a named block. The texts must already be escaped for display.
pub(crate) fn render_diff(name: &str, before: &str, after: &str) -> Markup {
    html! {
        pre class="diff" tabindex="0" role="region" aria-label=(name) {
            @for line in diff_lines(before, after) {
                @match line {
                    DiffLine::Same(text) => { "  " (text) "\n" },
                    DiffLine::Old(text) => del { "- " (text) "\n" },
                    DiffLine::New(text) => ins { "+ " (text) "\n" },
                    DiffLine::Hidden(count) => { "  … " (count) " lines\n" },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let shown = render_diff("one", "<b>", "<script>").into_string();
        assert!(shown.contains("<del>- &lt;b&gt;\n</del><ins>+ &lt;script&gt;\n</ins>"), "{shown}");
    }
}
