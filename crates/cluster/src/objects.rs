//! Objects of any kind, from manifests.

pub use kube::Client;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::Path;

/// Returns a client by a kubeconfig.
///
/// # Errors
/// If the file cannot be read.
pub async fn client(kubeconfig: &Path) -> Result<Client, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", kubeconfig.display());
    let config = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(&error))?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    Client::try_from(config.map_err(|error| failed(&error))?).map_err(|error| failed(&error))
}

/// Creates an object of any kind, unless it exists. A field that the API server does not know is an error.
pub async fn create(client: &Client, object: &Value) {
    let text = |name: &str| object[name].as_str().unwrap_or_else(|| panic!("no {name}: {object}")).to_owned();
    let (version, kind) = (text("apiVersion"), text("kind").to_ascii_lowercase());
    let plural = plural(&kind);
    let root = if version.contains('/') { "apis" } else { "api" };
    let within = object["metadata"]["namespace"].as_str().map(|name| format!("namespaces/{name}/")).unwrap_or_default();
    let request = hyper::Request::post(format!("/{root}/{version}/{within}{plural}?fieldValidation=Strict"));
    let request = request.header("content-type", "application/json").body(object.to_string().into_bytes());
    match client.request::<Value>(request.expect("a request")).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}: {object}"),
    }
}

/// Returns the object, or the list, at a path of the API.
///
/// # Errors
/// If it cannot be read.
pub async fn read(client: &Client, path: &str) -> kube::Result<Value> {
    client.request(hyper::Request::get(path).body(Vec::new()).expect("a path")).await
}

/// Changes an object by a merge patch.
///
/// # Panics
/// If the API server does not do it.
pub async fn patch(client: &Client, path: &str, patch: &Value) {
    let request = hyper::Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).expect("a request");
    client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Returns the name of a kind in paths.
fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Returns the objects of a manifest.
///
/// # Panics
/// If it is not YAML.
pub fn manifest(text: &str) -> Vec<Value> {
    let documents = text.split("\n---");
    let objects = documents.map(|document| serde_saphyr::from_str(document).expect("a manifest is YAML"));
    objects.filter(Value::is_object).collect()
}

/// Creates every object of the manifests in a folder, in the order of file names.
///
/// # Errors
/// If a file cannot be read.
pub async fn create_folder(client: &Client, folder: &Path) -> io::Result<()> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    for path in paths {
        for object in manifest(&fs::read_to_string(path)?) {
            create(client, &object).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_plurals_of_the_api() {
        let plurals = ["gatewayclass", "gateway", "validatingadmissionpolicy", "httproute"].map(plural);
        assert_eq!(plurals, ["gatewayclasses", "gateways", "validatingadmissionpolicies", "httproutes"]);
    }
}
