//! Registry of experiments: a row each, from which the subcommands are made. A new experiment is its
//! file, a `mod` line and a row.

// Order: advise, default_algorithm, dns_scaling, dns_cost, failure, floods, herd, mytime, overhead, planes, prequal,
// protocol_cost, reload, slow_clients, tower, udp_cost, whatif
mod advise;
mod default_algorithm;
mod dns_cost;
mod dns_scaling;
mod failure;
mod floods;
mod herd;
mod mytime;
mod overhead;
mod planes;
mod prequal;
pub mod protocol_cost;
mod reload;
mod slow_clients;
mod tower;
mod udp_cost;
mod whatif;

use crate::experiment::Experiment;

/// All experiments, in the order of the help.
pub static ALL: &[&Experiment] = &[
    &protocol_cost::HTTP,
    &mytime::EXPERIMENT,
    &default_algorithm::EXPERIMENT,
    &herd::EXPERIMENT,
    &prequal::EXPERIMENT,
    &tower::EXPERIMENT,
    &planes::EXPERIMENT,
    &overhead::EXPERIMENT,
    &protocol_cost::TCP,
    &protocol_cost::H2,
    &protocol_cost::H3,
    &protocol_cost::TLS,
    &failure::EXPERIMENT,
    &reload::EXPERIMENT,
    &slow_clients::EXPERIMENT,
    &floods::EXPERIMENT,
    &dns_cost::EXPERIMENT,
    &dns_scaling::EXPERIMENT,
    &udp_cost::EXPERIMENT,
    &whatif::EXPERIMENT,
    &advise::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_experiment_has_its_own_name_and_docs() {
        for experiment in ALL {
            assert_eq!(ALL.iter().filter(|e| e.name == experiment.name).count(), 1, "{}", experiment.name);
            assert!(!experiment.summary.is_empty() && !experiment.docs.is_empty(), "{}", experiment.name);
            (experiment.args)(clap::Command::new(experiment.name)).debug_assert();
        }
    }
}
