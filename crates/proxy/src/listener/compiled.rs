//! Values compiled from a listener's configuration when a plan is prepared: settings that requests need in another form
//! than their key.

use super::route::Router;
use super::rules::Shared;
use super::tls::ListenerTls;
use super::tls_route::TlsRoutes;
use crate::peer::admission::Admission;
use crate::resource::Resources;
use evenkeel_config::Plan;
use evenkeel_config::plan;
use evenkeel_tls::Challenges;
use evenkeel_wire::http1::{FIELDS_MAX, Limits};
use std::collections::HashMap;
use std::sync::Arc;

/// Values compiled from a listener's plan, once for all workers.
pub struct Compiled {
    pub router: Router,
    /// Router of the paths of internal redirects; `None` if the plan has no internal routes.
    pub internal: Option<Router>,
    /// Router of sessions, for listeners that do not read requests.
    pub tcp: Option<TlsRoutes>,
    /// TLS with clients; `None` for plain listeners.
    pub tls: Option<ListenerTls>,
    /// Answers to ACME challenges; `None` unless the plan uses HTTP-01.
    pub challenges: Option<Arc<Challenges>>,
    /// Limits of a request's head.
    pub limits: Limits,
    /// Trusted client addresses, and the limits per other address.
    pub admission: Arc<Admission>,
    /// Error pages of all listeners and routes.
    pub resources: Arc<Resources>,
}

/// Values prepared for all listeners of a plan.
pub struct Prepared<'p> {
    /// TLS with clients, by listener.
    pub tls: &'p HashMap<Arc<str>, ListenerTls>,
    /// Answers to ACME challenges; `None` unless the plan uses HTTP-01.
    pub challenges: Option<Arc<Challenges>>,
    pub resources: Arc<Resources>,
}

impl Compiled {
    /// Compiles every listener. The result and `shared` are in the order of the plan.
    pub fn of_plan(plan: &Plan, prepared: &Prepared<'_>, shared: &[Shared]) -> Vec<Arc<Compiled>> {
        let (routers, tcp) = (Router::of_plan(plan), TlsRoutes::of_plan(plan));
        let is_internal = plan.routes.iter().any(|route| route.internal);
        let internal = if is_internal { Router::of_internal(plan) } else { Vec::new() };
        let internal = internal.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let routes = routers.into_iter().zip(internal).zip(tcp);
        let listeners = plan.listeners.iter().zip(shared).zip(routes);
        listeners.map(|((listener, shared), routes)| Compiled::new(listener, shared, routes, prepared).into()).collect()
    }

    fn new(
        plan: &plan::Listener,
        shared: &Shared,
        ((router, internal), tcp): ((Router, Option<Router>), Option<TlsRoutes>),
        prepared: &Prepared<'_>,
    ) -> Compiled {
        Compiled {
            router,
            internal,
            tcp,
            tls: prepared.tls.get(&plan.name).cloned(),
            challenges: prepared.challenges.clone(),
            limits: Limits { head: plan.limits.headers, fields: plan.limits.header_count.min(FIELDS_MAX) },
            admission: Admission::new(plan, &shared.per_address).into(),
            resources: prepared.resources.clone(),
        }
    }
}
