//! Software bills of materials in CycloneDX 1.5 (ECMA-424), as JSON.

use serde_json::{Value, json};

use super::components::Component;

/// Renders a program's components as CycloneDX, without a timestamp or a serial number, so that the output is
/// reproducible.
pub(super) fn render_cyclonedx(program: &str, version: &str, components: &[Component]) -> String {
    let inside: Vec<Value> = components.iter().map(render_component).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": program,
                "version": version,
                "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
            }
        },
        "components": inside,
    });
    format!("{bill:#}\n")
}

fn render_component(component: &Component) -> Value {
    let Component { name, version, license, .. } = component;
    let purl = component.package_url();
    // Some crates still use the `/` from before SPDX.
    let expression = license.as_deref().unwrap_or_default().replace('/', " OR ");
    json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "licenses": [{ "expression": expression }],
        "purl": purl,
    })
}

#[cfg(test)]
mod tests {
    use super::super::components::component;
    use super::*;

    #[test]
    fn each_crate_is_listed_with_version_license_and_url() {
        let components = [component("a", "1.0.0+x", "MIT/Apache-2.0")];
        let bill: Value = serde_json::from_str(&render_cyclonedx("redeliver", "0.1.0", &components)).unwrap();
        assert_eq!(
            bill["components"],
            json!([{
                "type": "library", "bom-ref": "pkg:cargo/a@1.0.0%2Bx", "name": "a", "version": "1.0.0+x",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }], "purl": "pkg:cargo/a@1.0.0%2Bx",
            }])
        );
        assert_eq!(bill["metadata"]["component"]["version"], "0.1.0");
    }
}
