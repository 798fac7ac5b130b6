//! Setup of a runtime with two test planes, `a` and `b`.

use crate::plane::{Log, Seen, TestPlane, lock};
use evenkeel_balance::EndpointId;
use evenkeel_config::{Plan, plan};
use evenkeel_net::inherit::Inherited;
use evenkeel_runtime::{Control, Orders, Plane, Runtime, StartError};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub const WORKERS: usize = 2;

/// Limit of all waits, generous enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

pub struct Setup {
    pub runtime: Runtime,
    pub planes: [Arc<Seen>; 2],
    pub log: Log,
}

impl Setup {
    pub fn start(plan: Plan) -> Setup {
        Setup::with(plan, Orders::default(), |_| {}).expect("nothing fails")
    }

    /// Starts a runtime with kept orders, and with planes that `prepare` may adjust first.
    pub fn with(plan: Plan, orders: Orders, prepare: impl Fn(&[Arc<Seen>; 2])) -> Result<Setup, StartError> {
        let log = Log::default();
        let planes = ["a", "b"].map(|name| Seen::new(name, &log));
        prepare(&planes);
        let mut runtime = Runtime::new(plan, 7, orders)?;
        let boxed = planes.iter().map(|seen| Box::new(TestPlane::start(&runtime, seen)) as Box<dyn Plane>);
        let boxed = boxed.collect();
        runtime.start(boxed, &mut Inherited::default())?;
        Ok(Setup { runtime, planes, log })
    }

    /// Returns the calls of planes since the last call of this.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.log))
    }

    /// Replaces the endpoints of a pool, as discovery does.
    pub fn find(&mut self, pool: &str, list: &[&str]) {
        self.runtime.apply_endpoints(vec![(pool.into(), endpoints(list))]).expect("nothing interrupts");
    }

    pub fn can_pick(&self, pool: &str) -> Vec<&'static str> {
        can_pick(self.runtime.control(), pool)
    }
}

/// Endpoints of [`NAMES`] that can be picked in a pool.
pub fn can_pick(control: &Control, pool: &str) -> Vec<&'static str> {
    let pools = control.pools();
    let view = pools[pool].pool.view();
    let is_in = |name: &str| view.set.members().iter().any(|member| member.id == EndpointId::of(name));
    NAMES.into_iter().filter(|name| is_in(name)).collect()
}

pub const NAMES: [&str; 5] = ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1"];

/// Plan with these pools, and `more` lines in each pool's table.
pub fn plan(pools: &[(&str, &[&str])], more: &str) -> Plan {
    let mut text = format!(
        "[runtime]\nworkers = {WORKERS}\n[listener.web]\nbind = ['127.0.0.1:1']\n[[route]]\npool = '{}'\n",
        pools[0].0
    );
    for (name, endpoints) in pools {
        // A file cannot configure an empty pool, only discovery can produce one.
        let listed = if endpoints.is_empty() { &NAMES[..1] } else { endpoints };
        let list = listed.iter().map(|endpoint| format!("'{endpoint}'")).collect::<Vec<_>>().join(", ");
        writeln!(text, "[pool.{name}]\nendpoints = [{list}]\n{more}").expect("a String takes everything");
    }
    let mut plan = parse(&text);
    for (pool, _) in plan.pools.iter_mut().zip(pools).filter(|(_, (_, endpoints))| endpoints.is_empty()) {
        Arc::make_mut(pool).endpoints.clear();
    }
    plan
}

pub fn parse(text: &str) -> Plan {
    let outcome = evenkeel_config::parse_str("test.toml", text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{}", evenkeel_config::render_text(&outcome.diagnostics, false)))
}

pub fn endpoints(list: &[&str]) -> Vec<plan::Endpoint> {
    let list = list.iter().map(|endpoint| format!("\"{endpoint}\"")).collect::<Vec<_>>().join(", ");
    evenkeel_config::endpoint_list("list.json", &format!("[{list}]")).expect("a good list")
}

/// Waits until `holds` is true; `what` names it if it never is.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::yield_now();
    }
}
