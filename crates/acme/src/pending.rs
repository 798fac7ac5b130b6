//! An order that was begun, kept with its key until its certificate is stored. The authority counts an order against
//! its limits once it has begun to issue, so the certificate is fetched even after a restart.

use crate::failed::{Cause, Failed};
use crate::folder::Folder;
use evenkeel_tls::inspect;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};

/// Seconds after which an order is not continued: about as long as authorities keep them.
const LIFETIME: i64 = 7 * 86_400;

/// An order that was begun at the authority.
#[derive(Debug, Deserialize, Serialize)]
pub struct Pending {
    /// URL of the order at the authority.
    pub url: String,
    names: Vec<String>,
    /// Key of the certificate, in PEM.
    pub key: String,
    /// Start of the order, in seconds since 1970.
    begun: i64,
}

fn file(names: &[String]) -> String {
    format!("{}.order.json", names[0])
}

fn cannot(error: rcgen::Error) -> Failed {
    Failed::new(Cause::Other, error.to_string(), "this is a bug in evenkeel")
}

impl Pending {
    /// Creates an order that begins now, with a new key.
    ///
    /// # Errors
    /// The key cannot be generated.
    pub fn new(url: &str, names: &[String]) -> Result<Pending, Failed> {
        let key = KeyPair::generate().map_err(cannot)?.serialize_pem();
        Ok(Pending { url: url.to_string(), names: names.to_vec(), key, begun: inspect::now() })
    }

    /// Reads the order for these names. `None` if none is kept, or it is too old or cannot be parsed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(folder: &Folder, names: &[String]) -> Result<Option<Pending>, Failed> {
        let kept = folder.read(&file(names))?.and_then(|bytes| serde_json::from_slice::<Pending>(&bytes).ok());
        Ok(kept.filter(|kept| kept.names == names && inspect::now() - kept.begun < LIFETIME))
    }

    /// Writes the order to the folder.
    ///
    /// # Errors
    /// The order cannot be written.
    pub fn keep(&self, folder: &Folder) -> Result<(), Failed> {
        let json = serde_json::to_vec(self).map_err(|error| Failed::new(Cause::Other, error.to_string(), ""))?;
        folder.write(&file(&self.names), &json)
    }

    /// Removes the order for these names, as its certificate is stored or will not be issued.
    pub fn forget(folder: &Folder, names: &[String]) {
        folder.remove(&file(names));
    }

    /// The certificate signing request, in DER.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn request(&self, names: &[String]) -> Result<Vec<u8>, Failed> {
        let key = KeyPair::from_pem(&self.key).map_err(cannot)?;
        let mut params = CertificateParams::new(names).map_err(cannot)?;
        params.distinguished_name = DistinguishedName::new();
        Ok(params.serialize_request(&key).map_err(cannot)?.der().to_vec())
    }
}
