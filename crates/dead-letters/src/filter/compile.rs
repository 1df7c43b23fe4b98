//! From a filter's text to a filter, or to the place where it is wrong.

use jaq_core::data::JustLut;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::native::{self, Fun, bome, v};
use jaq_core::{Compiler, load};
use jaq_json::Val;
use jaq_std::ValT as _;

use super::Wrong;
use crate::record::is_nested_too_deep;

/// Filters that reach out of the message: to the environment, to standard error, to the program itself. `input` and
/// modules are not there in the first place.
const REFUSED: [&str; 7] = ["env", "debug", "debug_empty", "stderr", "stderr_empty", "halt", "halt_error"];

/// jaq parses a text in a message by recursion: half a million brackets, which fit into one, overflow any stack.
const FROM_JSON: &str =
    r#"def fromjson: if is_nested_too_deep then error("nested too deep") else any_fromjson end;"#;

pub(super) fn compile(code: &str, arena: &Arena) -> Result<jaq_core::Filter<JustLut<Val>>, Wrong> {
    let from_json = load::parse(FROM_JSON, |parser| parser.defs()).unwrap_or_default();
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(from_json).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let functions = functions.map(|(name, arguments, run)| match name {
        "fromjson" => ("any_fromjson", arguments, run),
        _ => (name, arguments, run),
    });
    let functions = functions.chain([nested_too_deep()]);
    let wrong = |found: Option<(&str, String)>| {
        let (found, reason) = found.unwrap_or((code, "it cannot be understood".to_owned()));
        let offset = load::span(code, found).start;
        Wrong { offset, rest: found.chars().take(20).collect(), reason }
    };
    // Left out in both places: a name may be defined in jq itself, or built in.
    let loader = Loader::new(definitions.filter(|definition| !REFUSED.contains(&definition.name)));
    let modules = loader.load(arena, File { code, path: () });
    let modules = modules.map_err(|errors| wrong(first(errors, |error| of_loading(code, error))))?;
    let functions = functions.filter(|(name, ..)| !REFUSED.contains(name));
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        wrong(first(errors, |undefined| {
            undefined.into_iter().next().map(|(name, what)| {
                (name, format!("there is no {} of this name with this number of arguments", what.as_str()))
            })
        }))
    })
}

fn nested_too_deep() -> Fun<JustLut<Val>> {
    native::run(("is_nested_too_deep", v(0), |(_, input)| {
        let text = input.as_utf8_bytes().map(String::from_utf8_lossy);
        bome(Ok(Val::from(text.is_some_and(|text| is_nested_too_deep(&text)))))
    }))
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
