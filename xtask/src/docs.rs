//! `cargo xtask docs`: builds a site from the pages in docs/SUMMARY.md with mdBook, in target/docs/site.
//!
//! The pages and the files that they link to keep their repository paths when they are copied, so that links work both
//! in the repository and on the site.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::tools::{TaskFailure, cargo_command, command_output, run_command, target_dir, workspace_root};

/// The pinned version: the newest on crates.io. No other tool builds a searchable site from plain Markdown without
/// Node.js.
const MDBOOK: &str = "0.5.4";

/// Builds the site.
///
/// # Errors
/// A page or a file that a page links to is missing, or mdBook cannot be installed or fails.
pub(crate) fn build_docs() -> Result<(), TaskFailure> {
    let mdbook = install_mdbook()?;
    let book = target_dir().join("docs");
    // Files from an earlier run could hide that something is missing.
    let _might_not_exist = fs::remove_dir_all(&book);
    stage_pages(&book.join("src"))?;
    for file in ["book.toml", "site.css"] {
        copy_file(&workspace_root().join("docs/site").join(file), &book.join(file))?;
    }
    run_command(Command::new(mdbook).arg("build").arg(&book))?;
    println!("{}", book.join("site/index.html").display());
    Ok(())
}

/// Checks all links and anchors on the site, without network access.
///
/// # Errors
/// A link or an anchor is broken.
pub(crate) fn check_links(venv: &Path) -> Result<(), TaskFailure> {
    let site = target_dir().join("docs/site");
    let mut lychee = Command::new(venv.join("bin/lychee"));
    lychee.args(["--offline", "--include-fragments", "--no-progress", "--index-files", "index.html"]);
    // Excludes mdBook's 404 page, and the page that repeats all others, whose links are checked on the originals.
    lychee.args(["--exclude-path", "print.html", "--exclude-path", "404.html", "--root-dir"]).arg(&site);
    run_command(lychee.arg(&site))
}

/// Returns the program under `target/tools`, and compiles it first if it is missing.
fn install_mdbook() -> Result<PathBuf, TaskFailure> {
    let tools = target_dir().join("tools");
    let program = tools.join("bin/mdbook");
    if command_output(Command::new(&program).arg("--version"))
        .is_ok_and(|version| version.trim() == format!("mdbook v{MDBOOK}"))
    {
        return Ok(program);
    }
    // Not optimized: optimizing would take longer than it saves.
    let mut install = cargo_command(&["install", "--debug", "--locked", "--quiet", "--force", "--root"]);
    install
        .arg(&tools)
        .args(["--no-default-features", "--features", "search"])
        .arg(format!("mdbook@{MDBOOK}"));
    // Cargo uses a temporary target folder, because it runs only one build at a time in a folder.
    run_command(install.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "none"))?;
    Ok(program)
}

/// Copies the pages and the files that they link to.
fn stage_pages(to: &Path) -> Result<(), TaskFailure> {
    let summary = read_page(Path::new("docs/SUMMARY.md"))?;
    let pages: BTreeSet<PathBuf> =
        relative_links(&summary).into_iter().map(|link| normalize_path(Path::new("docs"), link)).collect();
    for page in &pages {
        let text = read_page(page)?;
        // mdBook renders a README.md as index.html, but does not change the links to it.
        let linked = text.replace("README.md)", "index.md)").replace("README.md#", "index.md#");
        write_page(&to.join(page), &linked)?;
        let folder = page.parent().unwrap_or(Path::new(""));
        for link in relative_links(&text) {
            let file = normalize_path(folder, link);
            if !pages.contains(&file) {
                stage_file(page, link, &file, to)?;
            }
        }
    }
    let summary = summary.replace("](", "](docs/").replace("](docs/../", "](");
    write_page(&to.join("SUMMARY.md"), &summary)
}

fn stage_file(page: &Path, link: &str, file: &Path, to: &Path) -> Result<(), TaskFailure> {
    let wrong = |what: &str| TaskFailure(format!("{} links to {link}: {what}", page.display()));
    if !workspace_root().join(file).is_file() {
        return Err(wrong("the file does not exist; link to a file, not to a folder"));
    }
    if file.extension().is_some_and(|extension| extension == "md") {
        return Err(wrong("not a page of the site; add it to docs/SUMMARY.md"));
    }
    copy_file(&workspace_root().join(file), &to.join(file))
}

/// Returns the targets of a Markdown text's relative links, without anchors. Ignores code blocks.
fn relative_links(markdown: &str) -> Vec<&str> {
    let prose = markdown.split("\n```").step_by(2);
    let targets = prose.flat_map(|text| text.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

/// Resolves a link to a path from the root, without `..`.
fn normalize_path(folder: &Path, link: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for component in folder.join(link).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path
}

fn read_page(path: &Path) -> Result<String, TaskFailure> {
    fs::read_to_string(workspace_root().join(path))
        .map_err(|error| TaskFailure(format!("{}, of docs/SUMMARY.md: {error}", path.display())))
}

fn copy_file(from: &Path, to: &Path) -> Result<(), TaskFailure> {
    let copied = fs::create_dir_all(to.parent().unwrap_or(to)).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| TaskFailure(format!("{}: {error}", from.display())))
}

fn write_page(to: &Path, text: &str) -> Result<(), TaskFailure> {
    let written = fs::create_dir_all(to.parent().unwrap_or(to)).and_then(|()| fs::write(to, text));
    written.map_err(|error| TaskFailure(format!("{}: {error}", to.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relative_links_outside_code_are_returned() {
        let page =
            "[a](a.md) ![b](../b.svg) [c](#c) [d](https://d.e/f.md)\n```sh\n[e](e.md)\n```\n[f](f.md#g)\n";
        assert_eq!(relative_links(page), ["a.md", "../b.svg", "f.md"]);
    }

    #[test]
    fn a_link_resolves_to_a_path_from_the_root() {
        assert_eq!(normalize_path(Path::new("docs/strategies"), "../../README.md"), Path::new("README.md"));
    }

    #[test]
    fn doc_links_must_target_files_or_site_pages() {
        let to = target_dir().join("docs-test");
        let error = |link: &str| {
            let page = Path::new("docs/plan.md");
            stage_file(page, link, &normalize_path(Path::new("docs"), link), &to).unwrap_err().0
        };
        let nothing =
            "docs/plan.md links to ../schemas: the file does not exist; link to a file, not to a folder";
        assert_eq!(error("../schemas"), nothing);
        let no_page = "docs/plan.md links to SUMMARY.md: not a page of the site; add it to docs/SUMMARY.md";
        assert_eq!(error("SUMMARY.md"), no_page);
    }

    #[test]
    fn each_page_in_docs_is_in_the_summary() {
        let summary = read_page(Path::new("docs/SUMMARY.md")).unwrap();
        for folder in ["docs", "docs/deploy", "docs/operate", "docs/strategies"] {
            for file in fs::read_dir(workspace_root().join(folder)).unwrap() {
                let path = file.unwrap().path();
                let page = path.strip_prefix(workspace_root().join("docs")).unwrap().to_str().unwrap();
                let is_page = page.ends_with(".md") && page != "SUMMARY.md";
                assert!(!is_page || summary.contains(&format!("({page})")), "docs/SUMMARY.md has no {page}");
            }
        }
    }
}
