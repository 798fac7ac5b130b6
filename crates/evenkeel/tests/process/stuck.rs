//! A worker that is really stuck: its thread is stopped, as a debugger stops one, while all others run. The process must report it,
//! take signals and end when it is asked to a second time.

use crate::support::notify_socket::ServiceManager;
use crate::support::{DEADLINE, Endpoint, Folder, Running, address, eventually, get};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Time in which a process ends at once, on a machine that is busy.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A thread that stands still until this is dropped, by the thread that stopped it.
struct Stopped(libc::pid_t);

impl Stopped {
    /// Stops the thread of that name.
    fn thread(running: &Running, name: &str) -> Stopped {
        let tasks = format!("/proc/{}/task", running.pid());
        let named = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        };
        let task = std::fs::read_dir(&tasks).expect("it runs").filter_map(Result::ok).find(named);
        let name = task.expect("there is such a thread").file_name();
        let thread: libc::pid_t = name.to_str().and_then(|name| name.parse().ok()).expect("a number");
        for request in [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT] {
            // SAFETY: neither request reads or writes memory of this process, and the thread is one of a child's.
            let done = unsafe { libc::ptrace(request, thread, 0, 0) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        }
        eventually("a thread that is stopped", || {
            let stat = std::fs::read_to_string(format!("{tasks}/{thread}/stat")).ok()?;
            stat.rsplit(')').next()?.trim().starts_with('t').then_some(())
        });
        Stopped(thread)
    }

    /// Waits until the thread is gone with its process: only then is the parent of the process notified.
    #[track_caller]
    fn wait_killed(self) {
        eventually("the end of a thread that is stopped", || {
            let mut status = 0;
            // SAFETY: it is this thread's to wait for, and the status is written to a number that is there.
            let waited = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL | libc::WNOHANG) };
            (waited == self.0 && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status))).then_some(())
        });
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above. It may be gone.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, 0, 0) };
    }
}

struct Setup {
    listen: String,
    running: Running,
    manager: ServiceManager,
    _folder: Folder,
    _endpoint: Endpoint,
}

impl Setup {
    fn start(name: &str) -> Setup {
        let (endpoint, folder, listen) = (Endpoint::start("a"), Folder::new(name), address());
        let text = format!(
            "[runtime]\nworkers = 1\n[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
            endpoint.addr
        );
        let file = folder.file("evenkeel.toml", &text);
        let manager = ServiceManager::new(&folder);
        let socket = manager.path.display().to_string();
        let environment = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "600000")];
        let running = Running::start_in(&environment, &["run", "-c", &file]);
        assert_eq!(get(&listen, "/").expect("an answer").0, 200);
        Setup { listen, running, manager, _folder: folder, _endpoint: endpoint }
    }

    #[track_caller]
    fn says(&self, part: &str) {
        eventually(part, || self.running.said().contains(part).then_some(()));
    }

    /// Sends a signal to end once more, and waits for the end.
    #[track_caller]
    fn ends_at_once(mut self, stopped: Stopped) {
        let began = Instant::now();
        self.running.signal(Signal::TERM);
        stopped.wait_killed();
        assert_eq!(self.running.code(), Some(1), "{}", self.running.said());
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
}

#[test]
fn a_second_signal_ends_the_process_though_a_worker_is_stuck() {
    let setup = Setup::start("stuck-term");
    let stopped = Stopped::thread(&setup.running, "worker-0");
    setup.running.signal(Signal::TERM);
    setup.says("a second signal ends the process at once");
    setup.ends_at_once(stopped);
}

#[test]
fn signals_are_seen_while_a_reload_waits_for_a_worker_that_is_stuck() {
    let setup = Setup::start("stuck-reload");
    let stopped = Stopped::thread(&setup.running, "worker-0");
    setup.running.signal(Signal::HUP);
    setup.says("waiting for a worker that has not applied the change");
    setup.running.signal(Signal::TERM);
    setup.says("interrupted while a worker had not applied the plan");
    setup.says("a second signal ends the process at once");
    setup.ends_at_once(stopped);
}

#[test]
fn the_service_manager_hears_nothing_and_the_log_says_why_while_a_worker_is_stuck() {
    let setup = Setup::start("stuck-watchdog");
    let alive = |limit| setup.manager.hears_within(limit).as_deref() == Some("WATCHDOG=1");
    eventually("a sign of life", || alive(DEADLINE).then_some(()));
    let stopped = Stopped::thread(&setup.running, "worker-0");
    setup.says("a worker's event loop is stuck worker=\"worker-0\"");
    // What was sent before is read first.
    while setup.manager.hears_within(Duration::from_millis(1)).is_some() {}
    assert!(!alive(Duration::from_secs(2)), "three looks and none of them finds it well");
    drop(stopped);
    eventually("a sign of life", || alive(DEADLINE).then_some(()));
    assert_eq!(get(&setup.listen, "/").expect("an answer").0, 200);
}
