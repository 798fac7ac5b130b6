//! Volumes of a pod as files below its root.

use k8s_openapi::api::core::v1::{ConfigMap, Container, KeyToPath, Pod, Secret, Volume};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Files of a volume by their paths in it.
type Files = BTreeMap<String, Vec<u8>>;

/// Writes every volume that the container mounts. Volumes of unknown kinds are empty, and so is the token of the service account.
///
/// # Errors
/// If a Secret or ConfigMap does not exist yet, or a file cannot be written.
pub async fn write(client: &Client, pod: &Pod, container: &Container, root: &Path) -> Result<(), String> {
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let files = files(client, pod, volume).await.map_err(|error| format!("volume {}: {error}", volume.name))?;
        for mount in container.volume_mounts.iter().flatten().filter(|mount| mount.name == volume.name) {
            let folder = root.join(mount.mount_path.trim_start_matches('/'));
            write_files(&folder, &files).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    Ok(())
}

fn write_files(folder: &Path, files: &Files) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder"))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

async fn files(client: &Client, pod: &Pod, volume: &Volume) -> kube::Result<Files> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    if let Some(source) = &volume.secret {
        let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
        let secret = secrets.get(source.secret_name.as_deref().unwrap_or_default()).await?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        return Ok(chosen(data.collect(), source.items.as_deref()));
    }
    if let Some(source) = &volume.config_map {
        let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get(&source.name).await?;
        let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        return Ok(chosen(text.chain(binary).collect(), source.items.as_deref()));
    }
    Ok(Files::new())
}

/// Returns the keys that a volume names, at their paths, or all of them.
fn chosen(mut data: Files, items: Option<&[KeyToPath]>) -> Files {
    match items {
        None => data,
        Some(items) => items.iter().filter_map(|item| Some((item.path.clone(), data.remove(&item.key)?))).collect(),
    }
}
