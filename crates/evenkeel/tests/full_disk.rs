//! Full disk of the access log: requests continue, lines that do not fit are counted, and every line of the file is whole once
//! there is room again.

use crate::support::{Endpoint, Folder, Running, address, eventually, get};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Sends `count` requests, one after the other.
fn request(listen: &str, count: usize) {
    for _ in 0..count {
        assert_eq!(get(listen, "/").expect("an answer").0, 200);
    }
}

fn dropped(admin: &str) -> usize {
    let (_, metrics) = get(admin, "/metrics").expect("an answer");
    let line = metrics.lines().find_map(|line| line.strip_prefix("evenkeel_access_log_lines_dropped_total "));
    line.expect("the metric is there from the start").parse().expect("a number")
}

#[test]
fn lines_that_a_full_disk_refuses_are_counted_and_all_others_are_whole() {
    if !rustix::process::geteuid().is_root() {
        return evenkeel_peers::skip("only root can mount a small file system");
    }
    if !evenkeel_peers::installed(&["unshare", "mount"]) {
        return;
    }
    let (endpoint, folder) = (Endpoint::start("a"), Folder::new("full-disk"));
    let (listen, admin) = (address(), address());
    let disk = folder.0.join("disk");
    fs::create_dir(&disk).expect("the folder can be written");
    let log = disk.join("access.jsonl");
    let config = folder.file(
        "evenkeel.toml",
        &format!(
            "[listener.web]\nbind = ['{listen}']\n[pool.web]\nendpoints = ['{}']\n[admin]\nhttp.bind = '{admin}'\n\
             [telemetry]\naccess_log.path = '{}'\n",
            endpoint.addr,
            log.display()
        ),
    );
    // Eight pages, of which the log may have two at first.
    let script =
        "mount -t tmpfs -o size=32k none \"$0\" && head -c 24k /dev/zero >\"$0/filler\" && exec \"$1\" run -c \"$2\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(&disk).args([env!("CARGO_BIN_EXE_evenkeel"), &config]);
    let mut running = Running::from(command);
    // As the process sees it: no other has this file system.
    let seen = |path: &PathBuf| PathBuf::from(format!("/proc/{}/root{}", running.pid(), path.display()));
    request(&listen, 100);
    eventually("lost lines", || (dropped(&admin) > 0).then_some(()));
    fs::remove_file(seen(&disk.join("filler"))).expect("it is there");
    request(&listen, 5);
    let whole = eventually("whole lines", || {
        let text = fs::read_to_string(seen(&log)).expect("it is there");
        (text.lines().count() + dropped(&admin) == 105 && text.ends_with('\n')).then_some(text)
    });
    for line in whole.lines() {
        assert!(line.starts_with("{\"") && line.ends_with("\"}") && line.matches("\"term\"").count() == 1, "{line}");
    }
    assert_eq!(
        running.said().matches("cannot write to the log; lines are lost until").count(),
        1,
        "{}",
        running.said()
    );
    assert!(running.said().contains("writing to the log again; lines were lost"), "{}", running.said());
    running.signal(Signal::TERM);
    assert_eq!(running.code(), Some(0), "{}", running.said());
}
