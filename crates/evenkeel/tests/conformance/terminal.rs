//! Commands that draw in a terminal: tmux drives `status --watch` and `top` beside a running evenkeel with traffic.

use crate::support::{Endpoint, Folder, Running, address, eventually, get};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const TOKEN: &str = "a-token-that-may-write";

/// A terminal with a shell. Ended when dropped.
struct Terminal {
    name: String,
}

impl Terminal {
    fn start(name: &str) -> Terminal {
        let terminal = Terminal { name: format!("evenkeel-{name}-{}", std::process::id()) };
        let shell = "env -i PATH=/usr/bin:/bin TERM=screen-256color LC_ALL=C.UTF-8 PS1='ready$ ' sh";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30", shell]);
        terminal.shows("ready$");
        terminal
    }

    #[track_caller]
    fn tmux(&self, words: &[&str]) -> String {
        let program = evenkeel_peers::find("tmux").expect("the test looked");
        let done = Command::new(program).args(["-L", &self.name]).args(words).output().expect("it can be started");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Types keys, by their names or as they are.
    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen has a text, and gives the screen.
    #[track_caller]
    fn shows(&self, text: &str) -> String {
        let mut last = String::new();
        let found = crate::support::within(crate::support::DEADLINE, || {
            last = self.screen();
            last.contains(text).then(|| last.clone())
        });
        found.unwrap_or_else(|| panic!("there was no \"{text}\" in\n{last}"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(tmux) = evenkeel_peers::find("tmux") {
            let _ = Command::new(tmux).args(["-L", &self.name, "kill-server"]).output();
        }
    }
}

#[test]
#[ignore = "`make conformance` runs it"]
fn status_and_top_are_driven_in_a_terminal() {
    crate::judges!("tmux");
    let (folder, listen, admin) = (Folder::new("terminal"), address(), address());
    let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
    let (token, silent) = (folder.file("token", TOKEN), address());
    let text = format!(
        "[admin]\nbind = 'unix:{}/admin.sock'\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[listener.web]\nbind = ['{listen}']\n\
         [pool.shop]\nhealth = {{ tcp = {{}}, interval = '200ms' }}\nendpoints = [{{ name = 'one', addr = '{}' }}, \
         {{ name = 'two', addr = '{}' }}, {{ name = 'silent', addr = '{silent}' }}]\n",
        folder.0.display(),
        one.addr,
        two.addr,
    );
    let file = folder.file("evenkeel.toml", &text);
    let running = Running::start(&["run", "-c", &file]);
    let stop = Arc::<AtomicBool>::default();
    let traffic = {
        let (stop, listen) = (stop.clone(), listen.clone());
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                let _ = get(&listen, "/cart");
                std::thread::park_timeout(std::time::Duration::from_millis(5));
            }
        })
    };
    let evenkeel = env!("CARGO_BIN_EXE_evenkeel");

    // The table, drawn again and again until Ctrl-C.
    let terminal = Terminal::start("status");
    terminal.keys(&[&format!("{evenkeel} status --watch -c {file}"), "Enter"]);
    let first = terminal.shows("pool shop");
    assert!(first.contains("silent") && first.contains("down"), "{first}");
    eventually("another table", || (terminal.screen() != first).then_some(()));
    terminal.keys(&["C-c"]);
    terminal.shows("ready$");

    // Over the socket: its pages.
    let terminal = Terminal::start("top");
    terminal.keys(&[&format!("{evenkeel} top -c {file}"), "Enter"]);
    let screen = terminal.shows("requests/s");
    assert!(screen.contains("1 Overview"), "{screen}");
    terminal.shows("2 up");
    terminal.shows("\u{2716} down");
    terminal.keys(&["?"]);
    terminal.shows("drains the endpoint");
    terminal.keys(&["x"]);
    terminal.keys(&["3"]);
    terminal.shows("GET");
    terminal.keys(&["Space", "Enter"]);
    terminal.shows("first byte");
    terminal.keys(&["2"]);
    terminal.shows("shop (random)");
    // A smaller window, and a larger one.
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    eventually("a page without some columns", || {
        let shown = terminal.screen();
        (shown.contains("\u{2716} down") && shown.contains("cannot connect") && !shown.contains("IN FLIGHT"))
            .then_some(())
    });
    terminal.tmux(&["resize-window", "-x", "140", "-y", "35"]);
    terminal.shows("IN FLIGHT");
    // An endpoint is found, looked at, drained once that is confirmed, and undrained.
    terminal.keys(&["/", "two", "Enter", "Down", "Enter"]);
    terminal.shows("last check  passed");
    terminal.keys(&["d"]);
    terminal.shows("Drain two of shop: no new requests, except from its sticky clients? y: yes");
    let states = || get(&admin, "/metrics").expect("an answer").1;
    let is_draining = |wanted: &str| {
        let line = format!("evenkeel_endpoint_state{{pool=\"shop\",endpoint=\"two\",state=\"draining\"}} {wanted}");
        eventually(&line, || states().lines().any(|said| said == line).then_some(()));
    };
    is_draining("0");
    terminal.keys(&["n", "d", "y"]);
    is_draining("1");
    terminal.shows("\u{25cb} draining");
    terminal.shows("drained by uid");
    terminal.keys(&["u", "y"]);
    is_draining("0");
    terminal.keys(&["Escape", "Escape", "q"]);
    terminal.shows("ready$");

    // Over TCP with a token; without, it is seen and not changed.
    terminal.keys(&[&format!("clear; {evenkeel} top shop --admin {admin} --token-file {token}"), "Enter"]);
    terminal.shows("shop (random)");
    terminal.keys(&["Down", "w", "7", "Enter"]);
    terminal.shows("Give one of shop the weight 7? y: yes");
    terminal.keys(&["y"]);
    terminal.shows("Done: Give one of shop the weight 7");
    terminal.keys(&["q"]);
    terminal.shows("ready$");
    terminal.keys(&[&format!("clear; {evenkeel} top shop --admin {admin}"), "Enter"]);
    terminal.shows("shop (random)");
    terminal.keys(&["Down", "x", "y"]);
    terminal.shows("Not done: over TCP only clients with the token");
    // The process ends: what was said last is marked as old, and the terminal is as before when top ends, too.
    stop.store(true, SeqCst);
    traffic.join().expect("it does not panic");
    drop(running);
    let screen = terminal.shows("OLD: cannot query evenkeel at");
    assert!(screen.contains("silent"), "{screen}");
    terminal.keys(&["C-c"]);
    terminal.shows("ready$");
    terminal.keys(&["echo restored", "Enter"]);
    terminal.shows("restored");
}
