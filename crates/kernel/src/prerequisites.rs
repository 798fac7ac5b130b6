//! Prerequisites of the planes of a plan on this machine, for starts and for `check`.

use crate::blueprint::Blueprint;
use crate::driver::{Driver, Lack};
use crate::drivers;
use evenkeel_config::plan::{self, Plane as Mechanism};
use evenkeel_config::{Machine, NoPlane, Plan};
use rustix::thread::{CapabilitySet, capabilities};
use std::collections::BTreeSet;

/// Mechanisms that a plan needs.
pub struct Prerequisites {
    /// A driver for each mechanism.
    pub drivers: Vec<(Mechanism, Box<dyn Driver>)>,
    /// Everything that the machine lacks for them.
    pub lacks: Vec<(Mechanism, Lack)>,
}

impl Prerequisites {
    /// Asks the kernel about each mechanism, without changing anything.
    pub fn of(blueprints: &[Blueprint], settings: &plan::Kernel) -> Prerequisites {
        let mut found = Prerequisites { drivers: Vec::new(), lacks: Vec::new() };
        let mechanisms: BTreeSet<Mechanism> = blueprints.iter().map(|blueprint| blueprint.plane).collect();
        for mechanism in mechanisms {
            let Some(driver) = drivers::of(mechanism, settings) else {
                found.lacks.push((mechanism, not_built(mechanism)));
                continue;
            };
            let of_mechanism = blueprints.iter().filter(|blueprint| blueprint.plane == mechanism);
            let services: Vec<_> = of_mechanism.map(|it| it.empty(driver.table_max())).collect();
            found.lacks.extend(driver.lacks(&services).into_iter().map(|lack| (mechanism, lack)));
            found.drivers.push((mechanism, driver));
        }
        found
    }
}

/// Capabilities that a mechanism needs.
fn capabilities_of(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Ebpf => "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
        _ => "CAP_NET_ADMIN",
    }
}

fn not_built(mechanism: Mechanism) -> Lack {
    let built: Vec<String> =
        drivers::BUILT.iter().map(|mechanism| format!("plane = \"{}\"", mechanism.name())).collect();
    Lack::new(
        format!("plane \"{}\" is not available in this build", mechanism.name()),
        format!("set {} or plane = \"proxy\"", built.join(", ")),
    )
}

/// Adds questions to the kernel about planes to a machine.
pub fn with_planes(machine: Machine) -> Machine {
    Machine { planes: Box::new(planes), ..machine }
}

/// Reasons for which the kernel does not forward for listeners of a plan.
fn planes(plan: &Plan) -> Vec<NoPlane> {
    let blueprints = Blueprint::all(plan);
    // Without the capability every question to the kernel has the same answer.
    let may_ask = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_ADMIN));
    let lack = |(plane, lack): (Mechanism, Lack)| NoPlane {
        plane,
        is_error: !lack.is_warning,
        problem: lack.problem,
        help: lack.help,
    };
    if may_ask || blueprints.is_empty() {
        return Prerequisites::of(&blueprints, &plan.kernel).lacks.into_iter().map(lack).collect();
    }
    let mechanisms: BTreeSet<Mechanism> = blueprints.iter().map(|blueprint| blueprint.plane).collect();
    let one = |plane: Mechanism| match drivers::of(plane, &plan.kernel) {
        None => lack((plane, not_built(plane))),
        Some(_) => NoPlane {
            plane,
            is_error: false,
            problem: format!("this user may not check the kernel for plane \"{}\"", plane.name()),
            help: format!("run check as the user that runs evenkeel; that user needs {}", capabilities_of(plane)),
        },
    };
    mechanisms.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_config::{check_from, parse_str};
    use std::collections::BTreeMap;
    use std::io;
    use std::path::Path;

    fn text(plane: &str) -> String {
        format!(
            "[listener.vip]\nbind = ['127.0.0.9:9']\nmode = 'tcp'\nplane = '{plane}'\npool = 'p'\n[pool.p]\n\
             balance = 'round_robin'\nendpoints = ['127.0.0.1:9']\n"
        )
    }

    #[test]
    fn a_mechanism_without_a_driver_is_a_lack() {
        for plane in [Mechanism::Nftables, Mechanism::Ebpf, Mechanism::Ipvs] {
            let plan = parse_str("test.toml", &text(plane.name()), &|_| None).plan.expect("a plan");
            let found = planes(&plan);
            let says = |lack: &NoPlane| lack.is_error && lack.problem.contains("not available in this build");
            assert_eq!(found.iter().any(says), !drivers::BUILT.contains(&plane), "{}: {found:?}", plane.name());
        }
    }

    struct Only(String);

    impl evenkeel_config::Files for Only {
        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Ok(self.0.clone().into_bytes())
        }

        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    /// A machine that lacks a plane, or whose user may not ask.
    fn lacking(is_error: bool) -> Machine {
        let (problem, help) = ("no plane".to_owned(), "another one".to_owned());
        let lack = NoPlane { plane: Mechanism::Nftables, is_error, problem, help };
        Machine {
            has: Box::new(|_| Ok(())),
            is_own: Box::new(|_| false),
            planes: Box::new(move |_| vec![lack.clone()]),
            ..Machine::this()
        }
    }

    #[test]
    fn a_lack_is_reported_at_the_plane_of_its_listener() {
        let codes = BTreeMap::from([(true, "EK0216"), (false, "EK0315")]);
        for (is_error, code) in codes {
            let outcome = check_from(&Only(text("nftables")), Path::new("t.toml"), &|_| None, &lacking(is_error));
            let [one] = &outcome.diagnostics[..] else { panic!("{:?}", outcome.diagnostics) };
            assert_eq!(
                (one.code.as_str(), &*one.message, one.help.as_deref()),
                (code, "no plane", Some("another one"))
            );
            assert_eq!(one.at.range.as_ref().map(|range| range.start.line), Some(4));
            assert_eq!(outcome.plan.is_none(), is_error);
        }
    }
}
