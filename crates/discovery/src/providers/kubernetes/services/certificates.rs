//! Certificates in Secrets and authorities in ConfigMaps, as PEM.

use super::grants::{From, allows, kind_of};
use crate::providers::kubernetes::world::objects::{Data, Reference};
use crate::providers::kubernetes::world::store::World;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use evenkeel_config::plan::{Certificate, HostPattern, Pem};
use evenkeel_tls::pair::{certified_pem, trusts_pem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A certificate with its chain, and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    pub cert: Arc<str>,
    pub key: Arc<str>,
}

/// Reason for which a reference leads to nothing that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    Kind(String),
    NotPermitted(String),
    /// The object does not exist, or has no such content.
    Content(String),
}

impl Unusable {
    pub fn message(self) -> String {
        match self {
            Unusable::Kind(message) | Unusable::NotPermitted(message) | Unusable::Content(message) => message,
        }
    }
}

/// Certificates of a listener, each once, with the hosts that it is for.
#[derive(Debug, Default)]
pub struct Shown {
    /// In their order. No hosts: the names in the certificate.
    all: Vec<(Pair, Option<Vec<HostPattern>>)>,
    at: BTreeMap<Pair, usize>,
}

impl Shown {
    /// Adds a certificate for a host, or for the names in it.
    pub fn add(&mut self, pair: &Pair, host: Option<HostPattern>) {
        let at = *self.at.entry(pair.clone()).or_insert_with(|| {
            self.all.push((pair.clone(), Some(Vec::new())));
            self.all.len() - 1
        });
        let hosts = &mut self.all[at].1;
        match (host, hosts.as_mut()) {
            (Some(host), Some(hosts)) if !hosts.contains(&host) => hosts.push(host),
            (None, _) => *hosts = None,
            _ => {}
        }
    }

    pub fn into_list(self) -> Vec<Certificate> {
        let one = |(pair, hosts): (Pair, Option<Vec<HostPattern>>)| Certificate {
            cert: Some(Pem::of(&pair.cert)),
            key: Some(Pem::of(&pair.key)),
            hosts: hosts.unwrap_or_default(),
            ..Certificate::default()
        };
        self.all.into_iter().map(one).collect()
    }
}

/// The value of a Secret; `None` if it is not there or not text.
pub fn secret_text(secret: &Data, name: &str) -> Option<String> {
    let bytes = STANDARD.decode(secret.data.get(name)?).ok()?;
    String::from_utf8(bytes).ok()
}

/// Reads the certificate of a Secret, for the object that refers to the Secret.
///
/// # Errors
/// If it cannot be used.
pub fn pair(world: &World, from: From<'_>, to: &Reference) -> Result<Pair, Unusable> {
    let kind = kind_of(to, "Secret");
    let key = to.key(from.namespace);
    if kind != ("", "Secret") {
        return Err(Unusable::Kind(format!("a certificate is in a Secret, not in a {}", kind.1)));
    }
    if !allows(world, from, kind, &key) {
        return Err(Unusable::NotPermitted(format!("no ReferenceGrant allows the reference to Secret {key}")));
    }
    let secret = world.secrets.get(&key).ok_or_else(|| Unusable::Content(format!("Secret {key} does not exist")))?;
    let both = || Some((secret_text(secret, "tls.crt")?, secret_text(secret, "tls.key")?));
    let (cert, key_text) =
        both().ok_or_else(|| Unusable::Content(format!("Secret {key} has no tls.crt or tls.key")))?;
    if certified_pem(format!("{cert}\n{key_text}").as_bytes()).is_none() {
        return Err(Unusable::Content(format!("the certificate of Secret {key} or its key is not valid")));
    }
    Ok(Pair { cert: cert.trim_start().into(), key: key_text.trim_start().into() })
}

/// Joins the authorities that objects refer to. Also returns why some of them cannot be used.
pub fn authorities(world: &World, from: From<'_>, to: &[Reference]) -> (Option<Arc<str>>, Vec<Unusable>) {
    let (mut text, mut wrong) = (String::new(), Vec::new());
    for reference in to {
        match authority(world, from, reference) {
            Ok(one) => {
                text += one.trim();
                text.push('\n');
            }
            Err(why) => wrong.push(why),
        }
    }
    ((!text.is_empty()).then(|| text.into()), wrong)
}

fn authority(world: &World, from: From<'_>, to: &Reference) -> Result<String, Unusable> {
    let kind = kind_of(to, "ConfigMap");
    let key = to.key(from.namespace);
    if !matches!(kind, ("", "ConfigMap" | "Secret")) {
        return Err(Unusable::Kind(format!("authorities are in a ConfigMap, not in a {}", kind.1)));
    }
    if !allows(world, from, kind, &key) {
        return Err(Unusable::NotPermitted(format!("no ReferenceGrant allows the reference to {} {key}", kind.1)));
    }
    let text = match kind.1 {
        "Secret" => world.secrets.get(&key).map(|secret| secret_text(secret, "ca.crt")),
        _ => world.config_maps.get(&key).map(|map| map.data.get("ca.crt").cloned()),
    };
    let text = text.ok_or_else(|| Unusable::Content(format!("{} {key} does not exist", kind.1)))?;
    let text = text.ok_or_else(|| Unusable::Content(format!("{} {key} has no ca.crt", kind.1)))?;
    match trusts_pem(text.as_bytes()) {
        true => Ok(text),
        false => Err(Unusable::Content(format!("ca.crt of {} {key} is not a list of certificates", kind.1))),
    }
}
