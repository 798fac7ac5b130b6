//! The interoperability tests of gRPC through evenkeel, from grpc-go to grpc-go.

use crate::doors::Subject;
use crate::endpoints::{self, Endpoint, Speaks};
use crate::support::{Folder, address};
use std::process::Command;

/// Every case that needs no account in a cloud. Not `pick_first_unary`, which asks for an id that the server of grpc-go has not.
const CASES: [&str; 18] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "rpc_soak",
    "channel_soak",
    "orca_per_rpc",
    "orca_oob",
];

#[test]
#[ignore = "`make conformance` runs it"]
fn every_case_of_grpc_passes_in_clear() {
    judge(false);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn every_case_of_grpc_passes_over_tls() {
    judge(true);
}

fn judge(tls: bool) {
    crate::judges!("grpc-interop-client", "grpc-interop-server", "openssl");
    let folder = Folder::new(if tls { "grpc-tls" } else { "grpc" });
    let addr = address();
    let (host, port) = addr.rsplit_once(':').expect("an address has a port");
    let mut server = Command::new(evenkeel_peers::find("grpc-interop-server").expect("the test looked"));
    server.env("GRPC_INTEROP_HOST", host).args(["--port", port]);
    let server = endpoints::start(&folder, "grpc", &addr, &mut server);
    let endpoint = Endpoint::of("grpc", addr.clone(), Speaks::H2c, server);
    let subject = Subject::start(&folder, &[&endpoint]);
    let (host, port) = subject.doors[0].addr(tls).rsplit_once(':').expect("an address has a port");
    let mut failed = Vec::new();
    for case in CASES {
        let mut client = Command::new(evenkeel_peers::find("grpc-interop-client").expect("the test looked"));
        client.args(["--server_host", host, "--server_port", port, "--test_case", case]);
        // A shared machine may pause for longer than a second.
        client.args([
            "--soak_per_iteration_max_acceptable_latency_ms",
            "20000",
            "--soak_overall_timeout_seconds",
            "60",
        ]);
        if case.starts_with("orca") {
            let policy = r#"{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}"#;
            client.args(["--service_config_json", policy]);
        }
        if tls {
            client.args(["--use_tls", "--use_test_ca", "--ca_file", &subject.certificate.ca]);
        }
        let output = client.output().expect("it can be started");
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said: Vec<&str> = said.lines().filter(|line| !line.contains("INFO")).collect();
            failed.push(format!("{case}: {}", said[said.len().saturating_sub(4)..].join("\n    ")));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), CASES.len(), failed.join("\n"));
}
