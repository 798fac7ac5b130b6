//! Endpoints that joined or left while the log was written.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;
use crate::warmth::absent;

pub(super) fn joins_or_leaves(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let of = *absent(&traffic.trace).first()?;
    let (ns, part) = of.before.map(|ns| (ns, "first")).or(of.after.map(|ns| (ns, "last")))?;
    let text =
        format!("{} has no request in the {part} {:.0} s: the pool changed", traffic.names[of.member], ns as f64 / 1e9);
    Some(Doubt::new("endpoints", text, "give the part of the log in which all endpoints are used"))
}
