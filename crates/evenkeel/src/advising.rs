//! Advice on the running configuration. A thread of low priority computes it, a single computation at a time. The result
//! is kept until the configuration changes or it is too old.

use crate::checking::changed;
use evenkeel_advise::{Inputs, advise};
use evenkeel_config::Plan;
use evenkeel_view::Status;
use evenkeel_view::advice::{Advised, Computed};
use evenkeel_view::shadows::PoolShadows;
use evenkeel_view::words::unix_ms;
use rustix::process::setpriority_process;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Time for the trials of a computation. Pools that it is not sufficient for are named.
const TIME: Duration = Duration::from_secs(30);

/// Age up to which advice is kept, as a multiple of the time that it took to compute. A page that follows the process
/// takes a twentieth of a core at most.
const AGE_OF_COST: u32 = 20;

/// Least and largest age up to which advice is kept. State and shadows cover the last minute.
const AGE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];

/// Lowest priority, of nice(2): the thread runs when workers leave time.
const NICE: i32 = 19;

/// Subject of a computation.
pub struct Question {
    /// Path for commands and patches.
    pub file: PathBuf,
    pub text: String,
    pub plan: Arc<Plan>,
    pub status: Status,
    pub shadows: Vec<PoolShadows>,
}

/// Advice that is kept, shared by all clones.
#[derive(Clone, Default)]
pub struct Advising(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Start of the computation that is under way, milliseconds since 1970.
    computing_since_ms: Option<u64>,
    made: Option<Made>,
}

struct Made {
    plan: Arc<Plan>,
    generation: u64,
    at: Instant,
    /// In milliseconds since 1970.
    at_ms: u64,
    took: Duration,
    result: Result<Advised, String>,
}

/// State of the advice on a plan.
pub enum Kept {
    Made(Result<Advised, String>),
    /// A computation is under way since this time, milliseconds since 1970.
    Computing(u64),
    /// No computation was under way: this one is now.
    Begins(Computation),
}

impl Advising {
    /// Returns the advice on a plan, or begins a computation unless one is under way.
    pub fn of(&self, plan: &Arc<Plan>, generation: u64) -> Kept {
        self.at(plan, generation, Instant::now())
    }

