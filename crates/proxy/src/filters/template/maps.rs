//! Maps of a plan: tables from the configuration and from files, built once for all workers and read again when a file
//! changes.

use crate::filters::watched_files::{self, WatchedFiles};
use crate::resource::Resource;
use evenkeel_balance::published::{Published, Reader};
use evenkeel_config::plan::{self, Action, Template, Variable};
use evenkeel_config::{MAP_FILE_MAX, MapFaults, MapTable, Plan, file_rows};
use evenkeel_runtime::Diagnostic;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of counters of a map, so that workers seldom write the same.
const SHARDS: usize = 16;

/// Number that a metric shows of a map.
type Number = fn(&Map) -> u64;

/// Maps of a plan, in its order.
#[derive(Debug, Default)]
pub struct Maps {
    all: Vec<Arc<Map>>,
    by_name: HashMap<Arc<str>, usize>,
}

/// A map of a plan and its table.
#[derive(Debug)]
pub struct Map {
    pub plan: Arc<plan::Map>,
    /// Names that its values must have, if it chooses pools.
    allowed: Option<Arc<[Arc<str>]>>,
    /// Largest program of a regular expression, in bytes.
    regex_size: usize,
    table: Published<MapTable>,
    files: WatchedFiles,
    /// True if the file has changed and the table does not have its rows.
    is_behind: AtomicBool,
    counts: Arc<Counts>,
}

/// Counts of a map, kept across plans.
#[derive(Debug, Default)]
struct Counts {
    /// Files with wrong rows, or that could not be read.
    failures: AtomicU64,
    unmatched: [Shard; SHARDS],
}

/// A counter that shares no cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

impl Resource for Maps {
    /// Reads the maps of a plan with their files. A map that is the same as before, with an unchanged file, keeps its
    /// table.
    ///
    /// # Errors
    /// The files that cannot be read, and the wrong rows.
    fn next(plan: &Plan, before: Option<&Arc<Maps>>) -> Result<Arc<Maps>, Vec<Diagnostic>> {
        let (mut maps, mut errors) = (Maps::default(), Vec::new());
        let allowed = allowed(plan);
        for map in &plan.maps {
            let old = before.and_then(|before| before.get(&map.name));
            let allowed = allowed.get(&map.name).cloned();
            let regex_size = plan.runtime.regex_size;
            let next = match old.filter(|old| old.is_for(map, allowed.as_ref(), regex_size)) {
                Some(old) => Ok(old.clone()),
                None => Map::new(map, allowed, regex_size, old).map(Arc::new),
            };
            match next {
                Ok(next) => {
                    maps.by_name.insert(map.name.clone(), maps.all.len());
                    maps.all.push(next);
                }
                Err(error) => errors.push(Diagnostic::Machine {
                    problem: format!("map \"{}\": {error}", map.name),
                    help: Some("each line is a key, white space and a value".to_string()),
                    of: Vec::new(),
                }),
            }
        }
        if errors.is_empty() { Ok(maps.into()) } else { Err(errors) }
    }

    fn has_files(&self) -> bool {
        self.all.iter().any(|map| !map.files.is_empty())
    }

    fn look(&self) {
        self.all.iter().for_each(|map| map.look());
    }

    fn collect(&self, _: &Plan, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges: [(&str, &str, Number); 2] = [
            ("evenkeel_map_rows", "Rows of the map", |map| map.rows() as u64),
            ("evenkeel_map_bytes", "Memory of the table of the map", |map| map.bytes() as u64),
        ];
        for (name, help, value) in gauges {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for map in &self.all {
                let value = i64::try_from(value(map)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&[("map", &*map.plan.name)])?)?;
            }
        }
        let counters: [(&str, &str, Number); 2] = [
            ("evenkeel_map_unmatched", "Lookups for which no row of the map matched", Map::unmatched),
            (
                "evenkeel_map_reload_failures",
                "Changes of the file of the map that were not used, as a row is wrong or the file cannot be read",
                |map| map.counts.failures.load(Ordering::Relaxed),
            ),
        ];
        for (name, help, value) in counters {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for map in &self.all {
                ConstCounter::new(value(map)).encode(family.encode_family(&[("map", &*map.plan.name)])?)?;
            }
        }
        Ok(())
    }
}

/// Names that the values of maps must have, by map: those of pools, if the map chooses pools or is the default of such a
/// map.
fn allowed(plan: &Plan) -> HashMap<Arc<str>, Arc<[Arc<str>]>> {
    let mut allowed: HashMap<Arc<str>, Arc<[Arc<str>]>> = HashMap::new();
    for route in &*plan.routes {
        let Action::Choice(choice) = &route.action else { continue };
        let (mut next, mut seen) = (Some(choice.map.clone()), BTreeSet::new());
        while let Some(map) = next.take_if(|name| seen.insert(name.clone())).and_then(|name| plan.map(&name)) {
            let both = match allowed.get(&map.name) {
                Some(others) => choice.pools.iter().filter(|pool| others.contains(pool)).cloned().collect(),
                None => choice.pools.clone(),
            };
            allowed.insert(map.name.clone(), both);
            next = map.default.iter().flat_map(Template::variables).find_map(|variable| match variable {
                Variable::Map(name) => Some(name.clone()),
                _ => None,
            });
        }
    }
    allowed
}

