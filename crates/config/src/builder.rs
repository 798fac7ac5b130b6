//! Plans made from values instead of a text: [`Builder`], for providers that have no file.
//!
//! Plan types start from the defaults of the tables that files are read by (`Pool::new`,
//! `..Default::default()`), and a built plan passes the same checks. It equals the plan of a file with the
//! same settings.

use crate::load::{Outcome, parse_values};
use crate::machine::Machine;
use crate::plan::{
    Acme, Admin, CacheMemory, Discovery, Kernel, Listener, Plan, Pool, Resolver, Route, Runtime, Telemetry,
};
use std::sync::Arc;

/// A plan under construction. Nothing is checked before [`build`](Self::build).
///
/// ```
/// use evenkeel_config::Plan;
/// use evenkeel_config::plan::{Action, Endpoint, Listener, Pool};
///
/// let endpoints = vec![Endpoint::at("10.0.0.1:8080".parse().unwrap())];
/// let builder = Plan::builder()
///     .listener(Listener::new("web", "127.0.0.1:8080".parse().unwrap()))
///     .pool(Pool { endpoints, ..Pool::new("api") });
/// assert_eq!(builder.clone().build("kubernetes").plan.unwrap().routes[0].action, Action::Pool("api".into()));
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
    discovery: Discovery,
    acme: Acme,
    cache: CacheMemory,
    kernel: Kernel,
    listeners: Vec<Arc<Listener>>,
    routes: Vec<Route>,
    pools: Vec<Arc<Pool>>,
}

impl Plan {
    /// Starts a plan without listeners and pools.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Starts from an existing plan.
impl From<Plan> for Builder {
    fn from(plan: Plan) -> Builder {
        let Plan { runtime, admin, telemetry, resolver, discovery, acme, cache, kernel, listeners, routes, pools } =
            plan;
        Builder {
            runtime,
            admin,
            telemetry,
            resolver,
            discovery,
            acme,
            cache,
            kernel,
            listeners,
            routes: routes.to_vec(),
            pools,
        }
    }
}

impl Builder {
    /// Sets `[runtime]`: workers, shutdown, log.
    pub fn runtime(self, runtime: Runtime) -> Builder {
        Builder { runtime, ..self }
    }

    /// Sets `[admin]`: metrics, health and the API.
    pub fn admin(self, admin: Admin) -> Builder {
        Builder { admin: Some(admin), ..self }
    }

    /// Sets `[telemetry]`: metrics, logs and traces.
    pub fn telemetry(self, telemetry: Telemetry) -> Builder {
        Builder { telemetry, ..self }
    }

    /// Sets `[resolver]`: name servers and TTL bounds.
    pub fn resolver(self, resolver: Resolver) -> Builder {
        Builder { resolver, ..self }
    }

    /// Sets `[discovery]`: servers that pools ask for their endpoints.
    pub fn discovery(self, discovery: Discovery) -> Builder {
        Builder { discovery, ..self }
    }

    /// Sets `[cache]`: memory for the responses that routes store.
    pub fn cache(self, cache: CacheMemory) -> Builder {
        Builder { cache, ..self }
    }

    /// Sets `[kernel]`: rules and programs in the kernel.
    pub fn kernel(self, kernel: Kernel) -> Builder {
        Builder { kernel, ..self }
    }

    /// Sets `[acme]`: the certificate authority.
    pub fn acme(self, acme: Acme) -> Builder {
        Builder { acme, ..self }
    }

    pub fn listener(mut self, listener: impl Into<Arc<Listener>>) -> Builder {
        self.listeners.push(listener.into());
        self
    }

    /// Adds a route. Without any, all requests go to the only pool.
    pub fn route(mut self, route: Route) -> Builder {
        self.routes.push(route);
        self
    }

    pub fn pool(mut self, pool: impl Into<Arc<Pool>>) -> Builder {
        self.pools.push(pool.into());
        self
    }

    /// Checks the plan as a file is checked. `name` is its provider; diagnostics show it with the path of a
    /// value, instead of a file with a line.
    pub fn build(self, name: &str) -> Outcome {
        self.read(name, None)
    }

    /// Checks the plan, and whether `machine` has what it names, as [`check`](crate::check) does for a file.
    pub fn check(self, name: &str, machine: &dyn Machine) -> Outcome {
        self.read(name, Some(machine))
    }

    fn read(self, name: &str, machine: Option<&dyn Machine>) -> Outcome {
        let Builder { runtime, admin, telemetry, resolver, discovery, acme, cache, kernel, listeners, routes, pools } =
            self;
        let plan = Plan {
            runtime,
            admin,
            telemetry,
            resolver,
            discovery,
            acme,
            cache,
            kernel,
            listeners,
            routes: routes.into(),
            pools,
        };
        parse_values(name, &plan.to_toml_with_secrets(), machine)
    }
}
