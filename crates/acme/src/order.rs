//! How is a certificate had? The authority says what it wants to see, it is shown that, and then it signs.

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

/// Patience with an authority that validates a name.
const PATIENCE: Duration = Duration::from_secs(90);

/// Pauses between questions about an order, where the authority does not say how long they are to be: the first, and the longest.
const ASK_FIRST: Duration = Duration::from_millis(250);
const ASK_LAST: Duration = Duration::from_secs(10);

/// The longest pause between them that is waited for, in seconds. Where the authority wants a longer one, other certificates
/// have their turn.
const WAIT_MAX: i64 = 60;

/// Account and settings that an order is made with.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub account: &'a Account,
    pub acme: &'a Acme,
    pub folder: &'a Folder,
    pub challenges: &'a Arc<Challenges>,
    pub retry_after: &'a RetryAfter,
}

/// Orders a certificate, or continues an order that was begun. Returns the certificate, its chain and its key, in PEM. `replaces`:
/// the certificate before it. The order is kept until it is [forgotten](Pending::forget).
///
/// # Errors
/// There is none.
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
        // Shown until the authority has looked.
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
        // A request that is refused once is refused again.
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

/// Returns an order for these names that was begun before, if the authority works at it or has completed it, and the certificate
/// was not fetched.
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
        // The authority, or the account, does not know this order.
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

/// Asks about an order until its state is none of `waits`. Returns that state.
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
