//! Shell for the commands of a page: one bash for all of them, in a folder of its own, at addresses of this process.

use super::page::Block;
use crate::support::{Folder, address};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{File, read_to_string};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a page may take before the test fails: generous, since many tests may share few cores.
const DEADLINE: Duration = Duration::from_secs(120);

/// Functions in the place of what a reader does by hand, and of what would take long.
const FUNCTIONS: &str = include_str!("shell.sh");

/// Ports as the pages have them: each page gets others.
const PORTS: [&str; 4] = ["8080", "8081", "8082", "9900"];

/// Folders of a system that is set up, as the pages have them; here they are in the page's folder.
const SYSTEM_FOLDERS: [&str; 3] = ["/etc/evenkeel/", "/var/log/evenkeel/", "/run/evenkeel/"];

/// Shell of a page, with its folder.
pub struct Shell {
    page: String,
    served: bool,
    folder: Folder,
    /// Addresses of a page, and those that replace them here.
    instead: Vec<(String, String)>,
}

impl Shell {
    /// `served`: an evenkeel serves before the first block.
    pub fn new(page: &str, served: bool) -> Shell {
        let folder = Folder::new(&page.replace('/', "-"));
        let addresses: Vec<String> = PORTS.iter().map(|_| address()).collect();
        let (host, _) = addresses[0].split_once(':').expect("an address has a port");
        // `:9900` alone is on 127.0.0.1, which all processes share.
        let mut instead = vec![(" :9900".to_string(), format!(" {host}:9900"))];
        instead.extend(["127.0.0.1", "localhost", "[::]"].map(|any| (any.to_string(), host.to_string())));
        for (port, address) in PORTS.iter().zip(&addresses) {
            let own = address.rsplit(':').next().expect("an address has a port");
            instead.push((port.to_string(), own.to_string()));
        }
        for system in SYSTEM_FOLDERS {
            let own = folder.0.join(system.trim_matches('/'));
            std::fs::create_dir_all(&own).expect("the temporary folder can be written");
            instead.push((system.to_string(), format!("{}/", own.display())));
        }
        Shell { page: page.to_string(), served, folder, instead }
    }

    /// Runs the blocks, one after the other; each has to end well.
    #[track_caller]
    pub fn run(&self, blocks: &[Block]) {
        let mut script = self.here(FUNCTIONS);
        if self.served {
            script.push_str("serve\n");
        }
        for block in blocks {
            script.push_str(&format!("echo '>>> {}' >&2\n{}", block.place, self.here(&block.text)));
        }
        let script = self.folder.file("blocks.sh", &script);
        let said = self.folder.0.join("said");
        let output = || File::options().append(true).create(true).open(&said).expect("it can be written");
        let mut bash = Command::new("bash")
            .args(["-e", &script])
            .current_dir(&self.folder.0)
            .env("EVENKEEL", env!("CARGO_BIN_EXE_evenkeel"))
            .env("NO_COLOR", "1")
            .env("RUNTIME_DIRECTORY", self.folder.0.join("run/evenkeel"))
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .process_group(0)
            .spawn()
            .expect("bash was found");
        let group = Pid::from_child(&bash);
        // Ends what a page leaves behind, also when waiting fails.
        let _ended = Ended(group);
        let ended = poll(Instant::now() + DEADLINE, || bash.try_wait().expect("it is ours"));
        let said = read_to_string(&said).unwrap_or_default();
        let ended = ended.unwrap_or_else(|| panic!("{}: not over in {DEADLINE:?}\n{said}", self.page));
        assert!(ended.success(), "{}: {ended}\n{said}", self.page);
    }

    /// A text of the page as it runs here.
    fn here(&self, text: &str) -> String {
        self.instead.iter().fold(text.to_string(), |text, (theirs, ours)| text.replace(theirs, ours))
    }
}

/// Polls until there is something, or it is too late.
fn poll<T>(deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A group of processes that is killed when this is dropped.
struct Ended(Pid);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}
