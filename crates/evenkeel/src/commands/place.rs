//! Finds the running evenkeel that a command asks: a named process, the process of a configuration file, or the only
//! process on this machine.

use crate::arguments::{At, Where, admin_address};
use crate::commands::check::{default_file, read};
use crate::commands::client::Client;
use crate::failure::{Failure, color};
use evenkeel_admin::socket::{Folder, Found};
use evenkeel_config::plan::{Admin, AdminHttp, AdminSocket};
use evenkeel_config::{Outcome, render_text};
use evenkeel_view::Status;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Variable of the environment with the address to ask if the command line names none.
const ADMIN: &str = "EVENKEEL_ADMIN";

/// Time limit for the status of an evenkeel on this machine.
const PATIENCE: Duration = Duration::from_secs(1);

/// Help if a socket belongs to another user.
pub const OTHER_USER: &str = "another user runs it: use sudo, or join the group of its socket";

/// Returns the address that the arguments mean.
///
/// # Errors
/// None or several evenkeels run here, or the file cannot be used.
pub fn find(place: &Where) -> Result<At, Failure> {
    if let Some(at) = named(place) {
        return Ok(at);
    }
    if let Some(file) = &place.config {
        return of_file(file);
    }
    if let Some(text) = std::env::var(ADMIN).ok().filter(|text| !text.is_empty()) {
        return admin_address(&text).map_err(|why| Failure::running(format!("{ADMIN} is \"{text}\": {why}")));
    }
    let found = running();
    let (open, closed): (Vec<Found>, Vec<Found>) = found.into_iter().partition(|found| found.may_connect);
    match (&open[..], &closed[..]) {
        ([one], _) => Ok(At::Socket(one.path.clone())),
        ([], _) => configured().ok_or_else(|| none(&closed)),
        (several, _) => Err(too_many(several)),
    }
}

fn named(place: &Where) -> Option<At> {
    place.admin.clone().or_else(|| place.socket.clone().map(At::Socket))
}

/// Sockets of this machine on which an evenkeel listens.
fn running() -> Vec<Found> {
    Folder::searched().iter().flat_map(Folder::list).collect()
}

/// The address that a configuration names; `None` if it leaves the choice to the process, or has nothing to ask at.
fn address(admin: Option<&Admin>) -> Option<At> {
    let admin = admin?;
    let socket = admin.socket.path().map(|path| At::Socket(path.to_owned()));
    socket.or_else(|| admin.http.as_ref().map(|http| At::Address(reached_at(http).to_string())))
}

/// An address of this machine, for a listener at all of them.
fn reached_at(http: &AdminHttp) -> SocketAddr {
    let ip = match http.bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, http.bind.port())
}

/// The address in the file that `run` and `check` take by themselves.
fn configured() -> Option<At> {
    address(read(&default_file()?).plan?.admin.as_ref())
}

/// The evenkeel that runs with a file.
fn of_file(file: &Path) -> Result<At, Failure> {
    let Outcome { plan, diagnostics } = read(file);
    let Some(plan) = plan else {
        eprint!("{}", render_text(&diagnostics, color()));
        return Err(Failure::config());
    };
    let admin = plan.admin.unwrap_or_default();
    if admin.socket == AdminSocket::Found
        && let Some(at) = running().into_iter().find(|found| found.may_connect && runs_with(&found.path, file))
    {
        return Ok(At::Socket(at.path));
    }
    address(Some(&admin)).ok_or_else(|| {
        let file = file.display();
        match admin.socket {
            AdminSocket::Off => Failure::running(format!("{file} sets neither a socket nor an address for commands"))
                .help("remove [admin] bind = \"off\", or add http = { bind = \"127.0.0.1:9900\" }"),
            _ => Failure::running(format!("no evenkeel on this machine was started with {file}"))
                .help(format!("start it: evenkeel run -c {file}; if another user runs it, use sudo")),
        }
    })
}

/// Returns the process of the evenkeel that runs with a file and answers, if there is one.
pub fn runs(file: &Path) -> Option<u32> {
    // The file may name a socket that belongs to an evenkeel with another file.
    let found = || running().into_iter().find(|found| found.may_connect && runs_with(&found.path, file));
    let at = of_file(file).ok().or_else(|| found().map(|found| At::Socket(found.path)))?;
    let status: Status = Client::at(at).ok()?.get_within("/v1/status", PATIENCE).ok()?;
    Some(status.pid)
}

/// True if the evenkeel at a socket was started with this file.
fn runs_with(socket: &Path, file: &Path) -> bool {
    let Some(status) = status(socket) else { return false };
    let Some(running) = status.config.file.as_ref().map(PathBuf::from) else { return false };
    // It is named as on the command line, so relative to where that was typed.
    let folder = std::fs::read_link(format!("/proc/{}/cwd", status.pid)).unwrap_or_default();
    let same = |path: PathBuf| path.canonicalize().ok();
    same(folder.join(running)).is_some_and(|running| Some(running) == same(file.to_owned()))
}

fn status(socket: &Path) -> Option<Status> {
    Client::at(At::Socket(socket.to_owned())).ok()?.get_within("/v1/status", PATIENCE).ok()
}

fn none(closed: &[Found]) -> Failure {
    match closed.first() {
        Some(found) => {
            Failure::running(format!("cannot query evenkeel at {}: permission denied", found.path.display()))
                .help(OTHER_USER)
        }
        None => Failure::running("no evenkeel runs on this machine, or this user may not query it").help(
            "start it: evenkeel run; if it runs on another machine: --admin HOST:PORT; if another user runs it: sudo",
        ),
    }
}

fn too_many(found: &[Found]) -> Failure {
    let mut help = format!("choose one, on the command line or in {ADMIN}:");
    for found in found {
        let at = found.path.display();
        let _ = match status(&found.path) {
            Some(status) => write!(help, "\n        --admin unix:{at}  {}", description(&status)),
            None => write!(help, "\n        --admin unix:{at}  no response"),
        };
    }
    Failure::running(format!("{} evenkeels run on this machine", found.len())).help(help)
}

/// A process in a few words: its number, its file, and its first addresses.
fn description(status: &Status) -> String {
    const ADDRESSES: usize = 3;
    let addresses: Vec<&str> = status.listeners.iter().flat_map(|l| &l.addresses).map(String::as_str).collect();
    let more = if addresses.len() > ADDRESSES { " and more" } else { "" };
    let addresses = addresses.iter().take(ADDRESSES).copied().collect::<Vec<_>>().join(", ");
    let file = status.config.file.as_deref().unwrap_or("no file");
    format!("process {}, {file}, listening on {addresses}{more}", status.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_at_all_addresses_is_asked_at_one() {
        for (bind, at) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")] {
            let http = AdminHttp::at(bind.parse().unwrap());
            let admin = Admin { http: Some(http), ..Admin::default() };
            assert_eq!(address(Some(&admin)), Some(At::Address(at.to_owned())));
        }
    }
}
