//! The operating systems for which the command line is packed.

use super::command_line::{COMMAND_LINE, VERSION};
use crate::bundle::LambdaArchitecture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetSystem {
    Linux,
    Macos,
    Windows,
}

impl TargetSystem {
    /// This machine's system.
    pub(super) const HOST: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Macos
    } else {
        Self::Linux
    };

    /// Returns the Rust target for this system and this machine's architecture.
    pub(super) fn rust_target(self) -> String {
        let machine = LambdaArchitecture::HOST.machine_name();
        match self {
            Self::Linux => LambdaArchitecture::HOST.rust_target().to_owned(),
            Self::Macos => format!("{machine}-apple-darwin"),
            Self::Windows => format!("{machine}-pc-windows-msvc"),
        }
    }

    /// Returns the file name of the program.
    pub(super) fn program_file(self) -> &'static str {
        match self {
            Self::Linux | Self::Macos => COMMAND_LINE,
            Self::Windows => "redeliver.exe",
        }
    }

    /// Returns the name of the archive's only top-level folder.
    pub(super) fn archive_folder(self, architecture: LambdaArchitecture) -> String {
        let name = match self {
            Self::Linux => "linux",
            Self::Macos => "macos",
            Self::Windows => "windows",
        };
        format!("redeliver-{VERSION}-{}-{name}", architecture.machine_name())
    }

    pub(super) fn archive_name(self, architecture: LambdaArchitecture) -> String {
        let ending = if self == Self::Windows { "zip" } else { "tar.gz" };
        format!("{}.{ending}", self.archive_folder(architecture))
    }
}
