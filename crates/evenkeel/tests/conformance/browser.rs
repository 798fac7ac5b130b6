//! The dashboard in a browser. Chromium looks at every page of a running evenkeel with traffic, by day and by night, on a
//! desk and on a phone; axe judges whether everyone can use them; and an endpoint is drained with two clicks.
//!
//! With `EVENKEEL_PICTURES=FOLDER` every look becomes a picture.

use crate::support::{Endpoint, Folder, Running, address, eventually, get};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::mem::ManuallyDrop;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thirtyfour::prelude::*;

/// Every page, and what its picture is called.
const PAGES: &[(&str, &str)] = &[
    ("overview", "/ui"),
    ("flow", "/ui/flow"),
    ("pools", "/ui/pools"),
    ("endpoint", "/ui/pools/shop/two"),
    ("routes", "/ui/routes?method=GET&url=%2Fcart"),
    ("tap", "/ui/tap"),
    ("explain", "/ui/explain"),
    ("shadows", "/ui/shadows"),
    ("config", "/ui/config"),
    ("revision", "/ui/config/0"),
    ("certificates", "/ui/certificates"),
    ("dns", "/ui/dns"),
];

/// Scheme of colours, width and height.
const LOOKS: &[(&str, u32, u32)] =
    &[("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 844), ("dark", 390, 844)];

const TOKEN: &str = "a-token-that-may-write";

/// The driver of browsers. Ended when dropped.
struct Driver(Child);

impl Driver {
    /// The driver, and where it listens.
    fn start() -> (Driver, String) {
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

/// Clients that ask one after the other until told.
struct Traffic {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(listen: &str) -> Traffic {
        let stop = Arc::<AtomicBool>::default();
        let client = |_| {
            let (stop, listen) = (stop.clone(), listen.to_owned());
            std::thread::spawn(move || {
                while !stop.load(SeqCst) {
                    let _ = get(&listen, "/cart");
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            })
        };
        let clients = (0..3).map(client).collect();
        Traffic { stop, clients }
    }

    fn end(self) {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.join().expect("it does not panic");
        }
    }
}

struct Site {
    _folder: Folder,
    one: Endpoint,
    two: Endpoint,
    running: Running,
    listen: String,
    admin: String,
}

impl Site {
    fn new() -> Site {
        let (folder, listen, admin) = (Folder::new("browser"), address(), address());
        let (one, two) = (Endpoint::start("one"), Endpoint::start("two"));
        let (token, silent, first) = (folder.file("token", TOKEN), address(), &one.addr);
        let text = format!(
            "[admin]\nhttp = {{ bind = '{admin}', write_token = '{token}' }}\n[telemetry.explain]\nsample = 0.1\n\
             [listener.web]\nbind = ['{listen}']\n[listener.secure]\nbind = ['{}']\ntls = {{ self_signed = true }}\n\
             [listener.names]\nmode = 'dns'\nbind = ['{}']\n\
             zone = {{ name = 'example.test.', records = {{ shop = {{ pool = 'rest' }} }} }}\n\
             [[route]]\nname = 'cart'\nmatch = {{ path = '/cart' }}\npool = 'shop'\n\
             [[route]]\nname = 'rest'\nmatch = {{ path = '/{{*rest}}' }}\npool = 'rest'\n\
             [pool.shop]\nbalance = 'leastconn'\nshadow = ['random', 'peak_ewma']\nhealth = {{ tcp = {{}}, interval = '1s' }}\n\
             endpoints = [{{ name = 'one', addr = '{first}' }}, {{ name = 'two', addr = '{}', weight = 2 }}, \
             {{ name = 'silent', addr = '{silent}' }}]\n[pool.rest]\nendpoints = ['{first}']\n",
            address(),
            address(),
            two.addr,
        );
        let running = Running::start(&["run", "-c", &folder.file("evenkeel.toml", &text)]);
        Site { _folder: folder, one, two, running, listen, admin }
    }
}

async fn open(url: &str) -> WebDriver {
    let mut wanted = DesiredCapabilities::chrome();
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--lang=en"] {
        wanted.add_arg(argument).expect("an argument");
    }
    wanted.set_logging_prefs("browser".to_owned(), thirtyfour::LoggingPrefsLogLevel::All).expect("a kind of log");
    WebDriver::new(url, wanted).await.expect("a browser")
}

async fn run(browser: &WebDriver, script: &str) -> Value {
    browser.execute(script, Vec::new()).await.expect(script).json().clone()
}

/// Waits until a script gives true.
async fn until(browser: &WebDriver, what: &str, script: &str) {
    let began = Instant::now();
    while run(browser, script).await != true {
        let text = run(browser, "return document.body.innerText").await;
        assert!(began.elapsed() < Duration::from_secs(30), "in 30 s there was not: {what}\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn complaints(browser: &WebDriver) -> Vec<String> {
    let log = browser.get_log("browser").await.expect("the log of the browser");
    log.into_iter().map(|entry| format!("{entry:?}")).collect()
}

#[test]
#[ignore = "`make conformance` runs it"]
fn every_page_works_in_a_browser() {
    crate::judges!("chromedriver", "axe.min.js");
    let site = Site::new();
    let traffic = Traffic::start(&site.listen);
    let (_driver, url) = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async {
        // Of a failed test it is not asked to end: that takes a minute.
        let browser = ManuallyDrop::new(open(&url).await);
        look(&site, &browser).await;
        steer(&site, &browser).await;
        configure(&site, &browser).await;
        ManuallyDrop::into_inner(browser).quit().await.expect("it ends");
    });
    traffic.end();
    let said = site.running.said();
    assert!(!said.contains("panic"), "{said}");
}

/// From now on in these colours, and so large.
async fn in_light(browser: &WebDriver, scheme: &str, width: u32, height: u32) {
    let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
    let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
    let wanted = [("Emulation.setEmulatedMedia", features), ("Emulation.setDeviceMetricsOverride", size)];
    for (command, parameters) in wanted {
        browser.cdp().send_raw(command, parameters).await.expect(command);
    }
}

/// Looks at every page in every way.
async fn look(site: &Site, browser: &WebDriver) {
    let axe = evenkeel_peers::find("axe.min.js").expect("the test looked");
    let axe = std::fs::read_to_string(axe).expect("a script");
    let tools = browser.cdp();
    // Something to show: some seconds of traffic, and spans that are over.
    eventually("spans of an endpoint", || {
        let history = crate::support::ask(
            &site.admin,
            "GET /v1/history/shop/two HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        (history.ok()?.matches("until_ms\":1").count() > 2).then_some(())
    });
    for (name, path) in PAGES {
        for (scheme, width, height) in LOOKS {
            in_light(browser, scheme, *width, *height).await;
            browser.goto(format!("http://{}{path}", site.admin)).await.expect("a page");
            until(browser, "a heading", "return !!document.querySelector('main h1')").await;
            let wide = run(browser, "return document.documentElement.scrollWidth > innerWidth").await;
            assert_eq!(wide, false, "{name} is wider than {width}");
            picture(browser, &format!("{name}-{scheme}-{width}")).await;
            run(browser, &axe).await;
            let judge = "const done = arguments[arguments.length - 1];\
                         axe.run().then((r) => done(r.violations.map((v) => ({ id: v.id, impact: v.impact, at: v.nodes.map((n) => n.html) }))), (e) => done(String(e)));";
            let found = browser.execute_async(judge, Vec::new()).await.expect("axe").json().clone();
            let serious: Vec<&Value> = found
                .as_array()
                .unwrap_or_else(|| panic!("{name}: {found}"))
                .iter()
                .filter(|one| ["serious", "critical"].contains(&one["impact"].as_str().unwrap_or_default()))
                .collect();
            assert!(serious.is_empty(), "{name}, {scheme}, {width}: {serious:#?}");
        }
    }
    assert_eq!(complaints(browser).await, Vec::<String>::new());
    browser.goto(format!("http://{}/ui", site.admin)).await.expect("a page");
    let weight =
        "return performance.getEntries().filter((e) => e.transferSize).reduce((sum, e) => sum + e.transferSize, 0)";
    let weight = run(browser, weight).await.as_f64().expect("a number");
    assert!(weight > 0.0 && weight < 100_000.0, "the first page takes {weight} bytes in all");
    // The keyboard alone: the first stop leads past the navigation.
    browser.action_chain().send_keys(Key::Tab).perform().await.expect("a key");
    browser.action_chain().send_keys(Key::Enter).perform().await.expect("a key");
    until(browser, "focus in the content", "return document.activeElement === document.getElementById('content')")
        .await;
    // Without script a page says the same.
    tools
        .send_raw("Emulation.setScriptExecutionDisabled", json!({ "value": true }))
        .await
        .expect("a browser without script");
    browser.goto(format!("http://{}/ui/pools", site.admin)).await.expect("a page");
    let source = browser.source().await.expect("a page");
    assert!(source.contains("/ui/pools/shop/two") && source.contains("cannot connect"), "{source}");
    tools
        .send_raw("Emulation.setScriptExecutionDisabled", json!({ "value": false }))
        .await
        .expect("a browser with script");
}

/// Signs in and drains an endpoint with two clicks.
async fn steer(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1400, 640).await;
    browser.goto(format!("http://anna:{TOKEN}@{}/sign-in", site.admin)).await.expect("a page");
    browser.goto(format!("http://{}/ui", site.admin)).await.expect("a page");
    picture(browser, "walk-dead").await;
    browser.goto(format!("http://{}/ui/routes?method=GET&url=%2Fcart", site.admin)).await.expect("a page");
    picture(browser, "walk-explained").await;
    browser.goto(format!("http://{}/ui/pools", site.admin)).await.expect("a page");
    let row = "document.getElementById('shop/two')";
    until(browser, "a button", &format!("return !!{row}.querySelector('button')")).await;
    let button = browser.find(By::XPath("//tr[@id='shop/two']//button[1]")).await.expect("a button");
    button.click().await.expect("a click");
    assert_eq!(button.text().await.expect("a text"), "Really drain two?");
    button.click().await.expect("a click");
    // The page is not loaded again: it follows.
    until(browser, "that it drains", &format!("return {row}.innerText.includes('drained by anna')")).await;
    let served = eventually("no request under way", || {
        let before = site.two.served();
        (0..20).for_each(|_| _ = get(&site.listen, "/cart"));
        (site.two.served() == before).then_some(before)
    });
    let by_one = site.one.served();
    (0..20).for_each(|_| assert_eq!(get(&site.listen, "/cart").expect("an answer").1, "one"));
    assert_eq!(site.two.served(), served, "what is drained gets no request");
    assert!(site.one.served() >= by_one + 20);
    picture(browser, "walk-drained").await;
    let undrain = browser.find(By::XPath("//tr[@id='shop/two']//button[text()='Undrain']")).await.expect("a button");
    undrain.click().await.expect("a click");
    until(browser, "that it is up", &format!("return {row}.innerText.includes('up')")).await;
    // Somebody else was faster.
    let patch = |body: &str| {
        let head = format!(
            "PATCH /v1/pools/shop/endpoints/two HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
        );
        let length = body.len();
        let request = format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = crate::support::ask(&site.admin, &request).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    run(browser, &format!("following.close(); {row}.querySelector('button').click()")).await;
    patch(r#"{"weight":7}"#);
    run(browser, &format!("{row}.querySelector('button').click()")).await;
    until(browser, "that it was stale", "return document.getElementById('said').innerText.includes('Not done')").await;
    let log = complaints(browser).await;
    assert!(log.iter().all(|line| line.contains("412")), "{log:?}");
}

/// Checks a wrong configuration and a right one, applies that, and rolls it back.
async fn configure(site: &Site, browser: &WebDriver) {
    browser.goto(format!("http://{}/ui/config", site.admin)).await.expect("a page");
    let before = complaints(browser).await;
    let click = async |what: &str| {
        let button = By::XPath(format!("//button[starts-with(text(), '{what}')]"));
        browser.find(button).await.expect("a button").click().await.expect("a click");
    };
    let typed = |line: &str| format!("document.getElementById('text').value += \"{line}\\n\"");
    let said = |text: &str| format!("return document.getElementById('outcome').innerText.includes(\"{text}\")");
    run(browser, &typed("balance = 'rondom'")).await;
    click("Check").await;
    until(browser, "the error", &said("unknown algorithm \\\"rondom\\\"")).await;
    assert_eq!(run(browser, "return document.querySelectorAll('.lines .bad').length").await, 1, "the line is marked");
    run(browser, "document.getElementById('outcome').scrollIntoView(false)").await;
    picture(browser, "walk-wrong").await;
    // The finding leads to its place.
    click("line ").await;
    let marked = "const t = document.getElementById('text'); return t.value.slice(t.selectionStart, t.selectionEnd)";
    assert_eq!(run(browser, marked).await, "'rondom'");
    click("Apply").await;
    click("Really").await;
    until(browser, "that nothing was changed", &said("nothing was changed")).await;

    let right = "document.getElementById('text').value = document.getElementById('text').value.replace('rondom', 'round_robin')";
    run(browser, right).await;
    click("Check").await;
    until(browser, "the difference", &said("pool rest: balance")).await;
    picture(browser, "config-right").await;
    click("Apply").await;
    click("Really").await;
    let runs = |generation: u32| format!("return document.getElementById('generation')?.innerText === '{generation}'");
    until(browser, "that it runs", &runs(1)).await;
    until(browser, "that it differs", "return !!document.getElementById('differs')").await;
    picture(browser, "config-applied").await;
    let config =
        || crate::support::ask(&site.admin, "GET /v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let rest = "[pool.rest]\\nbalance = \\\"round_robin\\\"";
    assert!(config().expect("an answer").contains(rest), "{}", config().expect("an answer"));
    click("Roll back to 0").await;
    click("Really").await;
    until(browser, "that the one before runs", &runs(2)).await;
    assert_eq!(run(browser, "return !!document.getElementById('differs')").await, false, "it is that of the file");
    assert!(!config().expect("an answer").contains(rest));
    let log = complaints(browser).await;
    assert!(before.is_empty() && log.iter().all(|line| line.contains("422")), "{before:?} {log:?}");
}

async fn picture(browser: &WebDriver, name: &str) {
    let Some(folder) = std::env::var_os("EVENKEEL_PICTURES") else { return };
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = std::path::Path::new(&folder).join(format!("{name}.png"));
    browser.screenshot(&file).await.expect("a picture");
}
