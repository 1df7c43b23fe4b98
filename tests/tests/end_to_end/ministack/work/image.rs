//! The container image, unpacked by a third-party program and run with its own configuration.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use redeliver_tests::settings::{assert_exists, target_dir};
use redeliver_tests::strangers::new_folder;
use tempfile::TempDir;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::*;
use crate::tls_target::{Certificate, TestAuthority, TlsTarget};

const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// An unpacked image.
pub(super) struct UnpackedImage {
    folder: TempDir,
    /// OCI's runtime configuration, derived from the image's.
    config: Value,
}

impl UnpackedImage {
    /// Unpacks the image; umoci checks each digest and each size.
    pub(super) async fn unpack() -> Self {
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
        let version = env!("CARGO_PKG_VERSION");
        let archive = assert_exists(
            target_dir().join(format!("dist-for-tests/redeliver-{version}-{architecture}.oci.tar")),
        );
        let folder = new_folder("image");
        let layout = folder.path().join("layout");
        fs::create_dir_all(&layout).unwrap();
        let mut image = Self { folder, config: Value::Null };
        run(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(&layout))
            .await;
        let name = format!("{}:redeliver:{version}", layout.display());
        let bundle = image.folder.path().join("bundle");
        run(Command::new("umoci").args(["unpack", "--rootless", "--image", &name]).arg(bundle)).await;
        // The layout is as large as the unpacked image.
        fs::remove_dir_all(layout).unwrap();
        let config = fs::read_to_string(image.folder.path().join("bundle/config.json")).unwrap();
        image.config = serde_json::from_str(&config).unwrap();
        image
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join("bundle/rootfs").join(inside)
    }

    fn text(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap()
    }

    /// Returns a command with the image's own command line and variables. It runs as the image's user, without access
    /// to the host's files.
    pub(super) fn command(&self) -> Command {
        let process = &self.config["process"];
        let strings = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
        let (user, group) = (&process["user"]["uid"], &process["user"]["gid"]);
        let mut command = if fs::metadata("/proc/self").unwrap().uid() == 0 {
            let mut chroot = Command::new("chroot");
            chroot.arg(format!("--userspec={user}:{group}")).arg("--groups=");
            chroot.arg(self.path(""));
            chroot
        } else {
            // Ubuntu allows this after `sysctl kernel.apparmor_restrict_unprivileged_userns=0`.
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", &format!("--map-user={user}"), &format!("--map-group={group}")]);
            unshare.arg(format!("--root={}", self.path("").display())).arg("--wd=/");
            unshare
        };
        command.args(strings(&process["args"])).env_clear();
        let variables = strings(&process["env"]);
        command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
        command
    }

    /// Returns the command `redeliver work` with the test's queues.
    fn work_command(&self, topology: &TestTopology, target: &str) -> Command {
        let mut command = self.command();
        command.arg("work").args(ALL).args(["--wait", "2s"]);
        command.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
        set_up(&mut command, topology, target);
        command
    }
}

