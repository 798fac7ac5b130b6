//! Interface to a mechanism of the kernel: [`Driver`].

use crate::service::Service;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Mechanism of the kernel that balances. It is used by a single thread. Its objects carry evenkeel's name, and objects
/// that do not is never touched.
pub trait Driver: Send {
    /// Largest table of [`Policy::Maglev`](crate::service::Policy::Maglev) that it can use.
    fn table_max(&self) -> u64 {
        u64::MAX
    }

    /// True if open flows end when it is [removed](Self::remove).
    fn carries_flows(&self) -> bool {
        false
    }

    /// Returns everything that this machine lacks for these services, and every clash with foreign objects.
    /// Changes nothing.
    fn lacks(&self, services: &[Service]) -> Vec<Lack>;

    /// Takes over the objects of an earlier process, which continue to forward meanwhile. Returns the numbers that
    /// endpoints have there. The first [`apply`](Self::apply) removes unwanted objects.
    ///
    /// # Errors
    /// The kernel refuses to say.
    fn adopt(&mut self) -> Result<Vec<(SocketAddr, u32)>, Fault>;

    /// Changes the kernel to these services, all or nothing: after an error, the kernel is as before. Costs as
    /// much as the services that change.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn apply(&mut self, change: &Change<'_>) -> Result<(), Fault>;

    /// Follows changes of the machine, as of its interfaces: called ten times a second.
    fn follow(&mut self) {}

    /// Reads counts of endpoints, and does its periodic work: called once a second.
    ///
    /// # Errors
    /// The kernel refuses to say.
    fn read(&mut self, readings: &mut dyn FnMut(Reading)) -> Result<(), Fault>;

    /// Returns counts of unusual events, as flows for which no port was left, by reason; they wrap.
    ///
    /// # Errors
    /// The kernel refuses to say.
    fn totals(&self) -> Result<Vec<(&'static str, u64)>, Fault> {
        Ok(Vec::new())
    }

    /// Describes the kernel's objects under this name, for `cleanup`; `None` if nothing. Used instead of
    /// [`adopt`](Self::adopt) and before [`remove`](Self::remove).
    ///
    /// # Errors
    /// The kernel refuses to say.
    fn found(&mut self) -> Result<Option<String>, Fault> {
        let known = self.adopt()?;
        Ok((!known.is_empty()).then(|| endpoints(known.len())))
    }

    /// True if others have removed this driver's objects from the kernel. It has forgotten all services then, which the
    /// next [`apply`](Self::apply) sets anew.
    fn lost(&mut self) -> bool {
        false
    }

    /// Removes everything from the kernel, at the end of the process or for `cleanup`.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn remove(&mut self) -> Result<(), Fault>;

    /// Describes the kernel's objects of a service, for operators: rules, entries, counts; a line each.
    ///
    /// # Errors
    /// The kernel refuses to say.
    fn explain(&mut self, service: &Service) -> Result<Vec<String>, Fault>;
}

/// Returns a number of endpoints in words, as `1 endpoint`.
pub fn endpoints(n: usize) -> String {
    format!("{n} endpoint{}", if n == 1 { "" } else { "s" })
}

/// Change from the services that a driver has to those that it shall have.
pub struct Change<'c> {
    /// Services that are new or differ.
    pub set: Vec<&'c Service>,
    /// Names of services that end.
    pub removed: Vec<Arc<str>>,
    /// Numbers of endpoints that are in no service any more. Their flows of datagrams end, their connections continue.
    pub left: Vec<u32>,
}

/// Flows of an endpoint, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub id: u32,
    /// Flows that have begun and not ended; of TCP, those whose handshake is complete.
    pub active: u32,
    /// Flows so far that were directed to it; wraps.
    pub started: u64,
    /// Flows so far that it refused or did not answer; wraps. 0 if the kernel does not know.
    pub failed: u64,
}

/// Resource or capability that the machine lacks, or a clash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub problem: String,
    pub help: String,
    /// True if the plane may work without it.
    pub is_warning: bool,
}

impl Lack {
    pub fn new(problem: impl Into<String>, help: impl Into<String>) -> Lack {
        Lack { problem: problem.into(), help: help.into(), is_warning: false }
    }

    /// Creates a lack without which the plane may work.
    pub fn warning(problem: impl Into<String>, help: impl Into<String>) -> Lack {
        Lack { is_warning: true, ..Lack::new(problem, help) }
    }
}

/// Error of the kernel, or of a program that speaks to it.
#[derive(Debug)]
pub struct Fault {
    /// Step that failed, as `create the map "services"`.
    pub step: String,
    /// Answer of the kernel or the program, without a period.
    pub reason: String,
}

impl Fault {
    pub fn new(step: impl Into<String>, reason: impl fmt::Display) -> Fault {
        Fault { step: step.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.step, self.reason)
    }
}

impl std::error::Error for Fault {}