    fn at(&self, plan: &Arc<Plan>, generation: u64, now: Instant) -> Kept {
        let mut state = self.lock();
        if let Some(since_ms) = state.computing_since_ms {
            return Kept::Computing(since_ms);
        }
        if let Some(made) = state.made.as_ref().filter(|made| made.is_good(plan, now)) {
            return Kept::Made(made.shown(now));
        }
        let since_ms = unix_ms(SystemTime::now());
        *state = State { computing_since_ms: Some(since_ms), made: None };
        let advising = self.clone();
        Kept::Begins(Computation { advising, plan: plan.clone(), generation, began: now, since_ms, result: None })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Made {
    /// True if it is about this plan and young enough. Providers that add to a plan leave it the same.
    fn is_good(&self, plan: &Arc<Plan>, now: Instant) -> bool {
        let [least, most] = AGE;
        let is_young = now.saturating_duration_since(self.at) < (self.took * AGE_OF_COST).clamp(least, most);
        is_young && (Arc::ptr_eq(plan, &self.plan) || *plan == self.plan)
    }

    fn shown(&self, now: Instant) -> Result<Advised, String> {
        let age = now.saturating_duration_since(self.at);
        let [took_ms, age_ms] = [self.took, age].map(|time| time.as_millis() as u64);
        let computed = Some(Computed { at_ms: self.at_ms, age_ms, took_ms, generation: self.generation });
        self.result.clone().map(|advised| Advised { computed, ..advised })
    }
}

/// A computation that is under way. Ends when dropped, with or without a result.
pub struct Computation {
    advising: Advising,
    plan: Arc<Plan>,
    generation: u64,
    began: Instant,
    pub since_ms: u64,
    result: Option<Result<Advised, String>>,
}

impl Computation {
    /// Computes in the background, at the lowest priority.
    pub fn start(mut self, question: Question) {
        let advising = self.advising.clone();
        let work = move || {
            // Without it the computation is the same, and workers have less time meanwhile.
            let _ = setpriority_process(None, NICE);
            self.end(Ok(compute(&question)));
        };
        if let Err(error) = thread::Builder::new().name("advice".into()).spawn(work)
            && let Some(made) = &mut advising.lock().made
        {
            made.result = Err(format!("cannot start a thread: {error}"));
        }
    }

    /// Ends with a result, or with the reason why there is none.
    pub fn end(&mut self, result: Result<Advised, String>) {
        self.result = Some(result);
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        let failed = || Err("the computation failed; the log has the reason".to_string());
        let result = self.result.take().unwrap_or_else(failed);
        let (at, at_ms) = (Instant::now(), unix_ms(SystemTime::now()));
        let (plan, took) = (self.plan.clone(), at.saturating_duration_since(self.began));
        let made = Made { plan, generation: self.generation, at, at_ms, took, result };
        *self.advising.lock() = State { computing_since_ms: None, made: Some(made) };
    }
}

/// Advice on a running configuration, as `evenkeel advise --admin` computes it.
fn compute(question: &Question) -> Advised {
    let Question { file, text, plan, status, shadows } = question;
    // A configuration for another machine has no patch that this machine accepts.
    let elsewhere = changed(file, text, false).is_err();
    let check = |text: &str| changed(file, text, elsewhere);
    let (name, admin) = (file.display().to_string(), address(plan));
    let inputs = Inputs {
        cores: thread::available_parallelism().map_or(1, usize::from) as u32,
        status: Some(status),
        shadows,
        admin: admin.as_deref(),
        until: Some(Instant::now() + TIME),
        ..Inputs::of(&name, text, plan, &check)
    };
    advise(&inputs, &[], &|_| {}).shown(&name)
}

/// Address of the admin, as commands take it.
fn address(plan: &Plan) -> Option<String> {
    let admin = plan.admin.as_ref()?;
    let socket = admin.socket.path().map(|path| format!("unix:{}", path.display()));
    socket.or_else(|| admin.http.as_ref().map(|http| http.bind.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::parse_str;

    fn plan(balance: &str) -> Arc<Plan> {
        let text = format!(
            "[listener.web]\nbind = ['127.0.0.1:1']\npool = 'a'\n[pool.a]\nbalance = '{balance}'\n\
             endpoints = ['127.0.0.1:2', '127.0.0.1:3']\n"
        );
        Arc::new(parse_str("evenkeel.toml", &text, &|_| None).plan.expect("it is valid"))
    }

    fn begins(kept: Kept) -> Computation {
        let Kept::Begins(computation) = kept else { panic!("nothing is under way") };
        computation
    }

    fn advised() -> Advised {
        Advised { config: "evenkeel.toml".to_string(), ..Advised::default() }
    }

    #[test]
    fn a_single_computation_is_under_way() {
        let (advising, first, second) = (Advising::default(), plan("random"), plan("leastconn"));
        let mut computation = begins(advising.of(&first, 0));
        for (plan, generation) in [(&first, 0), (&second, 1)] {
            assert!(matches!(advising.of(plan, generation), Kept::Computing(since) if since == computation.since_ms));
        }
        computation.end(Ok(advised()));
        drop(computation);
        let Kept::Made(Ok(made)) = advising.of(&first, 0) else { panic!("it is made") };
        assert_eq!((&*made.config, made.computed.map(|of| of.generation)), ("evenkeel.toml", Some(0)));
    }

    #[test]
    fn advice_is_kept_until_the_plan_changes() {
        let (advising, first) = (Advising::default(), plan("random"));
        begins(advising.of(&first, 0)).end(Ok(advised()));
        assert!(matches!(advising.of(&plan("random"), 3), Kept::Made(Ok(_))), "another plan with the same content");
        begins(advising.of(&plan("leastconn"), 4)).end(Ok(advised()));
        assert!(matches!(advising.of(&first, 5), Kept::Begins(_)));
    }

    #[test]
    fn advice_is_kept_for_a_bounded_time() {
        let (advising, plan, start) = (Advising::default(), plan("random"), Instant::now());
        let age = |took: u64, age: u64| {
            let made = Made {
                plan: plan.clone(),
                generation: 0,
                at: start,
                at_ms: 0,
                took: Duration::from_secs(took),
                result: Ok(advised()),
            };
            *advising.lock() = State { computing_since_ms: None, made: Some(made) };
            match advising.at(&plan, 0, start + Duration::from_secs(age)) {
                Kept::Made(made) => made.ok().and_then(|made| made.computed).map(|of| of.age_ms / 1000),
                Kept::Computing(_) | Kept::Begins(_) => None,
            }
        };
        assert_eq!([age(0, 59), age(0, 60)], [Some(59), None], "a minute at least");
        assert_eq!([age(10, 199), age(10, 200)], [Some(199), None], "twenty times its cost");
        assert_eq!([age(100, 599), age(100, 600)], [Some(599), None], "ten minutes at most");
    }

    #[test]
    fn a_computation_that_fails_is_not_repeated_at_once() {
        let (advising, plan) = (Advising::default(), plan("random"));
        drop(begins(advising.of(&plan, 0)));
        let Kept::Made(Err(why)) = advising.of(&plan, 0) else { panic!("it has failed") };
        assert!(why.contains("failed"), "{why}");
    }

    #[test]
    fn commands_reach_the_admin_by_its_address() {
        let of = |admin: &str| {
            let text = format!(
                "[admin]\n{admin}\n[listener.web]\nbind = ['127.0.0.1:1']\n[pool.a]\nendpoints = ['127.0.0.1:2']\n"
            );
            address(&parse_str("evenkeel.toml", &text, &|_| None).plan.expect("it is valid"))
        };
        assert_eq!(of("bind = 'unix:/run/a.sock'").as_deref(), Some("unix:/run/a.sock"));
        assert_eq!(of("http = { bind = '127.0.0.1:9900' }").as_deref(), Some("127.0.0.1:9900"));
    }
}
