//! Workers that fail are reported, with real threads, sockets and runtime.

use super::*;
use evenkeel_config::parse_str;
use evenkeel_net::workers::Command;
use evenkeel_runtime::Orders;

/// A plan with a zone at an unused address.
fn plan() -> Plan {
    let free = evenkeel_peers::own_addr();
    let text = format!(
        "[runtime]\nworkers = 2\n[listener.dns]\nbind = ['{free}']\nmode = 'dns'\nzone = {{ name = 'a.example', \
         records = {{ www = {{ pool = 'web' }} }} }}\n[pool.web]\nendpoints = ['10.0.0.1:80']\n"
    );
    let outcome = parse_str("test.toml", &text, &|_| None);
    outcome.plan.unwrap_or_else(|| panic!("{:?}", outcome.diagnostics))
}

/// The plane with a socket replaced by a file.
struct Broken(Dns, Protocol);

impl Plane for Broken {
    fn prepare(&self, next: &Next<'_>, inherited: &mut Inherited) -> Result<Prepared, Vec<Diagnostic>> {
        let mut ready: Ready = self.0.prepare(next, inherited)?.into();
        for sockets in ready.sockets.values_mut() {
            // epoll refuses regular files.
            let file = vec![Arc::new(std::fs::File::open("/proc/self/exe").expect("this program").into())];
            match self.1 {
                Protocol::Udp => sockets[0].udp = file,
                Protocol::Tcp => sockets[0].tcp = file,
            }
        }
        Ok(Prepared::new(ready))
    }

    fn install(&mut self, prepared: Prepared, pools: &mut Pools, sending: &Sending<'_>) {
        self.0.install(prepared, pools, sending);
    }

    fn endpoints(&mut self, changes: &[Change<'_>], sending: &Sending<'_>) {
        self.0.endpoints(changes, sending);
    }

    fn workers(&self) -> &Threads {
        self.0.workers()
    }

    fn workers_mut(&mut self) -> &mut Threads {
        self.0.workers_mut()
    }

    fn sockets(&self) -> Vec<(String, ListenFd)> {
        self.0.sockets()
    }

    fn collector(&self) -> Box<dyn Collector> {
        self.0.collector()
    }

    fn view(&self) -> Arc<dyn View> {
        self.0.view()
    }

    fn join(self: Box<Self>) {
        Box::new(self.0).join();
    }
}

#[tokio::test]
async fn a_worker_that_cannot_serve_a_socket_ends_and_says_why() {
    for broken in [Protocol::Udp, Protocol::Tcp] {
        let mut runtime = Runtime::new(plan(), 1, Orders::default()).expect("a thread");
        let dns = Dns::new(&runtime).expect("random bytes");
        let planes: Vec<Box<dyn Plane>> = vec![Box::new(Broken(dns, broken))];
        runtime.start(planes, &mut Inherited::default()).expect("nothing of it can fail yet");

        // Sockets are handed out from the last worker to the first.
        let lost = runtime.worker_lost().await;
        assert!(lost.starts_with("dns-1 stopped unexpectedly: Operation not permitted"), "{broken:?}: {lost}");
        assert_eq!(runtime.still_running().collect::<Vec<_>>(), ["dns-0"], "{broken:?}: the other one goes on");

        // A worker that is ordered to end does so without an error.
        runtime.command(Command::Drain);
        assert_eq!(runtime.worker_lost().await, "dns-0 stopped unexpectedly");
        assert!(runtime.has_ended());
    }
}
