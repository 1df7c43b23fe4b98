//! The container image of `redeliver`: only the program and the files that it needs from the machine's Debian packages.

mod debian;
mod layout;

use std::path::Path;

use serde_json::{Value, json};

use self::debian::{DebianPackage, SystemFiles};
use super::archive::File;
use super::{command_line, read_file, write_with_bill_of_materials};
use crate::bundle::LambdaArchitecture;
use crate::tools::TaskFailure;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROGRAM: &str = "/usr/bin/redeliver";
/// The usual id of an unprivileged user. Kubernetes' `runAsNonRoot` requires a numeric id.
const USER: &str = "65532:65532";
/// Files that define the user and its group, and where the C library looks up host names. The container runtime
/// supplies `/etc/hosts` and `/etc/resolv.conf`.
const SETTINGS: [(&str, &str); 3] = [
    ("etc/group", "nonroot:x:65532:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
    ("etc/passwd", "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"),
];

/// Packs the image with a program for this machine's architecture.
///
/// # Errors
/// This machine does not run Debian or Ubuntu, or a package lacks a required file.
pub(super) fn pack_image(folder: &Path, program: &Path) -> Result<(), TaskFailure> {
    let PackedImage { archive, bill } = build_image(program, command_line::collect_accompanying_files()?)?;
    let name = format!("redeliver-{VERSION}-{}.oci.tar", LambdaArchitecture::HOST.lambda_name());
    write_with_bill_of_materials(&folder.join(name), &archive, &bill)
}

#[derive(PartialEq, Eq)]
struct PackedImage {
    archive: Vec<u8>,
    /// The image's bill of materials.
    bill: String,
}

fn build_image(program: &Path, papers: Vec<(String, String)>) -> Result<PackedImage, TaskFailure> {
    let SystemFiles { mut files, packages } = debian::collect_system_files(program)?;
    files.push(File::program(&PROGRAM[1..], read_file(program)?));
    files.extend(SETTINGS.map(|(path, text)| File::text(path, text)));
    let bill = extend_bill_of_materials(&packages, command_line::find_bill_of_materials(&papers)?)?;
    for (name, text) in papers {
        let text = if name == command_line::BILL { bill.clone() } else { text };
        files.push(File::text(format!("usr/share/doc/redeliver/{name}"), text));
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(PackedImage { archive: layout::pack_archive(&files, &image_configuration(&packages))?, bill })
}

/// Returns the OCI image configuration, without the layers.
fn image_configuration(packages: &[DebianPackage]) -> Value {
    let packages: Vec<_> = packages.iter().map(DebianPackage::to_string).collect();
    json!({
        "architecture": layout::oci_architecture(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [PROGRAM],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "redeliver",
                "org.opencontainers.image.description": "Delayed, jittered retries for SQS: `work` polls the queues",
                "org.opencontainers.image.version": VERSION,
                // The program's own licenses. All others are in /usr/share/doc.
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "redeliver.packages": packages.join(" "),
            },
        },
    })
}

/// Adds the packages to the program's bill of materials.
fn extend_bill_of_materials(packages: &[DebianPackage], bill: &str) -> Result<String, TaskFailure> {
    let failed = |error: serde_json::Error| TaskFailure(format!("bill of materials: {error}"));
    let mut bill: Value = serde_json::from_str(bill).map_err(failed)?;
    if let Some(components) = bill["components"].as_array_mut() {
        components.extend(packages.iter().map(DebianPackage::to_component));
    }
    Ok(format!("{bill:#}\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;
    use std::process::Command;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::super::sha256_hex;
    use super::*;
    use crate::containers;
    use crate::tools::command_output;

    type ImageFiles = BTreeMap<String, (u32, Vec<u8>)>;

    /// Returns the path, mode and content of each file.
    fn unpack_files(tar: &[u8]) -> ImageFiles {
        let mut files = ImageFiles::new();
        for entry in Archive::new(tar).entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            let (mode, owner) = (header.mode().unwrap(), (header.uid().unwrap(), header.gid().unwrap()));
            assert_eq!((owner, header.mtime().unwrap()), ((0, 0), 0));
            let path = entry.path().unwrap().display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(path, (mode, bytes));
        }
        files
    }

    /// Returns the content that a descriptor refers to, after checking its size and digest.
    fn blob<'a>(files: &'a ImageFiles, descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let (_, bytes) = &files[&format!("blobs/sha256/{digest}")];
        assert_eq!(
            (bytes.len() as u64, sha256_hex(bytes)),
            (descriptor["size"].as_u64().unwrap(), digest.to_owned())
        );
        bytes
    }

    #[test]
    fn images_are_reproducible_and_digests_match_the_files() {
        if containers::require_tools().is_err() {
            return; // `cargo xtask test` reports the skip.
        }
        let program = Path::new("/bin/true");
        let papers = || vec![(command_line::BILL.to_owned(), r#"{"components":[]}"#.to_owned())];
        let image_of_true = build_image(program, papers()).unwrap();
        assert!(image_of_true == build_image(program, papers()).unwrap());

        let PackedImage { archive: image_of_true, bill } = image_of_true;
        let outer = unpack_files(&image_of_true);
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let index = json(&outer["index.json"].1);
        let manifest = json(blob(&outer, &index["manifests"][0]));
        let config = json(blob(&outer, &manifest["config"]));
        let layer = blob(&outer, &manifest["layers"][0]);
        let mut tar = Vec::new();
        GzDecoder::new(layer).read_to_end(&mut tar).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256_hex(&tar))]));
        let mut dpkg = Command::new("dpkg");
        let architecture = command_output(dpkg.arg("--print-architecture")).unwrap();
        assert_eq!(config["architecture"], architecture.trim());
        assert_eq!(config["config"]["User"], "65532:65532");
        let files = unpack_files(&tar);
        assert_eq!(files["usr/bin/redeliver"], (0o755, read_file(program).unwrap()));
        assert_eq!(files["etc/ssl/certs/ca-certificates.crt"].0, 0o644);
        assert!(files.contains_key("usr/share/common-licenses/LGPL-2.1"));
        assert_eq!(files["usr/share/doc/redeliver/redeliver.cdx.json"].1, bill.as_bytes());

        // The files that Docker reads.
        let docker = &json(&outer["manifest.json"].1)[0];
        assert_eq!(json(&outer[docker["Config"].as_str().unwrap()].1), config);
        assert_eq!(outer[docker["Layers"][0].as_str().unwrap()].1, layer);
        assert_eq!(docker["RepoTags"], json!([format!("redeliver:{VERSION}")]));
    }
}
