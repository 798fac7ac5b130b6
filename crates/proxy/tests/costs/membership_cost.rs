//! The cost of a change of a pool's endpoints depends on that pool alone, and not on the rest of the plan. In a binary
//! of its own, as it counts the allocations of all threads.
#![allow(clippy::disallowed_methods, reason = "a test is no worker: it may wait")]

use evenkeel_config::plan::Endpoint;
use evenkeel_proxy::Server;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Counting;

/// Bytes allocated so far, including those that were freed again.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A server with this many pools of two endpoints each.
fn server(pools: usize) -> Server {
    let free = evenkeel_peers::own_addr();
    let mut text = format!("[runtime]\nworkers = 2\n[listener.web]\nbind = ['{free}']\n[[route]]\npool = 'p0'\n");
    for pool in 0..pools {
        let (a, b) = (pool / 250, pool % 250);
        writeln!(text, "[pool.p{pool}]\nendpoints = ['10.0.{a}.{b}:80', '10.1.{a}.{b}:80']").expect("a String");
    }
    let outcome = evenkeel_config::parse_str("plan", &text, &|_| None);
    Server::start(outcome.plan.expect("a plan")).expect("it starts")
}

/// Endpoints of a pool, a different list for each `time`.
fn found(pool: usize, time: usize) -> Vec<(Arc<str>, Vec<Endpoint>)> {
    let endpoint = |n: usize| Endpoint::at(([10, 2, (time % 250) as u8, n as u8], 80).into());
    vec![(format!("p{pool}").into(), vec![endpoint(1), endpoint(2)])]
}

/// Bytes that 40 changes of one pool allocate, in a plan with this many pools.
fn allocated(pools: usize) -> usize {
    const CHANGES: usize = 40;
    let mut server = server(pools);
    (0..4).for_each(|time| server.apply_endpoints(found(7, time)).expect("nothing interrupts"));
    let before = ALLOCATED.load(Ordering::Relaxed);
    (4..4 + CHANGES).for_each(|time| server.apply_endpoints(found(7, time)).expect("nothing interrupts"));
    (ALLOCATED.load(Ordering::Relaxed) - before) / CHANGES
}

#[test]
fn a_change_of_one_pool_allocates_nothing_for_the_others() {
    let (few, many) = (allocated(10), allocated(3_000));
    // Copying the plan with the statistics of 3,000 pools for two workers would be megabytes. The margin is for other
    // threads of the process.
    assert!(many < 2 * few + (16 << 10), "{few} bytes beside 10 pools, {many} beside 3,000");
}

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("there is one");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    // User and system time, in ticks of 10 ms.
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// Run with `cargo test -p evenkeel-proxy --test membership_cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and asserts nothing: docs/measurements has its figures"]
fn processor_time_of_a_change_every_10_ms_beside_few_and_many_pools() {
    const LASTS: Duration = Duration::from_secs(20);
    for pools in [10, 10_000] {
        let mut server = server(pools);
        std::thread::sleep(Duration::from_secs(2));
        let before = processor();
        std::thread::sleep(LASTS);
        let idle = processor() - before;
        let (before, began, mut time, mut took) = (processor(), Instant::now(), 0, Vec::new());
        while began.elapsed() < LASTS {
            let changes = Instant::now();
            server.apply_endpoints(found(time % pools.min(200), time)).expect("nothing interrupts");
            took.push(changes.elapsed());
            time += 1;
            std::thread::sleep(Duration::from_millis(10).saturating_sub(changes.elapsed()));
        }
        let changing = processor() - before;
        took.sort_unstable();
        let median = took[took.len() / 2];
        println!(
            "{pools} pools: {time} changes in {LASTS:?}; processor time {idle:?} idle, {changing:?} changing, \
             {:?} a change; a change takes {median:?} (median)",
            changing.saturating_sub(idle) / time as u32
        );
    }
}
