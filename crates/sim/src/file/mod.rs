//! Reader of scenario files. TOML, read by tables of keys like the configuration, with the same diagnostics: all at
//! once, each with its position and a fix.
//!
//! [`points`] makes a tree for each point, [`system`] and [`service`] turn each tree into a scenario, [`planes`] reads
//! the balancers and refuses unsupported settings, [`pool`] puts a pool of a configuration into it, and [`judged`]
//! reads published figures and claims. The `keys` files have a row for each key.

// Order: judged, points, policies, keys, judged_keys, service_keys, system, pool, service, planes, work, work_keys,
// row
mod judged;
mod judged_keys;
mod keys;
mod planes;
mod points;
mod policies;
pub mod pool;
mod row;
mod service;
mod service_keys;
mod system;
mod work;
mod work_keys;

pub use policies::policies;

use crate::experiment::{Experiment, Point};
use crate::metric;
use evenkeel_config::tables::{Document, Section};
use evenkeel_config::{Code, Diagnostic};
use keys::ROOT;
use pool::FromPool;

/// Maximum servers over all points: fits the memory of a laptop.
const SERVERS_MAX: usize = 1_000_000;

/// Result of reading a file.
#[derive(Clone, Debug)]
#[must_use]
pub struct Outcome {
    /// Experiment; `None` exactly if a diagnostic is an error.
    pub experiment: Option<Experiment>,
    /// Diagnostics: errors, then warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a scenario; `name` is shown in diagnostics, and without its extension in reports. Does no I/O and never
/// panics.
pub fn read(name: &str, text: &str) -> Outcome {
    read_with(name, text, None)
}

/// Like [`read`], with a pool in place of the first service's servers and balancing.
pub fn read_with(name: &str, text: &str, pool: Option<&FromPool<'_>>) -> Outcome {
    let mut document = Document::parse(name, text);
    let experiment = if document.is_clean() { experiment(name, &mut document, pool) } else { None };
    let experiment = experiment.filter(|_| document.is_good());
    Outcome { experiment, diagnostics: document.finish() }
}

fn experiment(name: &str, document: &mut Document, pool: Option<&FromPool<'_>>) -> Option<Experiment> {
    let tree = document.tree.clone();
    let variants = points::points(&tree, &mut document.findings);
    let mut points: Vec<Point> = Vec::new();
    let mut servers = 0;
    let mut first: Option<Section> = None;
    for variant in variants {
        let root = document.read(&ROOT, &variant.tree);
        let policies = policies::of(&root, &mut document.findings);
        if let Some((scenario, groups)) = system::scenario(&root, pool, &mut document.findings) {
            let policies = planes::kept(&root, policies, &scenario.services);
            let policies = pool.map_or(policies.clone(), |pool| pool.policies(policies));
            planes::check_policies(&root, &policies, &scenario.services, &mut document.findings);
            servers += scenario.services.iter().map(|s| s.servers.len()).sum::<usize>();
            points.push(Point { label: variant.label, x: variant.x, scenario, groups, policies });
        }
        let root = first.get_or_insert(root);
        if servers > SERVERS_MAX {
            let message = format!("there are more than {SERVERS_MAX} servers, all points together");
            document.findings.add(Code::OutOfRange, root.span_of("service"), message).help("vary less, or count fewer");
            return None;
        }
    }
    // Neither varies, so the tree of the first point will do.
    let root = first?;
    if !document.is_good() {
        return None;
    }
    let published = judged::published(&root, &points, &mut document.findings);
    let claims = judged::claims(&root, &points, &mut document.findings);
    let file = name.rsplit('/').next().unwrap_or(name);
    Some(Experiment {
        name: file.strip_suffix(".toml").unwrap_or(file).to_string(),
        summary: root.text("summary").unwrap_or_default(),
        source: root.text("source"),
        seeds: root.number("seeds"),
        rank: metric::find(root.word("rank"))?,
        points,
        published,
        claims,
    })
}

/// The JSON Schema of a scenario file.
pub fn schema() -> serde_json::Value {
    evenkeel_config::tables::schema_of(&ROOT, "evenkeel scenario")
}

/// The reference page of scenario files, Markdown.
pub fn reference() -> String {
    format!(
        "# Scenario files\n\n<!-- Generated from the tables in crates/sim. `make bless` writes it anew. -->\n\nKeys of \
         the files that `evenkeel sim FILE.toml` reads. [The guide](../guide/simulator.md) explains them with \
         examples, and `evenkeel sim NAME --print` prints a built-in file to start from.\n\nDurations and sizes are \
         strings with a unit: `\"250ms\"`, `\"1m30s\"`, `\"16KiB\"`.\n{}\n## Costs of planes\n\nProcessor time of a \
         request on a separate connection, [measured](../measurements/2026-11-27-kernel-planes.md) on a core of an AMD \
         EPYC with responses of 4 kB. Forwarding in the kernel counts for other processes, so the cost of kernel \
         planes is the difference between the medians of all processes. The 90 % intervals of these medians are 14 to \
         23 us wide. `balancer_work` overrides each cost.\n\n{}",
        evenkeel_config::tables::reference_of(&ROOT),
        crate::planes::table()
    )
}
