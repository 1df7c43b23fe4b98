//! Displays one dead letter: its history and its body, masked by default.

mod body;
mod edit_lines;
mod edit_of_invalid;
mod json_text;
mod story;
mod timeline;

pub use body::readable_body;
pub use edit_lines::{EditLine, masked_edit_diff};
pub use edit_of_invalid::suggest_edit;
pub use json_text::{FormattedText, JsonLayout, Mask, lay_out};
pub use story::{STYLE, ShowOptions, render_details, render_story, scroll_tabindex};
pub use timeline::{Timeline, TimelineEvent, TimelineEventKind, skipped_attempts};

#[cfg(test)]
mod examples {
    use redeliver_dead_letters::DeadLetterRecord;
    use redeliver_testing::dead_letters;

    pub(super) fn foreign_record(body: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::foreign_message(body, number))
    }

    pub(super) fn annotated_record(body: &str, code: &str, details: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::annotated_record(body, code, details, number))
    }

    pub(super) fn sample_record(code: &str, details: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::retried_record(code, details, number))
    }

    pub(super) fn retried_record(retry_attempt: u32, failed: &[u32]) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::retried_message(retry_attempt, failed))
    }
}
