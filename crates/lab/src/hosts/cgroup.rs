//! CPU quota for a group of processes: a control group, version 1 or 2, removed on
//! drop. A group left behind by a killed lab is removed by the next.

use super::left::{PREFIX, left_behind};
use crate::error::{Result, While};
use crate::machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder of the CPU controller in version 1.
const FIRST: &str = "/sys/fs/cgroup/cpu";
/// Folder of all controllers in version 2.
const SECOND: &str = "/sys/fs/cgroup";

/// Control group whose processes share a quota. The processes must end before it is dropped.
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// Creates a group that may use this share of a CPU in each `period`. The kernel requires periods of 1 ms to 1 s
    /// and a quota of at least 1 ms.
    ///
    /// # Errors
    /// Not permitted, or not supported by the system.
    pub fn new(name: &str, part: f64, period: Duration) -> Result<Group> {
        machine::needs_root("control groups")?;
        let first = Path::new(FIRST).join("cpu.cfs_quota_us").exists();
        let root = Path::new(if first { FIRST } else { SECOND });
        let folder = root.join(format!("{PREFIX}-{}-{name}", std::process::id()));
        if !first {
            // Enables CPU limits for groups below; service managers have usually done so.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        }
        let hint = "control groups need the controller `cpu`";
        fs::create_dir(&folder).or_say(|| format!("cannot make the control group {}: {hint}", folder.display()))?;
        let group = Group { folder };
        let (period, quota) = (period.as_micros(), (part * period.as_micros() as f64).round());
        match first {
            true => {
                group.write("cpu.cfs_period_us", &period.to_string())?;
                group.write("cpu.cfs_quota_us", &quota.to_string())?;
            }
            false => group.write("cpu.max", &format!("{quota} {period}"))?,
        }
        Ok(group)
    }

    /// Command prefix that runs a program within the group.
    pub fn within(&self) -> Vec<String> {
        let join = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", self.folder.display());
        vec!["sh".into(), "-c".into(), join, "sh".into()]
    }

    /// Moves a process into it, with all of its threads.
    ///
    /// # Errors
    /// The process has ended.
    pub fn adopt(&self, pid: u32) -> Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, text).or_say(|| format!("cannot write {text} to {}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be counted for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("warning: the control group {} is not removed", self.folder.display());
    }
}

/// Removes the groups of labs that no longer run.
///
/// # Errors
/// A group cannot be removed.
pub fn sweep() -> Result<()> {
    for root in [FIRST, SECOND].map(Path::new) {
        for name in left_behind(root) {
            fs::remove_dir(root.join(&name)).or_say(|| format!("cannot remove the control group {name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child;

    #[test]
    fn a_group_has_its_quota_and_its_processes_and_goes() {
        let Ok(group) = Group::new("test", 0.055, Duration::from_millis(20)) else { return };
        let file = |name: &str| fs::read_to_string(group.folder.join(name)).unwrap_or_default();
        let said = file("cpu.cfs_quota_us") + &file("cpu.max");
        assert!(said.starts_with("1100"), "{said}");
        let mut command = group.within();
        command.extend(["cat", "/proc/self/cgroup"].map(str::to_owned));
        let said = child::output(&command, Duration::from_secs(10)).expect("it runs").text;
        let folder = group.folder.clone();
        assert!(said.contains(folder.file_name().and_then(|name| name.to_str()).expect("a name")), "{said}");
        drop(group);
        assert!(!folder.exists());
    }
}
