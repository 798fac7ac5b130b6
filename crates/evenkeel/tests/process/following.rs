//! Commands that follow a running process end with their reader: a terminal that is gone, a pipe that is closed.

use crate::support::{Endpoint, Folder, Running, address, eventually};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

struct Setup {
    folder: Folder,
    _running: Running,
    _endpoint: Endpoint,
}

impl Setup {
    fn new(name: &str) -> Setup {
        let (folder, endpoint) = (Folder::new(name), Endpoint::start("a"));
        let text = format!(
            "[admin]\nbind = 'unix:{}'\n[listener.web]\nbind = ['{}']\n[pool.web]\nendpoints = ['{}']\n",
            folder.0.join("admin.sock").display(),
            address(),
            endpoint.addr
        );
        let file = folder.file("evenkeel.toml", &text);
        Setup { _running: Running::start(&["run", "-c", &file]), folder, _endpoint: endpoint }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.args(words).arg("--socket").arg(self.folder.0.join("admin.sock"));
        command
    }
}

/// Waits for the end of a command, which is killed if it does not come.
#[track_caller]
fn ends(what: &str, mut child: Child) {
    struct Killed<'c>(&'c mut Child);
    impl Drop for Killed<'_> {
        fn drop(&mut self) {
            let _ = self.0.kill();
        }
    }
    let child = Killed(&mut child);
    eventually(&format!("the end of {what}"), || child.0.try_wait().expect("it is ours"));
}

/// A terminal: the side of a person, and that of programs.
fn terminal() -> (OwnedFd, OwnedFd) {
    // Not the terminal of this session, so that no signal of it comes.
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal is left");
    grantpt(&person).expect("it is ours");
    unlockpt(&person).expect("it is ours");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let program = open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("it is there");
    (person, program)
}

#[test]
fn top_ends_with_its_terminal() {
    let setup = Setup::new("following-top");
    let (person, program) = terminal();
    let copy = || Stdio::from(program.try_clone().expect("a descriptor is left"));
    let child = setup.command(&["top"]).stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("it starts");
    drop(program);
    // It draws once it runs.
    let mut person = std::fs::File::from(person);
    person.read_exact(&mut [0; 64]).expect("it draws");
    drop(person);
    ends("top", child);
}

#[test]
fn commands_that_follow_end_with_their_reader_though_nothing_happens() {
    let setup = Setup::new("following-pipes");
    for words in [&["ready", "--follow"][..], &["status", "--watch"], &["events", "--follow"], &["tap"]] {
        let mut child = setup.command(words).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut reader = BufReader::new(child.stdout.take().expect("it is piped"));
        if ["ready", "status"].contains(&words[0]) {
            reader.read_line(&mut String::new()).expect("it prints");
        }
        drop(reader);
        ends(words[0], child);
    }
}
