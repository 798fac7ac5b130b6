//! Every page in every look: axe finds nothing, nothing is wider than the window, and what a page is for can be seen on it.

use super::driver::{complaints, in_light, is_usable_by_everyone, picture, run, until, whole_picture};
use super::site::Site;
use crate::support::eventually;
use serde_json::json;
use thirtyfour::prelude::*;

/// Pages, and the names of their pictures.
const PAGES: &[(&str, &str)] = &[
    ("overview", "/ui"),
    ("flow", "/ui/flow"),
    ("pools", "/ui/pools"),
    ("endpoint", "/ui/pools/shop/two"),
    ("routes", "/ui/routes?method=GET&url=%2Fcart"),
    ("cache", "/ui/cache"),
    ("tap", "/ui/tap"),
    ("explain", "/ui/explain"),
    ("shadows", "/ui/shadows"),
    ("advice", "/ui/advice"),
    ("config", "/ui/config"),
    ("revision", "/ui/config/0"),
    ("certificates", "/ui/certificates"),
    ("dns", "/ui/dns"),
];

/// Pages in states that [`PAGES`] do not have.
const STATES: &[(&str, &str)] = &[
    ("pools-filtered", "/ui/pools?q=silent&sort=state"),
    ("pools-none", "/ui/pools?q=nothing-has-this"),
    ("endpoint-down", "/ui/pools/shop/silent"),
    ("routes-wrong", "/ui/routes?method=GET&url=nonsense"),
    ("explain-none", "/ui/explain?q=nothing-has-this"),
    ("not-found", "/ui/pools/shop/nobody"),
];

/// Widths of a phone, a laptop and a large screen, with heights.
const SIZES: [(u32, u32); 3] = [(390, 844), (1280, 900), (1920, 1080)];

/// The script of axe, as it is installed.
pub fn axe() -> String {
    let axe = evenkeel_peers::find("axe.min.js").expect("the test looked");
    std::fs::read_to_string(axe).expect("a script")
}

pub async fn page(site: &Site, browser: &WebDriver, path: &str) {
    browser.goto(format!("http://{}{path}", site.admin)).await.expect("a page");
    until(browser, "a heading", "return !!document.querySelector('main h1')").await;
}

/// Looks at these pages in every size and scheme of colours. `kind` begins the names of their pictures.
pub async fn look_at(site: &Site, browser: &WebDriver, kind: &str, pages: &[(&str, &str)]) {
    let axe = axe();
    for (name, path) in pages {
        for scheme in ["light", "dark"] {
            for (width, height) in SIZES {
                let look = format!("{kind}{name}-{scheme}-{width}");
                in_light(browser, scheme, width, height).await;
                page(site, browser, path).await;
                fits(browser, &look).await;
                is_usable_by_everyone(browser, &axe, &look).await;
                whole_picture(browser, scheme, width, &look).await;
            }
        }
    }
}

/// Checks that the page and all that can scroll on it are no wider than the window, except for drawings and program text.
async fn fits(browser: &WebDriver, look: &str) {
    let wide = "const is = (e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible';\
                const wide = [...document.querySelectorAll('main .wide, main section')].filter(is).map((e) => e.outerHTML.slice(0, 200));\
                if (document.documentElement.scrollWidth > innerWidth) wide.push('the page');\
                return wide";
    assert_eq!(run(browser, wide).await, json!([]), "{look} is too wide");
}

