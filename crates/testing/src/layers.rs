//! Checks the layers of a crate: a module may import only from layers below its own.

use std::fs;
use std::path::{Path, PathBuf};

/// Finds the first import in the product code of `src` that does not point to a lower layer.
///
/// `layers` lists the crate's modules, lowest layer first. A layer is a space-separated list of modules
/// (`"layout pages::status"`) that do not import each other. A module that is not listed belongs to its parent.
pub fn first_upward_import(src: impl AsRef<Path>, layers: &[&str]) -> Option<String> {
    let layer_of = |path: &str| {
        let candidates =
            (0..).zip(layers).flat_map(|(layer, line)| line.split(' ').map(move |module| (layer, module)));
        let own = candidates.filter(|(_, module)| {
            path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        });
        own.max_by_key(|(_, module)| module.len())
    };
    let mut files = Vec::new();
    collect_files(src.as_ref(), "", &mut files);
    files.sort_unstable();
    files.into_iter().find_map(|(module, file)| {
        let Some((layer, own)) = layer_of(&module) else { return Some(format!("{module} is in no layer")) };
        let source = fs::read_to_string(file).unwrap();
        let points_up =
            |import: &String| layer_of(import).is_some_and(|(other, at)| at != own && other >= layer);
        crate_imports(&source).into_iter().find(points_up).map(|import| format!("{module} imports {import}"))
    })
}

/// Collects the modules below a folder, with their files, except for the crate's root and tests.
fn collect_files(folder: &Path, parent: &str, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let module = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
        match name {
            "tests" | "testing" | "lib" | "main" => {}
            _ if path.is_dir() => collect_files(&path, &module, files),
            _ if path.extension().is_some_and(|extension| extension == "rs") => files.push((module, path)),
            _ => {}
        }
    }
}

/// Returns the paths after each `crate::` that precedes the tests: `crate::a::{b, c::d}` yields `a::b` and `a::c::d`.
fn crate_imports(source: &str) -> Vec<String> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = product.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let starts = code.match_indices("crate::").filter(|(start, _)| {
        !code[..*start].ends_with(|before: char| before.is_alphanumeric() || "_$".contains(before))
    });
    starts.flat_map(|(start, root)| expand_tree(&code[start + root.len()..])).collect()
}

/// Returns the paths of the use tree at the start of `text`.
fn expand_tree(text: &str) -> Vec<String> {
    let (mut paths, mut path, mut prefixes) = (Vec::new(), String::new(), Vec::new());
    for character in text.chars() {
        match character {
            _ if character.is_alphanumeric() || ":_".contains(character) => path.push(character),
            '{' => prefixes.push(path.clone()),
            ',' | '}' if !prefixes.is_empty() => {
                paths.push(path);
                prefixes.truncate(prefixes.len() - usize::from(character == '}'));
                path = prefixes.last().cloned().unwrap_or_default();
            }
            _ if prefixes.is_empty() => break,
            _ => {}
        }
    }
    paths.push(path);
    paths.retain(|path| !path.is_empty() && !path.ends_with(':'));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_from_the_same_layer_or_a_higher_one_is_found() {
        let src = tempfile::tempdir().unwrap();
        for folder in ["pages", "tests"] {
            fs::create_dir(src.path().join(folder)).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the folder is the test's own")]
        let write = |file: &str, source: &str| fs::write(src.path().join(file), source).unwrap();
        write("lib.rs", "use crate::pages;");
        write("url.rs", "");
        write(
            "error.rs",
            "//! As [`crate::pages`].\nuse crate::url::{self, x};\n#[cfg(test)]\nmod tests {\nuse crate::pages;",
        );
        write("pages.rs", "use crate::Failure;\nuse crate::{error, pages::{list}};");
        write(
            "pages/list.rs",
            "use crate::{\n    error::{Answer, PageError}, url,\n};\nuse other_crate::pages::show;",
        );
        write("pages/show.rs", "fn show() { crate::pages::list::list(crate::url::path()) }");
        write("tests/world.rs", "use crate::pages;");
        let layers = ["url", "error", "pages::list", "pages"];
        assert_eq!(first_upward_import(src.path(), &layers), None);
        let found = |layers: &[&str]| first_upward_import(src.path(), layers).unwrap();
        assert_eq!(found(&["error", "url", "pages"]), "error imports url::self");
        assert_eq!(found(&["url error", "pages"]), "error imports url::self");
        assert_eq!(found(&["url", "pages::list", "error", "pages"]), "pages::list imports error::Answer");
        assert_eq!(found(&["url", "error", "pages::show", "pages"]), "pages::show imports pages::list::list");
        assert_eq!(found(&["error", "pages"]), "url is in no layer");
    }

    #[test]
    fn core_modules_import_only_from_lower_layers() {
        let layers = [
            "limits fault span_context log_location function_arn lock yield_now",
            "events truncate",
            "json",
            "message",
            "policy trace",
            "handler ports",
            "deliver failure",
            "archive arrival polling",
            "accepted notices",
            "decide",
            "async_retry blocked redelivery",
            "strategy",
        ];
        assert_eq!(first_upward_import(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/src"), &layers), None);
    }

    #[test]
    fn message_processor_modules_import_only_from_lower_layers() {
        let layers = ["outcome", "breaker order spans", "turns", "calls", "on_aws"];
        let src = concat!(env!("CARGO_MANIFEST_DIR"), "/../message-processor/src");
        assert_eq!(first_upward_import(src, &layers), None);
    }
}
