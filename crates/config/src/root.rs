//! What is at the top level of a file, and how does it become a plan, and a plan a file? Also `[defaults]`, from which
//! others start, and `[include]`.

use crate::checks;
use crate::diagnostic::Findings;
use crate::form::Form;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::sections::acme::{ACME, Acme};
use crate::sections::admin::{ADMIN, admin};
use crate::sections::listener::{LISTENER, Listener, listeners};
use crate::sections::pool::{POOL, Pool, Secret, pools};
use crate::sections::resolver::{self, RESOLVER, Resolver};
use crate::sections::retry::{self, DEFAULT_RETRY, Retry};
use crate::sections::route::{ROUTE, Route};
use crate::sections::runtime::{RUNTIME, Runtime};
use crate::sections::telemetry::{self, TELEMETRY, Telemetry};
use crate::sections::timeouts::{DEFAULT_TIMEOUTS, check_order};
use crate::source::Sources;
use crate::table::{Absent, Declared, Key, Kind, Section, Table, quote};
use crate::tree::{self, Node, Tree};

/// The root of every file.
pub(crate) static ROOT: Table = Table {
    path: "the top level",
    help: "A file is TOML 1.1. Keys that nothing reads are errors. Strings may contain `${NAME}` or \
           `${NAME:-default}` for environment variables (`$${` is a literal `${`).",
    inherits: false,
    keys: &[
        Key {
            name: "version",
            kind: Kind::Int { min: 1, max: 1 },
            absent: Absent::Default("1"),
            help: "Version of this language.",
            why: "There is only one so far; a later one will still read files that say 1.",
        },
        table("runtime", Kind::Table(&RUNTIME), "The process.", "its defaults"),
        table(
            "admin",
            Kind::Table(&ADMIN),
            "Metrics and health of the process.",
            "a socket that commands find, and no HTTP",
        ),
        table("telemetry", Kind::Table(&TELEMETRY), "Metrics and the access log.", "its defaults"),
        table("resolver", Kind::Table(&RESOLVER), "How names of endpoints are resolved.", "its defaults"),
        table("acme", Kind::Table(&ACME), "The authority that issues certificates.", "its defaults"),
        table("defaults", Kind::Table(&DEFAULTS), "The defaults of listeners, pools and routes.", "its defaults"),
        table("listener", Kind::Named(&LISTENER), "Where requests come in, by name. At least one.", "none"),
        table("route", Kind::Tables(&ROUTE), "Which pool gets which requests.", "everything to the only pool"),
        table("pool", Kind::Named(&POOL), "Groups of endpoints, by name. At least one.", "none"),
        table("include", Kind::Table(&INCLUDE), "More files.", "none"),
    ],
};

const fn table(name: &'static str, kind: Kind, help: &'static str, absent: &'static str) -> Key {
    Key { name, kind, absent: Absent::Means(absent), help, why: "" }
}

static DEFAULTS: Table = Table {
    path: "[defaults]",
    help: "What listeners, pools and routes start from.",
    inherits: false,
    keys: &[
        table("timeouts", Kind::Table(&DEFAULT_TIMEOUTS), "How long each thing may take.", "its defaults"),
        table("retry", Kind::Table(&DEFAULT_RETRY), "What is tried again.", "its defaults"),
    ],
};