/// Waits for traffic of some seconds, and for spans of an endpoint that are over.
fn has_traffic(site: &Site) {
    eventually("spans of an endpoint", || {
        let history = crate::support::ask(
            &site.admin,
            "GET /v1/history/shop/two HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        );
        (history.ok()?.matches("until_ms\":1").count() > 2).then_some(())
    });
}

/// Looks at a process that has had no request: pages have words for that, and no clock of 1970.
pub async fn without_traffic(site: &Site, browser: &WebDriver) {
    let pages = [("overview", "/ui"), ("flow", "/ui/flow"), ("explain", "/ui/explain"), ("dns", "/ui/dns")];
    look_at(site, browser, "quiet-", &pages).await;
    let text = "return document.querySelector('main').innerText";
    for (path, words) in [
        ("/ui", "have come in yet"),
        ("/ui/flow", "in the last five seconds. Bands"),
        ("/ui/explain", "No explanation is kept"),
        ("/ui/dns", "No queries yet"),
    ] {
        page(site, browser, path).await;
        let shown = run(browser, text).await;
        let shown = shown.as_str().expect("a text");
        assert!(shown.contains(words) && !shown.contains("NaN"), "{path}: {shown}");
        let labels =
            run(browser, "return [...document.querySelectorAll('main svg text')].map((t) => t.textContent)").await;
        assert!(!labels.to_string().contains("\"00:00\""), "{path}: {labels}");
    }
}

/// Looks at every page in every way.
pub async fn look(site: &Site, browser: &WebDriver) {
    has_traffic(site);
    look_at(site, browser, "", PAGES).await;
    assert_eq!(complaints(browser).await, Vec::<String>::new());
    look_at(site, browser, "", STATES).await;
    let missing = complaints(browser).await;
    assert!(missing.iter().all(|line| line.contains("404")), "{missing:?}");
    in_light(browser, "light", 1280, 900).await;
    page(site, browser, "/ui").await;
    let weight =
        "return performance.getEntries().filter((e) => e.transferSize).reduce((sum, e) => sum + e.transferSize, 0)";
    let weight = run(browser, weight).await.as_f64().expect("a number");
    assert!(weight > 0.0 && weight < 100_000.0, "the first page takes {weight} bytes in all");
    // The keyboard alone: the first stop leads past the navigation.
    browser.action_chain().send_keys(Key::Tab).perform().await.expect("a key");
    browser.action_chain().send_keys(Key::Enter).perform().await.expect("a key");
    until(browser, "focus in the content", "return document.activeElement === document.getElementById('content')")
        .await;
    without_script(site, browser).await;
}

async fn without_script(site: &Site, browser: &WebDriver) {
    let tools = browser.cdp();
    let switch = async |is_off: bool| {
        let value = json!({ "value": is_off });
        tools.send_raw("Emulation.setScriptExecutionDisabled", value).await.expect("a browser");
    };
    switch(true).await;
    browser.goto(format!("http://{}/ui/pools", site.admin)).await.expect("a page");
    let source = browser.source().await.expect("a page");
    assert!(source.contains("/ui/pools/shop/two") && source.contains("cannot connect"), "{source}");
    switch(false).await;
}

/// Checks what can be read and chosen on pages: reasons, cards, orders, filters.
pub async fn read(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 900).await;
    page(site, browser, "/ui/pools").await;
    // The reason stands under the name, in the same cell.
    let reason = "const cell = document.getElementById('shop/silent').querySelector('th');\
                  return cell.querySelector('.why').getBoundingClientRect().top >= cell.querySelector('a').getBoundingClientRect().bottom - 1\
                  && cell.innerText.includes('cannot connect')";
    assert_eq!(run(browser, reason).await, true, "the reason is under the name");
    let draining = "return document.getElementById('api/us-2').querySelector('th .why').innerText";
    assert!(run(browser, draining).await.to_string().contains("configuration"), "why it drains");

    page(site, browser, "/ui").await;
    let cards = run(browser, "return [...document.querySelectorAll('.card')].map((card) => card.innerText)").await;
    let cards = cards.as_array().expect("cards");
    assert_eq!(cards.len(), 3, "{cards:?}");
    for words in ["shop", "2 of 3 up", "1 down", "rate", "p99", "errors", "fair"] {
        assert!(cards[0].to_string().contains(words), "{words}: {}", cards[0]);
    }

    page(site, browser, "/ui/flow").await;
    let marked = "return ['down', 'out', 'bad'].map((tone) => document.querySelectorAll(`.flow .node.${tone}`).length)";
    until(browser, "errors of an endpoint", "return !!document.querySelector('.flow path.flow-bad')").await;
    let marked = run(browser, marked).await;
    assert!(marked[0] == 1 && marked[1] == 1, "an endpoint is down, one drains: {marked}");

    page(site, browser, "/ui/certificates").await;
    let row = run(browser, "return document.querySelector('tbody tr').innerText").await.to_string();
    for words in ["www.shop.test", "shop.test", "secure", "Example Trust, Test R1", "47"] {
        assert!(row.contains(words), "{words}: {row}");
    }
    page(site, browser, "/ui/routes").await;
    let row =
        "return [...document.querySelectorAll('tbody tr')].find((row) => row.innerText.startsWith('api')).innerText";
    let row = run(browser, row).await.to_string();
    assert!(row.contains(" ms") && row.contains("/s"), "{row}");
    page(site, browser, "/ui/dns").await;
    let rate = "return Number.parseFloat(document.querySelector('.figures dd').innerText) > 0";
    until(browser, "queries a second", rate).await;
}

/// Filters and sorts explanations.
pub async fn explain(site: &Site, browser: &WebDriver) {
    let took = "const unit = { '\u{b5}s': 1e-3, ms: 1, s: 1e3 };\
                return [...document.querySelectorAll('td[data-label=Took]')].map((td) => { \
                const [number, name] = td.innerText.split(' '); return Number(number) * unit[name]; })";
    page(site, browser, "/ui/explain").await;
    let listed = run(browser, took).await;
    let listed: Vec<f64> = listed.as_array().expect("times").iter().filter_map(serde_json::Value::as_f64).collect();
    assert!(listed.len() > 5 && listed.is_sorted_by(|a, b| a >= b), "the slowest is the first: {listed:?}");
    let paths = "return [...new Set([...document.querySelectorAll('tbody th a')].map((a) => a.innerText))]";
    page(site, browser, "/ui/explain?sort=latest").await;
    browser.find(By::Name("q")).await.expect("a field").send_keys("/api/items").await.expect("keys");
    browser.find(By::XPath("//button[text()='Show']")).await.expect("a button").click().await.expect("a click");
    until(browser, "the filter", "return location.search.includes('items')").await;
    until(browser, "a heading", "return !!document.querySelector('main h1')").await;
    assert_eq!(run(browser, paths).await, json!(["GET test/api/items"]));
    let kept = run(browser, "return document.querySelector('select[name=sort]').value").await;
    assert_eq!(kept, "latest", "a filter keeps the order");
    page(site, browser, "/ui/explain?min_ms=100000").await;
    until(
        browser,
        "words for nothing found",
        "return document.querySelector('.nothing')?.innerText.includes('fits the filter')",
    )
    .await;
}

