//! Completion in a shell: words that clap knows, and names that the running evenkeel has to which the typed command line leads. If
//! it does not answer at once, there are no names.

use crate::arguments::{Arguments, Where, admin_address};
use crate::commands::check::read;
use crate::commands::client::Client;
use crate::failure::Failure;
use crate::output::print;
use clap::{Arg, Command, CommandFactory};
use clap_complete::CompletionCandidate;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{CompleteEnv, Shells};
use evenkeel_view::config::Revision;
use evenkeel_view::served::{Action, Route};
use evenkeel_view::{Pool, Status};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Variable of the environment by which shells ask.
const VARIABLE: &str = "EVENKEEL_COMPLETE";

/// Time in which a running evenkeel has to answer: a person waits.
const PATIENCE: Duration = Duration::from_millis(300);

/// Names that a running evenkeel has.
type Names = fn(&Client) -> Result<Vec<String>, Failure>;

/// Completes and ends, if a shell requests completions.
pub fn complete() {
    CompleteEnv::with_factory(|| named(Arguments::command())).var(VARIABLE).complete();
}

/// Runs `evenkeel completions`.
pub fn completions(shell: &str) -> Result<(), Failure> {
    let cannot = |why: String| Failure::running(format!("cannot print the script for {shell}: {why}"));
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| cannot("unknown shell".into()))?;
    let mut script = Vec::new();
    let written = completer.write_registration(VARIABLE, "evenkeel", "evenkeel", "evenkeel", &mut script);
    written.map_err(|error| cannot(error.to_string()))?;
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == "bash" {
        // Endpoints are often called by their addresses, which bash would take apart.
        script += "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n";
    }
    print(&script)
}

/// A command whose arguments that are names complete.
fn named(command: Command) -> Command {
    let command = command.mut_args(|argument| match completer(&argument) {
        Some(names) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| candidates(names, typed))),
        None => argument,
    });
    command.mut_subcommands(named)
}

/// The names that an argument of a running evenkeel may have.
fn completer(argument: &Arg) -> Option<Names> {
    match argument.get_id().as_str() {
        "pool" | "next" => Some(pools),
        "endpoint" => Some(endpoints),
        "listener" => Some(listeners),
        "route" => Some(routes),
        "weights" => Some(shares),
        "generation" => Some(generations),
        _ => None,
    }
}

fn pools(client: &Client) -> Result<Vec<String>, Failure> {
    Ok(client.get::<Vec<Pool>>("/v1/pools")?.into_iter().map(|pool| pool.name).collect())
}

/// Endpoints of the pools that the command line names, or of all.
fn endpoints(client: &Client) -> Result<Vec<String>, Failure> {
    let pools: Vec<Pool> = client.get("/v1/pools")?;
    let words = words();
    let is_named = |pool: &&Pool| words.contains(&pool.name);
    let of: Vec<&Pool> = match pools.iter().any(|pool| is_named(&pool)) {
        true => pools.iter().filter(is_named).collect(),
        false => pools.iter().collect(),
    };
    Ok(of.into_iter().flat_map(|pool| pool.endpoints.iter().map(|endpoint| endpoint.name.clone())).collect())
}

fn listeners(client: &Client) -> Result<Vec<String>, Failure> {
    Ok(client.get::<Status>("/v1/status")?.listeners.into_iter().map(|listener| listener.name).collect())
}

fn routes(client: &Client) -> Result<Vec<String>, Failure> {
    Ok(client.get::<Vec<Route>>("/v1/routes")?.into_iter().map(|route| route.name).collect())
}

/// Pools of the splits of routes that the command line names, or of all, each before its weight.
fn shares(client: &Client) -> Result<Vec<String>, Failure> {
    let routes: Vec<Route> = client.get("/v1/routes")?;
    let words = words();
    let is_named = |route: &&Route| words.contains(&route.name);
    let named = routes.iter().any(|route| is_named(&route));
    let of = routes.iter().filter(|route| !named || is_named(route));
    let mut pools: Vec<String> = of
        .filter_map(|route| if let Action::Split(split) = &route.action { Some(&split.pools) } else { None })
        .flatten()
        .map(|pool| format!("{}=", pool.pool))
        .collect();
    pools.sort();
    pools.dedup();
    Ok(pools)
}

fn generations(client: &Client) -> Result<Vec<String>, Failure> {
    let revisions: Vec<Revision> = client.get("/v1/config/history")?;
    Ok(revisions.iter().map(|one| one.generation.to_string()).collect())
}

fn candidates(names: Names, typed: &OsStr) -> Vec<CompletionCandidate> {
    let place = place(&words());
    // Complaints about a file are not for a line that is being typed.
    if place.config.as_ref().is_some_and(|file| read(file).plan.is_none()) {
        return Vec::new();
    }
    let (tell, told) = channel();
    // It ends with the process if it is too slow.
    std::thread::spawn(move || tell.send(Client::new(&place).and_then(|client| names(&client.quiet()))));
    let names = told.recv_timeout(PATIENCE).ok().and_then(Result::ok).unwrap_or_default();
    let typed = typed.to_string_lossy();
    names.into_iter().filter(|name| name.starts_with(&*typed)).map(CompletionCandidate::new).collect()
}

/// The words of the command line that is being typed.
fn words() -> Vec<String> {
    let words = std::env::args().skip_while(|word| word != "--").skip(1);
    words.collect()
}

/// The place that the command line names.
fn place(words: &[String]) -> Where {
    let value = |names: &[&str]| {
        let at = words.iter().position(|word| names.contains(&word.as_str()));
        let joined = || words.iter().find_map(|word| word.strip_prefix(names[0])?.strip_prefix('='));
        at.and_then(|at| words.get(at + 1)).map(String::as_str).or_else(joined)
    };
    let path = |names: &[&str]| value(names).map(PathBuf::from);
    Where {
        config: path(&["--config", "-c"]),
        admin: value(&["--admin"]).and_then(|text| admin_address(text).ok()),
        socket: path(&["--socket"]),
        token_file: path(&["--token-file"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::At;

    #[test]
    fn a_command_line_says_where_to_ask() {
        let place = |line: &str| place(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let socket = |line| place(line).socket.map(|socket| socket.display().to_string());
        assert_eq!(socket("evenkeel drain shop"), None);
        assert_eq!(socket("evenkeel drain --socket /a shop").as_deref(), Some("/a"));
        assert_eq!(socket("evenkeel drain --socket=/b shop").as_deref(), Some("/b"));
        assert_eq!(place("evenkeel drain -c /no/such.toml shop").config, Some("/no/such.toml".into()));
        let tcp = place("evenkeel drain --admin 127.0.0.1:9900 --token-file t shop");
        assert_eq!((tcp.admin, tcp.token_file), (Some(At::Address("127.0.0.1:9900".into())), Some("t".into())));
        assert_eq!(place("evenkeel drain --admin=unix:/a shop").admin, Some(At::Socket("/a".into())));
    }

    #[test]
    fn a_name_completes_wherever_it_is_asked_for() {
        fn count(command: &Command, names: &mut usize) {
            *names += command.get_arguments().filter(|one| completer(one).is_some()).count();
            command.get_subcommands().for_each(|below| count(below, names));
        }
        let mut names = 0;
        count(&Arguments::command(), &mut names);
        assert!(names > 20, "{names}");
        named(Arguments::command()).debug_assert();
    }
}
