//! The top level of a file: its tables, the build of a [`Plan`] from them, and [`Plan::to_toml`] for the way
//! back. `[defaults]` and `[include]`, which have no struct in the plan, are declared here too.

use crate::checks;
use crate::diagnostic::Findings;
use crate::form::{Form, MASKED_KEY, MASKED_USERS};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::secret::masked::{hash_in, holds_key};
use crate::secret::names::is_secret_field;
use crate::sections::acme::{ACME, Acme};
use crate::sections::admin::{ADMIN, admin};
use crate::sections::cache::{self, CACHE, CacheMemory};
use crate::sections::discovery::{self, DISCOVERY, Discovery};
use crate::sections::filters::sets::{DEFAULT_ROUTE, FILTER_SET};
use crate::sections::filters::{Limit, SHARED_LIMIT, shared_limits};
use crate::sections::kernel::{KERNEL, Kernel};
use crate::sections::listener::{LISTENER, Listener, Mode, UNDERSCORES, listeners};
use crate::sections::map::{MAP, Map, maps};
use crate::sections::matching::{IGNORE_CASE, PATHS};
use crate::sections::pool::{POOL, Pool, Secret, pools};
use crate::sections::provider::{self, PROVIDER, Providers};
use crate::sections::resolver::{self, RESOLVER, Resolver};
use crate::sections::retry::{self, DEFAULT_RETRY, Retry};
use crate::sections::route::{ROUTE, Route};
use crate::sections::runtime::{RUNTIME, Runtime};
use crate::sections::telemetry::{self, TELEMETRY, Telemetry};
use crate::sections::timeouts::{DEFAULT_TIMEOUTS, check_order};
use crate::source::{Sources, Span};
use crate::subject::{Subject, Written};
use crate::table::{Absent, Declared, Key, Kind, Section, Table, quote};
use crate::tree::{self, Node, TableNode, Tree};
use std::sync::Arc;

/// Top level of every configuration file.
pub(crate) static ROOT: Table = Table {
    path: "the top level",
    help: "A file is TOML 1.1. Unknown keys are errors. Strings may refer to environment variables, as `${NAME}` or \
        `${NAME:-default}`; `$${` is a literal `${`.",
    inherits: false,
    keys: &[
        Key {
            name: "version",
            kind: Kind::Int { min: 1, max: 1 },
            absent: Absent::Default("1"),
            help: "Version of the configuration language.",
            why: "Only version 1 exists. Later releases will still read files that set 1.",
        },
        table(
            "runtime",
            Kind::Table(&RUNTIME),
            "Worker threads, shutdown, and the log of the process.",
            "its defaults",
        ),
        table(
            "admin",
            Kind::Table(&ADMIN),
            "Metrics, health and the admin API.",
            "a socket that commands find, and no HTTP",
        ),
        table(
            "telemetry",
            Kind::Table(&TELEMETRY),
            "Metrics, access log, traces and explanations of requests.",
            "its defaults",
        ),
        table(
            "resolver",
            Kind::Table(&RESOLVER),
            "Name servers and TTL bounds for the names of endpoints.",
            "its defaults",
        ),
        table("discovery", Kind::Table(&DISCOVERY), "Servers that pools ask for their endpoints.", "its defaults"),
        table(
            "provider",
            Kind::Table(&PROVIDER),
            "Systems that provide listeners, routes and pools, in addition to the file.",
            "everything comes from the file",
        ),
        table(
            "acme",
            Kind::Table(&ACME),
            "The certificate authority for certificates obtained over ACME.",
            "its defaults",
        ),
        table("cache", Kind::Table(&CACHE), "Memory and disk for the responses that routes store.", "its defaults"),
        table(
            "kernel",
            Kind::Table(&KERNEL),
            "Rules and programs in the kernel, for listeners with a kernel plane.",
            "its defaults",
        ),
        table(
            "defaults",
            Kind::Table(&DEFAULTS),
            "Timeouts, retries, filters and the reading of paths that listeners, pools and routes start from.",
            "its defaults",
        ),
        table("map", Kind::Named(&MAP), "Texts that are looked up by a part of the request, by name.", "none"),
        table("limit", Kind::Named(&SHARED_LIMIT), "Limits that routes share, by name.", "none"),
        table("listener", Kind::Named(&LISTENER), "Addresses that accept clients, by name. At least one.", "none"),
        table("route", Kind::Tables(&ROUTE), "Rules that send requests to pools.", "all requests to the only pool"),
        table("filters", Kind::Named(&FILTER_SET), "Sets of filters that routes share, by name.", "none"),
        table("pool", Kind::Named(&POOL), "Groups of endpoints, by name. At least one.", "none"),
        table("include", Kind::Table(&INCLUDE), "More configuration files to read.", "none"),
    ],
};

