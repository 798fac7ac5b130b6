//! The task that orders all certificates of a plan, in sequence: missing certificates, and certificates that are due
//! for renewal. Failures are retried later; meanwhile the old certificate stays in use.

use crate::account::{self, account};
use crate::failed::{Cause, Failed};
use crate::folder::Folder;
use crate::known::{Known, jitter, validity};
use crate::order::{Asking, order};
use crate::pending::Pending;
use crate::schedule::{FIRST_PAUSE, SHORT_PAUSE, first_ask, pause, suggested};
use crate::sender::RetryAfter;
use evenkeel_config::Plan;
use evenkeel_config::plan::Acme;
use evenkeel_tls::{Challenges, inspect, pair};
use instant_acme::{Account, CertificateIdentifier};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Time limit of an order, including the validation of its names.
const ORDER_MAX: Duration = Duration::from_secs(300);

/// Longest sleep between looks at the clock, as it may be set and the machine may be suspended.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// Interval of attempts to lock the folder while another process has it.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Bounds in seconds on the interval that an authority states for questions about its renewal window (RFC 9773).
const ASK_MIN: i64 = 60;
const ASK_MAX: i64 = 86_400;

/// Orders certificates until it is dropped.
#[derive(Debug)]
pub struct Issuer {
    wanted: watch::Sender<Wanted>,
    /// Triggers a retry of certificates that failed.
    again: Arc<Notify>,
    shown: Arc<Shown>,
    task: JoinHandle<()>,
}

/// Certificates that a plan wants, and from where.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    acme: Acme,
    /// Names of each certificate.
    certificates: Vec<Vec<String>>,
}

/// State behind the metrics.
#[derive(Debug)]
pub struct Shown {
    pub(crate) issued: AtomicU64,
    /// Number of failures by cause.
    pub(crate) failed: Box<[AtomicU64]>,
    /// Time of the next order in seconds since 1970, by the first name of the certificate.
    pub(crate) due: RwLock<BTreeMap<String, i64>>,
}

