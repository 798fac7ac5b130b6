//! The dashboard in a browser. Chromium looks at every page of a running evenkeel, with traffic and without, in light and dark, on a
//! phone, a laptop and a large screen; axe judges whether everyone can use them; plots are zoomed, and an endpoint is drained.
//!
//! With `EVENKEEL_PICTURES=FOLDER` every look becomes a picture.

mod advice;
mod changes;
pub mod driver;
mod pages;
mod site;

use driver::{Driver, open};
use site::{Site, Traffic};
use std::mem::ManuallyDrop;

#[test]
#[ignore = "`make conformance` runs it"]
fn every_page_works_in_a_browser() {
    crate::judges!("chromedriver", "axe.min.js", "openssl");
    let site = Site::new();
    let (_driver, url) = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async {
        // A browser of a failed test is not asked to end: that takes a minute.
        let browser = ManuallyDrop::new(open(&url).await);
        pages::without_traffic(&site, &browser).await;
        let traffic = Traffic::start(&site);
        pages::look(&site, &browser).await;
        pages::read(&site, &browser).await;
        pages::explain(&site, &browser).await;
        pages::zoom(&site, &browser).await;
        changes::steer(&site, &browser).await;
        pages::buttons(&site, &browser).await;
        changes::configure(&site, &browser).await;
        ManuallyDrop::into_inner(browser).quit().await.expect("it ends");
        traffic.end();
    });
    let log = site.running.said();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
#[ignore = "`make conformance` runs it"]
fn advice_is_read_and_copied_in_a_browser() {
    crate::judges!("chromedriver", "axe.min.js", "openssl");
    let site = Site::new();
    let (_driver, url) = Driver::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async {
        let browser = ManuallyDrop::new(open(&url).await);
        advice::computed(&site, &browser).await;
        advice::look(&site, &browser).await;
        advice::copy(&site, &browser).await;
        ManuallyDrop::into_inner(browser).quit().await.expect("it ends");
    });
    let log = site.running.said();
    assert!(!log.contains("panic"), "{log}");
}
