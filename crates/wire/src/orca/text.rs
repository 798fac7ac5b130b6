//! Reports as text: `cpu_utilization=0.3, named_metrics.in_flight=4`. Envoy accepts `=` and `:`, its older releases
//! only `:`.

use super::report::{Malformed, Metric, Taking};

/// Most metrics in a report. More cannot be about an endpoint's load.
const METRICS_MAX: usize = 64;

/// Reads a comma-separated list of metrics.
pub fn read(value: &[u8], taking: &mut Taking<'_>) -> Result<(), Malformed> {
    let mut names: [&[u8]; METRICS_MAX] = [&[]; METRICS_MAX];
    for (i, metric) in value.split(|b| *b == b',').enumerate() {
        let at = metric.iter().position(|b| matches!(b, b'=' | b':')).ok_or(Malformed::Text)?;
        let (name, value) = (metric[..at].trim_ascii(), metric[at + 1..].trim_ascii());
        if names[..i.min(METRICS_MAX)].contains(&name) {
            return Err(Malformed::Twice);
        }
        *names.get_mut(i).ok_or(Malformed::TooLong)? = name;
        taking.take(place(name)?, number(value).ok_or(Malformed::Text)?)?;
    }
    Ok(())
}

/// Returns the metric that a name stands for.
pub fn place(name: &[u8]) -> Result<Metric<'_>, Malformed> {
    let below = |prefix: &[u8]| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    if let Some(name) = below(b"named_metrics.") {
        return Ok(Metric::Named(name));
    }
    match name {
        b"" => Err(Malformed::Text),
        b"cpu_utilization" => Ok(Metric::Cpu),
        b"mem_utilization" => Ok(Metric::Memory),
        b"application_utilization" => Ok(Metric::Application),
        b"rps_fractional" | b"eps" => Ok(Metric::Rate),
        _ if below(b"utilization.").is_some() => Ok(Metric::Share),
        _ => Err(Malformed::Name),
    }
}

/// Reads a decimal number. `inf` and `NaN`, which Rust's parser accepts, are refused by [`Taking::take`].
fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
