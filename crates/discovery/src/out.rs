//! Output of a source: an [`Out`] stores and logs its answers, and wakes the task that applies them.

use crate::kept::{Answer, Kept, News};
use crate::lock::lock;
use evenkeel_balance::EndpointId;
use evenkeel_config::plan::{Resolver, Source};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};

/// Most names of endpoints in a log line.
const LISTED: usize = 8;

/// Handle with which a source submits its answers.
#[derive(Debug)]
pub struct Out {
    pool: Arc<str>,
    /// Name of the source in the log.
    source: String,
    /// DNS name that it resolves, if any.
    name: Option<String>,
    /// Advice for a name that does not resolve; empty if there is none.
    advice: &'static str,
    allow_empty: bool,
    /// Parts that were last logged as ignored.
    ignored: Vec<String>,
    kept: Arc<Mutex<Kept>>,
    news: Arc<Pending>,
    answered: watch::Sender<bool>,
}

/// Reading end of an [`Out`].
#[derive(Debug)]
pub struct In {
    kept: Arc<Mutex<Kept>>,
    answered: watch::Receiver<bool>,
}

/// Pools whose endpoints changed since they were last taken.
#[derive(Debug, Default)]
pub struct Pending {
    pools: Mutex<BTreeSet<Arc<str>>>,
    noted: Notify,
}

impl Pending {
    /// Adds a pool, and wakes the waiting task.
    pub fn note(&self, pool: &Arc<str>) {
        lock(&self.pools).insert(pool.clone());
        self.noted.notify_one();
    }

    /// Waits until there is a pool. Cancel safe.
    pub async fn wait(&self) {
        while lock(&self.pools).is_empty() {
            self.noted.notified().await;
        }
    }

    /// Takes all pools, leaving none.
    pub fn take(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *lock(&self.pools))
    }
}

/// Creates the output of a source, and its reading end. Changed lists are noted in `news`. `before`: the list that the process
/// before had, which counts as an answer.
pub fn channel(
    pool: Arc<str>,
    (source, resolver): (&Source, &Resolver),
    allow_empty: bool,
    news: Arc<Pending>,
    before: Option<Kept>,
) -> (Out, In) {
    let name = if let Source::Dns(dns) = source { Some(dns.name.clone()) } else { None };
    let advice = advice(source, resolver);
    let source = source.to_string();
    let (answered, first) = watch::channel(before.is_some());
    let kept = Arc::new(Mutex::new(before.unwrap_or_default()));
    let other = In { kept: kept.clone(), answered: first };
    (Out { pool, source, name, advice, allow_empty, ignored: Vec::new(), kept, news, answered }, other)
}

/// Advice for a name without a dot, which most name servers know with a domain behind it only.
pub fn advice(source: &Source, resolver: &Resolver) -> &'static str {
    match source {
        Source::Dns(dns) if !resolver.search && !dns.name.trim_end_matches('.').contains('.') => {
            "; it has no dot, and search domains are off: write the whole name, or set search = true in [resolver]"
        }
        _ => "",
    }
}

impl Out {
    /// Number derived from the pool and the source, equal in every process.
    pub fn seed(&self) -> u64 {
        EndpointId::of(&format!("{} {}", self.pool, self.source)).0
    }

    /// Submits an answer of the source.
    pub fn put(&mut self, answer: Answer) {
        let mut kept = lock(&self.kept);
        let taken = kept.take(answer, unix_time(), self.allow_empty);
        let endpoints = kept.endpoints().len();
        drop(kept);
        if let Some(skipped) = taken.skipped {
            self.log_skipped(&skipped);
        }
        if let Some(news) = taken.news {
            if matches!(news, News::Changed(..)) {
                self.news.note(&self.pool);
            }
            self.log(news, endpoints);
        }
        self.answered.send_replace(true);
    }

    /// Logs parts of a list that are ignored, unless the same parts are in the log already. The endpoints of the list
    /// are used.
    pub fn ignore(&mut self, parts: Vec<String>) {
        if parts == self.ignored {
            return;
        }
        if !parts.is_empty() {
            let (pool, source) = (&*self.pool, &*self.source);
            let first = first(&parts);
            tracing::warn!(pool, source, parts = parts.len(), first, "parts of the list are ignored");
        }
        self.ignored = parts;
    }

    fn log_skipped(&self, skipped: &[String]) {
        let (pool, source) = (&*self.pool, &*self.source);
        match skipped.len() {
            0 => tracing::info!(pool, source, "all entries of the list are used again"),
            entries => {
                let first = first(skipped);
                tracing::warn!(pool, source, entries, first, "entries of the list are skipped");
            }
        }
    }

