//! The functions in a crate, by name, with their locations in the source.

use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, FnArg, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, PatIdent, ReturnType};
use syn::{Signature, Token, TraitItemFn, Type};

use crate::tools::{TaskFailure, read_file};

/// The maximum number of names that a message lists.
const NEAREST_MAX: usize = 10;

/// The sources of a crate, without its tests.
pub(super) struct Crate {
    /// The crate's folder in `crates/`.
    pub(super) name: String,
    pub(super) files: Vec<SourceFile>,
    functions: Vec<SourceFunction>,
}

pub(super) struct SourceFile {
    /// The path relative to the crate's folder.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A function with a body. Ranges refer to the text of its file.
#[derive(Clone)]
pub(super) struct SourceFunction {
    /// The path including modules and the type or trait: `decide::breaker::Breaker::hold`.
    pub(super) path: String,
    /// The index of the file.
    pub(super) file: usize,
    pub(super) line: usize,
    /// The names bound by the parameters, without `self`.
    pub(super) parameters: Vec<String>,
    /// The return type, if it can be named in the body.
    pub(super) returns: Option<String>,
    pub(super) is_async: bool,
    /// The range of the keyword `const`, if present.
    pub(super) constness: Option<Range<usize>>,
    /// The range between the braces.
    pub(super) body: Range<usize>,
}

impl Crate {
    /// Reads the crate in this folder.
    ///
    /// # Errors
    /// A file cannot be read or is not valid Rust.
    pub(super) fn read_sources(folder: &Path) -> Result<Self, TaskFailure> {
        let mut paths = Vec::new();
        list_sources(&folder.join("src"), &mut paths)?;
        paths.sort();
        let files = paths.into_iter().map(|path| {
            let text = read_file(&path)?;
            Ok(SourceFile { path: path.strip_prefix(folder).unwrap_or(&path).to_owned(), text })
        });
        let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self::from_files(name, files.collect::<Result<_, _>>()?)
    }

    /// Parses the files of a crate.
    ///
    /// # Errors
    /// A file is not valid Rust.
    pub(super) fn from_files(name: String, files: Vec<SourceFile>) -> Result<Self, TaskFailure> {
        let mut functions = Vec::new();
        for (file, SourceFile { path, text }) in files.iter().enumerate() {
            let parsed = syn::parse_file(text)
                .map_err(|error| TaskFailure(format!("crates/{name}/{}: {error}", path.display())))?;
            let mut finder = Finder { file, text, path: module_path(path), functions: &mut functions };
            finder.visit_file(&parsed);
        }
        Ok(Self { name, files, functions })
    }

    /// Returns the only function whose path is this name or ends with it.
    ///
    /// # Errors
    /// There is no such function, or there are several: the message lists similar ones.
    pub(super) fn find_function(&self, name: &str) -> Result<&SourceFunction, String> {
        let found: Vec<_> = self.functions.iter().filter(|function| function.has_name(name)).collect();
        match found[..] {
            [function] => Ok(function),
            [] => Err(format!(
                "there is no function `{name}` in crates/{}; similar names: {}",
                self.name,
                self.list_similar_functions(name)
            )),
            _ => Err(format!(
                "{} functions of crates/{} are called `{name}`: choose one of {}",
                found.len(),
                self.name,
                self.list_functions(&found)
            )),
        }
    }

    /// Formats the location of a function for messages.
    pub(super) fn format_location(&self, function: &SourceFunction) -> String {
        format!("crates/{}/{}:{}", self.name, self.files[function.file].path.display(), function.line)
    }

