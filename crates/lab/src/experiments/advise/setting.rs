//! The configuration of a case with addresses of this machine, and runs of evenkeel with it.

use super::case::Case;
use super::traffic::{Clients, Figures, WARM_UP};
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::hosts::listens;
use crate::origin;
use crate::procfs::Cpu;
use crate::timed::Endpoints;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limit of calls of the program; advice simulates for some seconds.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Time after which evenkeel has written its access log.
const WRITTEN: Duration = Duration::from_secs(2);

/// Case with its running endpoints.
pub struct Setting {
    pub case: &'static Case,
    evenkeel: String,
    folder: PathBuf,
    endpoints: Endpoints,
    ports: Vec<u16>,
    admin: Option<u16>,
    /// Original configuration in the terms of evenkeel.
    pub text: String,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    pub clients: Figures,
    /// CPU time of evenkeel for each request, in microseconds.
    pub cpu_us: f64,
    /// Requests that reached endpoints, for each request of a client.
    pub reached: f64,
    /// Bytes of bodies to clients, for each request.
    pub bytes: f64,
}

impl Setting {
    /// Starts the endpoints of a case and writes its configuration, converted if it is of another program.
    ///
    /// # Errors
    /// The configuration does not have the addresses of the table, or cannot be converted.
    pub fn new(case: &'static Case, evenkeel: &str, folder: &Path) -> Result<Setting> {
        let folder = folder.join(case.name);
        fs::create_dir_all(&folder).or_say(|| format!("cannot create {}", folder.display()))?;
        let endpoints = Endpoints::start(case.servers)?;
        let listeners = case.streams.iter().map(|stream| stream.listener).max().unwrap_or(0) + 1;
        let [admin, free @ ..] = origin::held_ports::<4>()?;
        let ports = free[..listeners].to_vec();
        let has_admin = case.edits.iter().any(|(_, to)| to.contains("{admin}"));
        let mut setting = Setting {
            case,
            evenkeel: evenkeel.to_owned(),
            folder,
            endpoints,
            ports,
            admin: has_admin.then_some(admin),
            text: String::new(),
        };
        // A key of 32 bytes in base64, for sticky sessions.
        write(&setting.file("sticky.key"), &format!("{}\n", "c3RpY2t5".repeat(5) + "c3Q="))?;
        let text = setting.edited(admin)?;
        setting.text = setting.logged(match case.from {
            None => text,
            Some(program) => setting.converted(program, &text)?,
        });
        Ok(setting)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn log(&self) -> PathBuf {
        self.file("access.log")
    }

    /// Text of the case with addresses of this machine.
    fn edited(&self, admin: u16) -> Result<String> {
        let mut text = self.case.text.to_owned();
        for (from, to) in self.case.edits {
            if !text.contains(from) {
                return Err(Error::Wrong(format!("the configuration of `{}` has no `{from}`", self.case.name)));
            }
            let mut to = to.replace("{admin}", &admin.to_string()).replace("{log}", &self.log().display().to_string());
            to = to.replace("{folder}", &self.folder.display().to_string());
            for (kind, ports) in [("l", &self.ports), ("s", &self.endpoints.ports)] {
                for (number, port) in ports.iter().enumerate() {
                    to = to.replace(&format!("{{{kind}{number}}}"), &port.to_string());
                }
            }
            text = text.replace(from, &to);
        }
        Ok(text)
    }

    fn converted(&self, program: &str, text: &str) -> Result<String> {
        let file = self.file(&format!("original.{program}"));
        write(&file, text)?;
        let command = self.command(&["convert", "--json", "--from", program, &file.display().to_string()]);
        let output = child::output(&command, PATIENCE)?;
        let json = serde_json::Deserializer::from_str(&output.text).into_iter::<Value>().next();
        let toml = json.and_then(|json| json.ok()?["toml"].as_str().map(str::to_owned));
        toml.ok_or_else(|| Error::Wrong(format!("cannot convert `{}`: {}", self.case.name, output.text)))
    }

    /// Configuration with an access log: at the path of the case, in the format of the configuration if it has a log.
    fn logged(&self, text: String) -> String {
        let log = self.log().display().to_string();
        let syslog = "syslog:udp:127.0.0.1:514";
        match text.contains("access_log") {
            true => text.replace(syslog, &log),
            false => format!("{text}\n[telemetry]\naccess_log = {{ path = \"{log}\" }}\n"),
        }
    }

    fn command(&self, words: &[&str]) -> Vec<String> {
        std::iter::once(&*self.evenkeel).chain(words.iter().copied()).map(str::to_owned).collect()
    }

    /// Writes a configuration and checks it.
    ///
    /// # Errors
    /// `evenkeel check` does not accept it.
    pub fn checked(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.file(&format!("{name}.toml"));
        write(&file, text)?;
        let output = child::output(&self.command(&["check", &file.display().to_string()]), PATIENCE)?;
        match output.success {
            true => Ok(file),
            false => Err(Error::Wrong(format!("check does not accept {}:\n{}", file.display(), output.text))),
        }
    }

    /// Runs evenkeel with a configuration under the load of a seed, for some time after the warm-up.
    ///
    /// # Errors
    /// Something does not start, or no request is answered.
    pub fn run(&self, config: &Path, length: Duration, seed: u64) -> Result<Run> {
        let evenkeel = self.start(config)?;
        self.load(&evenkeel, length, seed)
    }

    fn start(&self, config: &Path) -> Result<Child> {
        let command = self.command(&["run", "-c", &config.display().to_string()]);
        let process = Child::spawn("evenkeel", &command, None, &self.file("output.txt"))?;
        process
            .await_ready(child::PATIENCE, |pid| self.ports.iter().try_for_each(|port| listens(pid, "tcp", *port)))?;
        Ok(process)
    }

    fn load(&self, evenkeel: &Child, length: Duration, seed: u64) -> Result<Run> {
        self.endpoints.begin(length + WARM_UP);
        let clients = Clients::start(self.case, self.ports.clone(), length + WARM_UP, seed);
        child::pause(WARM_UP)?;
        let (cpu, reached) = (Cpu::of(&[evenkeel.pid()])?, self.endpoints.requests());
        let clients = clients.end()?;
        let used = Cpu::of(&[evenkeel.pid()])?.since(&cpu).time;
        let reached = self.endpoints.requests() - reached;
        self.endpoints.end();
        let requests = (clients.answered + clients.failed) as f64;
        if clients.answered == 0 {
            return Err(Error::Wrong(format!("`{}` answers nothing:\n{}", self.case.name, evenkeel.last_words())));
        }
        Ok(Run {
            clients,
            cpu_us: used.as_secs_f64() * 1e6 / requests,
            reached: reached as f64 / requests,
            bytes: clients.bytes as f64 / requests,
        })
    }

    /// Makes a log with the original configuration, and asks for advice by it.
    ///
    /// # Errors
    /// Something does not start, or there is no advice.
    pub fn ask(&self, config: &Path, length: Duration) -> Result<Value> {
        let log = self.log();
        let _ = fs::remove_file(&log); // of an earlier experiment, if there was one
        let evenkeel = self.start(config)?;
        self.load(&evenkeel, length, 0)?;
        child::pause(WRITTEN)?;
        let (config, log) = (config.display().to_string(), log.display().to_string());
        let mut command = self.command(&["advise", "--json", "-c", &config, "--log", &log]);
        command.extend(self.admin.into_iter().flat_map(|port| ["--admin".to_owned(), format!("127.0.0.1:{port}")]));
        write(&self.file("advise.command"), &(command.join(" ") + "\n"))?;
        let output = child::output(&command, PATIENCE)?;
        let first = serde_json::Deserializer::from_str(&output.text).into_iter::<Value>().next();
        let Some(Ok(advice)) = first.filter(|json| json.as_ref().is_ok_and(Value::is_object)) else {
            return Err(Error::Wrong(format!("no advice for `{}`: {}", self.case.name, output.text)));
        };
        // The log of this load is what the advice is about; runs append to it, so it is kept under another name.
        let kept = fs::rename(&log, self.file("advised.log"));
        kept.or_say(|| format!("evenkeel wrote no log {log}"))?;
        Ok(advice)
    }
}

impl Run {
    /// Share of requests that failed.
    pub fn failed(&self) -> f64 {
        self.clients.failed as f64 / (self.clients.answered + self.clients.failed).max(1) as f64
    }

    pub fn json(&self) -> Value {
        json!({
            "answered": self.clients.answered, "failed": self.clients.failed, "p50_ms": self.clients.p50_ms,
            "p99_ms": self.clients.p99_ms, "cpu_us": self.cpu_us, "reached": self.reached, "bytes": self.bytes,
        })
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).or_say(|| format!("cannot write {}", path.display()))
}
