//! Access log of a proxy under test.

use super::{Proxy, wait_until};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A log file, removed on drop.
pub struct Log(pub PathBuf);

impl Log {
    pub fn new() -> Log {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("evenkeel-log-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        Log(std::env::temp_dir().join(name))
    }

    pub fn config(&self) -> String {
        format!("[telemetry]\naccess_log = {{ path = {:?} }}", self.0.to_str().expect("a name of ours"))
    }

    /// Stops the proxy, and returns the lines of its log.
    pub fn lines(&self, mut proxy: Proxy) -> Vec<Value> {
        wait_until("no request is in flight", || proxy.in_flight() == 0);
        proxy.stop();
        let text = std::fs::read_to_string(&self.0).expect("the proxy made it, in UTF-8");
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
