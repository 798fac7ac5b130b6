//! Plans made from values instead of a text: [`Builder`], for providers that have no file.
//!
//! Plan types start from the defaults of the tables that files are read by (`Pool::new`,
//! `..Default::default()`), and a built plan passes the same checks. It equals the plan of a file with the
//! same settings.

use crate::load::{Outcome, parse_values};
use crate::machine::Machine;
use crate::plan::{
    Acme, Admin, CacheMemory, Discovery, Kernel, Listener, Map, Plan, Pool, Providers, Resolver, Route, Runtime,
    Telemetry,
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
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    /// Everything but the routes.
    plan: Plan,
    routes: Vec<Route>,
}

impl Plan {
    /// Starts a plan without listeners and pools.
    pub fn builder() -> Builder {
        let plan = Plan {
            runtime: Runtime::default(),
            admin: None,
            telemetry: Telemetry::default(),
            resolver: Resolver::default(),
            discovery: Discovery::default(),
            providers: Providers::default(),
            acme: Acme::default(),
            cache: CacheMemory::default(),
            kernel: Kernel::default(),
            maps: Vec::new(),
            limits: Vec::new(),
            listeners: Vec::new(),
            routes: Arc::default(),
            pools: Vec::new(),
        };
        Builder { plan, routes: Vec::new() }
    }
}

/// Starts from an existing plan.
impl From<Plan> for Builder {
    fn from(plan: Plan) -> Builder {
        let routes = plan.routes.to_vec();
        Builder { plan, routes }
    }
}

impl Builder {
    /// Sets `[runtime]`: workers, shutdown, log.
    pub fn runtime(mut self, runtime: Runtime) -> Builder {
        self.plan.runtime = runtime;
        self
    }

    /// Sets `[admin]`: metrics, health and the API.
    pub fn admin(mut self, admin: Admin) -> Builder {
        self.plan.admin = Some(admin);
        self
    }

    /// Sets `[telemetry]`: metrics, logs and traces.
    pub fn telemetry(mut self, telemetry: Telemetry) -> Builder {
        self.plan.telemetry = telemetry;
        self
    }

    /// Sets `[resolver]`: name servers and TTL bounds.
    pub fn resolver(mut self, resolver: Resolver) -> Builder {
        self.plan.resolver = resolver;
        self
    }

    /// Sets `[discovery]`: servers that pools ask for their endpoints.
    pub fn discovery(mut self, discovery: Discovery) -> Builder {
        self.plan.discovery = discovery;
        self
    }

    /// Sets `[provider]`: systems that more listeners, routes and pools come from.
    pub fn providers(mut self, providers: Providers) -> Builder {
        self.plan.providers = providers;
        self
    }

    /// Sets `[cache]`: memory for the responses that routes store.
    pub fn cache(mut self, cache: CacheMemory) -> Builder {
        self.plan.cache = cache;
        self
    }

    /// Sets `[kernel]`: rules and programs in the kernel.
    pub fn kernel(mut self, kernel: Kernel) -> Builder {
        self.plan.kernel = kernel;
        self
    }

    /// Sets `[acme]`: the certificate authority.
    pub fn acme(mut self, acme: Acme) -> Builder {
        self.plan.acme = acme;
        self
    }

    /// Adds a map; values and matches use it by its name.
    pub fn map(mut self, map: impl Into<Arc<Map>>) -> Builder {
        self.plan.maps.push(map.into());
        self
    }

    pub fn listener(mut self, listener: impl Into<Arc<Listener>>) -> Builder {
        self.plan.listeners.push(listener.into());
        self
    }

    /// Adds a route. Without any, all requests go to the only pool.
    pub fn route(mut self, route: Route) -> Builder {
        self.routes.push(route);
        self
    }

    pub fn pool(mut self, pool: impl Into<Arc<Pool>>) -> Builder {
        self.plan.pools.push(pool.into());
        self
    }

    /// Checks the plan as a file is checked. `name` is its provider; diagnostics show it with the path of a
    /// value, instead of a file with a line. Their [`Subject`](crate::Subject)s count listeners, routes and pools in
    /// the order in which they were added.
    pub fn build(self, name: &str) -> Outcome {
        self.read(name, None)
    }

    /// Checks the plan, and whether `machine` has everything that it names, as [`check`](crate::check) does for a file.
    pub fn check(self, name: &str, machine: &Machine) -> Outcome {
        self.read(name, Some(machine))
    }

    /// The plan without any check, for a text that a person is to complete.
    pub fn unchecked(self) -> Plan {
        Plan { routes: self.routes.into(), ..self.plan }
    }

    fn read(self, name: &str, machine: Option<&Machine>) -> Outcome {
        let (text, written) = self.unchecked().to_toml_by_subject();
        parse_values(name, (&text, written), machine)
    }
}
