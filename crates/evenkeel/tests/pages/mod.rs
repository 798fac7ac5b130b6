//! Pages that users read: their command blocks run as written, their links lead somewhere, and their scenarios are read.

mod links;
mod page;
mod shell;

use crate::support::{Folder, ends};
use page::Page;
use shell::Shell;

/// Blocks with the info string `sh no-run`: they need root, the network, a service manager, files of other proxies, a build or minutes. Every other
/// block runs, so each of these is a command that may stop working unseen; `make package-check` does what those of packages do.
const NO_RUN_MAX: usize = 12;

/// Pages whose commands look at an evenkeel that serves already, as `shell.sh` starts it.
const SERVED: &[&str] = &[
    "docs/guide/changing.md",
    "docs/guide/health-and-metrics.md",
    "docs/guide/logs.md",
    "docs/guide/troubleshooting.md",
];

/// Pages whose TOML is a whole configuration, each block by itself.
const CONFIGURED: &[&str] = &[
    "docs/guide/coming-from/haproxy.md",
    "docs/guide/coming-from/nginx.md",
    "docs/guide/coming-from/envoy.md",
    "docs/guide/coming-from/traefik.md",
    "docs/guide/coming-from/caddy.md",
];

/// The pages with commands: README and guides.
fn guides() -> impl Iterator<Item = Page> {
    Page::all().into_iter().filter(|page| page.path == "README.md" || page.path.starts_with("docs/guide/"))
}

#[test]
fn every_command_block_runs_as_written() {
    if !evenkeel_peers::installed(&["bash", "curl", "htpasswd", "jq", "python3", "ss"]) {
        return;
    }
    let mut ran = 0;
    for page in guides() {
        let blocks: Vec<_> = page.blocks().into_iter().filter(|block| block.info == "sh").collect();
        if !blocks.is_empty() {
            Shell::new(&page.path, SERVED.contains(&&*page.path)).run(&blocks);
            ran += blocks.len();
        }
    }
    assert!(ran >= 25, "only {ran} blocks were found");
}

#[test]
fn few_command_blocks_are_not_run() {
    let blocks = guides().flat_map(|page| page.blocks());
    let shell: Vec<_> = blocks.filter(|block| block.info.starts_with("sh")).collect();
    let unknown: Vec<_> = shell.iter().filter(|block| !["sh", "sh no-run"].contains(&&*block.info)).collect();
    assert!(unknown.is_empty(), "`sh` or `sh no-run`: {unknown:?}");
    let not_run: Vec<_> = shell.iter().filter(|block| block.info == "sh no-run").map(|block| &block.place).collect();
    assert!(not_run.len() <= NO_RUN_MAX, "more than {NO_RUN_MAX} blocks do not run: {not_run:?}");
}

#[test]
fn every_scenario_in_the_guide_is_read() {
    let blocks = guides().flat_map(|page| page.blocks());
    let scenarios: Vec<_> = blocks.filter(|block| block.info == "toml" && block.text.contains("[service.")).collect();
    assert!(!scenarios.is_empty(), "there is none");
    let folder = Folder::new("scenarios");
    for scenario in scenarios {
        let file = folder.file("mine.toml", &scenario.text);
        ends(&["sim", &file, "--requests", "300", "--seeds", "1"], 0, &["best is"]);
    }
}

#[test]
fn every_configuration_beside_that_of_another_proxy_is_accepted() {
    let pages = guides().filter(|page| CONFIGURED.contains(&&*page.path));
    let blocks: Vec<_> = pages.flat_map(|page| page.blocks()).filter(|block| block.info == "toml").collect();
    assert!(blocks.len() >= 5, "only {} blocks were found", blocks.len());
    let folder = Folder::new("configurations");
    for block in blocks {
        let file = folder.file("evenkeel.toml", &block.text);
        ends(&["check", "--elsewhere", &file], 0, &["ok"]);
    }
}

#[test]
fn the_summary_of_the_site_has_every_page() {
    let pages = Page::all();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").expect("the summary is there");
    let listed: Vec<String> = links::pages(summary).collect();
    // scripts/site.py lists the pages of tables.
    let paths = pages.iter().map(|page| &*page.path).filter(|path| !path.starts_with("docs/reference/config/"));
    let missing: Vec<&str> = paths.filter(|path| !listed.iter().any(|p| p == path)).collect();
    assert_eq!(missing, ["docs/SUMMARY.md"], "pages that are not in docs/SUMMARY.md, but for itself");
}

#[test]
fn every_link_leads_somewhere() {
    let pages = Page::all();
    let wrong: Vec<String> = pages.iter().flat_map(|page| links::dead(page, &pages)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