impl Maps {
    /// Returns `None` if the plan has no such map.
    pub fn get(&self, name: &str) -> Option<&Arc<Map>> {
        self.by_name.get(name).and_then(|at| self.all.get(*at))
    }

    /// All maps, in the order of the plan.
    pub fn all(&self) -> &[Arc<Map>] {
        &self.all
    }
}

impl Map {
    fn new(
        plan: &Arc<plan::Map>,
        allowed: Option<Arc<[Arc<str>]>>,
        regex_size: usize,
        before: Option<&Arc<Map>>,
    ) -> Result<Map, String> {
        let files = WatchedFiles::new(plan.file.iter().cloned().collect());
        let table = Published::new(read(plan, allowed.as_deref(), regex_size)?);
        let counts = before.map_or_else(Arc::default, |before| before.counts.clone());
        Ok(Map { plan: plan.clone(), allowed, regex_size, table, files, is_behind: AtomicBool::new(false), counts })
    }

    /// True if this map would have the same table.
    fn is_for(&self, plan: &plan::Map, allowed: Option<&Arc<[Arc<str>]>>, regex_size: usize) -> bool {
        (&*self.plan, self.allowed.as_ref(), self.regex_size) == (plan, allowed, regex_size)
            && !self.is_behind.load(Ordering::Relaxed)
            && self.files.are_as_read()
    }

    /// The table as a worker sees it.
    pub fn reader(&self) -> Reader<MapTable> {
        self.table.reader()
    }

    /// Number of rows of the current table.
    pub fn rows(&self) -> usize {
        self.table.current().len()
    }

    /// Memory of the table, in bytes.
    pub fn bytes(&self) -> usize {
        self.table.current().memory()
    }

    /// Counts a lookup of a worker for which no row matched.
    pub fn count_unmatched(&self, worker: usize) {
        self.counts.unmatched[worker % SHARDS].0.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of lookups for which no row matched.
    pub fn unmatched(&self) -> u64 {
        self.counts.unmatched.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum()
    }

    /// True if the rows in use are older than the file, which is wrong.
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    fn look(&self) {
        self.files.look(|| {
            let table = read(&self.plan, self.allowed.as_deref(), self.regex_size);
            self.is_behind.store(table.is_err(), Ordering::Relaxed);
            match table {
                Ok(table) => {
                    tracing::info!(map = &*self.plan.name, rows = table.len(), "map reloaded");
                    self.table.publish(table);
                }
                Err(error) => {
                    self.counts.failures.fetch_add(1, Ordering::Relaxed);
                    tracing::error!("keeping the previous rows of map \"{}\": {error}", self.plan.name);
                }
            }
        });
    }
}

/// Builds the table of a map from its rows or its file.
fn read(plan: &plan::Map, allowed: Option<&[Arc<str>]>, regex_size: usize) -> Result<MapTable, String> {
    let name = plan.file.as_deref().map_or_else(String::new, |file| file.display().to_string());
    let text = plan.file.as_deref().map_or(Ok(Vec::new()), read_file)?;
    let table = || {
        let rows = if plan.file.is_some() { file_rows(&name, &text)? } else { plan.own_rows() };
        if let Some(allowed) = allowed {
            let allowed: BTreeSet<&[u8]> = allowed.iter().map(|pool| pool.as_bytes()).collect();
            let mut faults = MapFaults::default();
            for row in rows.iter().filter(|row| !allowed.contains(&*row.value)) {
                let value = String::from_utf8_lossy(&row.value);
                let message = format!("\"{value}\" is not a pool that the map can choose");
                faults.add(row.line, message, "write the name of a pool for HTTP, or add the pool first");
            }
            if !faults.first.is_empty() {
                return Err(faults);
            }
        }
        MapTable::new(plan.of, plan.ignore_case, rows, regex_size)
    };
    table().map_err(|faults| faults.in_file(&name))
}

fn read_file(file: &Path) -> Result<Vec<u8>, String> {
    let text = watched_files::read(file, MAP_FILE_MAX)?;
    match text.len() {
        ..=MAP_FILE_MAX => Ok(text),
        _ => Err(format!("{} is larger than {} MiB", file.display(), MAP_FILE_MAX >> 20)),
    }
}

#[cfg(test)]
#[path = "maps_tests.rs"]
mod tests;
