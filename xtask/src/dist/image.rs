//! The container image of `redeliver`: the program, what it needs of the machine's Debian packages, and nothing else.

mod debian;
mod layout;

use std::path::Path;

use serde_json::{Value, json};

use self::debian::{Package, Taken};
use super::archive::File;
use super::{command_line, read, write};
use crate::bundle::Architecture;
use crate::tools::Failure;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PROGRAM: &str = "/usr/bin/redeliver";
/// As the images of others call nobody in particular: Kubernetes' `runAsNonRoot` wants a number.
const USER: &str = "65532:65532";
/// What a C library reads of a user and of how names are resolved; addresses are the container runtime's.
const SETTINGS: [(&str, &str); 3] = [
    ("etc/group", "nonroot:x:65532:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
    ("etc/passwd", "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"),
];

/// Of a program for this machine's architecture.
///
/// # Errors
/// This machine is no Debian or Ubuntu, or one of its packages lacks something.
pub(super) fn pack(folder: &Path, program: &Path) -> Result<(), Failure> {
    let Taken { mut files, packages } = debian::take(program)?;
    files.push(File::program(&PROGRAM[1..], read(program)?));
    files.extend(SETTINGS.map(|(path, text)| File::text(path, text)));
    for (name, text) in command_line::papers()? {
        let text = if name.ends_with(".cdx.json") { with(&packages, &text)? } else { text };
        files.push(File::text(format!("usr/share/doc/redeliver/{name}"), text));
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let image = layout::archive(&files, &configuration(&packages))?;
    write(&folder.join(format!("redeliver-{VERSION}-{}.oci.tar", Architecture::HOST.name())), &image)
}

/// The OCI image configuration, without its layers.
fn configuration(packages: &[Package]) -> Value {
    let packages: Vec<_> = packages.iter().map(Package::to_string).collect();
    json!({
        "architecture": layout::architecture(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [PROGRAM],
            "WorkingDir": "/",
            "Labels": {
                "org.opencontainers.image.title": "redeliver",
                "org.opencontainers.image.description": "Delayed, jittered retries for SQS: `work` polls the queues",
                "org.opencontainers.image.version": VERSION,
                // Of the program; those of all that is inside are in /usr/share/doc.
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "redeliver.packages": packages.join(" "),
            },
        },
    })
}

/// The program's bill of materials, and the packages.
fn with(packages: &[Package], bill: &str) -> Result<String, Failure> {
    let failed = |error: serde_json::Error| Failure(format!("bill of materials: {error}"));
    let mut bill: Value = serde_json::from_str(bill).map_err(failed)?;
    if let Some(components) = bill["components"].as_array_mut() {
        components.extend(packages.iter().map(Package::component));
    }
    Ok(format!("{bill:#}\n"))
}
