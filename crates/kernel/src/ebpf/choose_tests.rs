//! Tests of the choice, `bpf/choose.h`: a separate program draws 16,384 times in the kernel.

use super::layout::{Load, Record};
use super::maps::{MAPS, Maps, sizes};
use super::object::{self, Pins};
use super::recount::Recount;
use super::sys::Array;
use crate::driver::{Change, Fault};
use crate::service::{Member, Policy, Service, Source, State, Transport};
use aya::TestRun;
use aya::programs::{SchedClassifier, TestRunOptions};
use aya::{Ebpf, include_bytes_aligned};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/choose_test.o");
const DRAWS: u32 = 16384;

/// Maps of a test's own, removed when dropped.
struct Bench {
    pins: Pins,
    object: Ebpf,
    maps: Maps,
    chosen: Array<u64>,
}

impl Bench {
    /// `None` without the rights.
    fn new() -> Option<Bench> {
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            evenkeel_peers::skip("eBPF needs root");
            return None;
        }
        let name = format!("ekt{}-{}", std::process::id(), BENCHES.fetch_add(1, Ordering::Relaxed));
        let pins = Pins::new(&name);
        pins.make().unwrap();
        let names: Vec<&'static str> = MAPS.into_iter().chain(["chosen"]).collect();
        let mut object = object::load(OBJECT, &names, Some(&pins), &sizes(8192, 4 * DRAWS)).unwrap();
        let program: &mut SchedClassifier = object.program_mut("choose_many").unwrap().try_into().unwrap();
        object::load_program(|| program.load()).unwrap();
        Some(Bench {
            maps: Maps::open(&pins).unwrap(),
            chosen: Array::open(&pins.map("chosen")).unwrap(),
            object,
            pins,
        })
    }

    fn set(&mut self, policy: Policy, weights: &[u32], affinity: Option<Duration>) {
        let members = (1..)
            .zip(weights)
            .map(|(id, &weight)| {
                let [_, _, a, b] = u32::to_be_bytes(id);
                Member { id, addr: ([10, 0, a, b], 80).into(), weight, state: State::Serving }
            })
            .collect();
        let service = Service {
            name: "test".into(),
            pool: "test".into(),
            transport: Transport::Tcp,
            addrs: vec!["0.0.0.1:1".parse().unwrap()],
            policy,
            source: Source::Own,
            affinity,
            idle: Duration::from_secs(1),
            members,
        };
        self.maps.apply(&Change { set: vec![&service], removed: Vec::new(), left: Vec::new() }).unwrap();
        self.maps.reclaim(true);
    }

    fn set_active(&self, id: u32, active: i64) {
        let at = self.maps.loads.at(id).unwrap();
        Load::correct(at, active - self.maps.loads.read(id).active);
    }

    /// Endpoints that were chosen, in their order.
    fn draw(&self) -> Vec<u32> {
        let program: &SchedClassifier = self.object.program("choose_many").unwrap().try_into().unwrap();
        let packet = [0u8; 64];
        program.test_run(TestRunOptions { data_in: Some(&packet), ..TestRunOptions::new() }).unwrap();
        (0..DRAWS).map(|i| self.chosen.read(i) as u32).collect()
    }

    fn counts(&self) -> BTreeMap<u32, u32> {
        self.draw().into_iter().fold(BTreeMap::new(), |mut counts, id| {
            *counts.entry(id).or_insert(0) += 1;
            counts
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.pins.remove();
    }
}

/// Asserts that endpoints 1.. have these shares. The bound is Bernstein's: a count of the variance v is off by t with a
/// probability of at most 2 exp(-t^2 / (2 v + 2 t / 3)), which holds for small counts, too; here 10^-9.
fn assert_shares(counts: &BTreeMap<u32, u32>, shares: &[f64], what: &str) {
    let n = f64::from(DRAWS);
    let l = (2.0f64 / 1e-9).ln();
    for (id, &share) in (1..).zip(shares) {
        let count = f64::from(counts.get(&id).copied().unwrap_or(0));
        let bound = l / 3.0 + (l * l / 9.0 + 2.0 * l * n * share * (1.0 - share)).sqrt();
        let bound = if share == 0.0 || share == 1.0 { 0.0 } else { bound };
        assert!((count - n * share).abs() <= bound, "{what}: endpoint {id} got {count} of {n}, its share is {share}");
    }
    assert_eq!(counts.values().sum::<u32>(), DRAWS);
    assert!(counts.keys().all(|&id| id > 0 && id as usize <= shares.len()), "{what}: {counts:?}");
}

fn of_total(weights: &[u32]) -> Vec<f64> {
    let total: u32 = weights.iter().sum();
    weights.iter().map(|&weight| f64::from(weight) / f64::from(total)).collect()
}

#[test]
fn idle_endpoints_share_by_weight_with_random_and_least() {
    let Some(mut bench) = Bench::new() else { return };
    for weights in [&[1u32, 1, 1][..], &[70, 10, 10, 10], &[1, 1000], &[5], &[9; 300]] {
        for policy in
            [Policy::Random { draws: 1 }, Policy::Random { draws: 2 }, Policy::Random { draws: 5 }, Policy::LeastConn]
        {
            let what = format!("{policy:?} {weights:?}");
            bench.set(policy, weights, None);
            assert_shares(&bench.counts(), &of_total(weights), &what);
        }
    }
}

/// Two draws are distinct: of n endpoints of equal weight with a busier endpoint, it never wins; and of which one is
/// idler, it wins if it is drawn, with the probability 2 / n.
#[test]
fn draws_are_distinct_and_exact() {
    let Some(mut bench) = Bench::new() else { return };
    for draws in [2, 3, 7, 16] {
        let n = 20;
        bench.set(Policy::Random { draws }, &vec![1; n as usize], None);
        bench.set_active(1, 5);
        let counts = bench.counts();
        assert!(!counts.contains_key(&1), "{draws} draws: the busy one was drawn alone: {counts:?}");
        (2..=n).for_each(|id| bench.set_active(id, 9));
        let share = f64::from(draws) / f64::from(n);
        let mut shares = vec![(1.0 - share) / f64::from(n - 1); n as usize];
        shares[0] = share;
        assert_shares(&bench.counts(), &shares, &format!("{draws} of {n}"));
        (1..=n).for_each(|id| bench.set_active(id, 0));
    }
    // Weights of 1, 1 and 98: the pair of the light members is drawn with 2 * 0.01 * 0.01 / 0.99, the heavy one is in
    // all others. After 8 repeats of the heavy member a neighbour is taken, with a probability of 0.98^9 = 0.83 after
    // it.
    bench.set(Policy::Random { draws: 2 }, &[1, 1, 98], None);
    bench.set_active(3, 98 * 5);
    bench.set_active(1, 2);
    bench.set_active(2, 2);
    let counts = bench.counts();
    assert!(!counts.contains_key(&3), "the heavy one is busier by weight, and was drawn alone: {counts:?}");
}

#[test]
fn the_least_loaded_by_weight_is_taken() {
    let Some(mut bench) = Bench::new() else { return };
    bench.set(Policy::LeastConn, &[2, 1, 4], None);
    [(1, 4), (2, 3), (3, 7)].into_iter().for_each(|(id, active)| bench.set_active(id, active));
    assert_eq!(bench.counts(), BTreeMap::from([(3, DRAWS)]));
    bench.set_active(3, 8);
    // The scan begins at a place drawn by weight, and the first of a tie wins: after the second comes the third.
    assert_shares(&bench.counts(), &[2.0 / 7.0, 0.0, 5.0 / 7.0], "a tie");
}

#[test]
fn turns_and_tables_are_followed_exactly() {
    let Some(mut bench) = Bench::new() else { return };
    bench.set(Policy::RoundRobin, &[2, 1, 1], None);
    let turns = bench.draw();
    assert_eq!(turns[..8], [1, 2, 3, 1, 1, 2, 3, 1]);
    // The turn stays with a change.
    bench.draw();
    let table: Arc<[u32]> = (0..4099).map(|i| if i % 4 == 3 { 1 } else { 0 }).collect();
    bench.set(Policy::Maglev { table }, &[3, 1], None);
    let first = bench.draw();
    assert_eq!(bench.draw(), first);
    assert_shares(&bench.counts(), &[0.75, 0.25], "maglev");
}

#[test]
fn a_client_keeps_its_endpoint_while_that_serves() {
    let Some(mut bench) = Bench::new() else { return };
    bench.set(Policy::Random { draws: 1 }, &[1; 4], Some(Duration::from_secs(600)));
    let first = bench.draw();
    let again = bench.draw();
    let kept = first.iter().zip(&again).filter(|(a, b)| a == b).count();
    // An LRU hash may evict a few before it is full: of those that are lost, a quarter comes back by chance.
    assert!(kept > first.len() * 95 / 100, "{kept}");
    bench.set(Policy::Random { draws: 1 }, &[1, 1, 1, 0], Some(Duration::from_secs(600)));
    assert!(!bench.counts().contains_key(&4));
}

#[test]
fn thousands_of_endpoints_are_all_chosen() {
    let Some(mut bench) = Bench::new() else { return };
    let weights = vec![1; 4096];
    for policy in [Policy::Random { draws: 2 }, Policy::LeastConn, Policy::RoundRobin] {
        let what = format!("{policy:?}");
        bench.set(policy, &weights, None);
        let counts = bench.counts();
        assert_shares(&counts, &of_total(&weights), &what);
        // Counts are 4 each; the sum of (count - 4)^2 / 4 has the mean 4095 and, as sums of Poisson variables do, the
        // variance 4096 * (2 + 1 / 4): 6 standard deviations are 576. Turns give each the same.
        let square: f64 =
            (1..=4096).map(|id| (f64::from(counts.get(&id).copied().unwrap_or(0)) - 4.0).powi(2) / 4.0).sum();
        assert!(square <= 4095.0 + 576.0, "{what}: {square}");
    }
}

#[test]
fn what_counts_have_lost_is_found() {
    let Some(mut bench) = Bench::new() else { return };
    bench.set(Policy::LeastConn, &[1, 1], None);
    bench.set_active(1, 5);
    bench.set_active(2, -3);
    let count = |counted: &mut super::recount::Counted| -> Result<(), Fault> {
        counted.add(2);
        Ok(())
    };
    Recount::new().run(&bench.maps.loads, u32::MAX, count).unwrap();
    assert_eq!([1, 2].map(|id| bench.maps.loads.read(id).active), [0, 1]);
}

#[test]
fn a_change_that_does_not_fit_changes_nothing() {
    let Some(mut bench) = Bench::new() else { return };
    bench.set(Policy::RoundRobin, &[1, 1], None);
    let records: Array<Record> = Array::open(&bench.pins.map("records")).unwrap();
    assert_eq!(records.len(), 4096);
    let services: Vec<Service> = (0..4100u32)
        .map(|i| Service {
            name: format!("s{i}").into(),
            pool: "p".into(),
            transport: Transport::Tcp,
            addrs: vec![([0, 0, 0, 1], 1 + (i % 65000) as u16).into()],
            policy: Policy::LeastConn,
            source: Source::Own,
            affinity: None,
            idle: Duration::from_secs(1),
            members: Arc::new([]),
        })
        .collect();
    let fault = bench.maps.apply(&Change { set: services.iter().collect(), removed: Vec::new(), left: Vec::new() });
    assert!(fault.unwrap_err().reason.contains("no room"));
    assert_eq!(bench.draw()[..4], [1, 2, 1, 2]);
    // Nor is anything lost of the room: old and new records of 4000 do not fit, and records of 50 do.
    let mut apply = |count: usize| {
        bench.maps.apply(&Change { set: services[..count].iter().collect(), removed: Vec::new(), left: Vec::new() })
    };
    apply(4000).unwrap();
    for _ in 0..3 {
        apply(4000).unwrap_err();
        apply(50).unwrap();
    }
}