pub(crate) static INCLUDE: Table = Table {
    path: "[include]",
    help: "More files, read as if their keys stood in this one. Tables are joined key by key and `[[route]]`s are put \
           together; a key that two files set is an error. An included file cannot include.",
    inherits: false,
    keys: &[Key {
        name: "files",
        kind: Kind::List(&Kind::Text(Form::Include)),
        absent: Absent::Required(r#"["conf.d/*.toml"]"#),
        help: "Paths relative to this file. The last part may contain `*` for any characters but a leading dot.",
        why: "",
    }],
};

/// Builds the plan. It is only good if there is no error among the findings afterwards. `machine`: where it is to run, if that
/// is to be looked at too.
pub(crate) fn build(root: &Section, machine: Option<&dyn Machine>, findings: &mut Findings) -> Plan {
    let defaults = root.section("defaults");
    check_defaults(&defaults, findings);
    let (runtime, admin) = (Runtime::of(&root.section("runtime")), admin(root));
    let resolver = Resolver::of(&root.section("resolver"));
    resolver::check(&root.section("resolver"), findings);
    let listeners = listeners(root, &defaults, admin.as_ref(), findings);
    let pools = pools(root, &defaults, &resolver, findings);
    let routes = checks::routes(root, &defaults, &listeners, &pools, findings);
    let telemetry = Telemetry::of(&root.section("telemetry"));
    telemetry::check(&root.section("telemetry"), &runtime, &pools, findings);
    let acme = Acme::of(&root.section("acme"));
    let plan = Plan { runtime, admin, telemetry, resolver, acme, listeners, routes: routes.into(), pools };
    checks::acme(root, &plan, findings);
    checks::loops(root, &plan, machine, findings);
    if let Some(machine) = machine {
        checks::machine(root, machine, findings);
        checks::tls(root, machine, findings);
    }
    plan
}

/// What is said of the tables of a pool or route, of those that they start from.
fn check_defaults(defaults: &Section, findings: &mut Findings) {
    let (timeouts, own) = (defaults.section("timeouts"), defaults.section("retry"));
    check_order(&timeouts, findings);
    retry::check(&own, &timeouts, &Retry::of(&own), timeouts.duration("request"), findings);
}

impl Plan {
    /// A file that gives an equal plan, but for secrets in it, for which asterisks stand: what differs from the defaults,
    /// in the order of the reference page.
    pub fn to_toml(&self) -> String {
        let mut out = String::from("version = 1\n");
        self.runtime.lines(&Runtime::unset()).section("[runtime]", &mut out);
        if let Some(admin) = &self.admin {
            admin.lines(&Declared::unset()).section("[admin]", &mut out);
        }
        self.telemetry.lines(&Telemetry::unset()).section("[telemetry]", &mut out);
        self.resolver.lines(&Resolver::unset()).section("[resolver]", &mut out);
        self.acme.lines(&Acme::unset()).section("[acme]", &mut out);
        for listener in &self.listeners {
            let header = format!("[listener.{}]", key(&listener.name));
            listener.lines(&Listener::unset()).section(&header, &mut out);
        }
        let implied = self.pools.len() == 1 && *self.routes == [Route::catch_all(&self.pools[0])];
        let own = |r: &&Route| {
            self.listeners.iter().any(|l| l.pool.is_some() && r.listeners == [l.name.clone()] && r.name == l.name)
        };
        for route in self.routes.iter().filter(|r| !implied && !own(r)) {
            route.written(self.pool(&route.pool).map(|pool| &**pool)).section("[[route]]", &mut out);
        }
        for pool in &self.pools {
            pool.lines(&Pool::unset()).section(&format!("[pool.{}]", key(&pool.name)), &mut out);
        }
        out
    }
}

impl Plan {
    /// The same with its secrets, for who may read those: what gives an equal plan whatever is in it.
    pub fn to_toml_with_secrets(&self) -> String {
        let mut text = self.to_toml();
        let secrets = self.pools.iter().filter_map(|pool| match &pool.sticky.as_ref()?.secret {
            Secret::Inline(secret) => Some((&*pool.name, quote(secret))),
            Secret::File(_) => None,
        });
        let secrets: Vec<_> = secrets.collect();
        if secrets.is_empty() {
            return text;
        }
        let mut sources = Sources::default();
        let file = sources.add("", &text);
        if let (Node { tree: Tree::Table(root), .. }, None) = tree::parse(&sources, file, &mut Findings::default()) {
            let masked = |(pool, _): &(&str, String)| root.find(&["pool", pool, "sticky", "secret"]);
            let mut at: Vec<_> = secrets.iter().filter_map(|one| Some((masked(one)?.span, &one.1))).collect();
            // From the last, so that those before stay where they are.
            at.sort_by_key(|(span, _)| std::cmp::Reverse(*span));
            at.into_iter().for_each(|(span, secret)| text.replace_range(span.start..span.end, secret));
        }
        text
    }
}

/// A name as a key: bare unless it has a dot, which would part it, or what no name has.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_string() } else { quote(name) }
}