    fn log(&self, news: News, endpoints: usize) {
        let (pool, source) = (&*self.pool, &*self.source);
        match news {
            News::Changed(came, left) => {
                let (came, left) = (listed(&came), listed(&left));
                tracing::info!(pool, source, endpoints, came, left, "endpoints changed");
            }
            News::Emptied if endpoints == 0 => match &self.name {
                Some(name) => {
                    tracing::warn!(pool, source, "{name} does not resolve: it has no addresses{}", self.advice)
                }
                None => tracing::warn!(pool, source, "no endpoints were found"),
            },
            News::Emptied => {
                tracing::warn!(
                    pool,
                    source,
                    endpoints,
                    "no endpoints found; keeping the last known endpoints, as allow_empty is not set"
                );
            }
            News::Failing(why) if endpoints == 0 => match &self.name {
                Some(name) => {
                    let advice = self.advice;
                    tracing::warn!(
                        pool,
                        source,
                        why,
                        "{name} does not resolve, and no earlier address is known{advice}"
                    )
                }
                None => tracing::warn!(pool, source, why, "discovery failed, and no endpoints are known"),
            },
            News::Failing(why) => {
                tracing::warn!(pool, source, endpoints, why, "discovery failed; keeping the last known endpoints");
            }
            News::Recovered => tracing::info!(pool, source, endpoints, "discovery works again"),
        }
    }
}

impl In {
    /// Results of the source so far.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// True if the source has submitted an answer.
    pub fn has_answered(&self) -> bool {
        *self.answered.borrow()
    }

    /// Waits until the source has submitted an answer, or its task has panicked.
    pub async fn answered(&self) {
        let _ = self.answered.clone().wait_for(|answered| *answered).await;
    }
}

/// Time since 1970, by the wall clock.
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The first reasons, for a log line.
pub fn first(reasons: &[String]) -> String {
    reasons.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join("; ")
}

fn listed(names: &[Arc<str>]) -> String {
    let shown: Vec<&str> = names.iter().take(LISTED).map(|name| &**name).collect();
    match names.len().saturating_sub(LISTED) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::plan::{Dns, Records};
    use tokio::time::timeout;

    #[test]
    fn a_name_without_a_dot_that_does_not_resolve_names_the_key() {
        let dns = |name: &str| {
            let min_ttl = Resolver::default().min_ttl;
            Source::Dns(Dns { name: name.into(), records: Records::Addresses, port: 80, min_ttl })
        };
        assert!(advice(&dns("web"), &Resolver::default()).contains("search = true in [resolver]"));
        assert_eq!(advice(&dns("web.internal"), &Resolver::default()), "");
        assert_eq!(advice(&dns("web"), &Resolver { search: true, ..Resolver::default() }), "");
    }

    #[tokio::test]
    async fn a_source_may_speak_whenever_it_has_something_to_say() {
        let news = Arc::<Pending>::default();
        let (mut out, other) =
            channel("web".into(), (&Source::File("a".into()), &Resolver::default()), false, news.clone(), None);
        let list = |text| Answer::List(evenkeel_config::endpoint_list("a.json", text).expect("a good list").into());
        let woken = || {
            timeout(Duration::from_millis(1), async {
                news.wait().await;
                news.take()
            })
        };
        assert!(!other.has_answered());
        tokio::join!(other.answered(), async { out.put(Answer::Failed("no route to host".into())) });
        assert!(woken().await.is_err(), "nothing has changed");
        for text in [r#"["10.0.0.1:1"]"#, r#"["10.0.0.2:1", "10.0.0.3:1"]"#] {
            out.put(list(text));
            assert!(woken().await.is_ok());
        }
        out.put(list(r#"["10.0.0.3:1", "10.0.0.2:1"]"#));
        assert!(woken().await.is_err(), "nothing has changed");
        let kept = other.kept();
        assert_eq!((kept.endpoints().len(), kept.counts), (2, [2, 1, 0, 1]));
    }

    #[tokio::test]
    async fn a_source_that_panicked_is_not_waited_for() {
        let (out, other) =
            channel("web".into(), (&Source::File("a".into()), &Resolver::default()), false, Arc::default(), None);
        drop(out);
        assert!(timeout(Duration::from_secs(5), other.answered()).await.is_ok());
        assert!(!other.has_answered());
    }
}
