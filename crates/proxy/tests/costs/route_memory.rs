//! The memory of a plan grows with its routes, not with routes times listeners times workers. In a binary of its own,
//! as it counts the allocations of all threads.

use evenkeel_proxy::Numbers;
use evenkeel_runtime::Generation;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

/// Bytes that are allocated now.
static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that the statistics of 16 workers hold for this many routes at 20 listeners.
fn numbers(routes: usize) -> usize {
    let mut text = "[pool.p]\nendpoints = ['127.0.0.1:1']\n".to_string();
    (0..20).for_each(|i| writeln!(text, "[listener.l{i}]\nbind = ['127.0.0.1:{}']", 1000 + i).expect("a String"));
    for i in 0..routes {
        writeln!(text, "[[route]]\nmatch = {{ host = ['h{i}.example'] }}\npool = 'p'").expect("a String");
    }
    let plan = evenkeel_config::parse_str("plan", &text, &|_| None).plan.expect("a plan");
    assert_eq!(plan.routes.len(), routes);
    let generation = Arc::new(Generation::first(Arc::new(plan), Vec::new()));
    let resources = evenkeel_proxy::table::resources(&generation.plan).expect("it has no files");
    let before = HELD.load(Ordering::Relaxed);
    let first = Numbers::first(generation, 16, resources);
    let held = HELD.load(Ordering::Relaxed) - before;
    drop(first);
    held
}

#[test]
fn routes_without_requests_have_no_numbers() {
    let (few, many) = (numbers(10), numbers(2_000));
    // Without sparse tables there would be 640,000 sets of counters (route, listener, worker), about 1 GB.
    assert!(many < few + (1 << 20), "{few} bytes for 10 routes, {many} for 2,000");
    assert!(many < 4 << 20, "{many} bytes");
}
