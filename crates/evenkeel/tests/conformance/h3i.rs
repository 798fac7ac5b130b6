//! HTTP/3 before the attacks of h3i (folder `attacks`), which builds on another implementation of QUIC.
#![allow(clippy::disallowed_macros, reason = "a test prints the rows")]

use crate::support::{Endpoint, Folder, Running, get};
use evenkeel_peers::{find, own_addr};
use std::process::Command;

#[test]
#[ignore = "`make h3i` runs it"]
fn attacks_get_their_errors_and_a_client_that_behaves_its_responses() {
    crate::judges!("evenkeel-h3i-attacks");
    let (folder, endpoint, addr, admin) = (Folder::new("h3i"), Endpoint::start("hello"), own_addr(), own_addr());
    let config = format!(
        "[runtime]\nworkers = 2\n[admin]\nhttp = {{ bind = '{admin}' }}\n[listener.web]\nbind = ['{addr}']\nhttp3 = true\n\
         tls = {{ self_signed = true }}\n[pool.web]\nendpoints = ['{}']\n",
        endpoint.addr
    );
    let running = Running::start(&["run", "--config", &folder.file("evenkeel.toml", &config)]);
    let program = find("evenkeel-h3i-attacks").expect("it is installed");
    let output = Command::new(program).arg(addr.to_string()).output().expect("it starts");
    let rows = String::from_utf8_lossy(&output.stdout);
    println!("{rows}");
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), running.said());
    assert!(rows.lines().count() > 40, "every row ran");
    let (_, metrics) = get(&admin.to_string(), "/metrics").expect("it serves its metrics");
    let flood = "evenkeel_http3_floods_total{listener=\"web\",kind=\"resets\"} 1";
    assert!(metrics.contains(flood), "the flood of resets is counted");
}
