//! The conformance suite of Gateway API against an evenkeel in a cluster.

use crate::evenkeel::Evenkeel;
use crate::objects::{client, create, read};
use crate::rig::gateway_addresses;
use crate::server::ADMIN;
use kube::Client;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// Name of the GatewayClass, and of the controller that has it.
const CLASS: &str = "evenkeel";
const CONTROLLER: &str = "evenkeel.dev/gateway-controller";

/// Address of no machine: a Gateway cannot have it.
const UNUSABLE: &str = "192.0.2.1";

#[derive(clap::Args, Debug)]
pub struct Options {
    /// Program of evenkeel
    #[arg(long, default_value = "target/debug/evenkeel")]
    evenkeel: PathBuf,
    /// Configuration of evenkeel, in which {kubeconfig} and {addresses} are replaced
    #[arg(long, default_value = "crates/evenkeel/tests/gateway-api/evenkeel.toml")]
    config: PathBuf,
    /// Options of the suite: features, profiles
    #[arg(long, default_value = "crates/evenkeel/tests/gateway-api/options.yaml")]
    options: PathBuf,
    /// Folder for report and logs
    #[arg(long, default_value = "target/gateway-conformance")]
    output: PathBuf,
    /// A single test, whose whole output is shown
    #[arg(long, value_name = "TEST")]
    run: Option<String>,
    /// More arguments of the suite
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the suite in the cluster with its files in `folder`, whose network this process shares. True if the suite
/// passed.
///
/// # Errors
/// The suite cannot run, or evenkeel does not accept its GatewayClass.
pub async fn run(folder: &Path, options: &Options) -> Result<bool, String> {
    let kubeconfig = folder.join(format!("{ADMIN}.kubeconfig"));
    let suite = evenkeel_peers::find("gateway-conformance");
    let suite = suite.ok_or("no suite: `scripts/setup.sh gateway-api` installs it")?;
    fs::create_dir_all(&options.output).map_err(|error| format!("{}: {error}", options.output.display()))?;
    let mut evenkeel = begin_evenkeel(&kubeconfig, options)?;
    accepted(&client(&kubeconfig).await?, &mut evenkeel).await?;

    let report = options.output.join("report.yaml");
    let usable = gateway_addresses().last().expect("there are some");
    let mut command = Command::new(suite);
    command.env("KUBECONFIG", &kubeconfig).args(["-test.v", "-test.timeout=3h"]);
    command.arg(format!("--conformance-options-file={}", options.options.display()));
    command.arg(format!("--gateway-class={CLASS}")).arg(format!("--version={}", env!("CARGO_PKG_VERSION")));
    command.arg(format!("--usable-address={usable}")).arg(format!("--unusable-address={UNUSABLE}"));
    // The cluster ends soon, or the next run takes them.
    command.arg("--cleanup-base-resources=false");
    match &options.run {
        Some(test) => command.arg(format!("--run-test={test}")),
        None => command.arg(format!("--report-output={}", report.display())),
    };
    let passed = follow(command.args(&options.rest), &options.output.join("suite.log"), options.run.as_deref()).await?;
    evenkeel.check()?;
    println!("logs: {}", options.output.display());
    if options.run.is_none() {
        print_results(&report);
        println!("report: {}", report.display());
    }
    Ok(passed)
}

/// Writes the configuration, and starts evenkeel with it.
fn begin_evenkeel(kubeconfig: &Path, options: &Options) -> Result<Evenkeel, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", options.config.display());
    let template = fs::read_to_string(&options.config).map_err(failed)?;
    let addresses: Vec<String> = gateway_addresses().map(|addr| format!("{addr:?}")).collect();
    let config = template.replace("{kubeconfig}", &kubeconfig.display().to_string());
    let config = config.replace("{addresses}", &format!("[{}]", addresses.join(", ")));
    Evenkeel::begin(&options.evenkeel, &options.output, "evenkeel", &config)
}

