//! Endpoints that are killed, that hang, and that come back, as clients notice it while they keep asking.

use super::in_each_plane;
use super::plane::{Answer, Plane};
use super::setup::{self, Setup, endpoints};
use super::site::Process;
use crate::support::eventually;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

/// More than get a place at two endpoints, so that the queue is used as well.
const CLIENTS: usize = 6;

/// Checks that notice one that hangs, and are not so quick that a busy machine fails two in a row. A session that an
/// endpoint has hung on to is given up.
const POOL: &str = "balance = 'round_robin'\nlimits = { requests_per_endpoint = 2 }\npanic = { healthy_below = 0 }\n\
    health = { http = '/healthz', interval = '400ms', fall = 2, rise = 1 }\ntimeouts = { response = '1s', idle = '1s' }";

/// The endpoint that fares badly.
const BAD: usize = 2;

/// State of the endpoint that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    AllWell,
    /// Nothing listens any more.
    Killed,
    /// The endpoint is dead, and evenkeel knows.
    KnownDead,
    /// The endpoint is started again.
    Starts,
    Revived,
    /// The endpoint accepts connections, and does not answer.
    Hangs,
    KnownHung,
    /// The endpoint continues with what it has received meanwhile.
    Wakes,
    GoesOn,
}

use Phase::*;

const PHASES: [Phase; 9] = [AllWell, Killed, KnownDead, Starts, Revived, Hangs, KnownHung, Wakes, GoesOn];

/// Clients that ask, each again and again, and note what they are answered and in which phase they began.
struct Load {
    phase: Arc<AtomicUsize>,
    /// Questions that began in this phase and are answered.
    asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    /// Held by each question; whoever holds it alone knows that none is under way.
    asking: Arc<RwLock<()>>,
    clients: Vec<JoinHandle<Vec<(Phase, Answer)>>>,
}

impl Load {
    fn start(setup: &Arc<Setup>) -> Load {
        let (phase, asked) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (over, asking) = (Arc::<AtomicBool>::default(), Arc::<RwLock<()>>::default());
        let client = |_| {
            let (setup, phase, asked) = (setup.clone(), phase.clone(), asked.clone());
            let (over, asking) = (over.clone(), asking.clone());
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                while !over.load(SeqCst) {
                    let under_way = asking.read().expect("no panic while held");
                    let began = phase.load(SeqCst);
                    seen.push((PHASES[began], setup.ask_for(super::plane::PATIENT)));
                    if phase.load(SeqCst) == began {
                        asked.fetch_add(1, SeqCst);
                    }
                    drop(under_way);
                    // The load is to last, not to fill the machine.
                    std::thread::sleep(Duration::from_millis(2));
                }
                seen
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Load { phase, asked, over, asking, clients }
    }

    /// Enters a phase, while questions are under way.
    fn enters(&self, phase: Phase) {
        self.phase.store(phase as usize, SeqCst);
        self.asked.store(0, SeqCst);
    }

    /// Enters a phase, once all questions that began before have ended.
    fn enters_anew(&self, phase: Phase) {
        let _none = self.asking.write().expect("no panic while held");
        self.enters(phase);
    }

    /// Waits for so many answers in this phase.
    fn goes_on(&self, n: usize) {
        eventually("answers", || (self.asked.load(SeqCst) >= n).then_some(()));
    }

    /// Ends it; all that was seen.
    fn end(self) -> Vec<(Phase, Answer)> {
        self.over.store(true, SeqCst);
        self.clients.into_iter().flat_map(|client| client.join().expect("no panic")).collect()
    }
}

#[test]
fn nobody_is_sent_to_an_endpoint_that_is_known_to_be_dead_or_to_hang_and_it_serves_again_when_it_is_back() {
    in_each_plane(|plane| {
        let addrs = setup::addresses();
        let mut sites: Vec<Process> = addrs.into_iter().map(Process::start).collect();
        let pool = format!("{POOL}\n{}", endpoints(&addrs, &[(0, ""), (1, ""), (2, "")]));
        let setup = Arc::new(Setup::start(plane, addrs, &pool));
        (0..3).for_each(|i| setup.becomes(i, true));
        let load = Load::start(&setup);
        load.goes_on(60);

        sites.remove(BAD).kill();
        load.enters(Killed);
        setup.becomes(BAD, false);
        load.enters(KnownDead);
        load.goes_on(60);
        load.enters_anew(Starts);
        sites.push(Process::start(addrs[BAD]));
        setup.becomes(BAD, true);
        load.enters(Revived);
        load.goes_on(60);

        sites[BAD].hang(true);
        load.enters(Hangs);
        setup.becomes(BAD, false);
        load.enters(KnownHung);
        load.goes_on(60);
        load.enters_anew(Wakes);
        sites[BAD].hang(false);
        setup.becomes(BAD, true);
        load.enters(GoesOn);
        load.goes_on(60);

        check(plane, &setup, &load.end());
        for gauge in [
            "evenkeel_upstream_requests_active",
            "evenkeel_queue_depth",
            "evenkeel_connections_active",
            "evenkeel_udp_flows_active",
        ] {
            eventually(&format!("{}: no {gauge}", plane.name()), || (setup.sum(gauge) == 0.0).then_some(()));
        }
    });
}

fn check(plane: &dyn Plane, setup: &Setup, seen: &[(Phase, Answer)]) {
    for phase in PHASES {
        let answers: Vec<Answer> = seen.iter().filter(|(p, _)| *p == phase).map(|(_, answer)| *answer).collect();
        let by = |endpoint| answers.iter().filter(|answer| setup.endpoint(**answer) == Some(endpoint)).count();
        let (by_bad, by_others) = (by(BAD), by(0) + by(1));
        let failed = answers.len() - by_bad - by_others;
        let said = format!("{}, {phase:?}: {by_others} by others, {by_bad} by it, {failed} failed", plane.name());
        let (may_fail, may_be_bad) = match phase {
            // One question of each client may be there when it ends or stops.
            AllWell | Revived => (if plane.forwards() { CLIENTS } else { 0 }, true),
            Starts | Wakes | GoesOn => (0, true),
            // Whoever cannot be connected to is left at once; DNS hears of it by a check.
            Killed => (0, !plane.forwards()),
            KnownDead | KnownHung => (0, false),
            // Until the checks have failed, questions end there.
            Hangs => (answers.len(), !plane.forwards()),
        };
        assert!(failed <= may_fail && (may_be_bad || by_bad == 0), "{said}");
        let is_back = matches!(phase, AllWell | Revived | GoesOn);
        assert!(!is_back || by_bad > 0, "{said}");
    }
}
