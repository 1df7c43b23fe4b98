//! The files that the program needs from the machine's Debian or Ubuntu installation: the C library and the CA
//! certificates, with the versions and licenses of their packages.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::super::archive::File;
use super::super::{file_failure, read_file};
use crate::tools::{TaskFailure, command_output};

/// Mozilla's certificates from the package, without any that this machine's administrator has added.
const AUTHORITIES: &str = "/usr/share/ca-certificates/mozilla";
/// The file in which Debian's programs and `redeliver` look for the certificates.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// The folder with the license texts to which a package's `copyright` refers.
const COMMON_LICENSES: &str = "/usr/share/common-licenses/";

/// Files for the image, with the packages that they come from.
pub(super) struct SystemFiles {
    pub(super) files: Vec<File>,
    pub(super) packages: Vec<DebianPackage>,
}

/// A package installed on this machine.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DebianPackage {
    name: String,
    version: String,
    architecture: String,
    /// `debian` or `ubuntu`.
    distribution: String,
}

/// Collects the libraries that a program needs, the certificates, and the licenses of both.
///
/// # Errors
/// This machine does not run Debian or Ubuntu, or a package or its license is missing.
pub(super) fn collect_system_files(program: &Path) -> Result<SystemFiles, TaskFailure> {
    let distribution = read_distribution()?;
    let mut owners = BTreeSet::from(["ca-certificates".to_owned()]);
    let mut files = vec![File::text(BUNDLE, read_ca_certificates()?)];
    for library in parse_libraries(&command_output(Command::new("ldd").arg(program))?)? {
        owners.insert(owning_package(&library)?);
        let path = library.strip_prefix("/").unwrap_or(&library).display().to_string();
        files.push(File::program(path, read_file(&library)?));
    }
    let packages: Result<Vec<_>, _> = owners.iter().map(|name| read_package(name, &distribution)).collect();
    let packages = packages?;
    files.extend(license_files(&packages)?);
    Ok(SystemFiles { files, packages })
}

/// Reads `ID=` from `os-release`.
fn read_distribution() -> Result<String, TaskFailure> {
    let path = Path::new("/etc/os-release");
    let text = fs::read_to_string(path).map_err(|error| file_failure(path, &error))?;
    let id = text.lines().find_map(|line| line.strip_prefix("ID="));
    id.map(|id| id.trim_matches('"').to_owned()).ok_or_else(|| file_failure(path, &"has no ID="))
}

/// Returns the paths of the libraries that `ldd` lists, including the loader.
fn parse_libraries(ldd: &str) -> Result<Vec<PathBuf>, TaskFailure> {
    if let Some(missing) = ldd.lines().find(|line| line.ends_with("not found")) {
        return Err(TaskFailure(format!("the program's library is not on this machine: {}", missing.trim())));
    }
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(ldd.lines().filter_map(path).collect())
}

/// Returns the package that a library belongs to, such as `libc6:amd64`.
fn owning_package(library: &Path) -> Result<String, TaskFailure> {
    // `/lib64/ld-linux…` and `/lib/…` can be links to the package's path, or the other way round.
    let real = fs::canonicalize(library).map_err(|error| file_failure(library, &error))?;
    let file = real.file_name().unwrap_or_default().to_string_lossy();
    let folder = real.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let said = command_output(Command::new("dpkg-query").args(["--search", &format!("*/{folder}/{file}")]))
        .map_err(|TaskFailure(error)| {
        TaskFailure(format!("the image needs this library from a Debian package: {error}"))
    })?;
    let owner =
        said.lines().filter(|line| !line.starts_with("diversion ")).find_map(|line| line.split_once(": "));
    owner.map(|(owner, _)| owner.to_owned()).ok_or_else(|| file_failure(library, &"belongs to no package"))
}

