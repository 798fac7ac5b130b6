//! What breaks when? A seed and a length give the schedule: one endpoint at a time, each kind of fault once, with time
//! to recover after it.

use crate::endpoint::{Endpoint, Mode};
use crate::error::Result;
use crate::rng::Rng;
use std::time::Duration;

/// One way to break.
pub struct Fault {
    /// Its name in the tables.
    pub name: &'static str,
    /// What happens, and how the endpoint's health check looks meanwhile.
    pub about: &'static str,
    how: How,
    /// Whether the endpoint can write down requests that the fault hurts. Where it cannot, every failure meanwhile
    /// counts as caused by the fault.
    pub writes_down: bool,
}

enum How {
    Kill,
    Stop,
    Be(Mode),
}

/// Every way, the ones that a short run has first.
pub static FAULTS: [Fault; 9] = [
    Fault {
        name: "killed",
        about: "the process dies (SIGKILL): its connections are reset, new ones refused",
        how: How::Kill,
        writes_down: false,
    },
    Fault {
        name: "hung",
        about: "accepts and reads, never answers, nor health checks",
        how: How::Be(Mode::Hang),
        writes_down: true,
    },
    Fault {
        name: "503",
        about: "answers 503 at once, and fails health checks",
        how: How::Be(Mode::Error503),
        writes_down: true,
    },
    Fault {
        name: "slow",
        about: "takes 100 ms instead of 10, and still passes health checks",
        how: How::Be(Mode::Slow),
        writes_down: true,
    },
    Fault {
        name: "reset in head",
        about: "resets within the head of the response; health checks pass",
        how: How::Be(Mode::ResetHead),
        writes_down: true,
    },
    Fault {
        name: "stopped",
        about: "the process is stopped (SIGSTOP): the kernel still accepts, no thread reads",
        how: How::Stop,
        writes_down: true,
    },
    Fault {
        name: "500",
        about: "answers 500 at once, but passes health checks",
        how: How::Be(Mode::Error500),
        writes_down: true,
    },
    Fault {
        name: "reset in body",
        about: "resets within the body of the response, which cannot be mended; health checks pass",
        how: How::Be(Mode::ResetBody),
        writes_down: true,
    },
    Fault {
        name: "reset on accept",
        about: "resets each connection that it accepts, and each that it has at its next request",
        how: How::Be(Mode::ResetAccept),
        writes_down: false,
    },
];

impl Fault {
    /// Breaks an endpoint in this way.
    ///
    /// # Errors
    /// If it does not break.
    pub fn strike(&self, endpoint: &mut Endpoint) -> Result<()> {
        match self.how {
            How::Kill => endpoint.kill(),
            How::Stop => {
                endpoint.stop();
                Ok(())
            }
            How::Be(mode) => endpoint.set(mode),
        }
    }
}

/// One fault and the recovery after it. Times count from the first request.
pub struct Lap {
    /// What breaks.
    pub fault: &'static Fault,
    /// Which endpoint.
    pub endpoint: usize,
    /// When it breaks.
    pub from: Duration,
    /// When it is revived.
    pub until: Duration,
    /// When the recovery is over.
    pub to: Duration,
}

/// How long all endpoints are healthy at first.
const LEAD_IN: Duration = Duration::from_secs(2);
/// A lap shorter than this says nothing: checks need a second to see a fault, and one to see a return.
const LAP_MIN: Duration = Duration::from_secs(5);
/// The share of a lap that the fault lasts.
const BROKEN: f64 = 0.4;

/// As many faults as fit into `length`, in random order, each at a random endpoint.
pub fn plan(seed: u64, length: Duration, endpoints: usize) -> Vec<Lap> {
    let time = length.saturating_sub(LEAD_IN);
    let fit = (time.as_nanos() / LAP_MIN.as_nanos()) as usize;
    let laps = fit.clamp(1, FAULTS.len());
    let each = time / laps as u32;
    let mut rng = Rng::new(seed);
    let mut faults: Vec<&'static Fault> = FAULTS.iter().take(laps).collect();
    rng.shuffle(&mut faults);
    let lap = |(number, fault): (usize, &'static Fault)| {
        let from = LEAD_IN + each * number as u32;
        Lap { fault, endpoint: rng.below(endpoints), from, until: from + each.mul_f64(BROKEN), to: from + each }
    };
    faults.into_iter().enumerate().map(lap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seed: u64, seconds: u64) -> Vec<(&'static str, usize, Duration, Duration)> {
        let laps = plan(seed, Duration::from_secs(seconds), 6);
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
            let laps = plan(1, Duration::from_secs(seconds), 6);
            assert!(laps.iter().all(|lap| lap.from < lap.until || seconds == 1), "{seconds} s");
            assert!(laps.iter().all(|lap| lap.to - lap.until >= lap.until - lap.from), "{seconds} s");
            assert!(laps.windows(2).all(|pair| pair[0].to == pair[1].from), "{seconds} s");
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
