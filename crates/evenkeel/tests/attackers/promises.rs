//! Promises to the service manager and to operators, kept while a client attacks: signs of life, reloads, and a second signal
//! that ends the process at once.

use crate::always_ready::pump;
use crate::scene::{Attack, Scene};
use crate::support::notify_socket::ServiceManager;
use crate::support::{Folder, address, eventually};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Longest silence of a process that is to be heard of each 200 ms.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Time in which two signals end the process, on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(10);

#[test]
fn signs_of_life_reloads_and_signals_pass_a_client_that_pipelines() {
    let (notified, redirects) = (Folder::new("attackers-notify"), address());
    let manager = ServiceManager::new(&notified);
    let socket = manager.path.display().to_string();
    let environment = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "600000")];
    let more = format!("[listener.redirects]\nbind = ['{redirects}']\nredirect_https = true");
    let mut scene = Scene::start_in(&environment, "promises", 1, "", &more);
    let attack = Attack::default();
    std::thread::scope(|scope| {
        let _over = attack.until_dropped();
        scope.spawn(|| pump(&attack, &redirects, b"", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
        eventually("the attack's first hit", || (attack.hits() > 0).then_some(()));
        for _ in 0..10 {
            let began = Instant::now();
            while manager.hears_any() != "WATCHDOG=1" {}
            assert!(began.elapsed() < SILENCE_MAX, "{:?}", began.elapsed());
        }
        scene.reloads();
        let began = Instant::now();
        scene.running.signal(Signal::TERM);
        eventually("the first signal's line", || scene.running.said().contains("a second signal").then_some(()));
        scene.running.signal(Signal::TERM);
        assert_eq!(scene.running.code(), Some(0), "{}", scene.running.said());
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    });
}
