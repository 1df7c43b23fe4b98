//! The container image for `redeliver work`: an OCI layout in a tarball, made without a registry and without Docker.
//!
//! From nothing: the program, the C library that it is linked to, and the certificates of this machine's Debian or Ubuntu.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::archive::{File, gzip, tarball};
use super::command_line::papers;
use super::{hex, read, write};
use crate::bundle::Architecture;
use crate::tools::{Failure, output};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The packages whose files are inside.
const PACKAGES: [&str; 2] = ["libc6", "ca-certificates"];
/// Nobody else's, as distroless images have it: a number, so that Kubernetes' `runAsNonRoot` can tell.
const USER: &str = "65532:65532";
/// No time: the same files give the same image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Of a program for this machine's architecture.
///
/// # Errors
/// This machine is no Debian or Ubuntu.
pub(super) fn pack(folder: &Path, program: &Path) -> Result<(), Failure> {
    let architecture = Architecture::HOST;
    let layer = tarball(&files(program)?)?;
    let diff_id = digest(&layer);
    let layer = Blob::new("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer)?);
    let config = config(architecture, &diff_id, &labels()?);
    let config = Blob::new("application/vnd.oci.image.config.v1+json", bytes(&config));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor(),
        "layers": [layer.descriptor()],
    });
    let manifest = Blob::new("application/vnd.oci.image.manifest.v1+json", bytes(&manifest));
    let archive = folder.join(format!("redeliver-{VERSION}-{}.oci.tar", architecture.name()));
    write(&archive, &layout(&[manifest, config, layer])?)
}

/// The image's own files.
fn files(program: &Path) -> Result<Vec<File>, Failure> {
    let mut files = vec![File::program("redeliver", read(program)?)];
    for library in libraries(&output(Command::new("ldd").arg(program))?) {
        files.push(File::program(library.trim_start_matches('/'), read(Path::new(library))?));
    }
    files.push(File::text(CERTIFICATES.trim_start_matches('/'), read(Path::new(CERTIFICATES))?));
    files.push(File::text("etc/passwd", "redeliver:x:65532:65532::/:/nonexistent\n"));
    files.push(File::text("etc/nsswitch.conf", "hosts: files dns\n"));
    for (name, text) in papers()? {
        files.push(File::text(format!("usr/share/doc/redeliver/{name}"), text));
    }
    for package in PACKAGES {
        let licence = format!("usr/share/doc/{package}/copyright");
        files.push(File::text(licence.as_str(), read(&Path::new("/").join(&licence))?));
    }
    Ok(files)
}

/// The files that a program is linked to, as `ldd` prints them: `libc.so.6 => /lib/… (0x…)`, or the loader's path alone.
fn libraries(printed: &str) -> BTreeSet<&str> {
    printed.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/'))).collect()
}

fn labels() -> Result<Value, Failure> {
    let mut query = Command::new("dpkg-query");
    let versions = output(query.args(["--show", "--showformat", "${Package} ${Version}, "]).args(PACKAGES))?;
    Ok(json!({
        "org.opencontainers.image.title": "redeliver",
        "org.opencontainers.image.version": VERSION,
        "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
        "org.opencontainers.image.description":
            format!("redeliver work; with files of {}", versions.trim_end_matches(", ")),
    }))
}

fn config(architecture: Architecture, diff_id: &str, labels: &Value) -> Value {
    let name = match architecture {
        Architecture::Arm64 => "arm64",
        Architecture::X86_64 => "amd64",
    };
    json!({
        "created": CREATED,
        "architecture": name,
        "os": "linux",
        "config": { "User": USER, "Entrypoint": ["/redeliver", "work"], "WorkingDir": "/", "Labels": labels },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        "history": [{ "created": CREATED, "created_by": "cargo xtask dist image" }],
    })
}

/// The layout, the manifest first. With `manifest.json`, too, by which Docker 24 and older find the same blobs.
fn layout(blobs: &[Blob; 3]) -> Result<Vec<u8>, Failure> {
    let [manifest, config, layer] = blobs;
    let mut of_index = manifest.descriptor();
    of_index["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [of_index],
    });
    let for_docker = json!([{
        "Config": config.path(),
        "RepoTags": [format!("redeliver:{VERSION}")],
        "Layers": [layer.path()],
    }]);
    let mut files = vec![
        File::text("oci-layout", bytes(&json!({ "imageLayoutVersion": "1.0.0" }))),
        File::text("index.json", bytes(&index)),
        File::text("manifest.json", bytes(&for_docker)),
    ];
    files.extend(blobs.iter().map(|blob| File::text(blob.path(), blob.bytes.as_slice())));
    tarball(&files)
}

/// Something that is named by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({ "mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len() })
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_are_those_that_the_loader_finds() {
        let printed = "\tlinux-vdso.so.1 (0x00007f808bd7c000)\n\
                       \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f808973e000)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f808bd7e000)\n";
        let found: Vec<_> = libraries(printed).into_iter().collect();
        assert_eq!(found, ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }

    #[test]
    fn an_image_runs_as_nobody_and_names_its_layer_uncompressed() {
        let config = config(Architecture::X86_64, "sha256:ab", &json!({}));
        assert_eq!(config["architecture"], "amd64");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["rootfs"]["diff_ids"], json!(["sha256:ab"]));
    }
}