/// Creates the GatewayClass, and waits until evenkeel accepts it.
async fn accepted(client: &Client, evenkeel: &mut Evenkeel) -> Result<(), String> {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": CLASS },
        "spec": { "controllerName": CONTROLLER },
    });
    create(client, &class).await;
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let path = format!("/apis/gateway.networking.k8s.io/v1/gatewayclasses/{CLASS}");
        let seen = read(client, &path).await.map_err(|error| error.to_string())?;
        let mut conditions = seen["status"]["conditions"].as_array().into_iter().flatten();
        let generation = &seen["metadata"]["generation"];
        let holds = |each: &Value| each["status"] == "True" && each["observedGeneration"] == *generation;
        if conditions.any(|each| each["type"] == "Accepted" && holds(each)) {
            return Ok(());
        }
        let status = &seen["status"];
        evenkeel.check().map_err(|error| format!("{error}\nGatewayClass {CLASS} has the status {status}"))?;
        if Instant::now() > until {
            return Err(format!("GatewayClass {CLASS} is not accepted; its status: {status}\n{}", evenkeel.log_end()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs the suite with its output in a file. Prints the lines about `test`, or the running test and failures.
async fn follow(command: &mut Command, log: &Path, test: Option<&str>) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("the suite: {error}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(failed)?;
    let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let mut file = tokio::fs::File::create(log).await.map_err(failed)?;
    let mut last = String::new();
    while let Some(line) = lines.next_line().await.map_err(failed)? {
        file.write_all(format!("{line}\n").as_bytes()).await.map_err(failed)?;
        let Some(text) = (if test.is_some() { of_test(&line, test) } else { of_all(&line) }) else { continue };
        // The suite polls, and each time logs the same.
        if text != last {
            println!("{text}");
            last = text;
        }
    }
    file.flush().await.map_err(failed)?;
    Ok(child.wait().await.map_err(failed)?.success())
}

/// Returns the line, without its time, unless it is about another test.
fn of_test(line: &str, test: Option<&str>) -> Option<String> {
    let name = line.split_once("TestConformance/").map(|(_, name)| name.split(['/', ' ']).next().unwrap_or_default());
    let other = name.is_some() && name != test;
    if other || line.starts_with("===") && name.is_none() || line.ends_with(": test explicitly skipped") {
        return None;
    }
    let time = line.split(": ").nth(1).filter(|time| time.starts_with("20") && time.ends_with('Z'));
    Some(time.map_or_else(|| line.to_owned(), |time| line.replacen(&format!("{time}: "), "", 1)))
}

/// Returns the name of a test that has begun, or the line if it reports a failure or the end.
fn of_all(line: &str) -> Option<String> {
    if line.trim_start().starts_with("--- FAIL") || line == "PASS" || line == "FAIL" {
        return Some(line.to_owned());
    }
    // A test without parts may be skipped.
    let (test, _) = line.strip_prefix("=== RUN   TestConformance/")?.split_once('/')?;
    Some(test.to_owned())
}

/// Prints the results of a report, by profile.
fn print_results(report: &Path) {
    let Some(report) = fs::read_to_string(report).ok().and_then(|text| serde_saphyr::from_str::<Value>(&text).ok())
    else {
        return;
    };
    for profile in report["profiles"].as_array().into_iter().flatten() {
        for part in ["core", "extended"] {
            let (results, name) = (&profile[part], profile["name"].as_str().unwrap_or_default());
            let count = |key: &str| results["statistics"][key].as_u64().unwrap_or(0);
            let failed: Vec<&str> =
                results["failedTests"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            println!(
                "{name:14} {part:9} {:>3} passed, {:>3} failed, {:>3} skipped  {}",
                count("Passed"),
                count("Failed"),
                count("Skipped"),
                failed.join(" ")
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_one_test_is_shown_without_the_others() {
        let shown = |line: &str| of_test(line, Some("HTTPRouteCORS"));
        assert_eq!(shown("=== RUN   TestConformance/HTTPRouteWeight"), None);
        assert_eq!(shown("    --- PASS: TestConformance/HTTPRouteCORS (0.1s)").as_deref().map(str::len), Some(50));
        let line = "    apply.go:271: 2026-11-27T11:21:31.795592695Z: Creating a Gateway";
        assert_eq!(shown(line).as_deref(), Some("    apply.go:271: Creating a Gateway"));
    }

    #[test]
    fn a_whole_run_shows_which_test_runs() {
        assert_eq!(of_all("=== RUN   TestConformance/HTTPRouteCORS/a_part").as_deref(), Some("HTTPRouteCORS"));
        assert_eq!(of_all("=== RUN   TestConformance/HTTPRouteCORS"), None);
        assert_eq!(
            of_all("    --- FAIL: TestConformance/A (1s)").as_deref(),
            Some("    --- FAIL: TestConformance/A (1s)")
        );
    }
}
