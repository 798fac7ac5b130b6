//! How is a certificate had? The authority says what it wants to see, it is shown that, and then it signs.

use crate::failed::{Cause, Failed};
use evenkeel_config::plan::{Acme, Challenge};
use evenkeel_tls::Challenges;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use std::sync::Arc;
use std::time::Duration;

/// How long an authority may take to look, or to sign.
const PATIENCE: Duration = Duration::from_secs(90);

/// Orders a certificate: itself, those that lead to a root, and its key, in PEM. `replaces`: the one that it comes after.
///
/// # Errors
/// There is none.
pub async fn order(
    account: &Account,
    acme: &Acme,
    names: &[String],
    challenges: &Arc<Challenges>,
    replaces: Option<CertificateIdentifier<'_>>,
) -> Result<String, Failed> {
    let failed = |error: instant_acme::Error| Failed::of(&error, acme);
    let identifiers: Vec<Identifier> = names.iter().map(|name| Identifier::Dns(name.clone())).collect();
    let mut wanted = NewOrder::new(&identifiers);
    if let Some(replaces) = replaces {
        wanted = wanted.replaces(replaces);
    }
    let mut order = account.new_order(&wanted).await.map_err(failed)?;
    // Shown until the authority has looked.
    let shown = show(&mut order, acme, challenges).await?;
    let retries = RetryPolicy::new().timeout(PATIENCE);
    let status = order.poll_ready(&retries).await;
    drop(shown);
    match status {
        Ok(OrderStatus::Ready) => {}
        other => {
            if let Some(why) = not_proved(&mut order, acme).await {
                return Err(why);
            }
            return Err(match other {
                Err(error) => failed(error),
                Ok(status) => Failed::new(Cause::Other, format!("the order became {status:?}"), "it is tried again"),
            });
        }
    }
    let cannot = |error: rcgen::Error| Failed::new(Cause::Other, error.to_string(), "this is a fault of evenkeel");
    let key = KeyPair::generate().map_err(cannot)?;
    let mut params = CertificateParams::new(names).map_err(cannot)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(cannot)?;
    order.finalize_csr(request.der()).await.map_err(failed)?;
    let chain = order.poll_certificate(&retries).await.map_err(failed)?;
    Ok(format!("{}\n{}", chain.trim_end(), key.serialize_pem()))
}

/// Shows all that the authority wants to see, and says so.
async fn show(order: &mut Order, acme: &Acme, challenges: &Arc<Challenges>) -> Result<Vec<impl Drop + use<>>, Failed> {
    let failed = |error: instant_acme::Error| Failed::of(&error, acme);
    let (kind, word) = kind(acme.challenge);
    let mut shown = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failed)?;
        // It was proved not long ago.
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = name_of(authorization.identifier().identifier);
        let mut challenge = authorization.challenge(kind.clone()).ok_or_else(|| {
            let what = format!("the authority does not prove \"{name}\" by {word}");
            Failed::new(Cause::Refused, what, "take another \"challenge\" in [acme]")
        })?;
        let answer = challenge.key_authorization();
        shown.push(match acme.challenge {
            Challenge::Http01 => challenges.answer_requests(&challenge.token, answer.as_str()),
            Challenge::TlsAlpn01 => challenges
                .answer_handshakes(&name, answer.digest().as_ref())
                .map_err(|error| Failed::new(Cause::Other, error.what, error.help))?,
        });
        challenge.set_ready().await.map_err(failed)?;
    }
    Ok(shown)
}

/// Which name could not be proved, and why.
async fn not_proved(order: &mut Order, acme: &Acme) -> Option<Failed> {
    let (kind, _) = kind(acme.challenge);
    // What was fetched before is old.
    let urls: Vec<String> =
        order.state().authorizations.iter().map(|authorization| authorization.url.clone()).collect();
    order.refresh().await.ok()?;
    let mut authorizations = order.authorizations();
    let mut left = urls.len();
    while left > 0
        && let Some(authorization) = authorizations.next().await
    {
        left -= 1;
        let Ok(mut authorization) = authorization else { continue };
        let Ok(state) = authorization.refresh().await else { continue };
        if state.status != AuthorizationStatus::Invalid {
            continue;
        }
        let name = name_of(state.identifier().identifier);
        let problem = state.challenges.iter().find(|challenge| challenge.r#type == kind)?.error.as_ref();
        return Some(Failed::of_challenge(&name, problem, acme.challenge));
    }
    None
}

fn kind(challenge: Challenge) -> (ChallengeType, &'static str) {
    match challenge {
        Challenge::Http01 => (ChallengeType::Http01, "http-01"),
        Challenge::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
    }
}

fn name_of(identifier: &Identifier) -> String {
    match identifier {
        Identifier::Dns(name) => name.clone(),
        other => format!("{other:?}"),
    }
}
