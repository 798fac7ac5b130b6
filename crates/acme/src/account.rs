//! The ACME account that orders are made with: created at the first order, and kept in the folder.

use crate::failed::{Cause, Failed};
use crate::folder::Folder;
use crate::sender::{RetryAfter, Sender};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use evenkeel_config::plan::Acme;
use evenkeel_tls::endpoints;
use instant_acme::{Account, AccountBuilder, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};

/// File of the account in the folder.
const FILE: &str = "account.json";

/// Content of the account's file.
#[derive(Deserialize, Serialize)]
struct Kept {
    /// Contact that the authority has for the account.
    email: Option<String>,
    credentials: AccountCredentials,
}

/// Returns the kept account, or creates an account. `retry_after` is updated by every response to it.
///
/// # Errors
/// The authority refuses the account, or it cannot be kept.
pub async fn account(acme: &Acme, folder: &Folder, retry_after: &RetryAfter) -> Result<Account, Failed> {
    let failed = |error: instant_acme::Error| Failed::of(&error, acme);
    let contact = acme.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.as_deref().into_iter().collect();
    // A file that cannot be parsed is replaced by a new account.
    let kept = folder.read(FILE)?.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok());
    if let Some(Kept { email, credentials }) = kept {
        let account = builder(acme, retry_after)?.from_credentials(credentials).await.map_err(failed)?;
        if email != acme.email {
            account.update_contacts(&contact).await.map_err(failed)?;
            let bytes = folder.read(FILE)?.unwrap_or_default();
            if let Ok(mut kept) = serde_json::from_slice::<Kept>(&bytes) {
                kept.email.clone_from(&acme.email);
                keep(&kept, folder)?;
            }
        }
        return Ok(account);
    }
    let wanted = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let external = external(acme)?;
    let (account, credentials) =
        builder(acme, retry_after)?.create(&wanted, acme.directory.clone(), external.as_ref()).await.map_err(failed)?;
    keep(&Kept { email: acme.email.clone(), credentials }, folder)?;
    tracing::info!(directory = acme.directory, "acme: registered a new account");
    Ok(account)
}

/// Removes the account that the authority no longer knows, so that the next order creates another.
pub fn forget(folder: &Folder) {
    folder.remove(FILE);
}

fn keep(kept: &Kept, folder: &Folder) -> Result<(), Failed> {
    let json = serde_json::to_vec(kept)
        .map_err(|error| Failed::new(Cause::Other, error.to_string(), "evenkeel will retry"))?;
    folder.write(FILE, &json)
}

fn builder(acme: &Acme, retry_after: &RetryAfter) -> Result<AccountBuilder, Failed> {
    // Read once more for each connection; here for an error that names the key at fault.
    endpoints::trusting(acme.ca.as_deref())
        .map_err(|error| Failed::new(Cause::Other, error.what, format!("\"ca\" of [acme]: {}", error.help)))?;
    Ok(Account::builder_with_http(Box::new(Sender::new(acme.ca.clone(), retry_after.clone()))))
}

/// Key that binds the account to an account outside of ACME (RFC 8555 section 7.3.4); `None` if the configuration has
/// none.
fn external(acme: &Acme) -> Result<Option<ExternalAccountKey>, Failed> {
    let Some(external) = &acme.external_account else { return Ok(None) };
    let path = external.key_file.display();
    let wrong = |why: String| {
        let help = "\"key_file\" of external_account must hold the key as issued by the CA, in base64url";
        Failed::new(Cause::Account, format!("cannot use {path}: {why}"), help)
    };
    let text = std::fs::read_to_string(&external.key_file).map_err(|error| wrong(error.to_string()))?;
    let text = text.trim().trim_end_matches('=');
    let key = URL_SAFE_NO_PAD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text));
    let key = key.map_err(|_| wrong("not base64url".to_string()))?;
    Ok(Some(ExternalAccountKey::new(external.id.clone(), &key)))
}
