//! Machine of a measurement: its description for reports, the assignment of cores, and limits.

use crate::child;
use crate::error::{Error, Result, While};
use crate::procfs;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::thread::CpuSet;
use std::fs;
use std::time::Duration;

/// Assignment of cores. The proxy has a core to itself; load generators and endpoints share the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    pub proxy: usize,
    /// Cores of all other processes.
    pub load: Vec<usize>,
}

impl Cores {
    /// Divides the cores that this process may use, and moves this process, and so all that it starts, off the proxy's
    /// core.
    ///
    /// # Errors
    /// If there is only 1, since the load would then be measured with the proxy's caches.
    pub fn divide() -> Result<Cores> {
        let allowed = rustix::thread::sched_getaffinity(None).or_say(|| "cannot ask for the allowed cores".into())?;
        let mut load: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        // The last core, as interrupts usually go to the first.
        let proxy = load.pop().filter(|_| !load.is_empty());
        let proxy =
            proxy.ok_or_else(|| Error::Wrong("two cores are needed: one for the proxy, one for the load".into()))?;
        let mut rest = CpuSet::new();
        load.iter().for_each(|&core| rest.set(core));
        rustix::thread::sched_setaffinity(None, &rest).or_say(|| "cannot leave the proxy's core".into())?;
        Ok(Cores { proxy, load })
    }

    /// Pins all threads of a process to the proxy's core, whatever affinity it has chosen: Knot pins its workers to the
    /// first cores, where the load runs.
    ///
    /// # Errors
    /// If it is gone.
    pub fn hold(&self, pid: u32) -> Result<()> {
        let mut only = CpuSet::new();
        only.set(self.proxy);
        for thread in procfs::thread_ids(pid)? {
            match rustix::thread::sched_setaffinity(Some(thread), &only) {
                Err(Errno::SRCH) => {} // it ended meanwhile
                pinned => pinned.or_say(|| format!("cannot pin process {pid}"))?,
            }
        }
        Ok(())
    }
}

/// Raises the limit of open files as far as possible towards `wanted`, for this process and its children. Returns the
/// limit.
pub fn allow_files(wanted: u64) -> u64 {
    let now = rustix::process::getrlimit(Resource::Nofile);
    let soft = now.current.unwrap_or(u64::MAX);
    if soft >= wanted {
        return soft;
    }
    let hard = now.maximum.unwrap_or(u64::MAX);
    // Only root may raise the hard limit; other users still get up to it.
    let tries = [wanted.max(hard), hard];
    let raise = |&limit: &u64| {
        let both = Rlimit { current: Some(limit.min(wanted)), maximum: Some(limit) };
        rustix::process::setrlimit(Resource::Nofile, both).is_ok().then_some(limit.min(wanted))
    };
    tries.iter().find_map(raise).unwrap_or(soft)
}

/// Fails unless this process runs as root. The error names the part of the program that needs root.
///
/// # Errors
/// `NeedsRoot`.
pub fn needs_root(what: &'static str) -> Result<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Error::NeedsRoot(what)) }
}

/// Description of the machine and of this checkout.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// CPU model, as in `/proc/cpuinfo`.
    pub cpu: String,
    pub cores: usize,
    /// Commit, with `+` if files differ from it; empty outside a checkout.
    pub commit: String,
}

impl Machine {
    pub fn this() -> Machine {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let cpu = model.map_or("unknown", |(_, name)| name.trim()).to_owned();
        let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
        let git = |arguments: &str| {
            let output = std::process::Command::new("git").args(arguments.split(' ')).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let mut commit = git("rev-parse --short=12 HEAD").unwrap_or_default();
        if git("status --porcelain --untracked-files=no").is_some_and(|changes| !changes.is_empty()) {
            commit.push('+');
        }
        Machine { kernel, cpu, cores, commit }
    }
}

/// Version of a program: the first output line with a digit; `unknown` if there is none.
///
/// # Errors
/// If it cannot be run.
pub fn version(command: &[String], flag: &str) -> Result<String> {
    let mut asked = command.to_vec();
    asked.push(flag.to_owned());
    let output = child::output(&asked, Duration::from_secs(10))?;
    let line = output.text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    Ok(line.filter(|_| output.success).map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned()))
}