/// Points at a plot, and drags over a part of it.
pub async fn zoom(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 1400).await;
    page(site, browser, "/ui").await;
    let plot = browser.find(By::Css("svg[data-frame]")).await.expect("a plot");
    plot.scroll_into_view().await.expect("a plot");
    let shown = "const tip = document.querySelector('.tip'); return !tip.hidden && /UTC/.test(tip.innerText) && /flows [0-9.]+\\/s/.test(tip.innerText)";
    browser.action_chain().move_to_element_center(&plot).perform().await.expect("a move");
    until(browser, "the value under the pointer", shown).await;
    let crosses =
        "return document.querySelectorAll('.cross').length === document.querySelectorAll('svg[data-frame]').length";
    assert_eq!(run(browser, crosses).await, true, "each plot shows the moment");
    picture(browser, "hover").await;
    // It stays while the page follows what happens.
    run(browser, "window.before = document.querySelector('.stale').innerText").await;
    until(browser, "another second", "return document.querySelector('.stale').innerText !== window.before").await;
    assert_eq!(run(browser, shown).await, true);
    // The keyboard does the same.
    run(browser, "pointed = undefined; point(); document.querySelector('svg[data-frame]').focus()").await;
    browser.action_chain().send_keys(Key::Left).perform().await.expect("a key");
    until(browser, "the value of the keyboard", shown).await;

    let ends = "const { from, until } = document.querySelector('svg[data-frame]').dataset; return [Number(from), Number(until)]";
    let whole = run(browser, ends).await;
    let plot = browser.find(By::Css("svg[data-frame]")).await.expect("a plot");
    let drag = browser.action_chain().move_to_element_center(&plot).click_and_hold().move_by_offset(120, 0).release();
    drag.perform().await.expect("a drag");
    until(browser, "a part of the time", "return /from=\\d+&until=\\d+/.test(location.search)").await;
    until(browser, "a way back", "return document.querySelector('.ranges')?.innerText.includes('Back to now')").await;
    let part = run(browser, ends).await;
    let length = |ends: &serde_json::Value| ends[1].as_f64().unwrap_or(0.0) - ends[0].as_f64().unwrap_or(0.0);
    assert!(part[0].as_f64() > whole[0].as_f64() && length(&part) < length(&whole), "{part} of {whole}");
    picture(browser, "zoomed").await;
    browser.find(By::LinkText("Back to now")).await.expect("a link").click().await.expect("a click");
    until(browser, "all of the time", "return location.search === ''").await;
    browser.find(By::LinkText("1 min")).await.expect("a link").click().await.expect("a click");
    until(browser, "the last minute", "return document.querySelector('.ranges [aria-current]')?.innerText === '1 min'")
        .await;
    assert!(length(&run(browser, ends).await) <= 60.0);
    assert_eq!(complaints(browser).await, Vec::<String>::new());
}

/// Checks for a caller who may change things that all buttons are within their rows, in every size.
pub async fn buttons(site: &Site, browser: &WebDriver) {
    let axe = axe();
    for scheme in ["light", "dark"] {
        for (width, height) in SIZES {
            in_light(browser, scheme, width, height).await;
            for (name, path) in [("pools", "/ui/pools"), ("endpoint", "/ui/pools/shop/two"), ("config", "/ui/config")] {
                let look = format!("signed-in-{name}-{scheme}-{width}");
                page(site, browser, path).await;
                fits(browser, &look).await;
                let out = "return [...document.querySelectorAll('main button')].filter((button) => { \
                           const [a, b] = [button, button.closest('tr') || button.closest('.buttons, form, p')].map((e) => e.getBoundingClientRect()); \
                           return a.left < b.left - 1 || a.right > Math.min(b.right, innerWidth) + 1; }).map((button) => button.outerHTML)";
                assert_eq!(run(browser, out).await, json!([]), "{look}: buttons beyond their row");
                assert_eq!(run(browser, "return document.querySelectorAll('main button').length > 1").await, true);
                is_usable_by_everyone(browser, &axe, &look).await;
                whole_picture(browser, scheme, width, &look).await;
            }
        }
    }
}
