//! The process of a pod, in a separate network namespace, and the bridge that joins these namespaces.

use super::{log, node};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Makes the bridge of pods in the network namespace of this process.
///
/// # Errors
/// If the system refuses it.
pub async fn begin_network() -> Result<(), String> {
    ip(&format!("link add pods type bridge\naddr add {}/16 dev pods\nlink set pods up\n", node::ADDR)).await
}

/// Runs lines of `ip`.
async fn ip(lines: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("ip: {error}"))?;
    let mut input = child.stdin.take().expect("it is a pipe");
    let written = input.write_all(lines.as_bytes()).await;
    drop(input);
    let done = child.wait_with_output().await.and_then(|output| written.map(|()| output));
    match done {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("ip: {error}")),
    }
}

pub struct Program<'a> {
    /// Its folder, with its log; its root is in there.
    pub folder: &'a Path,
    pub program: &'a Path,
    pub arguments: &'a [String],
    pub env: &'a [(String, String)],
    pub addr: Ipv4Addr,
}

/// A process that runs. It is killed when this is dropped, and its network ends with it.
pub struct Container {
    child: Child,
    pid: Pid,
}

/// Enters the namespace, reports that, has `ip` prepare the network by the lines that it receives, and becomes the
/// program.
const SCRIPT: &str = r#"exec 2>&1; echo; ip -batch - && exec chroot "$@" </dev/null"#;

impl Container {
    /// Starts a program.
    ///
    /// # Errors
    /// If a file, process or network cannot be made.
    pub async fn begin(program: Program<'_>) -> Result<Container, String> {
        let root = program.folder.join("root");
        let inside = root.join("program");
        if !inside.exists() {
            fs::create_dir_all(root.join("tmp")).map_err(|error| format!("{}: {error}", root.display()))?;
            // Across file systems, there are no links.
            let linked = fs::hard_link(program.program, &inside);
            let made = linked.or_else(|_| fs::copy(program.program, &inside).map(|_| ()));
            made.map_err(|error| format!("{}: {error}", inside.display()))?;
        }
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", SCRIPT, "pod"]).arg(&root).arg("/program");
        command.args(program.arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(program.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let id = child.id().expect("nothing waited for it");
        let (mut input, mut output) =
            (child.stdin.take().expect("it is a pipe"), child.stdout.take().expect("it is a pipe"));
        output.read_u8().await.map_err(|error| format!("unshare: {error}"))?;
        let outside =
            format!("link add pod{id} type veth peer name eth0 netns {id}\nlink set pod{id} master pods up\n");
        ip(&outside).await?;
        let within = format!(
            "link set lo up\naddr add {}/16 dev eth0\nlink set eth0 up\nroute add default via {}\n",
            program.addr,
            node::ADDR
        );
        input.write_all(within.as_bytes()).await.map_err(|error| format!("network of a pod: {error}"))?;
        let path = program.folder.join("log");
        tokio::spawn(async move {
            if let Err(error) = log::append(output, &path).await {
                eprintln!("{}: {error}", path.display());
            }
        });
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process");
        Ok(Container { child, pid })
    }

    pub fn listening(&self) -> Listening {
        Listening { pid: self.pid }
    }

    pub async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Asks the process to end, and kills it after `grace`.
    pub async fn end(mut self, grace: Duration) {
        // It may have ended meanwhile.
        let _ = kill_process(self.pid, Signal::TERM);
        if tokio::time::timeout(grace, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Ports at which a process listens.
pub struct Listening {
    pid: Pid,
}

impl Listening {
    /// Waits until the process listens at these ports. Without any, waits until it listens at some port and at no new
    /// port for 100 ms.
    pub async fn ready(&self, ports: &BTreeSet<u16>) {
        let mut before = BTreeSet::new();
        loop {
            let now = self.ports();
            let settled = !now.is_empty() && if ports.is_empty() { now == before } else { now.is_superset(ports) };
            if settled {
                return;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(if ports.is_empty() { 100 } else { 10 })).await;
        }
    }

    /// Returns the ports at which something listens in the network of the process, of TCP and UDP.
    fn ports(&self) -> BTreeSet<u16> {
        let mut ports = BTreeSet::new();
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            let path = format!("/proc/{}/net/{table}", self.pid.as_raw_nonzero());
            // A process that has ended has no ports.
            for line in fs::read_to_string(path).unwrap_or_default().lines().skip(1) {
                let fields: Vec<&str> = line.split_whitespace().take(4).collect();
                let [_, local, _, state] = fields[..] else { continue };
                let port = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
                // 0A is LISTEN.
                ports.extend(port.filter(|_| table.starts_with("udp") || state == "0A"));
            }
        }
        ports
    }
}
