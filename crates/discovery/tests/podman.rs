//! Pools that follow containers of the real Podman, over the API that it shares with Docker.

use evenkeel_config::plan::Endpoint;
use evenkeel_discovery::Discovery;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Storage and API of a Podman of the test's own.
struct Podman {
    folder: PathBuf,
    service: Option<Child>,
    /// Storages share locks and networks: the end of one stops containers of another.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Podman {
    /// Returns `None` where it cannot run.
    fn start() -> Option<Podman> {
        if !evenkeel_peers::installed(&["podman", "runc", "busybox"]) {
            return None;
        }
        if !Path::new("/sys/fs/cgroup").exists() || std::env::var("USER").is_ok_and(|user| user != "root") {
            evenkeel_peers::skip("containers need root here");
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = std::env::temp_dir().join(format!("evenkeel-podman-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let root = folder.join("root");
        std::fs::create_dir_all(root.join("bin")).expect("a folder");
        std::fs::create_dir_all(root.join("tmp")).expect("a folder");
        std::fs::copy(evenkeel_peers::find("busybox").expect("it is installed"), root.join("bin/busybox"))
            .expect("a copy");
        let image = folder.join("image.tar");
        let packed = Command::new("tar").args(["-C", &root.display().to_string(), "-cf"]).arg(&image).arg(".").status();
        assert!(packed.expect("tar runs").success());
        let mut podman = Podman { folder, service: None, _alone: alone };
        podman.run(&["import", "-q", &image.display().to_string(), "endpoint:1"]);
        podman.run(&["import", "-q", "-c", "EXPOSE 80", &image.display().to_string(), "exposing:1"]);
        podman.serve();
        Some(podman)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("podman");
        let at = |name: &str| self.folder.join(name).display().to_string();
        command.args(["--root", &at("storage"), "--runroot", &at("run"), "--runtime", "runc"]);
        command.args(["--cgroup-manager", "cgroupfs", "--storage-driver", "vfs", "--events-backend", "file"]);
        command
    }

    fn run(&self, arguments: &[&str]) {
        if let Err(why) = self.try_run(arguments) {
            panic!("{arguments:?}: {why}");
        }
    }

    fn try_run(&self, arguments: &[&str]) -> Result<(), String> {
        let output = self.command().args(arguments).output().expect("podman runs");
        let why = || String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or_else(why)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("api.sock")
    }

    /// Has the API listen, and waits until it does.
    fn serve(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let mut command = self.command();
        command.args(["system", "service", "--time", "0"]).arg(format!("unix:{}", self.socket().display()));
        self.service = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("podman runs"));
        let until = Instant::now() + Duration::from_secs(30);
        while !self.socket().exists() {
            assert!(Instant::now() < until, "podman serves no API");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process of the API; containers go on.
    fn kill(&mut self) {
        if let Some(mut service) = self.service.take() {
            service.kill().expect("it is ours");
            service.wait().expect("it ends");
        }
    }

    /// Starts a container in the network of the host, that the label of a pool names.
    fn start_container(&self, name: &str, labels: &[&str]) {
        let mut options = vec!["--network", "host"];
        labels.iter().for_each(|label| options.extend(["--label", label]));
        self.start_image(name, "endpoint:1", &options).unwrap_or_else(|why| panic!("{name}: {why}"));
    }

    /// Starts a container of an image, that the label of a pool names.
    fn start_image(&self, name: &str, image: &str, options: &[&str]) -> Result<(), String> {
        let mut arguments = vec!["run", "-d", "--name", name, "--label", "pool=web"];
        arguments.extend(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]);
        arguments.extend(options);
        arguments.extend([image, "/bin/busybox", "sleep", "1000"]);
        self.try_run(&arguments)
    }

    /// Runs the health check of a container until it has a result. Without systemd, nothing else runs it.
    fn check_until(&self, name: &str, wanted: &str) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let run = self.try_run(&["healthcheck", "run", name]);
            let mut inspect = self.command();
            inspect.args(["inspect", "--format", "{{.State.Health.Status}}", name]);
            let output = inspect.output().expect("podman runs");
            let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if found == wanted {
                return;
            }
            assert!(Instant::now() < until, "{found:?}, not {wanted:?}: {run:?}");
        }
    }

    /// Follows the containers of the pool.
    async fn follow(&self) -> Discovery {
        let text = format!(
            "[discovery.docker]\nurl = 'unix:{}'\n[listener.web]\nbind = ['127.0.0.1:1']\npool = 'web'\n\
             [pool.web]\ndiscover = {{ docker = {{ labels = ['pool=web'] }} }}\n",
            self.socket().display()
        );
        let plan = evenkeel_config::parse_str("test.toml", &text, &|_| None).plan.expect("a plan");
        let discovery = Discovery::default();
        let following = discovery.follow(&plan).await;
        discovery.keep(following);
        discovery
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command().args(["rm", "--all", "--force", "--time", "0"]).output();
        self.kill();
        let _ = self.command().args(["system", "reset", "--force"]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Endpoint as tests compare it, without the address that Podman chose in a network of its own.
fn shown(endpoint: &Endpoint) -> String {
    let addr = endpoint.addr.to_string();
    let port = addr.rsplit(':').next().unwrap_or_default();
    let addr = if addr.starts_with("127.0.0.1:") { addr } else { format!("OWN:{port}") };
    format!("{} {addr} {}", endpoint.name, endpoint.weight)
}

async fn becomes(discovery: &mut Discovery, wanted: &[&str]) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut found: Vec<String> = discovery.lists()[0].1.iter().map(shown).collect();
        found.sort();
        if found == wanted {
            return;
        }
        assert!(Instant::now() < until, "{found:?}, not {wanted:?}");
        let _ = tokio::time::timeout(Duration::from_millis(200), discovery.changed()).await;
    }
}

#[tokio::test]
async fn containers_come_and_go_and_stay_while_the_engine_is_away() {
    let Some(mut podman) = Podman::start() else { return };
    podman.start_container("a", &["evenkeel.port=18081"]);
    let mut discovery = podman.follow().await;
    becomes(&mut discovery, &["a 127.0.0.1:18081 1"]).await;
    podman.start_container("b", &["evenkeel.port=18082", "evenkeel.weight=5"]);
    podman.start_container("other", &["evenkeel.port=nonsense"]);
    becomes(&mut discovery, &["a 127.0.0.1:18081 1", "b 127.0.0.1:18082 5"]).await;
    podman.kill();
    podman.run(&["rm", "--force", "--time", "0", "a"]);
    // The list stays until the engine is there again.
    assert_eq!(discovery.lists()[0].1.len(), 2);
    podman.serve();
    becomes(&mut discovery, &["b 127.0.0.1:18082 5"]).await;
}

#[tokio::test]
async fn ports_that_lists_of_podman_lack_are_those_that_the_image_exposes_and_the_container_publishes() {
    let Some(podman) = Podman::start() else { return };
    if podman.start_image("exposing", "exposing:1", &[]).is_err() {
        return evenkeel_peers::skip("containers get no network of their own here");
    }
    // Podman joins consecutive ports in its list, which has only the first of these.
    podman.start_image("two", "endpoint:1", &["--expose", "80", "--expose", "81"]).expect("it has a network");
    podman.start_image("same", "endpoint:1", &["-p", "127.0.0.1:18097-18098:80-81"]).expect("the ports are free");
    podman.start_image("one", "endpoint:1", &["--expose", "82"]).expect("it has a network");
    let mut discovery = podman.follow().await;
    becomes(&mut discovery, &["exposing OWN:80 1", "one OWN:82 1"]).await;
}

#[tokio::test]
async fn a_container_counts_while_its_health_check_passes() {
    let Some(podman) = Podman::start() else { return };
    let check = r#"["/bin/busybox","test","-e","/tmp/ok"]"#;
    let options =
        ["--network", "host", "--label", "evenkeel.port=18081", "--health-cmd", check, "--health-retries", "1"];
    podman.start_image("a", "endpoint:1", &options).expect("it starts");
    podman.start_container("b", &["evenkeel.port=18082"]);
    let mut discovery = podman.follow().await;
    becomes(&mut discovery, &["b 127.0.0.1:18082 1"]).await;
    podman.run(&["exec", "a", "/bin/busybox", "touch", "/tmp/ok"]);
    podman.check_until("a", "healthy");
    becomes(&mut discovery, &["a 127.0.0.1:18081 1", "b 127.0.0.1:18082 1"]).await;
    podman.run(&["exec", "a", "/bin/busybox", "rm", "/tmp/ok"]);
    podman.check_until("a", "unhealthy");
    becomes(&mut discovery, &["b 127.0.0.1:18082 1"]).await;
}
