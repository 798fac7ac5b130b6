//! Timing of operations of a few nanoseconds: in batches, on pinned threads that start each batch together.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A configuration to measure.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub endpoints: usize,
    /// True for weights 1, 2, 3 in turn; otherwise all are 1.
    pub unequal: bool,
    /// Number of threads that pick concurrently.
    pub threads: usize,
    /// Batches per figure.
    pub batches: usize,
}

impl Case {
    /// Weight of an endpoint by index.
    pub fn weight(&self, endpoint: usize) -> u32 {
        if self.unequal { 1 + (endpoint % 3) as u32 } else { 1 }
    }

    /// Address of an endpoint, unique in pools of up to 2^24.
    pub fn address(endpoint: usize) -> String {
        format!("10.{}.{}.{}:80", endpoint >> 16 & 255, endpoint >> 8 & 255, endpoint & 255)
    }
}

/// Nanoseconds per operation.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Half of the batches took longer.
    pub median: f64,
    /// Lower bound: 10 % of the batches were faster.
    pub low: f64,
    /// Upper bound: 10 % of the batches were slower.
    pub high: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ({:.1}..{:.1})", self.median, self.low, self.high)
    }
}

/// Shorter than the time slices of a busy machine, so that most batches are not interrupted.
const BATCH: Duration = Duration::from_micros(300);

/// Times the operation that `make` returns for each thread. It gets its sequence number.
pub fn measure<O: FnMut(u64)>(case: Case, make: impl Fn(usize) -> O + Sync) -> Measured {
    let (barrier, make) = (&Barrier::of(case.threads), &make);
    let times: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let start = |thread: usize| {
            scope.spawn(move || {
                pin(thread);
                let mut operation = make(thread);
                batches(case.batches, &mut operation, barrier)
            })
        };
        let threads: Vec<_> = (0..case.threads).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a bench does not panic")).collect()
    });
    // The cost of a batch is the mean over its threads.
    let mean = |batch: usize| times.iter().map(|thread| thread[batch]).sum::<f64>() / times.len() as f64;
    let mut means: Vec<f64> = (0..case.batches).map(mean).collect();
    means.sort_by(f64::total_cmp);
    let at = |share: usize| means[(means.len() - 1) * share / 10];
    Measured { median: at(5), low: at(1), high: at(9) }
}

fn batches(count: usize, operation: &mut impl FnMut(u64), barrier: &Barrier) -> Vec<f64> {
    let mut number = 0;
    let mut run = |operations: u64| {
        let begin = Instant::now();
        for _ in 0..operations {
            operation(number);
            number += 1;
        }
        begin.elapsed()
    };
    // Doubling up to the length of a batch also warms caches and predictors, and lets estimates settle.
    let mut operations = 1_000;
    barrier.wait();
    while run(operations) < BATCH && operations < 1 << 24 {
        operations *= 2;
    }
    let timed = |_| {
        barrier.wait();
        run(operations).as_nanos() as f64 / operations as f64
    };
    (0..count).map(timed).collect()
}

/// Barrier that releases threads within nanoseconds of each other. The standard one sleeps and wakes threads
/// up to a whole batch apart, so that they would hardly overlap.
struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
}

impl Barrier {
    fn of(threads: usize) -> Barrier {
        Barrier { threads, arrived: AtomicUsize::new(0) }
    }

    fn wait(&self) {
        // Relaxed: the barrier passes no data.
        let before = self.arrived.fetch_add(1, Ordering::Relaxed);
        let all = (before / self.threads + 1) * self.threads;
        let mut turns = 0_u32;
        while self.arrived.load(Ordering::Relaxed) < all {
            turns += 1;
            if turns.is_multiple_of(10_000) {
                std::thread::yield_now(); // the other may have to run on this core
            }
            std::hint::spin_loop();
        }
    }
}

/// Pins a thread to a core that this process may use. Without it figures are noisier, not wrong.
fn pin(thread: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let mut one = CpuSet::new();
    // From the last core down: interrupts usually go to the first.
    one.set(cores[cores.len() - 1 - thread % cores.len()]);
    let _ = sched_setaffinity(None, &one);
}