fn read_package(name: &str, distribution: &str) -> Result<DebianPackage, TaskFailure> {
    let format = "--showformat=${Package} ${Version} ${Architecture}";
    let said = command_output(Command::new("dpkg-query").args(["--show", format, name]))
        .map_err(|TaskFailure(error)| TaskFailure(format!("install the package {name}: {error}")))?;
    let [name, version, architecture] = said.split(' ').collect::<Vec<_>>()[..] else {
        return Err(TaskFailure(format!("unexpected output of dpkg-query for {name}: {said}")));
    };
    let (name, version, architecture) = (name.to_owned(), version.to_owned(), architecture.to_owned());
    Ok(DebianPackage { name, version, architecture, distribution: distribution.to_owned() })
}

/// Concatenates all certificates, sorted by file name.
fn read_ca_certificates() -> Result<Vec<u8>, TaskFailure> {
    let folder = Path::new(AUTHORITIES);
    let failure = |error: std::io::Error| {
        file_failure(folder, &format!("{error}; install the package ca-certificates"))
    };
    let entries = fs::read_dir(folder).map_err(failure)?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failure)?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        all.extend(read_file(&path)?.trim_ascii());
        all.push(b'\n');
    }
    Ok(all)
}

/// Returns the `copyright` of each package, and the license texts that these refer to.
fn license_files(packages: &[DebianPackage]) -> Result<Vec<File>, TaskFailure> {
    let (mut files, mut common) = (Vec::new(), BTreeSet::new());
    for DebianPackage { name, .. } in packages {
        let path = format!("/usr/share/doc/{name}/copyright");
        let text = read_file(Path::new(&path))?;
        common.extend(referenced_licenses(&String::from_utf8_lossy(&text)));
        files.push(File::text(&path[1..], text));
    }
    for path in common {
        let text = read_file(Path::new(&path))?;
        files.push(File::text(&path[1..], text));
    }
    Ok(files)
}

/// Returns the paths of the common licenses that a `copyright` refers to.
fn referenced_licenses(copyright: &str) -> Vec<String> {
    let name = |rest: &str| {
        let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-.+".contains(letter)));
        rest[..end.unwrap_or(rest.len())].trim_end_matches('.').to_owned()
    };
    let places = copyright.split(COMMON_LICENSES).skip(1);
    places.map(|rest| format!("{COMMON_LICENSES}{}", name(rest))).collect()
}

impl DebianPackage {
    /// Renders the package for a bill of materials (CycloneDX 1.5). Its licenses are in its `copyright`.
    pub(super) fn to_component(&self) -> Value {
        let Self { name, version, architecture, distribution } = self;
        let version_in_purl = version.replace('+', "%2B").replace(':', "%3A").replace('~', "%7E");
        let purl = format!("pkg:deb/{distribution}/{name}@{version_in_purl}?arch={architecture}");
        json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl })
    }
}

impl Display for DebianPackage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}={}", self.distribution, self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_libraries_are_the_loader_and_its_dependencies() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                   \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(parse_libraries(ldd).unwrap(), paths.map(PathBuf::from));
        let TaskFailure(missing) = parse_libraries("\tlibz.so.1 => not found\n").unwrap_err();
        assert_eq!(missing, "the program's library is not on this machine: libz.so.1 => not found");
    }

    #[test]
    fn licenses_referred_to_by_a_copyright_are_included() {
        let copyright = "see `/usr/share/common-licenses/LGPL-2.1'.\nor /usr/share/common-licenses/GPL-2.\n";
        assert_eq!(
            referenced_licenses(copyright),
            ["/usr/share/common-licenses/LGPL-2.1", "/usr/share/common-licenses/GPL-2"]
        );
    }

    #[test]
    fn a_package_is_named_with_its_version() {
        let package = DebianPackage {
            name: "libc6".to_owned(),
            version: "2.36-9+deb12u14".to_owned(),
            architecture: "amd64".to_owned(),
            distribution: "debian".to_owned(),
        };
        assert_eq!(package.to_string(), "debian/libc6=2.36-9+deb12u14");
        assert_eq!(package.to_component()["purl"], "pkg:deb/debian/libc6@2.36-9%2Bdeb12u14?arch=amd64");
    }
}
