//! docs/install.md, followed in an empty folder with only the files of a release.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use redeliver_tests::settings::{venv_file, workspace_root};
use redeliver_tests::strangers::{code_blocks, new_folder, packed_file, release_folder};
use serde_json::Value;

const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };

#[test]
fn install_page_commands_run_with_release_files_alone() {
    let folder = new_folder("install");
    for file in std::fs::read_dir(release_folder()).unwrap().map(Result::unwrap) {
        symlink(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let page = std::fs::read_to_string(workspace_root().join("docs/install.md")).unwrap();
    let printed: Vec<String> = code_blocks(&page)
        .map(|(language, script)| {
            assert_eq!(language, "sh", "{script}");
            run_shell(folder.path(), &script.replace("x86-64", ARCHITECTURE))
        })
        .collect();
    let [sums, wheel, local, tarball, zip, layer] = &printed[..] else { panic!("other blocks: {printed:?}") };

    let files = std::fs::read_dir(release_folder()).unwrap().count();
    assert_eq!(sums.lines().filter(|line| line.ends_with(": OK")).count(), files - 1, "all but SHA256SUMS");
    let version = format!("redeliver {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(wheel.lines().last().unwrap().starts_with(&version), "{wheel}");
    assert!(tarball.lines().last().unwrap().starts_with(&version), "{tarball}");
    assert!(local.lines().any(|line| line.split_whitespace().eq(["processed", "1"])), "{local}");
    assert_eq!(zip_file_names(zip), ["bootstrap"], "{zip}");
    assert_eq!(zip_file_names(layer), ["redeliver"], "{layer}");

    let inside = list_files(&folder.path().join("redeliver"));
    for file in [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "THIRD-PARTY-LICENSES",
        "completions/_redeliver",
        "completions/redeliver.bash",
        "completions/redeliver.fish",
        "man/man1/redeliver-redrive.1",
        "man/man1/redeliver.1",
        "redeliver.cdx.json",
    ] {
        assert!(inside.contains(&file.to_owned()), "{file} in {inside:?}");
    }
}

#[test]
fn bills_of_materials_are_cyclonedx_with_license_texts() {
    let folder = new_folder("bills");
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "zipfile", "--extract"]).arg(packed_file("redeliver_cli-", ".whl")).arg(folder.path());
    run_successfully(&mut wheel);
    let information = folder.path().join(format!("redeliver_cli-{}.dist-info", env!("CARGO_PKG_VERSION")));
    let function_files = |function: &str, least| {
        let beside = |ending| release_folder().join(format!("redeliver-{function}-{ARCHITECTURE}.{ending}"));
        (beside("zip.cdx.json"), beside("THIRD-PARTY-LICENSES"), least)
    };
    for (bill, licenses, least) in [
        function_files("message-processor", 150),
        function_files("failed-message-processor", 150),
        function_files("final-dlq-annotator", 140),
        function_files("async-retry-handler", 150),
        function_files("layer", 150),
        (
            information.join("sboms/redeliver.cdx.json"),
            information.join("licenses/THIRD-PARTY-LICENSES"),
            200,
        ),
    ] {
        let named = licensed_package_urls(&bill, &std::fs::read_to_string(licenses).unwrap());
        assert!(named.len() >= least, "{}", named.len());
    }
}

/// The release workflow attests each artifact together with its bill of materials.
#[test]
fn each_artifact_with_a_program_has_a_bill_of_materials() {
    let names = std::fs::read_dir(release_folder()).unwrap().map(|file| file.unwrap().file_name());
    let names: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    let has_programs = |name: &&String| {
        [".zip", ".whl", ".tgz", ".tar.gz", ".oci.tar"].iter().any(|ending| name.ends_with(ending))
    };
    let artifacts: Vec<_> = names.iter().filter(has_programs).map(String::as_str).collect();
    let bills: Vec<_> = names.iter().filter_map(|name| name.strip_suffix(".cdx.json")).collect();
    assert!(artifacts.len() >= 9, "{artifacts:?}");
    assert_eq!(artifacts, bills);
    for bill in bills {
        assert!(
            validate_cyclonedx(&release_folder().join(format!("{bill}.cdx.json")))["components"].is_array(),
            "{bill}"
        );
    }
}

/// Returns the files in a zip, from Python's listing.
fn zip_file_names(listing: &str) -> Vec<&str> {
    listing.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

/// Returns the package URLs in a bill of materials, and checks that each has a license text.
fn licensed_package_urls(bill: &Path, texts: &str) -> BTreeSet<String> {
    let bill = validate_cyclonedx(bill);
    let address = |component: &Value| {
        let [name, version, purl] =
            ["name", "version", "purl"].map(|member| component[member].as_str().unwrap());
        assert!(texts.contains(&format!("\n{name} {version} (")), "{name} {version}");
        purl.to_owned()
    };
    bill["components"].as_array().unwrap().iter().map(address).collect()
}

/// Returns a bill of materials after validating it with CycloneDX's own schema.
fn validate_cyclonedx(bill: &Path) -> Value {
    let schemas = run_successfully(Command::new(venv_file("bin/python")).args(["-c", SCHEMAS]));
    let schema = Path::new(schemas.trim()).join("bom-1.5.SNAPSHOT.schema.json");
    let mut check = Command::new(venv_file("bin/check-jsonschema"));
    run_successfully(check.arg("--schemafile").arg(schema).arg(bill));
    serde_json::from_slice(&std::fs::read(bill).unwrap()).unwrap()
}

/// Distributing the construct also distributes its contents.
#[test]
fn construct_packages_list_their_contents_with_licenses() {
    let folder = new_folder("construct-licenses");
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "zipfile", "--extract"]).arg(packed_file("redeliver_cdk-", ".whl")).arg(folder.path());
    run_successfully(&mut wheel);
    let in_the_wheel = format!("redeliver_cdk/_jsii/cdk@{}.jsii.tgz", env!("CARGO_PKG_VERSION"));
    let function_crates = ["message-processor", "final-dlq-annotator"].map(|function| {
        let beside = |ending| release_folder().join(format!("redeliver-{function}-{ARCHITECTURE}.{ending}"));
        licensed_package_urls(
            &beside("zip.cdx.json"),
            &std::fs::read_to_string(beside("THIRD-PARTY-LICENSES")).unwrap(),
        )
    });
    let is_npm = |bundled: &str| bundled.starts_with("pkg:npm/");
    for package in [packed_file("redeliver-cdk-", ".tgz"), folder.path().join(in_the_wheel)] {
        let unpacked = folder.path().join("unpacked");
        std::fs::create_dir_all(&unpacked).unwrap();
        let mut tar = Command::new("tar");
        run_successfully(
            tar.args(["--extract", "--gzip", "--file"]).arg(&package).arg("--directory").arg(&unpacked),
        );
        let inside = unpacked.join("package");
        let texts = std::fs::read_to_string(inside.join("THIRD-PARTY-LICENSES")).unwrap();
        let named = licensed_package_urls(&inside.join("redeliver-cdk.cdx.json"), &texts);
        for functions in &function_crates {
            assert!(functions.is_subset(&named), "{:?}", functions.difference(&named));
        }
        let modules = list_files(&inside.join("node_modules"));
        let mut bundled: Vec<_> =
            modules.iter().filter_map(|file| file.strip_suffix("/package.json")).collect();
        bundled.retain(|name| !name.contains('/'));
        assert!(bundled.len() >= 5, "{bundled:?}");
        let names = named
            .iter()
            .filter(|purl| is_npm(purl))
            .filter_map(|purl| purl["pkg:npm/".len()..].split('@').next());
        assert_eq!(names.collect::<BTreeSet<_>>(), bundled.into_iter().collect());
    }
    let information = folder.path().join(format!("redeliver_cdk-{}.dist-info", env!("CARGO_PKG_VERSION")));
    let metadata = std::fs::read_to_string(information.join("METADATA")).unwrap();
    assert!(metadata.lines().any(|line| line == "License: Apache-2.0 OR MIT"), "{metadata}");
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES"] {
        let is_listed = list_files(&information).iter().any(|path| path.ends_with(file));
        assert!(is_listed, "{file} in {:?}", list_files(&information));
    }
}

/// The location of the schemas in CycloneDX's own library.
const SCHEMAS: &str =
    "import importlib.util as u; print(u.find_spec('cyclonedx.schema._res').submodule_search_locations[0])";

/// Runs a script as a reader would, without a network and without anything installed.
fn run_shell(folder: &Path, script: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(folder).env_clear();
    shell.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder).env("PIP_NO_INDEX", "1");
    run_successfully(&mut shell)
}

fn run_successfully(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{command:?}\n{stdout}\n{stderr}");
    stdout
}

/// Returns all files in a folder, by relative path.
fn list_files(folder: &Path) -> Vec<String> {
    let listed = run_successfully(Command::new("find").args([".", "-type", "f"]).current_dir(folder));
    listed.lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}
