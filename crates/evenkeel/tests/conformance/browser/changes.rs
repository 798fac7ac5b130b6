//! Changes that an operator makes with the dashboard: an endpoint is drained, a configuration is applied and rolled back.

use super::driver::{complaints, in_light, picture, run, until};
use super::site::{Site, TOKEN};
use crate::support::{eventually, get};
use thirtyfour::prelude::*;

/// Signs in and drains an endpoint with two clicks.
pub async fn steer(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 760).await;
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
pub async fn configure(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 640).await;
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
