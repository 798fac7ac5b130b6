//! A day of traffic in virtual time, over the rules and the store as a proxy uses them: a hundred thousand URLs whose content
//! changes, endpoints that fail at times, purges of every kind, and fetches that take a while. Each answer is judged by what the
//! site knows of its content, not by the rules.

mod judge;
mod shell;
mod site;

use judge::{Counts, Judge};
use shell::{Purge, Shell};
use site::{Rng, Site, URLS, Zipf};

const DAY_MS: u64 = 86_400_000;
const CAPACITY: u64 = 16 << 20;

/// Operations that come within a short time, and that time.
const BURST: u64 = 100;
const BURST_MS: u64 = 3000;

/// Purges of 100 operations.
const PURGES_PERCENT: u64 = 5;

/// Runs a day of so many operations.
fn day(seed: u64, operations: u64) -> Counts {
    let site = Site::new();
    let (mut rng, zipf) = (Rng(seed), Zipf::new(URLS));
    let mut shell = Shell::new(&site, CAPACITY);
    let mut judge = Judge::default();
    let start = shell.now;
    for operation in 0..operations {
        // Together, as those of a page and of a crowd: fetches overlap with other requests, and with purges.
        let burst = operation / BURST * BURST;
        let at = start + DAY_MS / operations * burst + (operation - burst) * BURST_MS / BURST;
        shell.advance(at, &mut judge);
        if rng.below(100) < PURGES_PERCENT {
            let purge = Purge::any(&mut rng, &zipf);
            shell.purge(&purge, &mut judge);
        } else {
            let (url, language) = (zipf.draw(&mut rng), rng.below(site::LANGUAGES) as usize);
            let has_user = rng.below(30) == 0;
            shell.ask(url, language, has_user, &mut judge);
        }
        judge.memory(shell.bytes(), CAPACITY);
    }
    shell.end(&mut judge);
    judge.counts
}

/// Asserts that everything that the day is about has happened, and often.
fn assert_full(seed: u64, counts: &Counts) {
    for (what, count, least) in [
        ("fresh hits", counts.fresh, 1000),
        ("stale while validated", counts.stale, 100),
        ("stale as the endpoint failed", counts.failed, 20),
        ("validated", counts.renewed, 100),
        ("collapsed", counts.collapsed, 100),
        ("stale by a soft purge", counts.soft, 30),
        ("refused for a purge", counts.refused_purged, 20),
        ("evicted", counts.evicted, 1000),
        ("dropped when over", counts.over, 100),
        ("purged", counts.purged, 1000),
        ("not for the cache", counts.private, 100),
    ] {
        assert!(count >= least, "seed {seed}: {what}: {count} in {counts:?}");
    }
}

#[test]
fn a_day_of_purges_and_changes_keeps_every_promise() {
    assert_full(1, &day(1, 60_000));
}

/// Ten days of ten times as many operations. Run with `--ignored --nocapture`.
#[test]
#[ignore = "a minute or two in a release build"]
fn ten_busier_days_keep_every_promise() {
    for seed in 2..12 {
        let counts = day(seed, 1_200_000);
        println!("seed {seed}: {counts:?}");
        assert_full(seed, &counts);
    }
}
