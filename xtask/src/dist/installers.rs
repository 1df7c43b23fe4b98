//! Generates a Homebrew formula and winget manifests from a release's archives.

use std::fs;
use std::path::{Path, PathBuf};

use super::command_line::VERSION;
use super::system::TargetSystem;
use super::{file_failure, read_file, sha256_hex, write_checksums, write_file};
use crate::bundle::LambdaArchitecture;
use crate::tools::{TaskFailure, target_dir};

/// The archives in the formula's order, followed by the archive for Windows.
const ARCHIVES: [(TargetSystem, LambdaArchitecture); 5] = [
    (TargetSystem::Macos, LambdaArchitecture::Arm64),
    (TargetSystem::Macos, LambdaArchitecture::X86_64),
    (TargetSystem::Linux, LambdaArchitecture::Arm64),
    (TargetSystem::Linux, LambdaArchitecture::X86_64),
    (TargetSystem::Windows, LambdaArchitecture::X86_64),
];
const SUMMARY: &str = "Delayed, jittered retries for SQS and Lambda, with every dead letter explained";

/// A release archive.
struct Download {
    url: String,
    sha256: String,
}

/// Writes the formula and the manifests to `target/dist/`, for a repository such as `owner/redeliver`. The archives can
/// be in `parts` or in its subfolders.
///
/// # Errors
/// An archive is missing, or the repository has no owner.
pub(crate) fn write_installers(parts: &Path, repository: &str) -> Result<(), TaskFailure> {
    let owner = repository.split_once('/').map(|(owner, _)| owner);
    let owner = owner.ok_or_else(|| TaskFailure(format!("{repository} is not OWNER/NAME")))?;
    let download = |(system, architecture): (TargetSystem, LambdaArchitecture)| {
        let name = system.archive_name(architecture);
        let sha256 = sha256_hex(&read_file(&find_file(parts, &name)?)?);
        Ok(Download {
            url: format!("https://github.com/{repository}/releases/download/v{VERSION}/{name}"),
            sha256,
        })
    };
    let downloads: Result<Vec<_>, TaskFailure> = ARCHIVES.map(download).into_iter().collect();
    let downloads = downloads?;
    let folder = target_dir().join("dist");
    fs::create_dir_all(&folder).map_err(|error| file_failure(&folder, &error))?;
    write_file(&folder.join("redeliver.rb"), render_formula(repository, &downloads).as_bytes())?;
    for (name, text) in winget_manifests(owner, repository, &downloads[4]) {
        write_file(&folder.join(name), text.as_bytes())?;
    }
    write_checksums(&folder)
}

/// Finds a file with this name in a folder or one of its direct subfolders.
fn find_file(folder: &Path, name: &str) -> Result<PathBuf, TaskFailure> {
    let inside = fs::read_dir(folder).map_err(|error| file_failure(folder, &error))?;
    let folders = inside.flatten().map(|entry| entry.path());
    let mut places = folders.chain([folder.to_owned()]).map(|place| place.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| file_failure(folder, &format!("{name} is missing")))
}

fn render_formula(repository: &str, downloads: &[Download]) -> String {
    let source = |index: usize| {
        let Download { url, sha256 } = &downloads[index];
        format!("      url \"{url}\"\n      sha256 \"{sha256}\"\n")
    };
    format!(
        r##"class Redeliver < Formula
  desc "{SUMMARY}"
  homepage "https://github.com/{repository}"
  version "{VERSION}"
  license any_of: ["Apache-2.0", "MIT"]

  on_macos do
    on_arm do
{}    end
    on_intel do
{}    end
  end

  on_linux do
    on_arm do
{}    end
    on_intel do
{}    end
  end

  def install
    bin.install "redeliver"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/redeliver.bash" => "redeliver"
    fish_completion.install "completions/redeliver.fish"
    zsh_completion.install "completions/_redeliver"
    pkgshare.install "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES", "redeliver.cdx.json"
  end

  test do
    assert_match "redeliver {VERSION} ", shell_output("#{{bin}}/redeliver --version")
  end
end
"##,
        source(0),
        source(1),
        source(2),
        source(3)
    )
}

