//! Child processes of an experiment. The lab ends them in every case: a guard ends each on drop, also on a panic and on
//! Ctrl-C, which only sets a flag that every wait checks; and if the lab itself is killed, the kernel signals each
//! child (`setpriv --pdeathsig`).

use crate::error::{Error, Result, While};
use rustix::process::{Pid, Signal, kill_process};
use std::cell::RefCell;
use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs handlers, so that Ctrl-C and SIGTERM end the experiment at its next wait.
///
/// # Errors
/// If the system refuses the handlers.
pub fn watch_for_signals() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag)).or_say(|| "cannot handle signals".into())?;
    }
    Ok(())
}

/// Fails if the experiment was interrupted.
///
/// # Errors
/// `Interrupted`.
pub fn go_on() -> Result<()> {
    // Relaxed: the flag guards no other data.
    let interrupted = INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    if interrupted { Err(Error::Interrupted) } else { Ok(()) }
}

/// Sleeps between two checks of a condition that has no event to wait for.
///
/// # Errors
/// `Interrupted`.
pub fn pause(time: Duration) -> Result<()> {
    go_on()?;
    std::thread::sleep(time);
    Ok(())
}

/// Finds a program in the same places as the tests.
///
/// # Errors
/// `Missing`.
pub fn find(program: &str) -> Result<String> {
    let found = evenkeel_peers::find(program);
    found.map(|path| path.display().to_string()).ok_or_else(|| Error::Missing(program.into()))
}

/// Path of this program.
///
/// # Errors
/// If the system does not know its path.
pub fn this() -> Result<String> {
    env::current_exe().map(|lab| lab.display().to_string()).or_say(|| "cannot find this program".into())
}

/// Path of the evenkeel to run: the `given` path, or the program next to this.
///
/// # Errors
/// If it is not there.
pub fn find_evenkeel(given: Option<&Path>) -> Result<String> {
    let beside = || env::current_exe().ok().map(|lab| lab.with_file_name("evenkeel"));
    let path = given.map(Path::to_path_buf).or_else(beside).unwrap_or_default();
    if path.is_file() {
        return Ok(path.display().to_string());
    }
    Err(Error::Wrong(format!(
        "there is no evenkeel at `{}`; build it with `cargo build --release`, give --evenkeel PATH, or leave it out by \
         naming the others",
        path.display()
    )))
}

/// Maximum time for a process to get ready.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Command prefix that pins a process to a core.
///
/// # Errors
/// `Missing`.
pub fn on_core(core: usize) -> Result<Vec<String>> {
    on_cores(&[core])
}

/// Command prefix that pins a process to these cores.
///
/// # Errors
/// `Missing`.
pub fn on_cores(cores: &[usize]) -> Result<Vec<String>> {
    let cores: Vec<String> = cores.iter().map(ToString::to_string).collect();
    Ok(vec![find("taskset")?, "-c".into(), cores.join(",")])
}

/// Process that is ended when this is dropped.
pub struct Child {
    name: String,
    said: PathBuf,
    process: RefCell<std::process::Child>,
}

impl Child {
    /// Starts `command`, on `core` if given, with stdout and stderr redirected to the file `said`.
    ///
    /// Call it only from the main thread: a child gets the parent-death signal when the thread that started it ends.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(name: &str, command: &[String], core: Option<usize>, said: &Path) -> Result<Child> {
        let output = File::create(said).or_say(|| format!("cannot write {}", said.display()))?;
        let errors = output.try_clone().or_say(|| format!("cannot write {}", said.display()))?;
        let process = guarded(command, core)?
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .or_say(|| format!("cannot start {name}"))?;
        Ok(Child { name: name.into(), said: said.to_owned(), process: RefCell::new(process) })
    }

    /// Starts `command` as [`Child::spawn`] does, and waits until it is `ready`.
    ///
    /// # Errors
    /// If it cannot be started, or is not ready within [`PATIENCE`]; with the end of its output.
    pub fn start(
        name: &str,
        command: &[String],
        core: Option<usize>,
        said: &Path,
        ready: impl Fn(u32) -> Result<()>,
    ) -> Result<Child> {
        let child = Child::spawn(name, command, core, said)?;
        child.await_ready(PATIENCE, ready)?;
        Ok(child)
    }

    /// Waits until `ready`, called with its process id, succeeds.
    ///
    /// # Errors
    /// If it ends or is not ready in time; with the end of its output.
    pub fn await_ready(&self, patience: Duration, ready: impl Fn(u32) -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            if self.has_ended() {
                return Err(Error::Wrong(format!("{} ended at once:\n{}", self.name, self.last_words())));
            }
            match ready(self.pid()) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(Error::Wrong(format!("{} is not ready: {error}\n{}", self.name, self.last_words())));
                }
                Err(_) => pause(Duration::from_millis(5))?,
            }
        }
    }

    /// End of its output, for an error message.
    pub fn last_words(&self) -> String {
        last_words(&self.said)
    }

    pub fn pid(&self) -> u32 {
        self.process.borrow().id()
    }

    /// True if it has ended by itself.
    pub fn has_ended(&self) -> bool {
        !matches!(self.process.borrow_mut().try_wait(), Ok(None))
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// If it does not end in time, or the experiment is interrupted.
    pub fn ends(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return Err(Error::Wrong(format!("{} takes longer than {within:?}", self.name)));
            }
            pause(Duration::from_millis(5))?;
        }
        Ok(())
    }

    /// Sends it Ctrl-C and waits until it has written its output and ended.
    ///
    /// # Errors
    /// If it does not end within ten seconds.
    pub fn interrupt_and_wait(self) -> Result<()> {
        self.signal(Signal::INT);
        if self.ends_within(Duration::from_secs(10)) {
            return Ok(());
        }
        Err(Error::Wrong(format!("{} did not end when interrupted", self.name)))
    }

    /// Kills it like a crash, without closing its connections gracefully.
    ///
    /// # Errors
    /// If it does not end within two seconds.
    pub fn crash(&self) -> Result<()> {
        self.signal(Signal::KILL);
        if self.ends_within(Duration::from_secs(2)) {
            return Ok(());
        }
        Err(Error::Wrong(format!("{} does not end", self.name)))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile; until it is waited for, its id is not reused.
            let _ = kill_process(pid, signal);
        }
    }

    fn ends_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The second SIGTERM is for processes that drain on the first; SIGKILL would leave the workers of a master
        // running.
        for (signal, patience) in [(Signal::TERM, 2), (Signal::TERM, 2), (Signal::KILL, 2)] {
            if self.has_ended() {
                return;
            }
            self.signal(signal);
            if self.ends_within(Duration::from_secs(patience)) {
                return;
            }
        }
        eprintln!("warning: {} (process {}) does not end", self.name, self.pid());
    }
}

