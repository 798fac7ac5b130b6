//! Tests that need a kernel of their own run in User-Mode Linux: a kernel that is a program, with this machine's files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs, process};

/// Variable that is 1 inside.
const INSIDE: &str = "EVENKEEL_IN_UML";
/// Folder of the modules of Debian's kernel.
const MODULES: &str = "/usr/lib/uml/modules";
/// Last line of the first process inside, with the exit code of the tests.
const MARK: &str = "tests inside ended with";

/// Returns true inside. Outside, says that the test is left out.
pub fn inside() -> bool {
    if env::var(INSIDE).as_deref() == Ok("1") {
        return true;
    }
    evenkeel_peers::skip("runs in User-Mode Linux; `make test-ipvs` starts it");
    false
}

#[test]
#[ignore = "boots a kernel; `make test-ipvs` runs it"]
fn ipvs_balances_in_user_mode_linux() {
    if !evenkeel_peers::installed(&["linux.uml", "modprobe", "ip", "nft"]) {
        return;
    }
    let program = env::current_exe().expect("the test has a path");
    let listed = Command::new(&program).args(["--list", "--ignored", "ipvs::"]).output().expect("it lists its tests");
    let listed = String::from_utf8_lossy(&listed.stdout).lines().filter(|line| line.ends_with(": test")).count();
    assert!(listed > 0, "no test is named ipvs::");

    let scratch = Scratch::new();
    let init = scratch.0.join("init");
    fs::write(&init, init_script(&program)).expect("a script is written");
    fs::set_permissions(&init, Permissions::from_mode(0o755)).expect("it is our own");
    let output = boot(&init, &scratch.0);
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let shown = || format!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().any(|line| line == format!("{MARK} 0")), "the tests inside failed:\n{}", shown());
    let passed = format!("test result: ok. {listed} passed; 0 failed;");
    assert!(text.contains(&passed), "not all of {listed} tests inside ran:\n{}", shown());
}

/// Boots, and waits until the kernel has powered off.
fn boot(init: &Path, scratch: &Path) -> Output {
    let kernel = evenkeel_peers::find("linux.uml").expect("is installed");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "300"]).arg(kernel);
    command.args(["mem=384M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "panic=1"]);
    command.args(["con=null", "con0=null,fd:1", "con1=null", "ssl=null"]);
    command.arg(format!("init={}", init.display())).arg(format!("uml_dir={}", scratch.display()));
    // Its memory is a file, which it has removed before it runs.
    let memory = Path::new("/dev/shm");
    command.env("HOME", scratch).env("TMPDIR", if memory.is_dir() { memory } else { scratch }).stdin(Stdio::null());
    command.output().expect("`timeout` starts")
}

/// First process inside: mounts what programs expect, lets the kernel load modules, runs the tests, and ends the kernel.
fn init_script(program: &Path) -> String {
    format!(
        "#!/bin/sh
exec >/dev/tty0 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /run
mount -t tmpfs tmp /tmp
mkdir -p /tmp/root/lib
ln -s {MODULES} /tmp/root/lib/modules
printf '#!/bin/sh\\nexec modprobe -d /tmp/root \"$@\"\\n' >/tmp/modprobe
chmod +x /tmp/modprobe
echo /tmp/modprobe >/proc/sys/kernel/modprobe
modprobe -d /tmp/root ipv6
ip link set lo up
env {INSIDE}=1 RUST_BACKTRACE=1 '{}' --ignored --color never --test-threads 2 ipvs::
echo {MARK} $?
# The console is written to the end before.
sync
echo o >/proc/sysrq-trigger
sleep 10
",
        program.display()
    )
}

/// Folder of one run, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let folder = env::temp_dir().join(format!("evenkeel-uml-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder is made");
        Scratch(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
