//! One dead letter, shown: what happened to it, and its body, masked unless it is to be revealed.

mod body;
mod edit_lines;
mod edit_of_invalid;
mod json_text;
mod story;
mod timeline;

pub use body::body_for_people;
pub use edit_lines::{EditLine, edit_lines};
pub use edit_of_invalid::edit_of_invalid;
pub use json_text::{LaidOut, Layout, Mask, lay_out};
pub use story::{STYLE, Showing, details, is_long, story};
pub use timeline::{Event, Kind, Timeline, skipped_attempts};

#[cfg(test)]
mod examples {
    use redeliver_dead_letters::DeadLetterRecord;
    use redeliver_testing::dead_letters;

    pub(super) fn foreign(body: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::foreign(body, number))
    }

    pub(super) fn annotated(body: &str, code: &str, details: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::annotated(body, code, details, number))
    }

    pub(super) fn record(code: &str, details: &str, number: u32) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::record(code, details, number))
    }

    pub(super) fn retried(retry_attempt: u32, failed: &[u32]) -> DeadLetterRecord {
        DeadLetterRecord::new(dead_letters::retried(retry_attempt, failed))
    }
}