/// Makes the lab the parent of orphaned descendants, so that it can wait for a process that replaces another.
///
/// # Errors
/// If the system refuses it.
pub fn adopt_orphans() -> Result<()> {
    let us = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(us)).or_say(|| "cannot adopt processes".into())
}

/// Process that a child of the lab started to replace itself. Killed on drop, whatever its parent is by then.
pub struct Adopted(u32);

impl Adopted {
    /// Adopts the process with this id.
    pub fn new(pid: u32) -> Adopted {
        Adopted(pid)
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.0).ok().and_then(Pid::from_raw) {
            // It may have ended already. Once its old parent has ended, the lab is its parent and can wait for it.
            let _ = kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}

/// Output of a program that has ended.
pub struct Output {
    /// True if it exited with status 0.
    pub success: bool,
    /// Standard output, then standard error.
    pub text: String,
}

/// Runs a program to its end, for at most `limit`.
///
/// # Errors
/// If it cannot be started, takes longer, or the experiment is interrupted.
pub fn output(command: &[String], limit: Duration) -> Result<Output> {
    let name = &command[0];
    let mut spawned = guarded(command, None)?;
    let spawned = spawned.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = spawned.spawn().or_say(|| format!("cannot start {name}"))?;
    let (out, err) = (process.stdout.take(), process.stderr.take());
    // A process blocks when a pipe is full, so read both outputs while it runs.
    let readers = [out.map(|o| reader(Box::new(o))), err.map(|e| reader(Box::new(e)))];
    let guard = Child { name: name.clone(), said: PathBuf::new(), process: RefCell::new(process) };
    let deadline = Instant::now() + limit;
    while !guard.has_ended() {
        if Instant::now() > deadline {
            return Err(Error::Wrong(format!("`{}` took longer than {limit:?}", command.join(" "))));
        }
        pause(Duration::from_millis(5))?;
    }
    let success = guard.process.borrow_mut().wait().is_ok_and(|status| status.success());
    let text = readers.into_iter().flatten().map(|reader| reader.join().unwrap_or_default()).collect();
    Ok(Output { success, text })
}

fn reader(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes); // after an error, what was read so far is enough
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Prefixes `command` with the util-linux programs that tie its life to the lab's and its threads to a core. Each
/// replaces itself by the next, so the process id stays.
fn guarded(command: &[String], core: Option<usize>) -> Result<Command> {
    let mut whole = Command::new(find("setpriv")?);
    whole.args(["--pdeathsig", "TERM", "--"]);
    if let Some(core) = core {
        whole.args(on_core(core)?);
    }
    whole.args(command);
    Ok(whole)
}

/// Last 12 lines of a process's output, for an error message.
pub fn last_words(said: &Path) -> String {
    let text = fs::read_to_string(said).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn output_gives_both_outputs() {
        let output = output(&["sh".into(), "-c".into(), "echo out; echo err >&2".into()], Duration::from_secs(10));
        let output = output.expect("every machine has a shell");
        assert!(output.success);
        assert_eq!(output.text, "out\nerr\n");
    }

    #[test]
    fn output_ends_what_takes_too_long() {
        let error = output(&words("sleep 60"), Duration::from_millis(50)).err().expect("it takes 60 s");
        assert!(error.to_string().contains("took longer"), "{error}");
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let scratch = Scratch::new().expect("the temporary folder can be written");
        let child = Child::spawn("sleep", &words("sleep 60"), None, &scratch.path().join("said")).expect("it starts");
        let folder = format!("/proc/{}", child.pid());
        assert!(Path::new(&folder).exists());
        drop(child);
        assert!(!Path::new(&folder).exists());
    }

    #[test]
    fn a_missing_program_names_the_way_to_get_it() {
        let error = find("no-such-program-at-all").expect_err("no machine has it").to_string();
        assert!(error.contains("make setup"), "{error}");
    }
}
