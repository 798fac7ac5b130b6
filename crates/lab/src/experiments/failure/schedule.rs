//! Schedule of faults, from a seed and a length: a single endpoint at a time, each kind of fault once, with time
//! to recover after it.

use crate::endpoint::{Endpoint, Mode};
use crate::error::{Error, Result};
use crate::hosts::Loopback;
use crate::rng::Rng;
use crate::study::Claim;
use std::time::Duration;

/// Kind of fault, with its claims.
pub struct Fault {
    pub name: &'static str,
    /// Description of the fault, and of the endpoint's health check during it.
    pub about: &'static str,
    how: How,
    /// True if the endpoint can record requests that the fault hurts. Otherwise every failure meanwhile
    /// counts as caused by the fault.
    pub writes_down: bool,
    /// Claims on failures, the time to steer away, and the 99th percentile.
    pub claims: [Claim; 3],
}

enum How {
    Kill,
    Stop,
    Be(Mode),
    /// Repeated kills and revivals.
    Flap,
    /// Loss of this percentage of packets.
    Lose(u8),
}

macro_rules! claims {
    ($name:literal) => {
        [
            Claim::ours(concat!(
                $name,
                ": through evenkeel at most as many requests fail as through the best of the others"
            )),
            Claim::ours(concat!($name, ": evenkeel steers away as soon as the best of the others")),
            Claim::ours(concat!(
                $name,
                ": the 99th percentile through evenkeel is at most that through the best of the others"
            )),
        ]
    };
}

/// All faults; short runs have the first faults.
pub static FAULTS: [Fault; 12] = [
    Fault {
        name: "killed",
        about: "the process dies (SIGKILL): its connections are reset, new ones refused",
        how: How::Kill,
        writes_down: false,
        claims: claims!("killed"),
    },
    Fault {
        name: "hung",
        about: "accepts and reads, never answers, nor health checks",
        how: How::Be(Mode::Hang),
        writes_down: true,
        claims: claims!("hung"),
    },
    Fault {
        name: "503",
        about: "answers 503 at once, and fails health checks",
        how: How::Be(Mode::Error503),
        writes_down: true,
        claims: claims!("503"),
    },
    Fault {
        name: "slow",
        about: "takes 100 ms instead of 10, and still passes health checks",
        how: How::Be(Mode::Slow),
        writes_down: true,
        claims: claims!("slow"),
    },
    Fault {
        name: "reset in head",
        about: "resets within the head of the response; health checks pass",
        how: How::Be(Mode::ResetHead),
        writes_down: true,
        claims: claims!("reset in head"),
    },
    Fault {
        name: "flapping",
        about: "the process dies and comes back, half a second each on average",
        how: How::Flap,
        writes_down: false,
        claims: claims!("flapping"),
    },
    Fault {
        name: "half-open",
        about: "its host vanishes: packets to and from it are dropped without a word, and connections stay established",
        how: How::Lose(100),
        writes_down: false,
        claims: claims!("half-open"),
    },
    Fault {
        name: "lossy",
        about: "ten per cent of the packets to and from it are lost",
        how: How::Lose(10),
        writes_down: false,
        claims: claims!("lossy"),
    },
    Fault {
        name: "stopped",
        about: "the process is stopped (SIGSTOP): the kernel still accepts, no thread reads",
        how: How::Stop,
        writes_down: true,
        claims: claims!("stopped"),
    },
    Fault {
        name: "500",
        about: "answers 500 at once, but passes health checks",
        how: How::Be(Mode::Error500),
        writes_down: true,
        claims: claims!("500"),
    },
    Fault {
        name: "reset in body",
        about: "resets within the body of the response, which cannot be mended; health checks pass",
        how: How::Be(Mode::ResetBody),
        writes_down: true,
        claims: claims!("reset in body"),
    },
    Fault {
        name: "reset on accept",
        about: "resets each connection that it accepts, and each that it has at its next request",
        how: How::Be(Mode::ResetAccept),
        writes_down: false,
        claims: claims!("reset on accept"),
    },
];

impl Fault {
    /// True if it needs a network whose packets can be dropped.
    pub fn drops_packets(&self) -> bool {
        matches!(self.how, How::Lose(_))
    }

    /// Breaks an endpoint in this way.
    ///
    /// # Errors
    /// If it does not break.
    pub fn strike(&self, endpoint: &mut Endpoint, network: Option<&Loopback>) -> Result<()> {
        match self.how {
            How::Kill | How::Flap => endpoint.kill(),
            How::Stop => {
                endpoint.stop();
                Ok(())
            }
            How::Be(mode) => endpoint.set(mode),
            How::Lose(percent) => {
                let network =
                    network.ok_or_else(|| Error::Wrong(format!("{} takes a network of its own", self.name)))?;
                network.lose(percent, endpoint.address)
            }
        }
    }

