//! Distribution of long-lived client connections over the workers.

use crate::support::{Endpoint, Proxy, wait_until};

#[test]
fn clients_that_stay_are_spread_evenly_over_the_workers() {
    let endpoint = Endpoint::saying("a");
    let config = format!(
        "[runtime]\nworkers = 4\n[listener.web]\nbind = [\"$BIND\"]\n[pool.web]\nendpoints = [\"{}\"]\n",
        endpoint.addr
    );
    let proxy = Proxy::start(&config);
    let open = || -> Vec<u64> { proxy.server().stats().iter().map(|w| w.listeners[0].active.get()).collect() };
    let mut clients: Vec<_> = (0..200).map(|_| proxy.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/").status(), 200));
    wait_until("all are open", || open().iter().sum::<u64>() == 200);
    // By hash alone the standard deviation is 6, and the largest is often 15 above the smallest. A worker keeps no
    // connection that it accepts once it has a sixteenth and 4 more than the least.
    let spread = open();
    let (least, most) = (spread.iter().min().copied().unwrap_or(0), spread.iter().max().copied().unwrap_or(0));
    assert!(most <= least + least / 16 + 4, "{spread:?}");
    drop(clients);
    wait_until("all are closed", || open().iter().sum::<u64>() == 0);
}
