//! Counts of the endpoints that answers name, in the ledger of requests, the history and the status.

use super::wellness::ask;
use crate::support::{Folder, Running, address, eventually, get};
use evenkeel_peers::installed;

/// The numbers behind each `"requests":` of a JSON text.
fn requests(json: &str) -> Vec<u64> {
    let after = json.split("\"requests\":").skip(1);
    after.filter_map(|rest| rest.split([',', '}']).next()?.trim().parse().ok()).collect()
}

#[test]
fn answers_count_as_requests_of_the_endpoints_that_they_name() {
    if !installed(&["dig"]) {
        return;
    }
    let (folder, listen, admin) = (Folder::new("dns-counted"), address(), address());
    let file = folder.file(
        "evenkeel.toml",
        &format!(
            "[runtime]\nworkers = 2\n[admin]\nhttp = {{ bind = '{admin}' }}\n\
             [listener.dns]\nbind = ['{listen}']\nmode = 'dns'\n[listener.dns.zone]\nname = 'a.example'\n\
             responses_per_subnet = 0\nrecords = {{ www = {{ pool = 'web', answers = 2 }}, one = {{ pool = 'web' }} }}\n\
             [pool.web]\nbalance = 'first'\nendpoints = ['10.9.0.1:80', '10.9.0.2:80', '10.9.0.3:80']\n"
        ),
    );
    let _running = Running::start(&["run", "--config", &file]);
    let page = |path: &str| get(&admin, path).expect("an answer").1;
    (0..3).for_each(|_| assert_eq!(ask(&listen, "www.a.example").len(), 2));
    let status = page("/v1/status");
    assert_eq!(requests(&status), [3, 3, 0], "{status}");
    assert!(status.contains("\"share\":0.5"), "{status}");
    // The process adds up every second.
    let sum = |path: &str| requests(&page(path)).iter().sum::<u64>();
    eventually("three queries in the history of all", || (sum("/v1/history") == 3).then_some(()));
    eventually("six answers in that of the pool", || (sum("/v1/history/web") == 6).then_some(()));
    let of = "/v1/history/web/10.9.0.2:80";
    eventually("three in that of an endpoint", || (sum(of) == 3).then_some(()));
}
