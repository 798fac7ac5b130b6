//! The command line of the cluster.

use clap::{Parser, Subcommand};
use evenkeel_cluster::contained::{Contained, inside, released};
use evenkeel_cluster::rig::{self, Rig};
use evenkeel_cluster::server::ADMIN;
use evenkeel_cluster::{conformance, demo};
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A Kubernetes cluster on one machine, in namespaces of its own
#[derive(Parser, Debug)]
struct Arguments {
    /// Folder of the cluster's files
    #[arg(long, global = true)]
    folder: Option<PathBuf>,
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand, Debug)]
enum Task {
    /// Starts a cluster, which stays until Ctrl-C
    Up,
    /// Runs the conformance suite of Gateway API, in the cluster that is up or in one of its own
    Conformance(conformance::Options),
    /// Shows a rolling update behind two evenkeels under load
    Demo(demo::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match inside() {
        Some(folder) => within(&folder, &arguments.command),
        None => without(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command outside the namespaces: it starts them.
fn without(arguments: &Arguments) -> Result<bool, String> {
    let folder = arguments.folder.clone().unwrap_or_else(|| env::temp_dir().join("evenkeel-cluster"));
    match &arguments.command {
        Task::Up => {
            let mut rig = Rig::start(&folder)?;
            let kubeconfig = folder.join(format!("{ADMIN}.kubeconfig"));
            println!("kubeconfig: {}", kubeconfig.display());
            println!("enter it:   nsenter --net=/proc/{}/ns/net COMMAND", rig.process());
            println!("end it:     Ctrl-C, or kill {}", std::process::id());
            rig.wait();
            Err("the cluster ended".into())
        }
        Task::Conformance(_) | Task::Demo(_) => {
            let known = rig::running(&folder);
            let own = env::temp_dir().join(format!("evenkeel-cluster-{}", std::process::id()));
            let rig = known.is_none().then(|| Rig::start(&own)).transpose()?;
            let network = rig.as_ref().map(Rig::process).or(known);
            let folder = if rig.is_some() { own } else { folder };
            let arguments: Vec<String> = env::args().skip(1).collect();
            let mut suite = Contained::start(&folder, &arguments, network).map_err(|error| error.to_string())?;
            suite.wait().map(|status| status.success()).map_err(|error| error.to_string())
        }
    }
}

/// Runs a command in the namespaces.
fn within(folder: &Path, task: &Task) -> Result<bool, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let run = async {
            match task {
                Task::Up => rig::run(folder).await.map(|()| true),
                Task::Conformance(options) => conformance::run(folder, options).await,
                Task::Demo(options) => demo::run(folder, options).await,
            }
        };
        tokio::select! {
            done = run => done,
            () = released() => Ok(false),
        }
    })
}
