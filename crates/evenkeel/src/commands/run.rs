//! `evenkeel run`: from arguments or a file to a plan, and from the plan to a running proxy.

use crate::arguments::{Run, everywhere};
use crate::commands::check::{DEFAULTS, default_file};
use crate::configured::Configured;
use crate::failure::{Failure, color};
use crate::greeting::{self, Greeting};
use crate::offered::Offered;
use crate::output::print;
use crate::serve::Serving;
use crate::signals::Signals;
use crate::window::state;
use crate::{log, offered, reach};
use evenkeel_config::plan::{Admin, AdminHttp};
use evenkeel_config::{Outcome, Plan, render_text};
use evenkeel_discovery::providers::file::File;
use evenkeel_discovery::providers::revisions::Handed;
use evenkeel_net::inherit::Inherited;
use std::path::PathBuf;

/// The port when none is given, as in most tutorials: no other service has it, and no privilege is needed.
const PORT: &str = "8080";

/// Runs `evenkeel run`.
pub fn run(arguments: &Run) -> Result<(), Failure> {
    // Before anything else opens or closes descriptors.
    let inherited = Inherited::take_all();
    let handed = state::configuration()
        .map_err(|error| Failure::running(format!("cannot read the configuration of the previous process: {error}")))?;
    let mut file = file(arguments)?.as_deref().map(File::new);
    let (plan, wanted) = plan(arguments, file.as_mut(), handed.as_ref())?;
    if arguments.print_config {
        return print(&match file {
            Some(_) => plan.to_toml_with_secrets(),
            None => typed(plan),
        });
    }
    log::start(plan.runtime.log);
    let origin = file.map_or(Origin::Addresses, |file| Origin::File(Box::new((file, wanted))));
    serve(plan, origin, handed, inherited, |_| {})
}

/// Returns the configuration file: the named file, or without addresses the default file.
fn file(arguments: &Run) -> Result<Option<PathBuf>, Failure> {
    if arguments.config.is_some() || !arguments.endpoints.is_empty() {
        return Ok(arguments.config.clone());
    }
    let none = || {
        let [here, installed] = DEFAULTS;
        Failure::usage_error(format!(
            "nothing to run: no address, no file, and neither ./{here} nor {installed} exists"
        ))
        .help("evenkeel run ADDR..., such as evenkeel run 127.0.0.1:8081 127.0.0.1:8082, or evenkeel run -c FILE")
    };
    default_file().map(Some).ok_or_else(none)
}

/// The file for a plan of addresses: with the dashboard that a process would offer, and why it differs from the defaults.
fn typed(mut plan: Plan) -> String {
    offered::preview(&mut plan);
    let mut text =
        String::from("# Commands find the process by its Unix socket. `evenkeel config reference` lists every key.\n");
    for line in plan.to_toml().lines() {
        text += line;
        text += match line {
            _ if line.starts_with("http = ") => " # the dashboard; write_token = \"FILE\" allows changes there",
            "errors = \"detailed\"" => " # error responses have the reason; without this line \"terse\"",
            _ => "",
        };
        text.push('\n');
    }
    text
}

/// Origin of a plan that is to run.
pub enum Origin {
    /// A file, which can be read again, and the plan that it gave.
    File(Box<(File, Plan)>),
    /// Addresses on the command line.
    Addresses,
    /// The comparison of `evenkeel demo`.
    Demo,
}

impl Origin {
    /// Text about it for people.
    fn config(&self) -> String {
        match self {
            Origin::File(from) => from.0.path().unwrap_or("".as_ref()).display().to_string(),
            Origin::Addresses => "add --print-config > evenkeel.toml to this command to write it as a file".to_string(),
            Origin::Demo => "evenkeel config reference lists what a file can set".to_string(),
        }
    }
}

/// Starts, greets, calls `then`, and serves until a signal. `handed`: the configuration of the process before, if
/// the plan was made from it.
pub fn serve(
    mut plan: Plan,
    origin: Origin,
    handed: Option<Handed>,
    mut inherited: Inherited,
    then: impl FnOnce(&Serving),
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::running(format!("cannot create an event loop: {e}")))?;
    runtime.block_on(async {
        // Before the process is visible: from then on a signal may arrive.
        let signals = Signals::catch().await.map_err(|e| Failure::running(format!("cannot catch signals: {e}")))?;
        let config = origin.config();
        // Typed addresses may be wrong, so they are tried. Those in a file get requests and checks, and nothing else that was not
        // asked for.
        let tries = matches!(origin, Origin::Addresses);
        let (file, wanted, offered) = match origin {
            // A file decides itself who may see and change things.
            Origin::File(from) => (from.0, from.1, None),
            Origin::Addresses | Origin::Demo => {
                let offered = Offered::new(&mut plan, &mut inherited);
                (File::typed(plan.to_toml()), plan.clone(), offered)
            }
        };
        let password = offered.as_ref().map(|offered| offered.password.clone());
        let serving = Serving::start(plan, inherited, Configured::new(file, wanted, handed), offered).await?;
        let (plan, workers) = (serving.runtime().now().plan_as_found(), serving.runtime().workers());
        let tried = if tries { Some(reach::try_each(&plan).await) } else { None };
        let unresolved = serving.discovery().unresolved();
        let socket = serving.socket();
        greeting::say(&Greeting { plan: &plan, workers, tried, unresolved, config: &config, socket, password });
        then(&serving);
        serving.until_told(signals).await
    })
}

/// Returns the plan to run, and the plan as read, before other arguments change it.
fn plan(arguments: &Run, file: Option<&mut File>, handed: Option<&Handed>) -> Result<(Plan, Plan), Failure> {
    let read = file.map(File::read);
    let Outcome { plan, diagnostics } = match (handed, read) {
        (Some(handed), _) => handed.load(),
        (None, Some(read)) => read,
        (None, None) => {
            let listen = arguments.listen.clone().unwrap_or_else(|| everywhere(PORT));
            let endpoints: Vec<&str> = arguments.endpoints.iter().map(String::as_str).collect();
            Plan::for_addresses(&listen, &endpoints, arguments.balance.as_deref(), arguments.tls_self_signed)
        }
    };
    eprint!("{}", render_text(&diagnostics, color()));
    let wrong = if arguments.endpoints.is_empty() { Failure::config } else { Failure::usage };
    let wanted = plan.ok_or_else(wrong)?;
    let mut plan = wanted.clone();
    if let Some(admin) = &arguments.admin {
        // clap had it checked.
        let bind = admin.parse().map_err(|_| Failure::running(format!("--admin {admin} is not an address")))?;
        plan.admin = Some(Admin { http: Some(AdminHttp::at(bind)), ..Admin::default() });
    }
    Ok((plan, wanted))
}
