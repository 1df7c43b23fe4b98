//! Compiles a filter's text, or locates its error.

use jaq_core::data::JustLut;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::native::{self, Fun, bome, v};
use jaq_core::{Compiler, load};
use jaq_json::Val;
use jaq_std::ValT as _;

use super::FilterSyntaxError;
use crate::record::is_nested_too_deeply;

/// jq filters with access to more than the message: the environment, standard error, or the program itself. `input` and
/// modules are unavailable anyway.
const FORBIDDEN_FILTERS: [&str; 7] =
    ["env", "debug", "debug_empty", "stderr", "stderr_empty", "halt", "halt_error"];

/// jaq parses text recursively: half a million brackets fit into one message, and overflow any stack.
const FROM_JSON: &str =
    r#"def fromjson: if is_nested_too_deep then error("nested too deep") else any_fromjson end;"#;

pub(super) fn compile_filter(
    code: &str,
    arena: &Arena,
) -> Result<jaq_core::Filter<JustLut<Val>>, FilterSyntaxError> {
    let from_json = load::parse(FROM_JSON, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(from_json).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let functions = functions.map(|(name, arguments, run)| match name {
        "fromjson" => ("any_fromjson", arguments, run),
        _ => (name, arguments, run),
    });
    let functions = functions.chain([nesting_filter()]);
    let syntax_error = |error: Option<LocatedError<'_>>| {
        let LocatedError { at, reason } =
            error.unwrap_or(LocatedError { at: code, reason: "it cannot be parsed".to_owned() });
        FilterSyntaxError { offset: load::span(code, at).start, rest: at.chars().take(20).collect(), reason }
    };
    // Excluded from both lists, since a filter can be defined in jq or natively.
    let loader = Loader::new(definitions.filter(|definition| !FORBIDDEN_FILTERS.contains(&definition.name)));
    let modules = loader.load(arena, File { code, path: () });
    let modules = modules
        .map_err(|errors| syntax_error(find_first_error(errors, |error| locate_load_error(code, error))))?;
    let functions = functions.filter(|(name, ..)| !FORBIDDEN_FILTERS.contains(name));
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        syntax_error(find_first_error(errors, |undefined| {
            undefined.into_iter().next().map(|(name, what)| LocatedError {
                at: name,
                reason: format!("there is no {} of this name with this number of arguments", what.as_str()),
            })
        }))
    })
}

fn nesting_filter() -> Fun<JustLut<Val>> {
    native::run(("is_nested_too_deep", v(0), |(_, input)| {
        let text = input.as_utf8_bytes().map(String::from_utf8_lossy);
        bome(Ok(Val::from(text.is_some_and(|text| is_nested_too_deeply(&text)))))
    }))
}

/// The location of an error in a filter.
struct LocatedError<'s> {
    at: &'s str,
    reason: String,
}

fn find_first_error<'s, E>(
    errors: load::Errors<&'s str, (), E>,
    locate: impl Fn(E) -> Option<LocatedError<'s>>,
) -> Option<LocatedError<'s>> {
    errors.into_iter().find_map(|(_, error)| locate(error))
}

fn locate_load_error<'s>(code: &'s str, error: load::Error<&'s str>) -> Option<LocatedError<'s>> {
    let expected = |at, what: &str| LocatedError { at, reason: format!("expected {what}") };
    match error {
        load::Error::Io(_) => Some(LocatedError { at: code, reason: "modules cannot be loaded".to_owned() }),
        load::Error::Lex(errors) => {
            errors.into_iter().next().map(|(what, found)| expected(found, what.as_str()))
        }
        load::Error::Parse(errors) => {
            errors.into_iter().next().map(|(what, found)| expected(found, what.as_str()))
        }
    }
}