/// Runs a command to completion and returns its output.
async fn run(command: &mut Command) -> String {
    let output = command.output().await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_image_runs_the_program_as_an_unprivileged_user() {
    let image = UnpackedImage::unpack().await;
    let process = &image.config["process"];
    assert_eq!((&process["args"], &process["cwd"]), (&json!(["/usr/bin/redeliver"]), &json!("/")));
    assert_eq!((&process["user"]["uid"], &process["user"]["gid"]), (&json!(65532), &json!(65532)));
    let printed = run(image.command().arg("--version")).await;
    assert!(printed.starts_with(&format!("redeliver {} (commit ", env!("CARGO_PKG_VERSION"))), "{printed}");
    // Neither the image's user nor its group can write to the file.
    assert_eq!(fs::metadata(image.path("usr/bin/redeliver")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(image.path(AUTHORITIES)).unwrap().mode() & 0o7777, 0o644);
}

#[tokio::test]
async fn the_image_lists_its_packages_with_their_licenses() {
    let image = UnpackedImage::unpack().await;
    let label = image.config["annotations"]["redeliver.packages"].as_str().unwrap();
    let packages: Vec<_> =
        label.split(' ').map(|package| package.split_once(['/', '=']).unwrap().1).collect();
    let names: Vec<_> = packages.iter().map(|package| package.split('=').next().unwrap()).collect();
    assert!(["ca-certificates", "libc6"].iter().all(|name| names.contains(name)), "{label}");
    let bill: Value =
        serde_json::from_str(&image.text("usr/share/doc/redeliver/redeliver.cdx.json")).unwrap();
    let inside: Vec<_> = bill["components"].as_array().unwrap().iter().collect();
    for package in packages {
        let (name, version) = package.split_once('=').unwrap();
        assert!(inside.iter().any(|one| one["name"] == name && one["version"] == version), "{package}");
        assert!(image.text(&format!("usr/share/doc/{name}/copyright")).contains("icense"), "{name}");
    }
    assert!(inside.iter().any(|one| one["name"] == "tokio"), "the crates, too");
    assert!(image.text("usr/share/common-licenses/LGPL-2.1").contains("GNU LESSER GENERAL PUBLIC LICENSE"));
    assert!(image.text("usr/share/doc/redeliver/THIRD-PARTY-LICENSES").contains("\ntokio "));
}

#[tokio::test]
async fn the_image_processes_queues_until_sigterm() {
    let (topology, target, image) =
        (new_topology().await, HttpTargetServer::start().await, UnpackedImage::unpack().await);
    target.script_replies(&id(1), [Reply::Status(410)]);
    target.script_replies(&id(2), [Reply::Status(500)]);
    // A container runtime normally provides this file.
    fs::write(image.path("etc/hosts"), "127.0.0.1 target.test\n").unwrap();
    let url = target.url().replace("127.0.0.1", "target.test");
    let mut command = image.work_command(&topology, &url);
    command.env("TARGET_ALLOW_HTTP", "true");
    let mut working = RunningWorker::start(command).await;
    topology.send_batch([0, 1, 2].map(|n| test_message(n, &json!({ "n": n })))).await;
    wait_until_settled(&topology).await;

    assert_eq!(working.get("/healthz").await.0, 200);
    assert_eq!(working.get("/readyz").await, (200, json!({ "ready": true })));
    let metrics = working.metrics().await;
    let processed = r#"redeliver_processed_total{function="message-processor"} 2"#;
    assert!(metrics.lines().any(|line| line == processed), "{metrics}");
    working.signal("TERM", "stopping").await;
    let (code, events) = working.wait_for_exit().await;

    assert_eq!(code, Some(0));
    assert_eq!([0, 1, 2].map(|n| target.requests_for(&id(n)).len()), [1, 1, 2]);
    let retries = events.iter().filter(|line| line["event"] == "retry_scheduled").count();
    assert_eq!(retries, 1, "{events:?}");
    let records = final_records(&topology).await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].error_type, "NON_RETRYABLE_ERROR");
}

/// Makes the same call with and without an extra authority in the image's certificate file, so only that file can
/// explain the difference.
#[tokio::test]
async fn the_image_trusts_targets_certified_by_its_bundled_authorities() {
    let (image, authority) = (UnpackedImage::unpack().await, TestAuthority::new());
    let target = TlsTarget::start(&authority, Certificate::Good).await;
    fs::write(image.path("etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    for (trusted, calls) in [(false, 0), (true, 1)] {
        if trusted {
            let both = image.text(AUTHORITIES) + &fs::read_to_string(&authority.file).unwrap();
            fs::write(image.path(AUTHORITIES), both).unwrap();
        }
        let topology = new_topology().await;
        let mut command = image.work_command(&topology, &target.url);
        // With the circuit breaker, a call that cannot connect would be held for a day.
        command.env("RETRY_POLICY", r#"{"max_attempts":0,"circuit_breaker":false}"#);
        let mut working = RunningWorker::start(command).await;
        topology.send_batch([test_message(0, &json!({}))]).await;
        wait_until_settled(&topology).await;
        working.signal("TERM", "stopping").await;
        let (code, events) = working.wait_for_exit().await;

        assert_eq!((code, target.requests()), (Some(0), calls), "{events:?}");
        let records = final_records(&topology).await;
        assert_eq!(records.len(), 1 - calls, "{events:?}");
        if let [record] = &records[..] {
            assert!(
                record.error_details.contains("Http.Tls: no TLS connection: unknown issuer"),
                "{}",
                record.error_details
            );
        }
    }
}

#[tokio::test]
async fn every_entry_in_the_images_certificate_file_is_a_certificate() {
    let image = UnpackedImage::unpack().await;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(image.path(AUTHORITIES)).unwrap() {
        store.add(certificate.unwrap()).unwrap();
    }
    assert_eq!(store.len(), image.text(AUTHORITIES).matches("-----BEGIN CERTIFICATE-----").count());
    // Mozilla's list has had between 120 and 160 certificates for years.
    assert!(store.len() > 100, "{}", store.len());
}
