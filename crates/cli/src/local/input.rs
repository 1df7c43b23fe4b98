//! The input in portions, so that only those messages take memory that are in a queue.

use std::io::{self, BufRead};
use std::path::Path;

use redeliver_core::message::OutgoingMessage;

use crate::files::FileError;
use crate::message_file::{Form, Lines, dead_letter, open, unreadable};

/// Lines of a file as messages, and those that SQS would refuse.
#[derive(Debug, Default)]
pub struct Input {
    /// What is sent, in order.
    pub messages: Vec<OutgoingMessage>,
    /// What SQS would refuse.
    pub refused: Vec<RefusedLine>,
    /// The first line of the input that holds a dead letter, and what takes such lines.
    pub dead_letter: Option<(usize, String)>,
}

/// A line that cannot be a message at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLine {
    /// 1 for the first.
    pub line: usize,
    /// What SQS would say.
    pub reason: String,
}

/// What is read at once at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

impl Portion {
    /// So few that they take little memory, and so many that nobody waits for the next ones.
    pub(super) const SMALL: Self = Self { messages: 10_000, bytes: 64 << 20 };
    pub(super) const WHOLE: Self = Self { messages: usize::MAX, bytes: usize::MAX };
}

/// What has not been read yet of a file, or of standard input.
pub(super) struct Portions {
    pub(super) path: Box<Path>,
    lines: Lines<Box<dyn BufRead + Send>>,
    form: Form,
    portion: Portion,
    ahead: Option<Input>,
    has_dead_letters: bool,
}

impl Portions {
    /// The first portion is read: what cannot be read is known before anything is done.
    pub(super) fn open(path: &Path, form: Form, portion: Portion) -> Result<Self, FileError> {
        Self::of(path, open(path)?, form, portion)
    }

    fn of(
        path: &Path,
        input: Box<dyn BufRead + Send>,
        form: Form,
        portion: Portion,
    ) -> Result<Self, FileError> {
        let lines = form.lines(input);
        let mut portions =
            Self { path: path.into(), lines, form, portion, ahead: None, has_dead_letters: false };
        portions.next()?;
        Ok(portions)
    }

    /// The next lines, and those after them are [`ahead`](Self::ahead); `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Input>, FileError> {
        let input = self.read().map_err(|error| unreadable(&self.path, &error))?;
        let is_something = input.messages.len() + input.refused.len() > 0;
        Ok(std::mem::replace(&mut self.ahead, is_something.then_some(input)))
    }

    /// What [`next`](Self::next) will give.
    pub(super) fn ahead(&self) -> Option<&Input> {
        self.ahead.as_ref()
    }

    fn read(&mut self) -> io::Result<Input> {
        let mut input = Input::default();
        let mut bytes = 0;
        while input.messages.len() < self.portion.messages && bytes < self.portion.bytes {
            let Some(line) = self.lines.next().transpose()? else { break };
            let number = line.number;
            match self.form.read(line) {
                Ok(message) => {
                    if !self.has_dead_letters {
                        let hint = dead_letter(&message.sendable.content().body);
                        input.dead_letter = hint.map(|hint| (number, hint));
                        self.has_dead_letters = input.dead_letter.is_some();
                    }
                    bytes += message.sendable.size();
                    input.messages.push(message.sendable);
                }
                Err(findings) => input
                    .refused
                    .extend(findings.into_iter().map(|reason| RefusedLine { line: number, reason })),
            }
        }
        Ok(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portions(text: &'static [u8], portion: Portion) -> Portions {
        Portions::of(Path::new("-"), Box::new(text), Form::Anything(|_| Ok(())), portion).unwrap()
    }

    fn bodies(input: &Input) -> Vec<&str> {
        input.messages.iter().map(|message| message.content().body.as_str()).collect()
    }

    #[test]
    fn each_line_is_a_message_or_is_refused_with_its_number() {
        let input = portions(b"{}\r\n\nnot JSON\n\xFF\n\x07\n", Portion::WHOLE).next().unwrap().unwrap();
        assert_eq!(bodies(&input), ["{}", "not JSON"]);
        let refused: Vec<_> =
            input.refused.iter().map(|refused| (refused.line, refused.reason.as_str())).collect();
        assert_eq!(
            refused,
            [
                (2, "the body is empty; SQS wants at least one character"),
                (4, "not UTF-8 at byte 0"),
                (5, "the character U+0007 at byte 0 of the body is not legal in SQS"),
            ]
        );
    }

    #[test]
    fn a_last_line_needs_no_end_and_an_empty_file_has_no_lines() {
        assert_eq!(portions(b"{}", Portion::WHOLE).next().unwrap().unwrap().messages.len(), 1);
        assert!(portions(b"", Portion::WHOLE).next().unwrap().is_none());
    }

    #[test]
    fn a_portion_ends_with_so_many_messages_or_so_many_bytes() {
        let portions_of = |messages, bytes| {
            let mut input = portions(b"1\n\n22\n3\n44\n5", Portion { messages, bytes });
            std::iter::from_fn(move || input.next().unwrap()).collect::<Vec<_>>()
        };
        let twos = portions_of(2, 100);
        assert_eq!(
            twos.iter().map(bodies).collect::<Vec<_>>(),
            [vec!["1", "22"], vec!["3", "44"], vec!["5"]]
        );
        assert_eq!(twos[0].refused[0].line, 2);
        let threes = portions_of(100, 3);
        assert_eq!(
            threes.iter().map(bodies).collect::<Vec<_>>(),
            [vec!["1", "22"], vec!["3", "44"], vec!["5"]]
        );
    }

    #[test]
    fn what_else_is_wrong_with_a_message_is_told_too() {
        let too_short = Form::Anything(|_| Err("too short".to_owned()));
        let mut input = Portions::of(Path::new("-"), Box::new(&b"1"[..]), too_short, Portion::WHOLE).unwrap();
        let input = input.next().unwrap().unwrap();
        assert_eq!(input.refused, [RefusedLine { line: 1, reason: "too short".to_owned() }]);
    }
}
