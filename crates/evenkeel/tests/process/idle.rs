//! A process that has nothing to do sleeps.

use crate::support::{Endpoint, Folder, Running, address, eventually, get};
use std::time::Duration;

/// Time for which wakes are counted.
const COUNTED: Duration = Duration::from_secs(2);

/// Wakes of all threads in that time, at most: two of the thread that counts for the dashboard, and some of others on this
/// machine. A thread that ticks has forty.
const WAKES_MAX: u64 = 15;

/// Times that the process's threads have gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").filter_map(|task| of_task(task.ok()?)).sum()
}

#[test]
fn a_process_that_serves_nobody_sleeps() {
    let (endpoint, folder, listen, admin, dns) =
        (Endpoint::start("a"), Folder::new("idle"), address(), address(), address());
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[runtime]\nworkers = 2\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
             [listener.web]\nbind = ['{listen}']\npool = 'web'\ntimeouts = {{ client_idle = '1h' }}\n\
             [listener.dns]\nbind = ['{dns}']\nmode = 'dns'\n[listener.dns.zone]\nname = 'example.com'\n\
             contact = 'ops.example.com'\nns = [{{ name = 'ns.elsewhere.example' }}]\napex = {{ pool = 'web' }}\n\
             [pool.web]\nendpoints = ['{}']\ntimeouts = {{ upstream_idle = '1s' }}\n",
            endpoint.addr
        ),
    );
    let running = Running::start(&["run", "-c", &file]);
    // One idle client stays.
    let _client = std::net::TcpStream::connect(&listen).expect("it accepts");
    assert_eq!(get(&listen, "/").expect("an answer").1, "a");
    eventually("two seconds in which it sleeps", || {
        let before = sleeps(running.pid());
        std::thread::sleep(COUNTED);
        let woken = sleeps(running.pid()) - before;
        eprintln!("{woken} wakes in {COUNTED:?}");
        (woken <= WAKES_MAX).then_some(())
    });
    assert_eq!(get(&listen, "/").expect("an answer").1, "a");
}
