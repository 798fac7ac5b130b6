//! The page of advice: it follows the computation, fits every window, and its patches are copied by mouse and keyboard.

use super::driver::{complaints, in_light, run, until};
use super::pages;
use super::site::Site;
use serde_json::Value;
use thirtyfour::prelude::*;

/// Waits for the advice on a page that was opened before it was computed.
pub async fn computed(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 900).await;
    browser.goto(format!("http://{}/ui/advice", site.admin)).await.expect("a page");
    until(browser, "words about the computation", "return document.body.innerText.includes('being computed')").await;
    // The page is not loaded again: it follows.
    until(browser, "advice", "return document.querySelectorAll('article.advice').length > 0").await;
    let text = run(browser, "return document.querySelector('main').innerText").await;
    let text = text.as_str().expect("a text");
    let parts = ["1. ", "evenkeel advise -c ", "+balance = \"leastconn\"", "Leave it", "computed ", "effect: p99 "];
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

/// Looks at the page with its advice in every size and scheme of colours.
pub async fn look(site: &Site, browser: &WebDriver) {
    pages::look_at(site, browser, "", &[("advice", "/ui/advice")]).await;
    // Its parts as well: a long line of a patch scrolls within the patch.
    in_light(browser, "light", 390, 844).await;
    pages::page(site, browser, "/ui/advice").await;
    let wide = "return [...document.querySelectorAll('main article, main pre, main details, main .copied')]\
                .filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 200))";
    assert_eq!(run(browser, wide).await, Value::Array(Vec::new()));
}

/// Copies a patch with a click and, without a clipboard, by the selection; then reaches both with the keyboard alone.
pub async fn copy(site: &Site, browser: &WebDriver) {
    in_light(browser, "light", 1280, 900).await;
    pages::page(site, browser, "/ui/advice").await;
    let patch = "const button = document.querySelector('button[data-copy^=patch]'); \
                 const text = document.getElementById(button.dataset.copy).textContent;";
    let said = |text: &str| format!("return document.getElementById('said').innerText.startsWith('{text}')");
    run(browser, "Object.defineProperty(navigator, 'clipboard', { configurable: true, value: { writeText: async (t) => { window.kept = t } } })").await;
    run(browser, &format!("{patch} button.click()")).await;
    until(browser, "that it is copied", &said("Copied")).await;
    let kept = run(browser, &format!("{patch} return [window.kept, text]")).await;
    assert_eq!(kept[0], kept[1]);
    assert!(kept[0].as_str().is_some_and(|diff| diff.starts_with("--- ") && diff.ends_with('\n')), "{kept}");

    run(browser, "Object.defineProperty(navigator, 'clipboard', { configurable: true, value: undefined })").await;
    run(browser, &format!("{patch} button.focus()")).await;
    browser.action_chain().send_keys(Key::Enter).perform().await.expect("a key");
    until(browser, "that it is selected", &said("Selected")).await;
    let selected = format!(
        "{patch} return String(getSelection()).trim() === text.trim() && document.activeElement.id === button.dataset.copy"
    );
    until(browser, "the text of the patch", &selected).await;
    // The selection stays while the page follows.
    run(browser, "window.before = document.querySelector('p.process').innerText").await;
    until(browser, "another second", "return document.querySelector('p.process').innerText !== window.before").await;
    assert_eq!(run(browser, &selected).await, true);

    // Every button and text is a stop of the tab key.
    let stops =
        "return [...document.querySelectorAll('main button, main pre, main summary')].every((e) => e.tabIndex >= 0)";
    assert_eq!(run(browser, stops).await, true);
    run(browser, "document.querySelector('main button[data-copy]').focus()").await;
    browser.action_chain().send_keys(Key::Tab).perform().await.expect("a key");
    let next = "return document.activeElement.matches('pre')";
    assert_eq!(run(browser, next).await, true, "the text follows its button");
    assert_eq!(complaints(browser).await, Vec::<String>::new());
}
