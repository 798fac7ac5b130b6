//! A private etcd, and what `etcdctl` does there.

use evenkeel_peers::own_addr;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Server with a folder of its own. Both are removed on drop.
pub struct Etcd {
    pub folder: PathBuf,
    pub addr: SocketAddr,
    peer: SocketAddr,
    args: Vec<String>,
    /// Arguments of `etcdctl`, such as a user.
    pub as_user: Vec<String>,
    scheme: &'static str,
    child: Option<Child>,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Etcd {
    /// Server that does not run yet.
    pub fn new(args: &[&str]) -> Etcd {
        let (addr, peer) = (own_addr(), own_addr());
        let folder = std::env::temp_dir().join(format!("evenkeel-etcd-{}-{}", std::process::id(), addr.port()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let args = args.iter().map(ToString::to_string).collect();
        Etcd { folder, addr, peer, args, as_user: Vec::new(), scheme: "http", child: None }
    }

    /// Server over TLS, with `server.pem` and `server.key` of its folder.
    pub fn over_tls() -> Etcd {
        let mut etcd = Etcd::new(&[]);
        let file = |name: &str| etcd.folder.join(name).display().to_string();
        let args = ["--cert-file".to_owned(), file("server.pem"), "--key-file".to_owned(), file("server.key")];
        let ctl = vec!["--insecure-skip-tls-verify".to_owned(), "--insecure-transport=false".to_owned()];
        (etcd.args, etcd.as_user, etcd.scheme) = (args.to_vec(), ctl, "https");
        etcd
    }

    pub fn started(args: &[&str]) -> Etcd {
        let mut etcd = Etcd::new(args);
        etcd.start();
        etcd
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.addr)
    }

    /// Runs the server, and waits until it answers.
    pub fn start(&mut self) {
        let (client, peer) = (self.url(), format!("http://{}", self.peer));
        let log = fs::File::create(self.folder.join("log")).expect("it can be written");
        let mut etcd = Command::new("etcd");
        etcd.arg("--data-dir").arg(self.folder.join("data")).args(["--log-level", "error"]);
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--initial-cluster", &format!("default={peer}")]).args(&self.args);
        let child = etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(child.expect("scripts/setup.sh installs etcd"));
        let until = Instant::now() + Duration::from_secs(60);
        while !self.try_ctl(&["get", "/ready"], "") {
            assert!(Instant::now() < until, "{}", fs::read_to_string(self.folder.join("log")).unwrap_or_default());
        }
    }

    /// Ends the server without warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Removes all keys, with the history of the server.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.folder.join("data")).expect("it is there");
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Runs `etcdctl`, which has to succeed. Returns its output.
    pub fn ctl(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("scripts/setup.sh installs etcdctl");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    pub fn put(&self, key: &str, value: &str) {
        self.ctl(&["put", key, value]);
    }

    /// Puts keys in one transaction; the server needs `--max-txn-ops`.
    pub fn put_all(&self, keys: &[(String, String)]) {
        let puts: String = keys.iter().map(|(key, value)| format!("put {key} {value}\n")).collect();
        assert!(self.try_ctl(&["txn"], &format!("\n{puts}\n\n")), "a transaction");
    }

    fn try_ctl(&self, args: &[&str], input: &str) -> bool {
        let mut command = self.command(args);
        command.arg("--dial-timeout=1s").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("scripts/setup.sh installs etcdctl");
        child.stdin.take().expect("it is a pipe").write_all(input.as_bytes()).expect("it is read");
        child.wait().is_ok_and(|status| status.success())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.url()]).args(&self.as_user).args(args);
        command
    }
}
