//! `--where` and `--edit`: jq, in process, without a way out of it, and within a time limit.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use jaq_core::data::JustLut;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, load, unwrap_valr};
use jaq_json::{Val, read};
use thiserror::Error;

/// For one message. A filter that needs longer has no end.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Recursion takes stack; it is only reserved, not used.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Filters that reach out of the message: to the environment, to standard error, to the program itself. `input` and
/// modules are not there in the first place.
const REFUSED: [&str; 7] = ["env", "debug", "debug_empty", "stderr", "stderr_empty", "halt", "halt_error"];

/// A compiled filter.
#[derive(Debug)]
pub struct Filter {
    text: String,
    jobs: Sender<String>,
    answers: Receiver<Result<Vec<String>, String>>,
}

/// Why a filter cannot be used. The command ends with exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilterError {
    /// It is no filter.
    #[error("the filter `{text}` is wrong at byte {offset} (`{rest}`): {reason}")]
    Compile {
        /// The filter.
        text: String,
        /// Where, in bytes from its start.
        offset: usize,
        /// What is there, shortly.
        rest: String,
        /// What is wrong.
        reason: String,
    },
    /// It fails on a message.
    #[error("the filter `{text}` fails on message {message_id}: {reason}")]
    Run {
        /// The filter.
        text: String,
        /// SQS's id of the message.
        message_id: String,
        /// jq's words, without the message's values.
        reason: String,
    },
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let (jobs, work) = channel::<String>();
        let (done, answers) = channel();
        let (compiled, outcome) = channel();
        let code = text.to_owned();
        // The filter is not `Send`: it lives where it runs. One that never ends is left behind there.
        let worker = thread::Builder::new().name("filter".to_owned()).stack_size(STACK_BYTES);
        let started = worker.spawn(move || work_on(&code, &work, &compiled, &done));
        let not_started = |reason: String| FilterError::Compile {
            text: text.to_owned(),
            offset: 0,
            rest: String::new(),
            reason,
        };
        started.map_err(|error| not_started(error.to_string()))?;
        outcome.recv().map_err(|error| not_started(error.to_string()))??;
        Ok(Self { text: text.to_owned(), jobs, answers })
    }

    /// Whether the filter's first output on a JSON document is neither `false` nor `null`, as in `jq --exit-status`; no
    /// output is no match.
    ///
    /// # Errors
    /// If the filter fails, or takes too long.
    pub fn matches(&self, message_id: &str, document: String) -> Result<bool, FilterError> {
        let outputs = self.run(message_id, document)?;
        Ok(outputs.first().is_some_and(|output| output != "false" && output != "null"))
    }

    /// The filter's only output on a JSON document, as JSON.
    ///
    /// # Errors
    /// If the filter fails, takes too long, or has no output or several.
    pub fn edit(&self, message_id: &str, document: String) -> Result<String, FilterError> {
        let mut outputs = self.run(message_id, document)?;
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => Ok(output),
            (None, _) => Err(self.failed(message_id, "it has no output; one is needed")),
            (Some(_), false) => Err(self.failed(message_id, "it has several outputs; one is needed")),
        }
    }

    fn run(&self, message_id: &str, document: String) -> Result<Vec<String>, FilterError> {
        let failed = |reason: &str| self.failed(message_id, reason);
        self.jobs.send(document).map_err(|_| failed("it has ended before"))?;
        match self.answers.recv_timeout(TIME_LIMIT) {
            Ok(answer) => answer.map_err(|reason| failed(&reason)),
            Err(RecvTimeoutError::Timeout) => {
                Err(failed(&format!("it takes longer than {} s", TIME_LIMIT.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => Err(failed("it has ended itself")),
        }
    }

    fn failed(&self, message_id: &str, reason: &str) -> FilterError {
        FilterError::Run {
            text: self.text.clone(),
            message_id: message_id.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

fn work_on(
    code: &str,
    work: &Receiver<String>,
    compiled: &Sender<Result<(), FilterError>>,
    done: &Sender<Result<Vec<String>, String>>,
) {
    let arena = Arena::default();
    let filter = match compile(code, &arena) {
        Ok(filter) => filter,
        Err(error) => {
            let _nobody_waits = compiled.send(Err(error));
            return;
        }
    };
    let _nobody_waits = compiled.send(Ok(()));
    for document in work {
        let _nobody_waits = done.send(outputs(&filter, &document));
    }
}

fn compile(code: &str, arena: &Arena) -> Result<jaq_core::Filter<JustLut<Val>>, FilterError> {
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let wrong = |(found, reason): (&str, String)| {
        let offset = load::span(code, found).start;
        FilterError::Compile { text: code.to_owned(), offset, rest: found.chars().take(20).collect(), reason }
    };
    let loader = Loader::new(definitions.filter(|definition| !REFUSED.contains(&definition.name)));
    let modules = loader.load(arena, File { code, path: () }).map_err(|errors| {
        wrong(first(errors, |error| of_loading(code, error)).unwrap_or((code, unknown())))
    })?;
    let functions = functions.filter(|(name, ..)| !REFUSED.contains(name));
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        let first = first(errors, |undefined| {
            undefined.into_iter().next().map(|(name, what)| {
                (name, format!("there is no {} of this name, or not with so many arguments", what.as_str()))
            })
        });
        wrong(first.unwrap_or((code, unknown())))
    })
}

fn first<'s, E>(
    errors: load::Errors<&'s str, (), E>,
    place: impl Fn(E) -> Option<(&'s str, String)>,
) -> Option<(&'s str, String)> {
    errors.into_iter().find_map(|(_, error)| place(error))
}

fn of_loading<'s>(code: &'s str, error: load::Error<&'s str>) -> Option<(&'s str, String)> {
    match error {
        load::Error::Io(_) => Some((code, "modules cannot be loaded".to_owned())),
        load::Error::Lex(errors) => errors
            .into_iter()
            .next()
            .map(|(expected, found)| (found, format!("expected {}", expected.as_str()))),
        load::Error::Parse(errors) => errors
            .into_iter()
            .next()
            .map(|(expected, found)| (found, format!("expected {}", expected.as_str()))),
    }
}

fn unknown() -> String {
    "it cannot be understood".to_owned()
}

fn outputs(filter: &jaq_core::Filter<JustLut<Val>>, document: &str) -> Result<Vec<String>, String> {
    let input = read::parse_single(document.as_bytes()).map_err(|error| error.to_string())?;
    let context = Ctx::<JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let outputs = filter.id.run((context, input)).map(unwrap_valr);
    // Nobody wants more than one; two are enough to say so.
    outputs
        .take(2)
        .map(|output| {
            output.map(|value| value.to_string()).map_err(|error| without_values(&error.to_string()))
        })
        .collect()
}

/// jq's words quote the values that they are about, which are the message's: only what stands around them may be shown.
fn without_values(error: &str) -> String {
    if error.starts_with("cannot use ") {
        // The last word is jq's: the type that was wanted.
        let wanted = error.rsplit(" as ").next().unwrap_or_default();
        return format!("cannot use a value as {wanted}");
    }
    let known = [
        ("cannot calculate ", "cannot calculate with two values"),
        ("cannot index ", "cannot index a value with another"),
        ("invalid path expression ", "invalid path expression"),
    ];
    let shown = known.into_iter().find(|(start, _)| error.starts_with(start)).map(|(_, shown)| shown);
    shown.unwrap_or("it raises an error, whose text may quote the message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, document: &str) -> bool {
        Filter::new(filter).unwrap().matches("m", document.to_owned()).unwrap()
    }

    #[test]
    fn a_filter_picks_by_body_attributes_and_error() {
        let document = r#"{"error_type":"A","attributes":{"tenant":"t1"},"body":{"data":{"cents":12345678901234567890}}}"#;
        assert!(matches(r#".error_type == "A" and .attributes.tenant == "t1""#, document));
        assert!(matches(".body.data.cents > 12345678901234567000", document));
        assert!(!matches(r#".attributes.tenant == "t2""#, document));
        assert!(!matches(".body.data.missing", document));
        assert!(!matches("empty", document));
    }

    #[test]
    fn a_wrong_filter_is_refused_with_its_place() {
        for (filter, offset, reason) in [
            (".error_type ==", 14, "expected term"),
            (".body | lenght", 8, "there is no filter of this name, or not with so many arguments"),
            (".a | $undefined", 5, "there is no variable of this name, or not with so many arguments"),
            (".a[", 3, "expected closing bracket"),
        ] {
            let FilterError::Compile { offset: found, reason: given, .. } = Filter::new(filter).unwrap_err()
            else {
                panic!("{filter}")
            };
            assert_eq!((found, given.as_str()), (offset, reason), "{filter}");
        }
    }

    #[test]
    fn a_filter_cannot_reach_out_of_the_message() {
        for filter in [
            "env",
            "$ENV",
            "input",
            "inputs",
            "debug",
            "debug(1)",
            "stderr",
            "halt",
            "halt_error",
            "input_filename",
        ] {
            assert!(matches!(Filter::new(filter), Err(FilterError::Compile { .. })), "{filter}");
        }
        for module in [r#"include "x"; ."#, r#"import "x" as x; ."#] {
            assert!(matches!(Filter::new(module), Err(FilterError::Compile { .. })), "{module}");
        }
    }

    #[test]
    fn a_filter_that_fails_or_never_ends_is_told_with_the_message() {
        let failed = Filter::new(".a + {}").unwrap().matches("m-1", r#"{"a":1}"#.to_owned()).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "the filter `.a + {}` fails on message m-1: cannot calculate with two values"
        );
        let endless = Filter::new("def f: f; f").unwrap().matches("m-1", "{}".to_owned()).unwrap_err();
        assert!(endless.to_string().ends_with("it takes longer than 1 s"), "{endless}");
    }

    #[test]
    fn what_is_told_of_a_failure_holds_no_value_of_the_message() {
        let document = r#"{"a":"CANARY as object","n":4242,"o":{"CANARY":"CANARY"},"l":["CANARY"]}"#;
        let own = "it raises an error, whose text may quote the message";
        for (filter, reason) in [
            (".a + 1", "cannot calculate with two values"),
            (".o - .l", "cannot calculate with two values"),
            (".a.b", "cannot index a value with another"),
            (".a | keys", "cannot use a value as iterable (array or object)"),
            (".l | implode", "cannot use a value as integer"),
            ("(.a | ascii_downcase) |= 1", "invalid path expression"),
            (".a | tojson | .[1:] | fromjson", own),
            (".a | tonumber", own),
            (".a | fromdateiso8601", own),
            (".a | test(\"(\")", own),
            (".a | @base64d", own),
            (".o | error", own),
            ("error(.a)", own),
            ("error(\"cannot use \" + .a)", own),
        ] {
            let failed = Filter::new(filter).unwrap().matches("m", document.to_owned()).unwrap_err();
            let text = failed.to_string();
            assert_eq!(text, format!("the filter `{filter}` fails on message m: {reason}"));
            assert!(!text.contains("CANARY") && !text.contains("4242"), "{text}");
        }
    }

    #[test]
    fn an_edit_has_exactly_one_output_with_its_numbers_as_they_were() {
        let edit = |filter: &str, document: &str| Filter::new(filter).unwrap().edit("m", document.to_owned());
        let edited =
            edit(".body.data.fixed = true", r#"{"body":{"data":{"n":1.10,"big":123456789012345678901}}}"#);
        assert_eq!(
            edited.unwrap(),
            r#"{"body":{"data":{"n":1.10,"big":123456789012345678901,"fixed":true}}}"#
        );
        assert!(edit("empty", "{}").unwrap_err().to_string().ends_with("it has no output; one is needed"));
        assert!(
            edit("., .", "{}").unwrap_err().to_string().ends_with("it has several outputs; one is needed")
        );
    }
}
