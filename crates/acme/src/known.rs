//! State of a certificate: its validity, the time of its next order, and its failures. Failures are kept in the folder,
//! so that a process that restarts in a loop does not order in a loop: authorities count orders.

use crate::folder::Folder;
use crate::schedule::renewal;
use evenkeel_config::plan::Acme;
use evenkeel_tls::{inspect, pair};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};

/// Seconds after a failure during which a reload does not retry, however often it happens.
const RETRY_MIN: i64 = 600;

/// State of a certificate; all times are in seconds since 1970.
#[derive(Debug)]
pub struct Known {
    /// Start and end of validity; `None` if there is no certificate with exactly these names.
    pub valid: Option<(i64, i64)>,
    /// Time of the next order; in the past if it is due.
    pub due: i64,
    /// Time of the next question to the authority for its renewal window.
    pub ask: i64,
    /// Number of consecutive failures.
    pub failures: u32,
    /// Time of the last failure.
    pub failed: i64,
    /// Time before which the authority wants no requests for this certificate (`Retry-After`).
    pub not_before: i64,
    /// Random number from 0 to 1, drawn once for this certificate.
    pub jitter: f64,
}

/// Failures, as kept in the folder.
#[derive(Debug, Deserialize, Serialize)]
struct Kept {
    names: Vec<String>,
    /// Settings of the failed order; others are tried at once.
    settings: String,
    failures: u32,
    failed: i64,
    due: i64,
    not_before: i64,
}

fn file(names: &[String]) -> String {
    format!("{}.failed.json", names[0])
}

/// The settings that an order's success depends on, as text.
fn settings(acme: &Acme) -> String {
    let account = acme.external_account.as_ref().map(|account| &account.id);
    format!("{} {:?} {:?} {account:?}", acme.directory, acme.challenge, acme.email)
}

impl Known {
    /// State from the file of a certificate. Due now if the certificate is missing, unusable or has other names.
    pub fn of(acme: &Acme, names: &[String]) -> Known {
        let (jitter, now) = (jitter(), inspect::now());
        let file = acme.file(names);
        let valid = pair::certified(&file, &file).ok().and_then(|certified| validity(&certified, names));
        let due = valid.map_or(now, |valid| renewal(valid, jitter));
        Known { valid, due, ask: now, failures: 0, failed: 0, not_before: 0, jitter }
    }

    /// Like [`Known::of`], with the failures that earlier processes have kept.
    pub fn kept(acme: &Acme, names: &[String], folder: &Folder) -> Known {
        let mut known = Known::of(acme, names);
        let kept = folder.read(&file(names)).ok().flatten();
        if let Some(kept) = kept.and_then(|bytes| serde_json::from_slice::<Kept>(&bytes).ok()) {
            known.take_over(&kept, names, &settings(acme), inspect::now());
        }
        known
    }

    fn take_over(&mut self, kept: &Kept, names: &[String], settings: &str, now: i64) {
        // Ignored after the clock was set back, or for another certificate.
        if kept.names != names || kept.failed > now {
            return;
        }
        (self.failures, self.failed, self.not_before) = (kept.failures, kept.failed, kept.not_before);
        // As at a reload, retried once the failure is `RETRY_MIN` seconds old, and at once with other settings.
        let wait = if kept.settings == settings { kept.due.min(kept.failed + RETRY_MIN) } else { now };
        let wait = wait.max(kept.not_before);
        (self.due, self.ask) = (self.due.max(wait), self.ask.max(wait));
    }

    /// Writes the failures, or removes the file if there are none. If that fails, the next process does not know of
    /// them.
    pub fn keep(&self, acme: &Acme, names: &[String], folder: &Folder) {
        let &Known { failures, failed, due, not_before, .. } = self;
        if failures == 0 {
            return folder.remove(&file(names));
        }
        let kept = Kept { names: names.to_vec(), settings: settings(acme), failures, failed, due, not_before };
        let Ok(json) = serde_json::to_vec(&kept) else { return };
        if let Err(error) = folder.write(&file(names), &json) {
            tracing::warn!("acme: {error}");
        }
    }

    /// Makes a certificate due now if its last failure is at least ten minutes ago, unless `Retry-After` forbids it.
    pub fn try_again(&mut self, now: i64) {
        if self.failures > 0 && now - self.failed >= RETRY_MIN && now >= self.not_before {
            (self.due, self.ask) = (self.due.min(now), now);
        }
    }
}

/// Start and end of validity of a certificate; `None` unless it has exactly these names.
pub fn validity(certified: &CertifiedKey, names: &[String]) -> Option<(i64, i64)> {
    let facts = inspect::facts(certified.end_entity_cert().ok()?)?;
    let has_all = names.iter().all(|name| facts.names.contains(name)) && facts.names.len() == names.len();
    has_all.then_some(facts.valid)
}

/// Random number from 0 to 1.
pub fn jitter() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness (0) all certificates are due at the same time, which does no harm.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(failures: u32, due: i64) -> Known {
        Known { valid: None, due, ask: due, failures, failed: 1_000, not_before: 0, jitter: 0.0 }
    }

    #[test]
    fn what_failed_is_tried_at_a_reload_but_not_at_each() {
        for (failures, now, due) in
            [(1, 1_000 + RETRY_MIN, 1_000 + RETRY_MIN), (1, 999 + RETRY_MIN, 90_000), (0, 50_000, 90_000)]
        {
            let mut known = known(failures, 90_000);
            known.try_again(now);
            assert_eq!((known.due, known.ask), (due, due), "{failures} at {now}");
        }
        let mut known = Known { not_before: 60_000, ..known(1, 90_000) };
        known.try_again(59_999);
        assert_eq!(known.due, 90_000, "the authority wants to be left alone");
        known.try_again(60_000);
        assert_eq!(known.due, 60_000);
    }

    #[test]
    fn a_process_that_starts_again_waits_as_the_one_before() {
        let names = ["a.test".to_string()];
        let kept = |due, not_before| Kept {
            names: names.to_vec(),
            settings: "these".to_string(),
            failures: 3,
            failed: 1_000,
            due,
            not_before,
        };
        for (what, kept, settings, now, due) in [
            ("the pause is not over", kept(1_540, 0), "these", 1_100, 1_540),
            ("it is over", kept(1_540, 0), "these", 1_600, 1_600),
            ("it was long, and a while ago", kept(90_000, 0), "these", 1_100, 1_000 + RETRY_MIN),
            ("the authority wants a longer one", kept(90_000, 80_000), "these", 1_100, 80_000),
            ("with other settings", kept(90_000, 0), "others", 1_100, 1_100),
            ("with other settings, but it asked for a pause", kept(90_000, 80_000), "others", 1_100, 80_000),
            ("the clock was set back", kept(90_000, 80_000), "these", 900, 900),
        ] {
            let mut known = known(0, now);
            known.take_over(&kept, &names, settings, now);
            assert_eq!((known.due, known.ask), (due, due), "{what}");
        }
        let mut other = known(0, 1_100);
        other.take_over(&kept(90_000, 80_000), &["b.test".to_string()], "these", 1_100);
        assert_eq!((other.due, other.failures), (1_100, 0));
    }
}
