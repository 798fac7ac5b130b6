//! Which certificates are ordered, and when? All that a plan wants from an authority, one after the other: those that are not there, and
//! those whose time is nearly over. What fails is tried again later; meanwhile the one of before is shown.

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

/// How long one order may take in all.
const ORDER_MAX: Duration = Duration::from_secs(300);

/// How long it is slept at most: the clock may be set, and a machine sleeps.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// How often it is looked whether another process still has the folder.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How often an authority is asked for its window, at least and at most; it says itself how often it wishes.
const ASK_MIN: i64 = 60;
const ASK_MAX: i64 = 86_400;

/// Orders certificates while it is there.
#[derive(Debug)]
pub struct Issuer {
    wanted: watch::Sender<Wanted>,
    /// Has what failed tried again.
    again: Arc<Notify>,
    shown: Arc<Shown>,
    task: JoinHandle<()>,
}

/// What a plan wants.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    acme: Acme,
    /// The names of each certificate.
    certificates: Vec<Vec<String>>,
}

/// What metrics show.
#[derive(Debug)]
pub struct Shown {
    pub(crate) issued: AtomicU64,
    /// By cause.
    pub(crate) failed: Box<[AtomicU64]>,
    /// When the next order is due, by the first name, in seconds since 1970.
    pub(crate) due: RwLock<BTreeMap<String, i64>>,
}

impl Shown {
    /// When the next order of a certificate is due, seconds since 1970, by its first name.
    pub fn due(&self, name: &str) -> Option<i64> {
        self.due.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

impl Issuer {
    /// Orders what `plan` wants. In a runtime of tokio.
    pub fn start(plan: &Plan, challenges: Arc<Challenges>) -> Issuer {
        let (wanted, receiver) = watch::channel(Wanted::of(plan));
        let shown = Arc::new(Shown::default());
        let again = Arc::new(Notify::new());
        let task = tokio::spawn(run(receiver, again.clone(), challenges, shown.clone()));
        Issuer { wanted, again, shown, task }
    }

    /// Orders what another plan wants. What is the same goes on; but what failed a while ago is tried at once, as something may
    /// have been mended.
    pub fn follow(&self, plan: &Plan) {
        let next = Wanted::of(plan);
        self.wanted.send_if_modified(|wanted| {
            let has_changed = *wanted != next;
            *wanted = next;
            has_changed
        });
        self.again.notify_one();
    }

    /// Leaves all to another process.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// For metrics.
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

/// Follows what is wanted for ever.
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

/// Orders what is wanted, for ever; returns at once if that is nothing.
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

/// The folder, as soon as no other process has it and it can be written to.
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

/// Asks the authority when a certificate is to be renewed, and orders it if it is time.
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
        // Some want to hear nothing of a certificate that they have not issued, or not to this account.
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
            // At least as long as the authority wants.
            let pause = pause(first, known.failures, jitter()).max(known.not_before - now);
            // Only what is due is an order that failed.
            let is_due = known.due <= now;
            if is_due {
                known.due = now + pause;
            }
            known.ask = now + pause;
            // The authority does not count requests that do not reach it, so a restart may try them at once.
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

/// What became of a look.
enum Done {
    /// When the authority wants it to be renewed, and in how many seconds to ask again, if it says so.
    Asked(Option<(i64, i64)>),
    /// There is a new one, which is valid from and until these.
    Issued((i64, i64)),
}

/// Asks the authority when a certificate is to be renewed (RFC 9773).
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
