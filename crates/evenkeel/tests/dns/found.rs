//! Answers from discovered endpoints: names of another name server, and a file that lists endpoints.

use super::wellness::ask;
use crate::names::{A, Names, Says, v4};
use crate::support::{Folder, Running, address, eventually, text};
use evenkeel_peers::installed;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A file with one pool of which `pool` says where its endpoints are, and no checks.
fn file(folder: &Folder, names: &Names, listen: &str, pool: &str) -> String {
    folder.file(
        "evenkeel.toml",
        &format!(
            "[runtime]\nworkers = 2\n[resolver]\nnameservers = ['{}']\nmin_ttl = '100ms'\n\
             [listener.dns]\nbind = ['{listen}']\nmode = 'dns'\n[listener.dns.zone]\nname = 'a.example'\n\
             responses_per_subnet = 0\nrecords = {{ www = {{ pool = 'web' }} }}\n\
             [pool.web]\nbalance = 'round_robin'\n{pool}\n",
            names.addr
        ),
    )
}

/// Response code of an answer.
fn code(listen: &str, kind: &str) -> String {
    let (ip, port) = listen.rsplit_once(':').expect("an address with a port");
    let mut dig = Command::new("dig");
    dig.args([&format!("@{ip}"), "-p", port, "+tries=1", "+time=5", "www.a.example", kind]);
    let said = text(&dig.output().expect("scripts/setup.sh installs dig").stdout);
    let code = said.split("status: ").nth(1).and_then(|rest| rest.split(',').next());
    code.unwrap_or_else(|| panic!("no answer: {said}")).to_string()
}

#[test]
fn answers_name_the_addresses_that_a_name_has_now() {
    if !installed(&["dig"]) {
        return;
    }
    let (folder, names, listen) = (Folder::new("dns-found-name"), Names::start(), address());
    let pool = "endpoints = [{ addr = 'all.test:80', resolve = 'all' }]";
    let _running = Running::start(&["run", "--config", &file(&folder, &names, &listen, pool)]);
    // Not that there is nothing: nobody knows yet, and a resolver would keep it.
    assert_eq!((code(&listen, "A"), code(&listen, "AAAA")), ("SERVFAIL".into(), "SERVFAIL".into()));
    for last in [&[1][..], &[2], &[1, 2, 3], &[3]] {
        let addrs: Vec<[u8; 4]> = last.iter().map(|n| [10, 9, 0, *n]).collect();
        names.say("all.test", A, v4(0, &addrs));
        let wanted: Vec<String> = last.iter().map(|n| format!("10.9.0.{n}")).collect();
        eventually(&format!("just {wanted:?}"), || (ask(&listen, "www.a.example") == wanted).then_some(()));
    }
    assert_eq!(code(&listen, "AAAA"), "NOERROR", "now it is known that there are none");
    names.say("all.test", A, Says::Code(2));
    assert_eq!(ask(&listen, "www.a.example"), ["10.9.0.3"]);
}

#[test]
fn no_query_is_lost_while_all_endpoints_are_replaced_again_and_again() {
    if !installed(&["dig"]) {
        return;
    }
    let (folder, names, listen) = (Folder::new("dns-found-file"), Names::start(), address());
    let list = folder.file("web.json", "[\"10.9.0.1:80\"]");
    let pool = format!("discover = {{ file = '{list}' }}");
    let _running = Running::start(&["run", "--config", &file(&folder, &names, &listen, &pool)]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(SeqCst) {
                assert_eq!(ask(&listen, "www.a.example").len(), 1, "after {asked}");
                asked += 1;
            }
            asked
        });
        for n in 2..6 {
            let new = folder.file("new.json", &format!("[\"10.9.0.{n}:80\"]"));
            fs::rename(new, &list).expect("it can be renamed");
            eventually("the new one", || (ask(&listen, "www.a.example") == [format!("10.9.0.{n}")]).then_some(()));
        }
        over.store(true, SeqCst);
        assert!(asking.join().expect("each was answered") > 0);
    });
}
