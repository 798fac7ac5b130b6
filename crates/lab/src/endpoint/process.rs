//! Endpoint as a process: the subcommand that runs it, and the guard with which an experiment starts
//! it, breaks it, revives it, and reads its records.

use super::mode::{Dial, Mode};
use super::request::{Arrival, Saw};
use super::serve;
use crate::child::{self, Child};
use crate::error::{Error, Result, While};
use crate::http;
use crate::origin;
use clap::{Arg, ArgMatches, Command, value_parser};
use rustix::process::Signal;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Adds the arguments of the hidden subcommand `endpoint`.
pub fn arguments(command: Command) -> Command {
    let address = |name: &'static str| Arg::new(name).required(true).value_parser(value_parser!(SocketAddr));
    command.arg(address("serve")).arg(address("orders"))
}

/// Runs an endpoint until it is killed. Prints a line for each request of the load.
///
/// # Errors
/// If it cannot listen.
pub fn run(matches: &ArgMatches) -> Result<()> {
    let address = |name: &str| *matches.get_one::<SocketAddr>(name).expect("clap requires it");
    let doing = || format!("an endpoint cannot listen on {} and {}", address("serve"), address("orders"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().or_say(doing)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address("serve")).await.or_say(doing)?;
        let orders = TcpListener::bind(address("orders")).await.or_say(doing)?;
        let dial = Arc::new(Dial::default());
        let saw: Saw = Arc::new(|arrival: Arrival| println!("{}", arrival.line()));
        tokio::spawn(serve::obey(orders, Arc::clone(&dial)));
        serve::serve(listener, dial, saw).await;
        Ok(())
    })
}

/// Endpoint in a separate process, ended when dropped. Use it from the main thread only, see `Child::spawn`.
pub struct Endpoint {
    pub address: SocketAddr,
    orders: SocketAddr,
    folder: PathBuf,
    lives: Vec<PathBuf>,
    process: Option<Child>,
    stopped: bool,
}

impl Endpoint {
    /// Starts the endpoint of this number on a separate loopback address, so that no outgoing connection takes its
    /// port while it is dead. Writes into `folder`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(number: u8, folder: &Path) -> Result<Endpoint> {
        let [.., high, low] = std::process::id().to_be_bytes();
        let ip = Ipv4Addr::new(127, high | 1, low, number.saturating_add(11));
        // Both ports are held until both are known, or they might be equal.
        let held = (origin::listen_anywhere(ip)?, origin::listen_anywhere(ip)?);
        let (address, orders) = (held.0.1, held.1.1);
        drop(held);
        let folder = folder.to_path_buf();
        let mut endpoint = Endpoint { address, orders, folder, lives: Vec::new(), process: None, stopped: false };
        endpoint.spawn()?;
        Ok(endpoint)
    }

    fn spawn(&mut self) -> Result<()> {
        let words = [child::this()?, "endpoint".into(), self.address.to_string(), self.orders.to_string()];
        let said = self.folder.join(format!("endpoint-{}.{}", self.address.ip(), self.lives.len()));
        let process = Child::start("an endpoint", &words, None, &said, |_| http::accepts(self.orders))?;
        self.lives.push(said);
        self.process = Some(process);
        Ok(())
    }

    /// Switches the endpoint to a mode.
    ///
    /// # Errors
    /// If it does not respond.
    pub fn set(&self, mode: Mode) -> Result<()> {
        let path = format!("/{}", mode.name());
        http::get(&mut http::connect_to(self.orders)?, &path, "1.1").map(drop)
    }

    /// Kills it: its connections are reset, and new connections refused.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |process| process.crash())
    }

    /// Stops it like a debugger: the kernel still accepts connections, but no thread reads.
    pub fn stop(&mut self) {
        if let Some(process) = &self.process {
            process.signal(Signal::STOP);
            self.stopped = true;
        }
    }

    /// Makes it healthy again, whatever its state.
    ///
    /// # Errors
    /// If it cannot be started or does not respond.
    pub fn revive(&mut self) -> Result<()> {
        match &self.process {
            None => return self.spawn(),
            Some(process) => process.signal(Signal::CONT),
        }
        self.stopped = false;
        self.set(Mode::Well)
    }

    /// Requests of the load that have reached it so far, over all restarts.
    ///
    /// # Errors
    /// If its output cannot be read, or shows that it failed by itself.
    pub fn arrivals(&self) -> Result<Vec<Arrival>> {
        let mut arrivals = Vec::new();
        for life in &self.lives {
            let text = fs::read_to_string(life).or_say(|| format!("cannot read {}", life.display()))?;
            for line in text.lines() {
                let arrival = Arrival::of_line(line);
                let unknown = || Error::Wrong(format!("an endpoint failed by itself:\n{}", child::last_words(life)));
                arrivals.push(arrival.ok_or_else(unknown)?);
            }
        }
        Ok(arrivals)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // A stopped process would not handle SIGTERM.
        if let Some(process) = self.process.as_ref().filter(|_| self.stopped) {
            process.signal(Signal::CONT);
        }
    }
}