const fn table(name: &'static str, kind: Kind, help: &'static str, absent: &'static str) -> Key {
    Key { name, kind, absent: Absent::Means(absent), help, why: "" }
}

static DEFAULTS: Table = Table {
    path: "[defaults]",
    help: "Timeouts, retries, filters and the reading of paths that listeners, pools and routes start from.",
    inherits: false,
    keys: &[
        table("timeouts", Kind::Table(&DEFAULT_TIMEOUTS), "Time limits.", "its defaults"),
        table("retry", Kind::Table(&DEFAULT_RETRY), "Retries and hedging.", "its defaults"),
        table("route", Kind::Table(&DEFAULT_ROUTE), "Filters of routes.", "none"),
        PATHS,
        IGNORE_CASE,
        UNDERSCORES,
    ],
};

pub(crate) static INCLUDE: Table = Table {
    path: "[include]",
    help: "More files to read as if their keys were in this file. Tables are merged key by key, and `[[route]]` \
        entries are concatenated. A key that two files set is an error. Included files cannot include others.",
    inherits: false,
    keys: &[Key {
        name: "files",
        kind: Kind::List(&Kind::Text(Form::Include)),
        absent: Absent::Required(r#"["conf.d/*.toml"]"#),
        help: "Paths relative to this file. The last component may contain `*` (any characters except a leading dot) \
            and `?` (a single character).",
        why: "",
    }],
};

/// Builds the plan, which is valid only if `findings` holds no error afterwards. With a `machine`, files,
/// folders and addresses are also checked against the machine that the plan is for.
pub(crate) fn build(root: &Section, machine: Option<&Machine>, findings: &mut Findings) -> Plan {
    let defaults = root.section("defaults");
    check_defaults(&defaults, findings);
    let (runtime, admin) = (Runtime::of(&root.section("runtime")), admin(root));
    let resolver = Resolver::of(&root.section("resolver"));
    resolver::check(&root.section("resolver"), findings);
    let mut listeners = listeners(root, &defaults, admin.as_ref(), findings);
    let discovery = Discovery::of(&root.section("discovery"));
    discovery::check(&root.section("discovery"), findings);
    let providers = Providers::of(&root.section("provider"));
    provider::check(&root.section("provider"), findings);
    let pools = pools(root, &defaults, &resolver, &discovery, findings);
    let maps = maps(root, runtime.regex_size, findings);
    let limits = shared_limits(root, findings);
    let mut routes = checks::routes(root, &defaults, &listeners, (&pools, &maps), findings);
    routes.iter_mut().for_each(|route| route.filters.share_limits(&limits));
    if defaults.has("route") {
        // Their routes have more than `pool` of a listener can say, and stand for themselves.
        for listener in listeners.iter_mut().filter(|listener| listener.mode == Mode::Http) {
            Arc::make_mut(listener).pool = None;
        }
    }
    let telemetry = Telemetry::of(&root.section("telemetry"));
    telemetry::check(&root.section("telemetry"), &runtime, &pools, findings);
    let acme = Acme::of(&root.section("acme"));
    let cache = CacheMemory::of(&root.section("cache"));
    cache::check(&root.section("cache"), findings);
    let kernel = Kernel::of(&root.section("kernel"));
    let plan = Plan {
        runtime,
        admin,
        telemetry,
        resolver,
        discovery,
        providers,
        acme,
        cache,
        kernel,
        maps,
        limits,
        listeners,
        routes: routes.into(),
        pools,
    };
    checks::acme(root, &plan, findings);
    checks::loops(root, &plan, machine, findings);
    if let Some(machine) = machine {
        checks::machine(root, machine, findings);
        checks::tls(root, machine, findings);
        checks::planes(root, &plan, machine, findings);
    }
    plan
}

/// Checks `[defaults]` as the tables of a pool or route are checked, since those start from it.
fn check_defaults(defaults: &Section, findings: &mut Findings) {
    let (timeouts, own) = (defaults.section("timeouts"), defaults.section("retry"));
    check_order(&timeouts, findings);
    retry::check(&own, &timeouts, &Retry::of(&own), timeouts.duration("request"), findings);
}

impl Plan {
    /// A configuration file that gives an equal plan, except that secrets are replaced by asterisks. Holds
    /// only differences from the defaults, in the order of the reference page.
    pub fn to_toml(&self) -> String {
        self.to_toml_of(&|_| true)
    }

    /// [`to_toml`](Self::to_toml) with only the listeners, routes and pools for which `wanted` is true.
    pub(crate) fn to_toml_of(&self, wanted: &dyn Fn(Subject) -> bool) -> String {
        masked_fields(self.to_toml_with_fields(&|_, _| None, wanted).0)
    }

    /// [`to_toml`](Self::to_toml) with a comment at each listener, route and pool for which `origin` has any. It gets
    /// the key of the table, such as `pool`, and the name.
    pub fn to_toml_by_origin(&self, origin: &dyn Fn(&str, &str) -> Option<Arc<str>>) -> String {
        masked_fields(self.to_toml_with_fields(origin, &|_| true).0)
    }

    /// [`to_toml_of`](Self::to_toml_of) with values of fields that are named like secrets, and the bytes of each subject.
    fn to_toml_with_fields(
        &self,
        origin: &dyn Fn(&str, &str) -> Option<Arc<str>>,
        wanted: &dyn Fn(Subject) -> bool,
    ) -> (String, Written) {
        let comment = |kind: &str, name: &str| {
            origin(kind, name).map(|of| format!(" # {}", of.replace(char::is_control, " "))).unwrap_or_default()
        };
        let (mut out, mut written) = (String::from("version = 1\n"), Written::default());
        self.runtime.lines(Runtime::unset()).section("[runtime]", &mut out);
        if let Some(admin) = &self.admin {
            admin.lines(Declared::unset()).section("[admin]", &mut out);
        }
        self.telemetry.lines(Telemetry::unset()).section("[telemetry]", &mut out);
        self.resolver.lines(Resolver::unset()).section("[resolver]", &mut out);
        self.discovery.lines(Discovery::unset()).section("[discovery]", &mut out);
        self.providers.lines(Providers::unset()).section("[provider]", &mut out);
        self.acme.lines(Acme::unset()).section("[acme]", &mut out);
        self.cache.lines(CacheMemory::unset()).section("[cache]", &mut out);
        self.kernel.lines(Kernel::unset()).section("[kernel]", &mut out);
        for map in &self.maps {
            let header = format!("[map.{}]", key(&map.name));
            map.lines(Map::unset()).table(&header, &mut out);
        }
        for (name, limit) in &self.limits {
            let header = format!("[limit.{}]", key(name));
            limit.lines(Limit::unset()).table(&header, &mut out);
        }
        let listeners = self.listeners.iter().enumerate().filter(|(at, _)| wanted(Subject::Listener(*at)));
        for (at, listener) in listeners {
            let header = format!("[listener.{}]{}", key(&listener.name), comment("listener", &listener.name));
            // The key of all listeners, in the header of the first, belongs to none of them.
            let start = out.len() + "\n[listener.".len();
            listener.lines(Listener::unset()).table(&header, &mut out);
            written.add(start..out.len(), Subject::Listener(at));
        }
        let pools = self.pools_by_name();
        for (at, route) in self.written_routes().filter(|(at, _)| wanted(Subject::Route(*at))) {
            let start = out.len() + "\n[[route".len();
            route
                .written(route.action.pool().and_then(|pool| pools.get(&**pool)).map(|at| &*self.pools[*at]))
                .table(&format!("[[route]]{}", comment("route", &route.name)), &mut out);
            written.add(start..out.len(), Subject::Route(at));
        }
        for (at, pool) in self.pools.iter().enumerate().filter(|(at, _)| wanted(Subject::Pool(*at))) {
            let header = format!("[pool.{}]{}", key(&pool.name), comment("pool", &pool.name));
            let start = out.len() + "\n[pool.".len();
            pool.lines(Pool::unset()).table(&header, &mut out);
            written.add(start..out.len(), Subject::Pool(at));
        }
        (out, written)
    }

    /// Routes that the text of the plan has, with their positions: not those that `pool` of a listener, or the only
    /// pool, stands for.
    pub(crate) fn written_routes(&self) -> impl Iterator<Item = (usize, &Route)> {
        let implied = self.pools.len() == 1 && *self.routes == [Route::catch_all(&self.pools[0])];
        let own = |r: &Route| {
            self.listeners.iter().any(|l| l.pool.is_some() && r.listeners == [l.name.clone()] && r.name == l.name)
        };
        self.routes.iter().enumerate().filter(move |(_, route)| !implied && !own(route))
    }
}

impl Plan {
    /// [`to_toml`](Self::to_toml) with secrets in clear, so that the file gives an equal plan in every case.
    pub fn to_toml_with_secrets(&self) -> String {
        self.to_toml_by_subject().0
    }

    /// [`to_toml_with_secrets`](Self::to_toml_with_secrets), and the bytes of each listener, route and pool.
    pub(crate) fn to_toml_by_subject(&self) -> (String, Written) {
        let (mut text, mut written) = self.to_toml_with_fields(&|_, _| None, &|_| true);
        let secrets = self.pools.iter().filter_map(|pool| match &pool.sticky.as_ref()?.secret {
            Secret::Inline(secret) => Some((&*pool.name, quote(secret))),
            Secret::File(_) | Secret::Made => None,
        });
        let secrets: Vec<_> = secrets.collect();
        if secrets.is_empty() {
            return (text, written);
        }
        let mut sources = Sources::default();
        let file = sources.add("", &text);
        if let (Node { tree: Tree::Table(root), .. }, None) = tree::parse(&sources, file, &mut Findings::default()) {
            let masked = |(pool, _): &(&str, String)| root.find(&["pool", pool, "sticky", "secret"]);
            let mut at: Vec<_> = secrets.iter().filter_map(|one| Some((masked(one)?.span, &one.1))).collect();
            // Last span first, so that earlier spans stay valid.
            at.sort_by_key(|(span, _)| std::cmp::Reverse(*span));
            for (span, secret) in at {
                text.replace_range(span.start..span.end, secret);
                written.replaced(&(span.start..span.end), secret.len());
            }
        }
        (text, written)
    }
}

/// The text of a plan with the values masked that routes and pools set fields to whose names denote secrets. A value
/// that is a variable holds none.
fn masked_fields(mut text: String) -> String {
    if !text.contains("_headers = ") && !holds_key(&text) && hash_in(&text).is_none() {
        return text;
    }
    let mut sources = Sources::default();
    let file = sources.add("", &text);
    let (Node { tree: Tree::Table(root), .. }, None) = tree::parse(&sources, file, &mut Findings::default()) else {
        return text;
    };
    let routes =
        if let Some(Node { tree: Tree::List(routes), .. }) = root.find(&["route"]) { &routes[..] } else { &[] };
    let pools =
        if let Some(Node { tree: Tree::Table(pools), .. }) = root.find(&["pool"]) { &pools.entries[..] } else { &[] };
    let mut at = Vec::new();
    for owner in routes.iter().chain(pools.iter().map(|pool| &pool.node)) {
        let Tree::Table(owner) = &owner.tree else { continue };
        for fields in ["request_headers", "response_headers"].iter().flat_map(|headers| fields_of(owner, headers)) {
            let is_variable = |node: &Node| matches!(&node.tree, Tree::Text(value) if value.starts_with('{') && value.find('}') == Some(value.len() - 1));
            let secret = fields.entries.iter().filter(|e| is_secret_field(&e.key) && !is_variable(&e.node));
            at.extend(secret.map(|entry| entry.node.span));
        }
    }
    let mut masked: Vec<(Span, String)> = at.into_iter().map(|span| (span, quote("***"))).collect();
    let mut keys = Vec::new();
    hidden_texts(&Tree::Table(root), &mut keys);
    masked.extend(keys.into_iter().map(|(span, mask)| (span, quote(mask))));
    // Last span first, so that earlier spans stay valid.
    masked.sort_unstable_by_key(|(span, _)| std::cmp::Reverse(*span));
    masked.into_iter().for_each(|(span, mask)| text.replace_range(span.start..span.end, &mask));
    text
}

/// The tables of fields with values in a table that changes fields, and in its edits.
fn fields_of<'t>(owner: &'t TableNode, headers: &str) -> Vec<&'t TableNode> {
    let Some(Node { tree: Tree::Table(headers), .. }) = owner.find(&[headers]) else { return Vec::new() };
    let edits =
        if let Some(Node { tree: Tree::List(edits), .. }) = headers.find(&["edits"]) { &edits[..] } else { &[] };
    let tables = edits.iter().filter_map(|edit| if let Tree::Table(edit) = &edit.tree { Some(edit) } else { None });
    let tables = std::iter::once(headers).chain(tables);
    let fields = tables.flat_map(|table| ["set", "add"].iter().filter_map(|key| table.find(&[key])));
    fields.filter_map(|node| if let Tree::Table(fields) = &node.tree { Some(fields) } else { None }).collect()
}

/// Collects the places of texts that hold a private key in PEM, or hashes of passwords, with their masks.
fn hidden_texts(tree: &Tree, found: &mut Vec<(Span, &'static str)>) {
    let mut at = |node: &Node| match &node.tree {
        Tree::Text(text) if holds_key(text) => found.push((node.span, MASKED_KEY)),
        Tree::Text(text) if hash_in(text).is_some() => found.push((node.span, MASKED_USERS)),
        below => hidden_texts(below, found),
    };
    match tree {
        Tree::List(nodes) => nodes.iter().for_each(at),
        Tree::Table(table) => table.entries.iter().for_each(|entry| at(&entry.node)),
        _ => {}
    }
}

/// A name as a TOML key: bare if possible, else quoted (a dot would split it).
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_string() } else { quote(name) }
}
