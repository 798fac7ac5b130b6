//! The original programs, each with a configuration of its own.

use crate::client::answer;
use evenkeel_convert::{Ask, From};
use evenkeel_peers::find;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Deadline of a start or an end.
const LATE: Duration = Duration::from_secs(20);

/// A running program, which ends on drop. `None`: the model of Traefik.
pub struct Original(Option<Child>);

impl Original {
    /// Name of the program of a format, if it is one that runs here.
    pub fn program(of: From) -> Option<&'static str> {
        match of {
            From::Haproxy => Some("haproxy"),
            From::Nginx => Some("nginx"),
            From::Caddy => Some("caddy"),
            From::Envoy => Some("envoy"),
            From::Traefik => None,
        }
    }

    /// Starts a program with the configuration `text` in the folder `dir`, and waits until it listens at `listens`.
    ///
    /// # Errors
    /// The output of the program, if it ended: it does not accept the configuration.
    pub fn start(of: From, text: &str, dir: &Path, listens: &[SocketAddr]) -> Result<Original, String> {
        let Some(program) = Original::program(of) else {
            return listens.iter().try_for_each(|at| crate::traefik::start(text, *at)).map(|()| Original(None));
        };
        let path = find(program).unwrap_or_else(|| panic!("{program} was there"));
        let file = dir.join(file_name(of));
        fs::write(&file, text).expect("a folder of ours");
        let said = fs::File::create(dir.join("original.log")).expect("a folder of ours");
        let mut command = Command::new(path);
        match of {
            From::Haproxy => command.args(["-db", "-f"]).arg(&file),
            From::Nginx => command.arg("-p").arg(dir).arg("-c").arg(&file).args(["-e", "stderr"]),
            From::Caddy => command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file).env("HOME", dir),
            From::Envoy => {
                command.args(["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"]).arg(&file)
            }
            From::Traefik => unreachable!("it does not run"),
        };
        command.current_dir(dir).stdin(Stdio::null()).stdout(said.try_clone().expect("a file")).stderr(said);
        let mut child = command.spawn().expect("it starts");
        let begun = Instant::now();
        for listen in listens {
            while std::net::TcpStream::connect(listen).is_err() {
                if child.try_wait().expect("a child of ours").is_some() {
                    return Err(fs::read_to_string(dir.join("original.log")).unwrap_or_default());
                }
                assert!(begun.elapsed() < LATE, "{program} does not listen at {listen}:\n{text}");
                thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(Original(Some(child)))
    }

    /// True if the program has ended by itself, or does so in a moment.
    pub fn has_ended(&mut self) -> bool {
        let begun = Instant::now();
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        while begun.elapsed() < Duration::from_millis(200) {
            if self.0.as_mut().is_none_or(ended) {
                return true;
            }
            thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        // Workers of NGINX end with their master only if it ends by itself.
        let _ = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > LATE {
                let _ = child.kill();
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Name of a configuration by which its program is recognised.
pub fn file_name(of: From) -> &'static str {
    match of {
        From::Haproxy => "haproxy.cfg",
        From::Nginx => "nginx.conf",
        From::Caddy => "Caddyfile",
        From::Envoy => "envoy.yaml",
        From::Traefik => "traefik.yml",
    }
}

#[test]
fn haproxy_answers() {
    if !evenkeel_peers::installed(&["haproxy"]) {
        return;
    }
    let addr = evenkeel_peers::own_addr();
    let text = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend a\n bind {addr}\n http-request deny\n"
    );
    let dir = crate::case::Folder::new();
    let running = Original::start(From::Haproxy, &text, dir.path(), &[addr]).expect("it accepts that");
    assert_eq!(answer(addr, &Ask::get("a.test", "/"), 0).expect("a response").status, 403);
    drop(running);
    assert!(Original::start(From::Haproxy, "nonsense\n", dir.path(), &[addr]).is_err());
}
