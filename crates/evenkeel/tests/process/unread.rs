//! A standard error that nothing reads: the process serves, reloads and ends all the same, and its log states what was lost.

use crate::support::{DEADLINE, Endpoint, Folder, address, eventually, get};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};

/// An evenkeel whose standard error is read to its greeting and no further. Killed when dropped.
struct Unread {
    child: Child,
    stderr: BufReader<PipeReader>,
}

impl Unread {
    fn start(file: &str) -> Unread {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(["run", "-c", file]).env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(writer).spawn().expect("it starts");
        // The other writer is the command's.
        drop(command);
        let mut unread = Unread { child, stderr: BufReader::new(reader) };
        while !unread.line().contains("  end  ") {}
        unread
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("text");
        assert!(!line.is_empty(), "it has ended");
        line
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has a wrong configuration refused until lines of the log are dropped: each refusal fills the pipe, and the queue in front
/// of that, a part more, however long it takes.
fn fill(unread: &Unread, admin: &str) {
    let dropped = || metric(admin, "evenkeel_log_lines_dropped_total");
    let refused = || metric(admin, "evenkeel_config_reloads_total{result=\"refused\"}");
    let before = dropped();
    for _ in 0..REFUSALS_MAX {
        let known = refused();
        unread.signal(Signal::HUP);
        eventually("a reload that is refused", || (refused() > known).then_some(()));
        if dropped() > before {
            return;
        }
    }
    panic!("{REFUSALS_MAX} refusals have filled nothing");
}

/// More than fill a pipe of 64 KiB and a queue of 1 MiB: a refusal shows a hundred errors of some hundred bytes.
const REFUSALS_MAX: usize = 200;

/// Reads the value of a metric.
fn metric(admin: &str, name: &str) -> u64 {
    let (_, metrics) = get(admin, "/metrics").expect("an answer");
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or_default();
    line.parse().unwrap_or_else(|_| panic!("no {name} in {metrics}"))
}

#[test]
fn a_standard_error_that_nothing_reads_stops_neither_requests_nor_reloads_nor_the_end() {
    let (endpoint, folder, listen, admin) = (Endpoint::start("a"), Folder::new("unread"), address(), address());
    // Its access log goes there too.
    let good = format!(
        "[admin]\nhttp = {{ bind = '{admin}' }}\n[telemetry.access_log]\npath = 'stderr'\n\
         [listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n",
        endpoint.addr
    );
    // Its diagnostics fill the pipe, and the queue in front of that.
    let bad = format!("{good}{}", (0..50).map(|n| format!("[pool.p{n}]\nendpoint = []\n")).collect::<String>());
    let file = folder.file("evenkeel.toml", &good);
    let mut unread = Unread::start(&file);
    folder.file("evenkeel.toml", &bad);
    fill(&unread, &admin);
    assert_eq!(get(&listen, "/").expect("an answer").1, "a");
    folder.file("evenkeel.toml", &format!("{good}balance = 'leastconn'\n"));
    unread.signal(Signal::HUP);
    let applied = "evenkeel_config_reloads_total{result=\"applied\"}";
    eventually("a reload that is applied", || (metric(&admin, applied) >= 1).then_some(()));
    // Read again, the log states what is missing.
    while !unread.line().contains("lines of this log were dropped: nothing has read standard error") {}
    folder.file("evenkeel.toml", &bad);
    fill(&unread, &admin);
    unread.signal(Signal::TERM);
    let ended = crate::support::within(DEADLINE, || unread.child.try_wait().expect("it is ours"));
    assert_eq!(ended.expect("it ends").code(), Some(0));
}