impl Shown {
    /// Time of the next order of a certificate in seconds since 1970, by its first name.
    pub fn due(&self, name: &str) -> Option<i64> {
        self.due.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

impl Issuer {
    /// Spawns the task on the current runtime of tokio.
    pub fn start(plan: &Plan, challenges: Arc<Challenges>) -> Issuer {
        let (wanted, receiver) = watch::channel(Wanted::of(plan));
        let shown = Arc::new(Shown::default());
        let again = Arc::new(Notify::new());
        let task = tokio::spawn(run(receiver, again.clone(), challenges, shown.clone()));
        Issuer { wanted, again, shown, task }
    }

    /// Follows another plan. If it wants the same certificates, orders continue; failures that are ten minutes old are
    /// retried at once, as their cause may have been fixed.
    pub fn follow(&self, plan: &Plan) {
        let next = Wanted::of(plan);
        self.wanted.send_if_modified(|wanted| {
            let has_changed = *wanted != next;
            *wanted = next;
            has_changed
        });
        self.again.notify_one();
    }

    /// Stops the task, so that another process can take the folder over.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// State behind the metrics.
    pub fn shown(&self) -> Arc<Shown> {
        self.shown.clone()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wanted {
    fn of(plan: &Plan) -> Wanted {
        Wanted { acme: plan.acme.clone(), certificates: plan.issued().into_iter().map(<[String]>::to_vec).collect() }
    }
}

/// Serves sets of wanted certificates in sequence, until the sender is dropped.
async fn run(mut wanted: watch::Receiver<Wanted>, again: Arc<Notify>, challenges: Arc<Challenges>, shown: Arc<Shown>) {
    loop {
        let now = wanted.borrow_and_update().clone();
        shown.due.write().unwrap_or_else(PoisonError::into_inner).clear();
        tokio::select! {
            () = serve(&now, &again, &challenges, &shown) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
        if now.certificates.is_empty() && wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Orders and renews the wanted certificates for ever; returns at once if there are none.
async fn serve(wanted: &Wanted, again: &Notify, challenges: &Arc<Challenges>, shown: &Shown) {
    if wanted.certificates.is_empty() {
        return;
    }
    let folder = open(&wanted.acme, shown).await;
    let mut account: Option<Account> = None;
    let retry_after = RetryAfter::default();
    let of = |names: &Vec<String>| Known::kept(&wanted.acme, names, &folder);
    let mut known: Vec<Known> = wanted.certificates.iter().map(of).collect();
    loop {
        for (names, known) in wanted.certificates.iter().zip(&mut known) {
            if known.ask.min(known.due) <= inspect::now() {
                look(wanted, names, known, (&folder, &retry_after), &mut account, challenges, shown).await;
            }
            shown.due.write().unwrap_or_else(PoisonError::into_inner).insert(names[0].clone(), known.due);
        }
        let next = known.iter().map(|known| known.due.min(known.ask)).min().unwrap_or(i64::MAX);
        let left = u64::try_from(next.saturating_sub(inspect::now())).unwrap_or(0);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(left).clamp(Duration::from_secs(1), SLEEP_MAX)) => {}
            () = again.notified() => known.iter_mut().for_each(|known| known.try_again(inspect::now())),
        }
    }
}

/// Opens the folder, waiting until no other process has it and it can be written to.
async fn open(acme: &Acme, shown: &Shown) -> Folder {
    let (mut failures, mut was_told) = (0, false);
    loop {
        match Folder::open(&acme.folder()) {
            Ok(Some(folder)) => return folder,
            Ok(None) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::info!("acme: another process holds {} and orders certificates", acme.folder().display());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(failed) => {
                failures += 1;
                shown.count(&failed);
                tracing::error!("acme: {failed}");
                tokio::time::sleep(Duration::from_secs(pause(FIRST_PAUSE, failures, jitter()).unsigned_abs())).await;
            }
        }
    }
}

/// Asks the authority when a certificate should be renewed, and orders it if that is due.
async fn look(
    wanted: &Wanted,
    names: &[String],
    known: &mut Known,
    (folder, retry_after): (&Folder, &RetryAfter),
    account: &mut Option<Account>,
    challenges: &Arc<Challenges>,
    shown: &Shown,
) {
    let acme = &wanted.acme;
    let first = names[0].as_str();
    let done = async {
        let ours = match &mut *account {
            Some(account) => &*account,
            None => account.insert(self::account(acme, folder, retry_after).await?),
        };
        let asking = Asking { account: ours, acme, folder, challenges, retry_after };
        let before = pair::chain(&acme.file(names)).ok();
        let replaces = before.as_ref().and_then(|chain| CertificateIdentifier::try_from(&chain[0]).ok());
        if known.due > inspect::now() {
            return Ok(Done::Asked(ask(ours, replaces.as_ref(), known).await));
        }
        let mut pem = order(asking, names, replaces.clone()).await;
        // Some authorities refuse `replaces` for a certificate that they have not issued, or not to this account.
        if replaces.is_some()
            && let Err(Failed { cause: Cause::Refused | Cause::Other | Cause::Account, .. }) = pem
        {
            pem = order(asking, names, None).await;
        }
        if let Err(Failed { cause: Cause::Account, what, .. }) = &pem {
            tracing::warn!("acme: {what}; retrying with a new account");
            account::forget(folder);
            let ours = account.insert(self::account(acme, folder, retry_after).await?);
            pem = order(Asking { account: ours, acme, folder, challenges, retry_after }, names, None).await;
        }
        let pem = pem?;
        let valid = pair::certified_pem(pem.as_bytes()).and_then(|certified| validity(&certified, names));
        let Some(valid) = valid.filter(|valid| valid.1 > inspect::now()) else {
            Pending::forget(folder, names);
            let what = format!("{} issued a certificate that does not match the order", acme.directory);
            return Err(Failed::new(Cause::Other, what, "\"directory\" of [acme] selects the CA; evenkeel will retry"));
        };
        folder.write(&format!("{first}.pem"), pem.as_bytes())?;
        Pending::forget(folder, names);
        Ok(Done::Issued(valid))
    };
    let done = tokio::time::timeout(ORDER_MAX, done).await.unwrap_or_else(|_| {
        let what = format!("{} did not finish within {ORDER_MAX:?}", acme.directory);
        Err(Failed::new(Cause::Unreachable, what, "evenkeel will retry"))
    });
    let now = inspect::now();
    match done {
        Ok(Done::Asked(Some((due, ask)))) => {
            if due < known.due {
                tracing::info!(
                    names = names.join(" "),
                    on = inspect::day(due),
                    "acme: the CA suggests renewing earlier"
                );
            }
            (known.due, known.ask) = (due, now + ask);
        }
        Ok(Done::Asked(None)) => known.ask = now + ASK_MAX,
        Ok(Done::Issued(valid)) => {
            shown.issued.fetch_add(1, Relaxed);
            *known = Known { ask: first_ask(valid, ASK_MAX), ..Known::of(acme, names) };
            known.keep(acme, names, folder);
            let until = inspect::day(valid.1);
            tracing::info!(names = names.join(" "), until, "acme: certificate issued");
        }
        Err(failed) => {
            if failed.cause == Cause::Account {
                *account = None;
            }
            shown.count(&failed);
            (known.failures, known.failed, known.not_before) = (known.failures + 1, now, retry_after.at());
            let first = if failed.cause == Cause::Nonce { SHORT_PAUSE } else { FIRST_PAUSE };
            // Not before the authority's Retry-After.
            let pause = pause(first, known.failures, jitter()).max(known.not_before - now);
            // A failed question about renewal does not delay an order that is not due yet.
            let is_due = known.due <= now;
            if is_due {
                known.due = now + pause;
            }
            known.ask = now + pause;
            // The authority has not counted requests that did not reach it, so a restart may retry them at once.
            let is_counted = !matches!(failed.cause, Cause::Unreachable | Cause::Nonce | Cause::Storage);
            if is_counted || known.not_before > now {
                known.keep(acme, names, folder);
            }
            let next = Duration::from_secs(pause.unsigned_abs());
            if is_due {
                tracing::error!(names = names.join(" "), ?next, "acme: cannot obtain a certificate: {failed}");
            } else {
                tracing::warn!(names = names.join(" "), ?next, "acme: cannot fetch renewal information: {failed}");
            }
        }
    }
}

/// Result of a successful look.
enum Done {
    /// Time at which the authority wants the renewal, and seconds until the next question; `None` if it states nothing.
    Asked(Option<(i64, i64)>),
    /// A certificate was issued, with this start and end of validity.
    Issued((i64, i64)),
}

/// Asks the authority for the renewal window of a certificate (RFC 9773). `None` if it has none or does not answer.
async fn ask(account: &Account, of: Option<&CertificateIdentifier<'_>>, known: &Known) -> Option<(i64, i64)> {
    let (info, again) = account.renewal_info(of?).await.ok()?;
    let window = (info.suggested_window.start.unix_timestamp(), info.suggested_window.end.unix_timestamp());
    let again = i64::try_from(again.as_secs()).unwrap_or(ASK_MAX).clamp(ASK_MIN, ASK_MAX);
    Some((suggested(window, known.valid?, known.jitter), again))
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            issued: AtomicU64::new(0),
            failed: Cause::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            due: RwLock::default(),
        }
    }
}

impl Shown {
    fn count(&self, failed: &Failed) {
        self.failed[failed.cause as usize].fetch_add(1, Relaxed);
    }
}
