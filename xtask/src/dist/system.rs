//! The systems that the command line is packed for.

use super::command_line::{COMMAND_LINE, VERSION};
use crate::bundle::Architecture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    Linux,
    Macos,
    Windows,
}

impl System {
    /// This machine's own.
    pub(super) const HOST: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Macos
    } else {
        Self::Linux
    };

    /// This machine's target, as Rust writes it.
    pub(super) fn target(self) -> String {
        let machine = Architecture::HOST.machine();
        match self {
            Self::Linux => Architecture::HOST.target().to_owned(),
            Self::Macos => format!("{machine}-apple-darwin"),
            Self::Windows => format!("{machine}-pc-windows-msvc"),
        }
    }

    /// The name of a program's file.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Linux | Self::Macos => COMMAND_LINE,
            Self::Windows => "redeliver.exe",
        }
    }

    /// The only folder of the archive.
    pub(super) fn folder(self, architecture: Architecture) -> String {
        let name = match self {
            Self::Linux => "linux",
            Self::Macos => "macos",
            Self::Windows => "windows",
        };
        format!("redeliver-{VERSION}-{}-{name}", architecture.machine())
    }

    pub(super) fn archive(self, architecture: Architecture) -> String {
        let ending = if self == Self::Windows { "zip" } else { "tar.gz" };
        format!("{}.{ending}", self.folder(architecture))
    }
}
