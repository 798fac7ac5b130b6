//! Plans that are made of values instead of a text: [`Builder`], for providers that have no file.
//!
//! Plan types start from the defaults of the same tables that files are read by (`Pool::new`, `..Default::default()`), and what is
//! built passes the same checks. A plan built equals the plan of the text that says the same.

use crate::load::{Outcome, parse_values};
use crate::machine::Machine;
use crate::plan::{Acme, Admin, Listener, Plan, Pool, Resolver, Route, Runtime, Telemetry};
use std::sync::Arc;

/// A plan in the making. Nothing in it is checked before it is built.
///
/// ```
/// use evenkeel_config::Plan;
/// use evenkeel_config::plan::{Endpoint, Listener, Pool};
///
/// let endpoints = vec![Endpoint::at("10.0.0.1:8080".parse().unwrap())];
/// let builder = Plan::builder()
///     .listener(Listener::new("web", "127.0.0.1:8080".parse().unwrap()))
///     .pool(Pool { endpoints, ..Pool::new("api") });
/// assert_eq!(builder.clone().build("kubernetes").plan.unwrap().routes[0].pool, "api".into());
///
/// let outcome = builder.pool(Pool { keepalive: None, ..Pool::new("empty") }).build("kubernetes");
/// let shown = evenkeel_config::render_text(&outcome.diagnostics, false);
/// assert!(shown.contains("[pool.empty] has no \"endpoints\"\n  --> kubernetes: pool.empty"), "{shown}");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    runtime: Runtime,
    admin: Option<Admin>,
    telemetry: Telemetry,
    resolver: Resolver,
    acme: Acme,
    listeners: Vec<Arc<Listener>>,
    routes: Vec<Route>,
    pools: Vec<Arc<Pool>>,
}

impl Plan {
    /// A plan in the making, without listeners and pools.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// A plan to be changed.
impl From<Plan> for Builder {
    fn from(plan: Plan) -> Builder {
        let Plan { runtime, admin, telemetry, resolver, acme, listeners, routes, pools } = plan;
        Builder { runtime, admin, telemetry, resolver, acme, listeners, routes: routes.to_vec(), pools }
    }
}

impl Builder {
    /// Sets how the process runs.
    pub fn runtime(self, runtime: Runtime) -> Builder {
        Builder { runtime, ..self }
    }

    /// Sets where the process is looked after.
    pub fn admin(self, admin: Admin) -> Builder {
        Builder { admin: Some(admin), ..self }
    }

    /// Sets metrics and logs.
    pub fn telemetry(self, telemetry: Telemetry) -> Builder {
        Builder { telemetry, ..self }
    }

    /// Sets how names are resolved.
    pub fn resolver(self, resolver: Resolver) -> Builder {
        Builder { resolver, ..self }
    }

    /// Sets the authority that issues certificates.
    pub fn acme(self, acme: Acme) -> Builder {
        Builder { acme, ..self }
    }

    /// Adds a listener.
    pub fn listener(mut self, listener: impl Into<Arc<Listener>>) -> Builder {
        self.listeners.push(listener.into());
        self
    }

    /// Adds a route. With none, everything is sent to the only pool.
    pub fn route(mut self, route: Route) -> Builder {
        self.routes.push(route);
        self
    }

    /// Adds a pool.
    pub fn pool(mut self, pool: impl Into<Arc<Pool>>) -> Builder {
        self.pools.push(pool.into());
        self
    }

    /// Checks the plan as a file is checked. `name`: its provider, for diagnostics, which name the path of a value
    /// where those of a file name a line.
    pub fn build(self, name: &str) -> Outcome {
        self.read(name, None)
    }

    /// Checks the plan, and whether a machine has what it names, as [`check`](crate::check) does for a file.
    pub fn check(self, name: &str, machine: &dyn Machine) -> Outcome {
        self.read(name, Some(machine))
    }

    fn read(self, name: &str, machine: Option<&dyn Machine>) -> Outcome {
        let Builder { runtime, admin, telemetry, resolver, acme, listeners, routes, pools } = self;
        let plan = Plan { runtime, admin, telemetry, resolver, acme, listeners, routes: routes.into(), pools };
        parse_values(name, &plan.to_toml_with_secrets(), machine)
    }
}
