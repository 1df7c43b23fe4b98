//! An image as a single file: a tarball with the OCI image layout and the files that `docker load` reads.
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>

use serde_json::{Value, json};

use super::super::archive::{File, compress_gzip, pack_tarball};
use super::super::sha256_hex;
use super::VERSION;
use crate::bundle::LambdaArchitecture;
use crate::tools::TaskFailure;

/// A fixed creation time, so that the same files and configuration produce the same bytes.
const CREATED: &str = "1980-01-01T00:00:00Z";

/// Content addressed by its digest.
struct Blob {
    digest: String,
    bytes: Vec<u8>,
}

/// Packs an image with one layer.
///
/// # Errors
/// A path is too long for a tarball.
pub(super) fn pack_archive(files: &[File], configuration: &Value) -> Result<Vec<u8>, TaskFailure> {
    let unpacked = pack_tarball(files)?;
    let mut configuration = configuration.clone();
    configuration["created"] = json!(CREATED);
    configuration["rootfs"] =
        json!({ "type": "layers", "diff_ids": [format!("sha256:{}", sha256_hex(&unpacked))] });
    configuration["history"] = json!([{ "created": CREATED, "created_by": "cargo xtask dist" }]);
    let layer = Blob::new(compress_gzip(&unpacked)?);
    let configuration = Blob::from_json(&configuration);

    let manifest = Blob::from_json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": configuration.to_descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.to_descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
    }));
    let mut descriptor = manifest.to_descriptor("application/vnd.oci.image.manifest.v1+json");
    descriptor["platform"] = json!({ "architecture": oci_architecture(), "os": "linux" });
    let tag = format!("redeliver:{VERSION}");
    descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [descriptor],
    });
    // Without containerd's image store, `docker load` reads only this file.
    let for_docker = json!([{ "Config": configuration.path(), "RepoTags": [tag], "Layers": [layer.path()] }]);
    let mut files: Vec<File> = [layer, configuration, manifest].into_iter().map(Blob::into_file).collect();
    files.push(File::text("index.json", index.to_string()));
    files.push(File::text("manifest.json", for_docker.to_string()));
    files.push(File::text("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string()));
    pack_tarball(&files)
}

/// Returns this machine's architecture as named by Go and OCI.
pub(super) fn oci_architecture() -> &'static str {
    match LambdaArchitecture::HOST {
        LambdaArchitecture::Arm64 => "arm64",
        LambdaArchitecture::X86_64 => "amd64",
    }
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        Self { digest: sha256_hex(&bytes), bytes }
    }

    fn from_json(value: &Value) -> Self {
        Self::new(value.to_string().into_bytes())
    }

    fn to_descriptor(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.bytes.len() })
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn into_file(self) -> File {
        File::text(self.path(), self.bytes)
    }
}
