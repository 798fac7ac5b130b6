//! Reports in JSON, by protobuf's mapping: names in either spelling, numbers that may be strings, and no unknown names.

use super::report::{Malformed, Metric, Taking};
use serde_json::{Map, Value};

/// Reads a report from a JSON object.
pub fn read(text: &[u8], taking: &mut Taking<'_>) -> Result<(), Malformed> {
    let object: Map<String, Value> = serde_json::from_slice(text).map_err(|_| Malformed::Json)?;
    for (name, value) in &object {
        // Null stands for an omitted value.
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            "cpu_utilization" | "cpuUtilization" => taking.take(Metric::Cpu, number(value)?)?,
            "mem_utilization" | "memUtilization" => taking.take(Metric::Memory, number(value)?)?,
            "application_utilization" | "applicationUtilization" => taking.take(Metric::Application, number(value)?)?,
            "rps" | "rps_fractional" | "rpsFractional" | "eps" => taking.take(Metric::Rate, number(value)?)?,
            "request_cost" | "requestCost" => each(value, |_, n| taking.take(Metric::Cost, n))?,
            "utilization" => each(value, |_, n| taking.take(Metric::Share, n))?,
            "named_metrics" | "namedMetrics" => each(value, |name, n| taking.take(Metric::Named(name), n))?,
            _ => return Err(Malformed::Name),
        }
    }
    Ok(())
}

fn each(value: &Value, mut take: impl FnMut(&[u8], f64) -> Result<(), Malformed>) -> Result<(), Malformed> {
    let object = value.as_object().ok_or(Malformed::Json)?;
    object.iter().try_for_each(|(name, value)| take(name.as_bytes(), number(value)?))
}

fn number(value: &Value) -> Result<f64, Malformed> {
    match value {
        Value::Number(n) => n.as_f64().ok_or(Malformed::Json),
        Value::String(text) => text.parse().map_err(|_| Malformed::Json),
        _ => Err(Malformed::Json),
    }
}
