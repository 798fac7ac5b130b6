//! Reading takes linear time: a file ten times as long must not take a hundred times as long. Measured in CPU
//! time of the thread, and in sizes between which quadratic time stands out by far: a machine under load has been seen
//! to take three times as long.

use evenkeel_config::{Diagnostic, Files, Outcome, load_from, parse_str, render_text};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Nanoseconds of CPU time of this thread.
fn on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// Minimum CPU time of several runs, and the result of the last.
fn least<T>(mut run: impl FnMut() -> T) -> (u64, T) {
    let mut once = || {
        let began = on_cpu();
        let done = run();
        (on_cpu() - began, done)
    };
    let (first, second) = (once(), once());
    (first.0.min(second.0), second.1)
}

#[track_caller]
fn good(outcome: &Outcome) {
    let errors = outcome.diagnostics.iter().take(3).cloned().collect::<Vec<_>>();
    assert!(outcome.plan.is_some(), "{}", render_text(&errors, false));
}

#[test]
fn listeners_with_routes_of_their_own_do_not_look_at_all_common_routes_again() {
    let file = |listeners: usize, own: bool| {
        let mut text = "[pool.p]\nendpoints = ['10.0.0.1:80']\n".to_string();
        for n in 0..listeners {
            let _ = writeln!(text, "[listener.l{n}]\nbind = ['127.0.0.1:{}']", 1024 + n);
        }
        for n in 0..listeners {
            let (listener, name) =
                (if own { format!(", listener = ['l{n}']") } else { String::new() }, format!("own{n}"));
            let _ = writeln!(text, "[[route]]\npool = 'p'\nname = '{name}'\nmatch = {{ path = '/{name}'{listener} }}");
        }
        for n in 0..2000 {
            let _ = writeln!(text, "[[route]]\npool = 'p'\nmatch = {{ path = '/common/{n}' }}");
        }
        text
    };
    let read = |own| least(|| parse_str("large.toml", &file(800, own), &|_| None));
    let ((with, outcome), (without, _)) = (read(true), read(false));
    good(&outcome);
    // Inserting 400,000 paths instead of 2,200 made this ratio six with 200 listeners: some seventeen with 800.
    assert!(with < 8 * without, "{} ms instead of {} ms", with / 1_000_000, without / 1_000_000);
}

/// Numbered files, each with some pools.
struct Many {
    files: usize,
    pools: usize,
}

impl Files for Many {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(file) = path.file_stem().and_then(|n| n.to_str()?.parse::<usize>().ok()) else {
            return Ok(b"[include]\nfiles = ['d/*.toml']\n[pool]\nnone = 1\n".to_vec());
        };
        let mut text = "[pool]\n".to_string();
        for n in 0..self.pools {
            let _ = writeln!(text, "p{file}-{n} = 1");
        }
        Ok(text.into_bytes())
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok((0..self.files).map(|n| format!("{n}.toml")).collect())
    }
}

#[test]
fn files_are_joined_in_a_time_that_grows_as_they_do() {
    // The last diagnostic counts those not shown.
    let found = |diagnostics: &[Diagnostic]| {
        let rest = diagnostics.last().and_then(|last| last.message.split(' ').next()?.parse::<usize>().ok());
        diagnostics.len() - 1 + rest.expect("there are more than are shown")
    };
    let read =
        |files| least(|| found(&load_from(&Many { files, pools: 500 }, Path::new("main.toml"), &|_| None).diagnostics));
    let ((few, small), (many, large)) = (read(4), read(128));
    assert_eq!((small, large), (2003, 64_003), "one error for each pool, and those of a file without a listener");
    // Thirty-two times as many pools. Quadratic time showed up as thirty times with eight times as many.
    assert!(many < 160 * few, "{} ms instead of {} ms", many / 1_000_000, few / 1_000_000);
}

#[test]
fn thousands_of_unknown_pools_do_not_each_list_thousands_of_names() {
    let mut text = "[listener.web]\nbind = ['127.0.0.1:8080']\n".to_string();
    for n in 0..1000 {
        let _ = writeln!(text, "[pool.pool-{n}]\nendpoints = ['10.0.0.1:80']");
        let _ = writeln!(text, "[[route]]\npool = 'pol-{n}'\nmatch = {{ path = '/{n}' }}");
    }
    let (_, outcome) = least(|| parse_str("large.toml", &text, &|_| None));
    let unknown: Vec<&str> = outcome.diagnostics.iter().filter_map(|d| d.help.as_deref()).collect();
    assert_eq!(unknown.len(), 101, "and one of those that are not shown");
    let begin: String = unknown[0].chars().take(200).collect();
    assert!(unknown.iter().all(|help| help.len() < 500), "{begin}...");
    assert!(begin.starts_with("did you mean \"pool-0\"?"), "{begin}...");
}

#[test]
fn a_plan_shares_what_an_earlier_one_has() {
    let file = |weight: u32| {
        format!(
            "[listener.l]\nbind = ['127.0.0.1:80']\npool = 'p'\n[pool.p]\nendpoints = ['10.0.0.1:80']\n\
             [pool.q]\nendpoints = [{{ addr = '10.0.0.2:80', weight = {weight} }}]\n\
             [[route]]\nmatch = {{ path = '/q' }}\npool = 'q'\n"
        )
    };
    let plan = |weight| {
        let outcome = parse_str("shared.toml", &file(weight), &|_| None);
        good(&outcome);
        outcome.plan.expect("checked")
    };
    let (before, mut after, unshared) = (plan(1), plan(2), plan(2));
    after.share(&before);
    assert_eq!(after, unshared);
    assert!(Arc::ptr_eq(&after.listeners[0], &before.listeners[0]));
    let shared: Vec<bool> = before.pools.iter().zip(&after.pools).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
    assert_eq!(shared, [true, false]);
}
