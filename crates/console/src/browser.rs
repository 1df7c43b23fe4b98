//! Opens the link in the user's browser.
//!
//! The link contains the token, and any user on the machine can read the arguments of its processes. The browser
//! therefore receives the path of a private file that redirects to the link.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use maud::html;
use redeliver_dead_letters::files::make_private;
use redeliver_operator::markup;
use redeliver_platform::process::shield_from_interrupts;
use tempfile::NamedTempFile;

/// Environment variables that mark a CI or an SSH session, where a browser, if any, is not on the user's machine.
const REMOTE_SESSION_VARIABLES: [&str; 4] = ["CI", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY"];
const DISPLAY_VARIABLES: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Opens the link in a browser if the session has one. Returns the file that redirects to the link; it must exist until
/// the console ends.
#[expect(
    clippy::disallowed_methods,
    reason = "these variables describe the user's session; they are not settings"
)]
pub(crate) fn open_browser(link: &str, folder: &Path) -> Option<NamedTempFile> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let (program, options) = select_opener(std::env::consts::OS, is_terminal, is_set)?;
    let page = write_link_page(link, folder).ok()?;
    let mut command = Command::new(program);
    command.args(options).arg(page.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The opener can become the browser itself, which must survive the Ctrl-C that ends the console.
    shield_from_interrupts(&mut command);
    // Without an opener, the user still has the printed link.
    command.spawn().ok().map(|_| page)
}

/// Returns the program that opens a page in the browser, and its first arguments, or `None` if the session has no
/// browser.
fn select_opener(
    system: &str,
    is_terminal: bool,
    is_set: impl Fn(&str) -> bool,
) -> Option<(&'static str, &'static [&'static str])> {
    if !is_terminal || REMOTE_SESSION_VARIABLES.iter().any(|name| is_set(name)) {
        return None;
    }
    match system {
        "macos" => Some(("open", &[])),
        // `start` treats its first quoted argument as a window title.
        "windows" => Some(("cmd", &["/C", "start", ""])),
        _ => DISPLAY_VARIABLES.iter().any(|name| is_set(name)).then_some(("xdg-open", &[])),
    }
}

/// Writes the page that redirects to the link. Only its owner can read it.
fn write_link_page(link: &str, folder: &Path) -> io::Result<NamedTempFile> {
    let mut file =
        tempfile::Builder::new().prefix("redeliver-console-").suffix(".html").tempfile_in(folder)?;
    make_private(file.as_file())?;
    let head = html! { meta http-equiv="refresh" content={"0; url=" (link)}; };
    let body =
        html! { main { h1 { "redeliver console" } p { a href=(link) { "Continue to the console" } } } };
    file.write_all(markup::render_document("redeliver console", &head, &body).as_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_in_a_desktop_session_with_a_terminal() {
        let program = |system, is_terminal, set: &[&str]| {
            select_opener(system, is_terminal, |name| set.contains(&name)).map(|(program, _)| program)
        };
        assert_eq!(program("linux", true, &["DISPLAY"]), Some("xdg-open"));
        assert_eq!(program("linux", true, &["WAYLAND_DISPLAY"]), Some("xdg-open"));
        assert_eq!(program("linux", true, &[]), None);
        assert_eq!(program("macos", true, &[]), Some("open"));
        assert_eq!(program("windows", true, &[]), Some("cmd"));
        for system in ["linux", "macos", "windows"] {
            assert_eq!(program(system, false, &["DISPLAY"]), None, "{system}");
            for elsewhere in REMOTE_SESSION_VARIABLES {
                assert_eq!(program(system, true, &["DISPLAY", elsewhere]), None, "{system} {elsewhere}");
            }
        }
    }

    #[test]
    fn the_link_page_is_private_and_removed_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let file = write_link_page("http://127.0.0.1:1/path/?token=secret", folder.path()).unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        let redirect =
            "<meta http-equiv=\"refresh\" content=\"0; url=http://127.0.0.1:1/path/?token=secret\">";
        assert!(text.contains(redirect), "{text}");
        #[cfg(unix)]
        {
            let permissions = file.as_file().metadata().unwrap().permissions();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
        }
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
