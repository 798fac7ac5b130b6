//! System of a live case: its endpoints, and runs of evenkeel in front of them, whose access logs are read.

use super::cases::{Question, Row};
use super::clients;
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::hosts::listens;
use crate::origin;
use crate::timed::Endpoints;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct System<'r> {
    row: &'r Row,
    evenkeel: String,
    folder: PathBuf,
    endpoints: Endpoints,
}

/// Policy and conditions of a run of evenkeel, and the seed of its work.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    pub policy: &'static str,
    /// True under the change of the question, false as the log is made.
    pub is_asked: bool,
    pub length: Duration,
    pub seed: u64,
}

/// Request as an access log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub latency_ms: f64,
    /// Endpoints of its tries, by name.
    pub tries: Vec<String>,
}

impl System<'_> {
    /// Starts the endpoints of a row. Files of its runs are in a folder of its name.
    ///
    /// # Errors
    /// The folder cannot be created, or there are no free ports.
    pub fn start<'r>(row: &'r Row, evenkeel: &str, folder: &Path) -> Result<System<'r>> {
        let folder = folder.join(row.name);
        fs::create_dir_all(&folder).or_say(|| format!("cannot create {}", folder.display()))?;
        Ok(System { row, evenkeel: evenkeel.to_owned(), folder, endpoints: Endpoints::start(row.endpoints)? })
    }

    /// Names of the endpoints in access logs, as the question has them; an added endpoint has the name that responses of
    /// `whatif` give it.
    pub fn names(&self) -> Vec<String> {
        let of = |at: usize| match self.row.question == Question::Add && at + 1 == self.row.endpoints.len() {
            true => "added 0".to_owned(),
            false => self.name(at),
        };
        self.row.members(true).into_iter().map(of).collect()
    }

    /// Name of an endpoint by its index in the row.
    fn name(&self, at: usize) -> String {
        format!("127.0.0.1:{}", self.endpoints.ports[at])
    }

    /// Words that ask `whatif` the question of the row.
    pub fn words(&self) -> Vec<String> {
        let words = |option: &str, value: String| vec![option.to_owned(), value];
        match self.row.question {
            Question::Policies => Vec::new(),
            Question::Load(factor) => words("--load", factor.to_string()),
            Question::Balancers(count) => words("--balancers", count.to_string()),
            Question::Add => words("--add", 1.to_string()),
            Question::Remove(at) => words("--remove", self.name(at)),
            Question::Retries(count) => words("--retries", count.to_string()),
        }
    }

    /// Runs evenkeel under load, and returns the path of the access log, of the first balancer if there are several, and its
    /// requests, of all balancers. `name` of the files.
    ///
    /// # Errors
    /// Something does not start, or requests get no response.
    pub fn run(&self, name: &str, course: &Course) -> Result<(PathBuf, Vec<Line>)> {
        let (mut load, mut balancers) = (1.0, 1);
        match self.row.question {
            Question::Load(factor) if course.is_asked => load = factor,
            Question::Balancers(count) if course.is_asked => balancers = count,
            _ => {}
        }
        let ports = origin::held_ports::<4>()?;
        let ports = &ports[..balancers];
        let logs: Vec<PathBuf> = (0..balancers).map(|at| self.folder.join(format!("{name}-{}.log", at + 1))).collect();
        let started = ports.iter().zip(&logs).map(|(port, log)| self.balancer(*port, log, course));
        let running = started.collect::<Result<Vec<Child>>>()?;
        self.endpoints.begin(course.length);
        clients::run(self.row, load, ports, course.length, course.seed)?;
        self.endpoints.end();
        // A balancer that ends has written its log.
        drop(running);
        let mut lines = Vec::new();
        for log in &logs {
            let text = fs::read_to_string(log).or_say(|| format!("cannot read {}", log.display()))?;
            lines.extend(text.lines().filter_map(Line::of).skip(text.lines().count() / 10));
        }
        match lines.len() {
            0 => Err(Error::Refused(format!("evenkeel wrote no lines to {}", logs[0].display()))),
            _ => Ok((logs[0].clone(), lines)),
        }
    }

    /// Starts a balancer with an empty log.
    fn balancer(&self, port: u16, log: &Path, course: &Course) -> Result<Child> {
        let retries = match self.row.question {
            Question::Retries(count) if course.is_asked => count,
            _ => self.row.retries,
        };
        let mut text = format!(
            "[runtime]\nworkers = 1\n\n[telemetry]\naccess_log = {{ path = \"{}\" }}\n\n[listener.web]\nbind = [\"127.0.0.1:{port}\"]\n\
             pool = \"web\"\n\n[pool.web]\nbalance = \"{}\"\nretry = {{ attempts = {retries}, on = [\"connect\", \"503\"], budget = 1.0 }}\n\
             endpoints = [\n",
            log.display(),
            course.policy
        );
        for at in self.row.members(course.is_asked) {
            let _ = writeln!(text, "  {{ addr = \"{}\" }},", self.name(at));
        }
        text += "]\n";
        let _ = fs::remove_file(log); // of an earlier run, if there was one
        let config = log.with_extension("toml");
        fs::write(&config, text).or_say(|| format!("cannot write {}", config.display()))?;
        let command = [&*self.evenkeel, "run", "-c", &config.display().to_string()].map(str::to_owned);
        let process = Child::spawn("evenkeel", &command, None, &log.with_extension("txt"))?;
        process.await_ready(child::PATIENCE, |pid| listens(pid, "tcp", port))?;
        Ok(process)
    }
}

impl Line {
    /// Reads a line of evenkeel; `None` for a request that no endpoint got.
    fn of(line: &str) -> Option<Line> {
        let json: Value = serde_json::from_str(line).ok()?;
        let named = |of: &Value| Some(of["endpoint"].as_str()?.to_owned());
        let tries = match json["attempts"].as_array() {
            Some(attempts) => attempts.iter().filter_map(named).collect(),
            None => vec![named(&json)?],
        };
        Some(Line { latency_ms: json["t_total"].as_f64()?, tries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_tries() {
        let once = Line::of(r#"{"endpoint":"127.0.0.1:81","t_total":1.5}"#).unwrap();
        assert_eq!(once, Line { latency_ms: 1.5, tries: vec!["127.0.0.1:81".into()] });
        let twice = Line::of(r#"{"endpoint":"b","t_total":2,"attempts":[{"endpoint":"a"},{"endpoint":"b"}]}"#).unwrap();
        assert_eq!(twice.tries, ["a", "b"]);
        assert_eq!(Line::of(r#"{"endpoint":null,"t_total":2}"#), None);
    }
}