    /// Makes the endpoint healthy again.
    ///
    /// # Errors
    /// If it does not come back.
    pub fn mend(&self, endpoint: &mut Endpoint, network: Option<&Loopback>) -> Result<()> {
        match network.filter(|_| self.drops_packets()) {
            Some(network) => network.heal(),
            None => endpoint.revive(),
        }
    }

    /// Times of recovery and relapse, alternating, between its start and its end.
    fn turns(&self, rng: &mut Rng, from: Duration, until: Duration) -> Vec<Duration> {
        let mut at = from;
        let next = || {
            // From a quarter to three quarters of a second.
            at += Duration::from_millis(250) + Duration::from_millis(500).mul_f64(rng.unit());
            (at < until).then_some(at)
        };
        if matches!(self.how, How::Flap) { std::iter::from_fn(next).collect() } else { Vec::new() }
    }
}

/// Fault and the recovery after it. Times count from the first request.
pub struct Lap {
    pub fault: &'static Fault,
    pub endpoint: usize,
    pub from: Duration,
    /// Times of recovery and relapse, alternating.
    pub turns: Vec<Duration>,
    pub until: Duration,
    pub to: Duration,
}

/// Time at the start during which all endpoints are healthy.
pub const LEAD_IN: Duration = Duration::from_secs(2);
/// Minimum length of a lap: checks need a second to detect a fault, and another to detect recovery.
pub const LAP_MIN: Duration = Duration::from_secs(5);
/// Share of a lap that the fault lasts.
const BROKEN: f64 = 0.4;

/// Plans as many of these faults as fit into `length`, in random order, each at a random endpoint.
pub fn plan(seed: u64, length: Duration, endpoints: usize, faults: &[&'static Fault]) -> Vec<Lap> {
    let time = length.saturating_sub(LEAD_IN);
    let fit = (time.as_nanos() / LAP_MIN.as_nanos()) as usize;
    let laps = fit.clamp(1, faults.len());
    let each = time / laps as u32;
    let mut rng = Rng::new(seed);
    let mut faults = faults[..laps].to_vec();
    rng.shuffle(&mut faults);
    let lap = |(number, fault): (usize, &'static Fault)| {
        let from = LEAD_IN + each * number as u32;
        let (endpoint, until) = (rng.below(endpoints), from + each.mul_f64(BROKEN));
        Lap { fault, endpoint, from, turns: fault.turns(&mut rng, from, until), until, to: from + each }
    };
    faults.into_iter().enumerate().map(lap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seed: u64, seconds: u64) -> Vec<Lap> {
        plan(seed, Duration::from_secs(seconds), 6, &FAULTS.iter().collect::<Vec<_>>())
    }

    fn told(seed: u64, seconds: u64) -> Vec<(&'static str, usize, Duration, Duration)> {
        let laps = all(seed, seconds);
        laps.iter().map(|lap| (lap.fault.name, lap.endpoint, lap.from, lap.until)).collect()
    }

    #[test]
    fn a_seed_is_a_schedule() {
        assert_eq!(told(7, 300), told(7, 300));
        assert_ne!(told(7, 300), told(8, 300));
    }

    #[test]
    fn one_endpoint_breaks_at_a_time_and_has_time_to_recover() {
        for seconds in [1, 7, 12, 30, 300] {
            let laps = all(1, seconds);
            assert!(laps.iter().all(|lap| lap.from < lap.until || seconds == 1), "{seconds} s");
            assert!(laps.iter().all(|lap| lap.to - lap.until >= lap.until - lap.from), "{seconds} s");
            assert!(laps.windows(2).all(|pair| pair[0].to == pair[1].from), "{seconds} s");
        }
    }

    #[test]
    fn a_flapping_endpoint_dies_every_second_or_so_and_no_other_does() {
        for lap in all(1, 300) {
            let all: Vec<Duration> = [lap.from].iter().chain(&lap.turns).copied().collect();
            let steps = all.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(steps.clone().all(|step| (250..=750).contains(&step.as_millis())), "{all:?}");
            // A fault lasts 9.9 s: at least twelve turns of at most 0.75 s.
            assert!(if lap.fault.name == "flapping" { steps.count() > 12 } else { lap.turns.is_empty() });
            assert!(all.iter().all(|turn| *turn < lap.until));
        }
    }

    #[test]
    fn a_long_run_has_every_fault_and_a_short_one_the_first() {
        let mut names: Vec<&str> = told(3, 300).iter().map(|lap| lap.0).collect();
        let mut all: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        let short: Vec<&str> = told(3, 30).iter().map(|lap| lap.0).collect();
        assert_eq!(short.len(), 5);
        assert!(FAULTS[..5].iter().all(|fault| short.contains(&fault.name)), "{short:?}");
    }
}
