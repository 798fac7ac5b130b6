//! HTTP/3 over reloads and upgrades, with real processes.

mod load;

use crate::support::streams::Streaming;
use crate::support::{Adopted, Folder, Running, address, ends, eventually};
use load::Load;
use rustix::process::{Signal, kill_process, test_kill_process};

const UPGRADES: usize = 5;

/// Number of reloads before each upgrade.
const RELOADS: usize = 20;

/// Connections, each with as many uploads and as many downloads.
const CONNECTIONS: usize = 3;
const EACH: usize = 10;

/// Datagrams of old connections come to the newest process, which hands them to their owner, also past others between them.
#[test]
fn requests_outlive_reloads_and_a_chain_of_upgrades() {
    let (streaming, folder, listen) = (Streaming::start(), Folder::new("http3-upgrades"), address());
    let socket = folder.0.join("admin.sock").display().to_string();
    let file = |number: usize| {
        let text = format!(
            "[runtime]\nworkers = 2\ndrain_timeout = '120s'\n[admin]\nbind = 'unix:{socket}'\n\
             [listener.web]\nbind = ['{listen}']\ntls = {{ self_signed = true }}\nhttp3 = true\n\
             [[route]]\nmatch = {{ path = '/reload-{number}' }}\nrespond = 204\n\
             [[route]]\npool = 'web'\n[pool.web]\nendpoints = ['{}']\n",
            streaming.addr
        );
        folder.file("evenkeel.toml", &text)
    };
    let mut running = Running::start(&["run", "-c", &file(0)]);
    let load = Load::start(listen.parse().expect("an address"), CONNECTIONS, EACH);
    let mut processes: Vec<Adopted> = Vec::new();
    for upgrade in 0..UPGRADES {
        for reload in 0..RELOADS {
            file(upgrade * RELOADS + reload + 1);
            ends(&["reload", "--socket", &socket], 0, &[]);
        }
        match processes.last() {
            None => running.signal(Signal::USR2),
            Some(Adopted(newest)) => kill_process(*newest, Signal::USR2).expect("it runs"),
        }
        let before = processes.last().map(|Adopted(pid)| *pid);
        processes
            .push(Adopted(eventually("the next process", || running.successor().filter(|pid| Some(*pid) != before))));
        load.goes_on();
    }
    let wrong = load.end();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", running.said());
    assert_eq!(running.ends(), Some(0), "{}", running.said());
    let (_newest, between) = processes.split_last().expect("several");
    for Adopted(pid) in between {
        eventually("its end", || test_kill_process(*pid).is_err().then_some(()));
    }
}