/// Returns the three files that winget-pkgs requires ("Manifest schema", version 1.6.0).
fn winget_manifests(owner: &str, repository: &str, archive: &Download) -> [(String, String); 3] {
    let id = format!("{owner}.redeliver");
    let file = |ending: &str, kind: &str, content: String| {
        let text = format!(
            "PackageIdentifier: {id}\nPackageVersion: {VERSION}\n{content}ManifestType: {kind}\nManifestVersion: 1.6.0\n"
        );
        (format!("{id}{ending}.yaml"), text)
    };
    let folder = TargetSystem::Windows.archive_folder(LambdaArchitecture::X86_64);
    let Download { url, sha256 } = archive;
    let installer = format!(
        "InstallerType: zip\nNestedInstallerType: portable\nNestedInstallerFiles:\n\
         - RelativeFilePath: {folder}\\{}\n  PortableCommandAlias: redeliver\nInstallers:\n- Architecture: x64\n  \
         InstallerUrl: {url}\n  InstallerSha256: {}\n",
        TargetSystem::Windows.program_file(),
        sha256.to_uppercase()
    );
    let locale = format!(
        "PackageLocale: en-US\nPublisher: {owner}\nPackageName: redeliver\nPackageUrl: https://github.com/{repository}\n\
         License: Apache-2.0 OR MIT\nShortDescription: {SUMMARY}\n"
    );
    [
        file("", "version", "DefaultLocale: en-US\n".to_owned()),
        file(".installer", "installer", installer),
        file(".locale.en-US", "defaultLocale", locale),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download(name: &str, digit: &str) -> Download {
        Download { url: format!("https://example.com/{name}"), sha256: digit.repeat(64) }
    }

    #[test]
    fn the_formula_names_each_macos_and_linux_archive_with_its_digest() {
        let downloads =
            [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")].map(|(name, digit)| download(name, digit));
        let formula = render_formula("owner/redeliver", &downloads);
        let expected = r##"class Redeliver < Formula
  desc "Delayed, jittered retries for SQS and Lambda, with every dead letter explained"
  homepage "https://github.com/owner/redeliver"
  version "VERSION"
  license any_of: ["Apache-2.0", "MIT"]

  on_macos do
    on_arm do
      url "https://example.com/a"
      sha256 "1111111111111111111111111111111111111111111111111111111111111111"
    end
    on_intel do
      url "https://example.com/b"
      sha256 "2222222222222222222222222222222222222222222222222222222222222222"
    end
  end

  on_linux do
    on_arm do
      url "https://example.com/c"
      sha256 "3333333333333333333333333333333333333333333333333333333333333333"
    end
    on_intel do
      url "https://example.com/d"
      sha256 "4444444444444444444444444444444444444444444444444444444444444444"
    end
  end

  def install
    bin.install "redeliver"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/redeliver.bash" => "redeliver"
    fish_completion.install "completions/redeliver.fish"
    zsh_completion.install "completions/_redeliver"
    pkgshare.install "LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES", "redeliver.cdx.json"
  end

  test do
    assert_match "redeliver VERSION ", shell_output("#{bin}/redeliver --version")
  end
end
"##;
        assert_eq!(formula, expected.replace("VERSION", VERSION));
    }

    #[test]
    fn the_winget_manifest_names_the_program_and_its_digest() {
        let files = winget_manifests("owner", "owner/redeliver", &download("x.zip", "a"));
        let expected = [
            (
                "owner.redeliver.yaml",
                "PackageIdentifier: owner.redeliver
PackageVersion: VERSION
DefaultLocale: en-US
ManifestType: version
ManifestVersion: 1.6.0
",
            ),
            (
                "owner.redeliver.installer.yaml",
                r"PackageIdentifier: owner.redeliver
PackageVersion: VERSION
InstallerType: zip
NestedInstallerType: portable
NestedInstallerFiles:
- RelativeFilePath: redeliver-VERSION-x86_64-windows\redeliver.exe
  PortableCommandAlias: redeliver
Installers:
- Architecture: x64
  InstallerUrl: https://example.com/x.zip
  InstallerSha256: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
ManifestType: installer
ManifestVersion: 1.6.0
",
            ),
            (
                "owner.redeliver.locale.en-US.yaml",
                "PackageIdentifier: owner.redeliver
PackageVersion: VERSION
PackageLocale: en-US
Publisher: owner
PackageName: redeliver
PackageUrl: https://github.com/owner/redeliver
License: Apache-2.0 OR MIT
ShortDescription: Delayed, jittered retries for SQS and Lambda, with every dead letter explained
ManifestType: defaultLocale
ManifestVersion: 1.6.0
",
            ),
        ];
        assert_eq!(files.len(), expected.len());
        for ((name, text), (expected_name, expected)) in files.iter().zip(expected) {
            assert_eq!(
                (name.as_str(), text.as_str()),
                (expected_name, &*expected.replace("VERSION", VERSION))
            );
        }
    }

    #[test]
    fn an_archive_is_found_in_a_subfolder() {
        let parts = tempfile::tempdir().unwrap();
        fs::create_dir(parts.path().join("dist-macos")).unwrap();
        fs::write(parts.path().join("dist-macos/a.tar.gz"), "").unwrap();
        assert_eq!(find_file(parts.path(), "a.tar.gz").unwrap(), parts.path().join("dist-macos/a.tar.gz"));
        let TaskFailure(missing) = find_file(parts.path(), "b.zip").unwrap_err();
        assert_eq!(missing, format!("{}: b.zip is missing", parts.path().display()));
    }
}
