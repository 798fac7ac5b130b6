//! The plane of a listener: processor time that forwarding in the kernel saves.

use crate::advice::Advice;
use crate::edit::At;
use crate::inputs::Inputs;
use evenkeel_config::plan::{Listener, Mode, Plane};
use evenkeel_config::planes::{Fidelity, policies};
use evenkeel_sim::planes::{self, PlaneCost};
use evenkeel_view::advice::{Effect, Figure, Verdict};

const KIND: &str = "plane";

/// Part of a core that has to be saved for a change of plane to be worth its losses.
const CORE_SHARE: f64 = 0.05;

pub(super) fn advise(inputs: &Inputs<'_>) -> Vec<Advice> {
    inputs.plan.listeners.iter().filter_map(|listener| of_listener(inputs, listener)).collect()
}

fn of_listener(inputs: &Inputs<'_>, listener: &Listener) -> Option<Advice> {
    let subject = format!("listener \"{}\"", listener.name);
    if listener.mode != Mode::Tcp || listener.plane != Plane::Proxy {
        return None;
    }
    let proxy = planes::find("tcp")?;
    let mut refused = Vec::new();
    for plane in planes::ALL.iter().filter(|plane| plane.is_kernel()) {
        let value = format!("\"{}\"", plane.name);
        match inputs.patch(At::Named("listener", &listener.name), "plane", &value) {
            Err(why) => refused.push(format!("plane = {value}: {why}")),
            Ok((patch, _)) => {
                let mut advice = saved(inputs, listener, proxy, plane);
                advice.patch = Some(patch);
                advice.evidence.extend(refused);
                return Some(advice);
            }
        }
    }
    let says = "leave plane = \"proxy\": check accepts no plane of the kernel here";
    Some(Advice { evidence: refused, ..Advice::new(KIND, subject, Verdict::Leave, says) })
}

fn saved(inputs: &Inputs<'_>, listener: &Listener, proxy: &PlaneCost, plane: &PlaneCost) -> Advice {
    let subject = format!("listener \"{}\"", listener.name);
    let saved_ns = proxy.apart_ns - plane.apart_ns;
    let share = -(saved_ns as f64) / proxy.apart_ns as f64;
    let rate = rate(inputs, &listener.name);
    let worth = CORE_SHARE * 1e9 / saved_ns as f64;
    let (verdict, says) = match rate {
        Some(rate) if rate >= worth => (
            Verdict::Change,
            format!(
                "set plane = \"{}\": at {rate:.0} connections a second it saves {:.0} % of a core",
                plane.name,
                rate * saved_ns as f64 / 1e7
            ),
        ),
        Some(rate) => (
            Verdict::Leave,
            format!(
                "leave plane = \"proxy\": at {rate:.1} connections a second \"{}\" would save {:.2} % of a core",
                plane.name,
                rate * saved_ns as f64 / 1e7
            ),
        ),
        None => (
            Verdict::Depends,
            format!("set plane = \"{}\" from {worth:.0} connections a second on: a twentieth of a core", plane.name),
        ),
    };
    let mut advice = Advice::new(KIND, subject, verdict, says);
    let at = format!("{} us a connection instead of {} us", plane.apart_ns as f64 / 1e3, proxy.apart_ns as f64 / 1e3);
    advice.effect = Some(Effect { figure: Figure::Processor, change: [share; 3], at });
    advice.evidence.push(format!(
        "measured on connections of one request each (docs/measurements/2026-11-27-kernel-planes.md): \"{}\" takes {}",
        plane.name, plane.derived[0]
    ));
    let lost = policies::ROWS.iter().filter_map(|row| match row.keeps[plane.forwarding as usize] {
        Fidelity::Refused(why) if !matches!(row.keeps[proxy.forwarding as usize], Fidelity::Refused(_)) => {
            Some(format!("{} ({why})", row.setting))
        }
        _ => None,
    });
    advice.evidence.push(format!("it does not have: {}", lost.collect::<Vec<_>>().join(", ")));
    advice.repeat = Some(inputs.repeat(KIND));
    advice
}

/// Connections of a listener per second, by the log or the running instance.
fn rate(inputs: &Inputs<'_>, listener: &str) -> Option<f64> {
    let of_log = inputs.traffic.and_then(|traffic| traffic.rate_of(listener));
    of_log.or_else(|| {
        let status = inputs.status?;
        let seconds = status.now_ms.saturating_sub(status.started_ms) as f64 / 1e3;
        let here = status.listeners.iter().find(|one| one.name == listener)?;
        (seconds >= 60.0).then(|| here.accepted as f64 / seconds)
    })
}
