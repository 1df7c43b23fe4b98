//! The systems that the command line is packed for.

use super::command_line::{COMMAND_LINE, VERSION};
use crate::bundle::LambdaArchitecture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetSystem {
    Linux,
    Macos,
    Windows,
}

impl TargetSystem {
    /// This machine's own.
    pub(super) const HOST: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Macos
    } else {
        Self::Linux
    };

    /// This machine's target, as Rust writes it.
    pub(super) fn rust_target(self) -> String {
        let machine = LambdaArchitecture::HOST.machine_name();
        match self {
            Self::Linux => LambdaArchitecture::HOST.rust_target().to_owned(),
            Self::Macos => format!("{machine}-apple-darwin"),
            Self::Windows => format!("{machine}-pc-windows-msvc"),
        }
    }

    /// The name of a program's file.
    pub(super) fn program_file(self) -> &'static str {
        match self {
            Self::Linux | Self::Macos => COMMAND_LINE,
            Self::Windows => "redeliver.exe",
        }
    }

    /// The only folder of the archive.
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
