//! Every key of the configuration. A file holds a subject: the struct of the plan, the rows of its keys,
//! how they are read and written, and the checks that span several of them.

// Order: acme, cache, kernel, listener, admin, provider, route, telemetry, access_log, runtime, traces,
// discovery & pool, filters, action, error_pages, map, matching, names, resolver, retry, same_site, timeouts, tls_version
pub(crate) mod access_log;
pub(crate) mod acme;
pub(crate) mod action;
pub(crate) mod admin;
pub(crate) mod cache;
pub(crate) mod discovery;
pub(crate) mod error_pages;
pub(crate) mod filters;
pub(crate) mod kernel;
pub(crate) mod listener;
pub(crate) mod map;
pub(crate) mod matching;
pub(crate) mod names;
pub(crate) mod pool;
pub(crate) mod provider;
pub(crate) mod resolver;
pub(crate) mod retry;
pub(crate) mod route;
pub(crate) mod runtime;
pub(crate) mod same_site;
pub(crate) mod telemetry;
pub(crate) mod timeouts;
pub(crate) mod tls_version;
pub(crate) mod traces;