    /// Lists functions with the same name, then those in the same type or module, then those with a common prefix.
    fn list_similar_functions(&self, wanted: &str) -> String {
        let (owner, name) = wanted.rsplit_once("::").unwrap_or(("", wanted));
        let ranked = |function: &&SourceFunction| {
            let (its_owner, its_name) = function.path.rsplit_once("::").unwrap_or(("", &function.path));
            let is_owned = !owner.is_empty() && is_path_suffix(owner, its_owner);
            let alike = name.chars().zip(its_name.chars()).take_while(|(a, b)| a == b).count();
            (name == its_name, is_owned, alike)
        };
        let mut all: Vec<_> = self.functions.iter().collect();
        all.sort_by_key(|function| std::cmp::Reverse(ranked(function)));
        all.truncate(NEAREST_MAX);
        self.list_functions(&all)
    }

    fn list_functions(&self, functions: &[&SourceFunction]) -> String {
        let named = functions
            .iter()
            .map(|function| format!("`{}` ({})", function.path, self.format_location(function)));
        named.collect::<Vec<_>>().join(", ")
    }
}

impl SourceFunction {
    fn has_name(&self, name: &str) -> bool {
        is_path_suffix(name, &self.path)
    }
}

/// Returns true if `path` equals `end`, or ends with `::` and `end`.
fn is_path_suffix(end: &str, path: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

fn list_sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), TaskFailure> {
    let failed = |error: std::io::Error| TaskFailure(format!("{}: {error}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            list_sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns a file's module path: `decide`, `breaker` for `src/decide/breaker.rs`.
fn module_path(path: &Path) -> Vec<String> {
    let names = path.with_extension("");
    let names = names.iter().skip(1).map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| !["lib", "main", "mod"].contains(&name.as_str())).collect()
}

/// Collects the functions in a file.
struct Finder<'a> {
    file: usize,
    text: &'a str,
    /// The names that enclose the visited item.
    path: Vec<String>,
    functions: &'a mut Vec<SourceFunction>,
}

impl Finder<'_> {
    fn visit_within(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }

    fn add_function(&mut self, signature: &Signature, block: &Block) {
        let braces = block.brace_token.span;
        self.path.push(signature.ident.to_string());
        self.functions.push(SourceFunction {
            path: self.path.join("::"),
            file: self.file,
            line: signature.ident.span().start().line,
            parameters: parameter_names(&signature.inputs),
            returns: self.result_type(signature, braces.open().byte_range().start),
            is_async: signature.asyncness.is_some(),
            constness: signature.constness.as_ref().map(|constness| constness.span.byte_range()),
            body: braces.open().byte_range().end..braces.close().byte_range().start,
        });
        self.path.pop();
    }

    /// Returns the return type, or `None` for `impl Trait`, which cannot be named in the body.
    fn result_type(&self, signature: &Signature, body: usize) -> Option<String> {
        let ReturnType::Type(arrow, _) = &signature.output else { return Some("()".to_owned()) };
        let bounds = signature.generics.where_clause.as_ref();
        let end = bounds.map_or(body, |bounds| bounds.where_token.span.byte_range().start);
        let text = self.text[arrow.spans[1].byte_range().end..end].trim();
        let is_named = !text.split(|character: char| !character.is_alphanumeric()).any(|word| word == "impl");
        is_named.then(|| text.to_owned())
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test_only(&module.attrs) {
            self.visit_within(module.ident.to_string(), |finder| visit::visit_item_mod(finder, module));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_test_only(&item.attrs) {
            self.visit_within(type_name(&item.self_ty), |finder| visit::visit_item_impl(finder, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.visit_within(item.ident.to_string(), |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_test_only(&function.attrs) {
            self.add_function(&function.sig, &function.block);
            self.visit_within(function.sig.ident.to_string(), |finder| {
                visit::visit_item_fn(finder, function)
            });
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test_only(&function.attrs) {
            self.add_function(&function.sig, &function.block);
            self.visit_within(function.sig.ident.to_string(), |finder| {
                visit::visit_impl_item_fn(finder, function)
            });
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.add_function(&function.sig, block);
        }
    }
}

/// Returns the last segment of a type's path: `Outbox` for `Outbox<'a, C, O>`.
fn type_name(item: &Type) -> String {
    let Type::Path(path) = item else { return "_".to_owned() };
    path.path.segments.last().map_or_else(|| "_".to_owned(), |segment| segment.ident.to_string())
}

fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |words: &syn::MetaList| words.tokens.to_string() == "test";
        attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

fn parameter_names(inputs: &Punctuated<FnArg, Token![,]>) -> Vec<String> {
    struct BoundNames(Vec<String>);
    impl<'ast> Visit<'ast> for BoundNames {
        fn visit_pat_ident(&mut self, name: &'ast PatIdent) {
            self.0.push(name.ident.to_string());
        }
    }
    let mut names = BoundNames(Vec::new());
    inputs.iter().for_each(|input| names.visit_fn_arg(input));
    names.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        pub struct Outbox<'a>(&'a str);
        impl<'a> Outbox<'a> {
            pub async fn send(&self, Pair { name, count: size }: Pair, mut all: Vec<u8>) -> Vec<Option<u8>> { all }
            const fn is_empty(self) -> bool { true }
            fn each(&self) -> impl Iterator<Item = u8> { [].into_iter() }
        }
        impl Queue for Outbox<'_> { fn name(&self) -> &str { \"é\" } }
        trait Queue { fn name(&self) -> &str; fn len(&self) -> usize { 0 } }
        fn send() { fn inner() {} }
        mod batch { fn pack() {} }
        #[cfg(test)]
        mod tests { fn send() {} }
    ";

    fn parse_source() -> Crate {
        let path = PathBuf::from("src/deliver.rs");
        Crate::from_files("core".to_owned(), vec![SourceFile { path, text: SOURCE.to_owned() }]).unwrap()
    }

    #[test]
    fn functions_are_found_by_any_suffix_of_their_path() {
        let parsed = parse_source();
        for (name, path) in [
            ("Outbox::send", "deliver::Outbox::send"),
            ("deliver::send", "deliver::send"),
            ("is_empty", "deliver::Outbox::is_empty"),
            ("Outbox::name", "deliver::Outbox::name"),
            ("Queue::len", "deliver::Queue::len"),
            ("pack", "deliver::batch::pack"),
            ("inner", "deliver::send::inner"),
        ] {
            assert_eq!(parsed.find_function(name).unwrap().path, path);
        }
    }

    #[test]
    fn functions_are_parsed_with_parameters_result_and_body() {
        let parsed = parse_source();
        let send = parsed.find_function("Outbox::send").unwrap();
        assert_eq!(send.parameters, ["name", "size", "all"]);
        assert_eq!(send.returns.as_deref(), Some("Vec<Option<u8>>"));
        assert_eq!((send.is_async, send.line), (true, 4));
        let is_empty = parsed.find_function("is_empty").unwrap();
        assert_eq!(&SOURCE[is_empty.constness.clone().unwrap()], "const");
        assert_eq!(parsed.find_function("each").unwrap().returns, None);
        // Ranges count bytes, although syn counts characters.
        assert_eq!(&SOURCE[parsed.find_function("pack").unwrap().body.clone()], "");
        assert_eq!(&SOURCE[parsed.find_function("Outbox::name").unwrap().body.clone()], " \"é\" ");
    }

    #[test]
    fn a_missing_or_ambiguous_name_lists_similar_functions() {
        let parsed = parse_source();
        let error = parsed.find_function("Outbox::sent").err().unwrap();
        assert!(
            error.starts_with(
                "there is no function `Outbox::sent` in crates/core; similar names: `deliver::Outbox::send` \
                 (crates/core/src/deliver.rs:4), "
            ),
            "{error}"
        );
        assert_eq!(
            parsed.find_function("send").err().unwrap(),
            "2 functions of crates/core are called `send`: choose one of `deliver::Outbox::send` \
             (crates/core/src/deliver.rs:4), `deliver::send` (crates/core/src/deliver.rs:10)"
        );
    }
}
