//! Values that the log lacks, or has in units that are too coarse.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;
use evenkeel_logs::lacks::REQUIRED;
use evenkeel_sim::replay::quantile;

/// Minimum tries: p99 of fewer is the time of ten requests.
const TRIES_MIN: usize = 1_000;

/// Coarsest unit, as a share of the median duration.
const UNIT_MAX: f64 = 0.34;

pub(super) fn too_few(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let tries = traffic.trace.arrivals.len();
    (tries < TRIES_MIN).then(|| {
        let text = format!("{tries} requests with an endpoint and times are too few; {TRIES_MIN} are needed");
        Doubt::new("coverage", text, "give a longer log")
    })
}

pub(super) fn lacking(record: &Record, _: &Traffic) -> Option<Doubt> {
    let lack = record.lacks.iter().find(|lack| REQUIRED.contains(&lack.need))?;
    let unit = lack.unit_ns.map(|unit| format!(", as times are in units of {} ms", f64::from(unit) / 1e6));
    let text = format!(
        "{:.0} % of the requests lack a value that is needed{}. {}",
        100.0 * lack.share,
        unit.unwrap_or_default(),
        lack.effect.trim_end_matches('.')
    );
    let help = lack.add.map_or_else(
        || "this program cannot log it".to_string(),
        |add| format!("log it by adding to the configuration of that program:\n{add}"),
    );
    Some(Doubt::new("coverage", text, help))
}

pub(super) fn coarse(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let median = quantile(traffic.trace.arrivals.iter().map(|a| a.held_ns).collect(), 0.5);
    let unit = f64::from(traffic.unit_ns);
    (unit > UNIT_MAX * median && unit > 1.0).then(|| {
        let text = format!(
            "times are in units of {} ms, and half of the requests take less than {:.2} ms: work cannot be told from rounding",
            unit / 1e6,
            median / 1e6
        );
        Doubt::new("units", text, "log times in microseconds, or look at slower requests only")
    })
}
