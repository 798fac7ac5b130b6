//! Promises of pools on every plane. Each scenario is a row, each plane a column: a whole evenkeel before real
//! endpoints, asked as its clients ask.

mod deaths;
mod plane;
mod setup;
mod shares;
mod site;
mod tiers;

use plane::{PLANES, Plane};
use setup::{Setup, endpoints};
use site::Site;

/// Checks that are quick, and not so quick that a busy machine fails two in a row.
const CHECKED: &str = "health = { http = '/healthz', interval = '500ms', fall = 2, rise = 1 }";

/// Runs a scenario in each plane, all at once.
fn in_each_plane(scenario: fn(&'static dyn Plane)) {
    std::thread::scope(|scope| {
        for plane in PLANES {
            scope.spawn(move || scenario(plane));
        }
    });
}

fn sites() -> [Site; 3] {
    setup::addresses().map(Site::start)
}

/// Sets up one that balances the three by turns, with more keys for each of them and for the pool, once all are up.
fn by_turns(plane: &'static dyn Plane, sites: &[Site; 3], of: [&str; 3], more: &str) -> Setup {
    let addrs = sites.each_ref().map(|site| site.addr);
    let setup = Setup::start(plane, addrs, &pool(&addrs, "round_robin", of, more));
    (0..3).for_each(|i| setup.becomes(i, true));
    setup
}

fn pool(addrs: &[std::net::SocketAddr; 3], balance: &str, of: [&str; 3], more: &str) -> String {
    let list: Vec<_> = of.into_iter().enumerate().collect();
    format!("balance = '{balance}'\n{CHECKED}\n{}\n{more}", endpoints(addrs, &list))
}
