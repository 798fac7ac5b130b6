//! An order: answers to the authority's challenges, the certificate signing request, and the download of the
//! certificate.

use crate::failed::{Cause, Failed};
use crate::folder::Folder;
use crate::pending::Pending;
use crate::sender::RetryAfter;
use evenkeel_config::plan::{Acme, Challenge};
use evenkeel_tls::Challenges;
use evenkeel_tls::inspect;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the authority's validation of the names.
const PATIENCE: Duration = Duration::from_secs(90);

/// First and longest pause between polls of an order, if the authority states none.
const ASK_FIRST: Duration = Duration::from_millis(250);
const ASK_LAST: Duration = Duration::from_secs(10);

/// Longest pause of the authority that is waited for, in seconds. If it wants a longer pause, the order is continued
/// later, and other certificates get their turn.
const WAIT_MAX: i64 = 60;

/// Account and settings for an order.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub account: &'a Account,
    pub acme: &'a Acme,
    pub folder: &'a Folder,
    pub challenges: &'a Arc<Challenges>,
    pub retry_after: &'a RetryAfter,
}

/// Orders a certificate, or continues an order that was begun. Returns the certificate, its chain and its key in PEM.
/// `replaces` identifies the old certificate (RFC 9773). The order is kept until it is [forgotten](Pending::forget).
///
/// # Errors
/// No certificate was issued, or not yet.
pub async fn order(
    asking: Asking<'_>,
    names: &[String],
    replaces: Option<CertificateIdentifier<'_>>,
) -> Result<String, Failed> {
    let failed = |error: instant_acme::Error| Failed::of(&error, asking.acme);
    let (mut order, pending) = match begun_before(asking, names).await? {
        Some(both) => both,
        None => begin(asking, names, replaces).await?,
    };
    if order.state().status == OrderStatus::Pending {
        // Answered until the authority has validated the names.
        let shown = show(&mut order, asking.acme, asking.challenges).await?;
        let status = tokio::time::timeout(PATIENCE, poll(asking, &mut order, &[OrderStatus::Pending])).await;
        drop(shown);
        if !matches!(status, Ok(Ok(OrderStatus::Ready | OrderStatus::Processing | OrderStatus::Valid))) {
            Pending::forget(asking.folder, names);
            if let Some(why) = not_proved(&mut order, asking.acme).await {
                return Err(why);
            }
            return Err(match status {
                Ok(Err(error)) => error,
                Ok(Ok(status)) => {
                    Failed::new(Cause::Other, format!("the order became {status:?}"), "evenkeel will retry")
                }
                Err(_) => failed(instant_acme::Error::Timeout(None)),
            });
        }
    }
    if order.state().status == OrderStatus::Ready {
        let asked = order.finalize_csr(&pending.request(names)?).await;
        // A request that was refused will be refused again, so the next attempt begins a new order.
        if let Err(Error::Api(problem)) = &asked
            && problem.status.is_some_and(|status| (400..500).contains(&status) && status != 429)
        {
            Pending::forget(asking.folder, names);
        }
        asked.map_err(failed)?;
    }
    let (ready, works) = (OrderStatus::Ready, OrderStatus::Processing);
    let status = match order.state().status {
        OrderStatus::Valid => OrderStatus::Valid,
        _ => poll(asking, &mut order, &[ready, works]).await?,
    };
    if status == OrderStatus::Valid
        && let Some(chain) = order.certificate().await.map_err(failed)?
    {
        return Ok(format!("{}\n{}", chain.trim_end(), pending.key));
    }
    Pending::forget(asking.folder, names);
    Err(Failed::new(Cause::Other, format!("the order became {status:?}"), "evenkeel will retry"))
}

/// Returns an order for these names that was begun earlier and not fetched, if the authority is processing or has
/// completed it.
async fn begun_before(asking: Asking<'_>, names: &[String]) -> Result<Option<(Order, Pending)>, Failed> {
    let Some(pending) = Pending::read(asking.folder, names)? else { return Ok(None) };
    match asking.account.order(pending.url.clone()).await {
        Ok(mut order) => {
            let status = order.state().status;
            if let OrderStatus::Ready | OrderStatus::Processing | OrderStatus::Valid = status {
                tracing::info!(names = names.join(" "), "acme: resuming an earlier order, status {status:?}");
                return Ok(Some((order, pending)));
            }
        }
        // The authority or the account does not know the order.
        Err(Error::Api(problem)) if problem.status.is_none_or(|status| status != 429 && status < 500) => {}
        Err(error) => return Err(Failed::of(&error, asking.acme)),
    }
    Pending::forget(asking.folder, names);
    Ok(None)
}

async fn begin(
    asking: Asking<'_>,
    names: &[String],
    replaces: Option<CertificateIdentifier<'_>>,
) -> Result<(Order, Pending), Failed> {
    let identifiers: Vec<Identifier> = names.iter().map(|name| Identifier::Dns(name.clone())).collect();
    let mut wanted = NewOrder::new(&identifiers);
    if let Some(replaces) = replaces {
        wanted = wanted.replaces(replaces);
    }
    let order = asking.account.new_order(&wanted).await.map_err(|error| Failed::of(&error, asking.acme))?;
    let pending = Pending::new(order.url(), names)?;
    pending.keep(asking.folder)?;
    Ok((order, pending))
}

/// Polls an order until its state is not among `waits`, and returns that state.
async fn poll(asking: Asking<'_>, order: &mut Order, waits: &[OrderStatus]) -> Result<OrderStatus, Failed> {
    let mut pause = ASK_FIRST;
    loop {
        let wanted = asking.retry_after.at() - inspect::now();
        if wanted > WAIT_MAX {
            return Err(Failed::busy(asking.acme));
        }
        tokio::time::sleep(u64::try_from(wanted).map_or(pause, Duration::from_secs).max(ASK_FIRST)).await;
        pause = (pause * 2).min(ASK_LAST);
        let state = order.refresh().await.map_err(|error| Failed::of(&error, asking.acme))?;
        if let Some(problem) = &state.error {
            return Err(Failed::of_problem(problem));
        }
        if !waits.contains(&state.status) {
            return Ok(state.status);
        }
    }
}

/// Answers the challenges of all names that are not valid yet, and asks the authority to validate them.
async fn show(order: &mut Order, acme: &Acme, challenges: &Arc<Challenges>) -> Result<Vec<impl Drop + use<>>, Failed> {
    let failed = |error: instant_acme::Error| Failed::of(&error, acme);
    let (kind, word) = kind(acme.challenge);
    let mut shown = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failed)?;
        // Validated recently for another order.
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = name_of(authorization.identifier().identifier);
        let mut challenge = authorization.challenge(kind.clone()).ok_or_else(|| {
            let what = format!("the CA offers no {word} challenge for \"{name}\"");
            Failed::new(Cause::Refused, what, "set another \"challenge\" in [acme]")
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

/// The name whose validation failed, with the reason; `None` if the authority has none.
async fn not_proved(order: &mut Order, acme: &Acme) -> Option<Failed> {
    let (kind, _) = kind(acme.challenge);
    // The authorizations have to be fetched again after the validation.
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
