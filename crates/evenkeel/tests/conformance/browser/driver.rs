//! Chromium by its driver: what the tests do with a page, and pictures of it.

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thirtyfour::prelude::*;

/// Driver of browsers, ended when dropped.
pub struct Driver(Child);

impl Driver {
    /// Starts the driver; returns the URL at which it listens.
    pub fn start() -> (Driver, String) {
        let driver = evenkeel_peers::find("chromedriver").expect("the test looked");
        let mut command = Command::new(driver);
        // A group of its own: browsers that a failed test leaves behind end with it.
        command.arg("--port=0").stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            line.rsplit_once("successfully on port ").map(|(_, port)| port.trim_end_matches('.').to_owned())
        });
        (Driver(child), format!("http://127.0.0.1:{}", port.expect("it says where it listens")))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

pub async fn open(url: &str) -> WebDriver {
    open_with(url, &[]).await
}

/// Opens a browser with more arguments.
pub async fn open_with(url: &str, more: &[String]) -> WebDriver {
    let mut wanted = DesiredCapabilities::chrome();
    let always = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en"];
    for argument in always.into_iter().chain(more.iter().map(String::as_str)) {
        wanted.add_arg(argument).expect("an argument");
    }
    wanted.set_logging_prefs("browser".to_owned(), thirtyfour::LoggingPrefsLogLevel::All).expect("a kind of log");
    WebDriver::new(url, wanted).await.expect("a browser")
}

pub async fn run(browser: &WebDriver, script: &str) -> Value {
    browser.execute(script, Vec::new()).await.expect(script).json().clone()
}

/// Waits until a script returns true.
pub async fn until(browser: &WebDriver, what: &str, script: &str) {
    let began = Instant::now();
    while run(browser, script).await != true {
        let text = run(browser, "return document.body.innerText").await;
        assert!(began.elapsed() < Duration::from_secs(30), "in 30 s there was not: {what}\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the lines of the console since the last call.
pub async fn complaints(browser: &WebDriver) -> Vec<String> {
    let log = browser.get_log("browser").await.expect("the log of the browser");
    log.into_iter().map(|entry| format!("{entry:?}")).collect()
}

/// Sets the scheme of colours and the size of the window.
pub async fn in_light(browser: &WebDriver, scheme: &str, width: u32, height: u32) {
    let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    let wanted = [("Emulation.setEmulatedMedia", features), ("Emulation.setDeviceMetricsOverride", size)];
    for (command, parameters) in wanted {
        browser.cdp().send_raw(command, parameters).await.expect(command);
    }
}

/// Looks at the page with axe: no finding of any weight. `what` names the page in a failure.
pub async fn is_usable_by_everyone(browser: &WebDriver, axe: &str, what: &str) {
    run(browser, axe).await;
    let judge = "const done = arguments[arguments.length - 1];\
                 axe.run().then((r) => done(r.violations.map((v) => ({ id: v.id, impact: v.impact, at: v.nodes.map((n) => n.html) }))), (e) => done(String(e)));";
    let found = browser.execute_async(judge, Vec::new()).await.expect("axe").json().clone();
    let found = found.as_array().unwrap_or_else(|| panic!("{what}: {found}"));
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// Takes a picture of the window, if `EVENKEEL_PICTURES` names a folder.
pub async fn picture(browser: &WebDriver, name: &str) {
    let Some(folder) = std::env::var_os("EVENKEEL_PICTURES") else { return };
    std::fs::create_dir_all(&folder).expect("a folder");
    // The folder of a test is of no interest to readers of the guide.
    let named = "const file = document.querySelector('p.process code'); if (file) file.textContent = 'evenkeel.toml'";
    run(browser, named).await;
    let file = std::path::Path::new(&folder).join(format!("{name}.png"));
    browser.screenshot(&file).await.expect("a picture");
}

/// Takes a picture of the whole page, down to its end.
pub async fn whole_picture(browser: &WebDriver, scheme: &str, width: u32, name: &str) {
    if std::env::var_os("EVENKEEL_PICTURES").is_none() {
        return;
    }
    let height = run(browser, "return document.documentElement.scrollHeight").await.as_u64().expect("a number");
    in_light(browser, scheme, width, u32::try_from(height).expect("a page").clamp(600, 6000)).await;
    picture(browser, name).await;
}
