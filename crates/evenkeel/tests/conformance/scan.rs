//! testssl.sh looks for weaknesses of a listener with the defaults of TLS.

use crate::doors::Subject;
use crate::endpoints::{Endpoint, Speaks};
use crate::support::Folder;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Findings about the certificate, which the test itself made, and about the scan.
const NOT_OURS: [&str; 7] = ["cert_", "cert<", "DNS_CAArecord", "OCSP_", "scanTime", "overall_grade", "engine_problem"];

#[test]
#[ignore = "`make conformance` runs it"]
fn testssl_finds_nothing_of_medium_severity_or_above() {
    crate::judges!("testssl", "go", "openssl");
    let folder = Folder::new("testssl");
    let endpoint = Endpoint::go(&folder, Speaks::H1);
    let subject = Subject::start(&folder, &[&endpoint]);
    let report = folder.0.join("report.json");
    let mut command = Command::new(evenkeel_peers::find("testssl").expect("the test looked"));
    // Protocols, ciphers, preferences, forward secrecy, server defaults and vulnerabilities.
    command.args([
        "--quiet",
        "--color",
        "0",
        "--warnings",
        "off",
        "--nodns",
        "none",
        "-p",
        "-s",
        "-P",
        "-f",
        "-S",
        "-U",
    ]);
    command.arg("--add-ca").arg(&subject.certificate.ca).arg("--jsonfile").arg(&report).arg(&subject.doors[0].tls);
    let output = command.stdin(Stdio::null()).output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let report = std::fs::read_to_string(&report).unwrap_or_else(|e| panic!("testssl reported nothing: {e}\n{said}"));
    let findings: Value = serde_json::from_str(&report).unwrap_or_else(|e| panic!("{e}\n{report}"));
    let findings = findings.as_array().expect("a list");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_string();
    assert!(findings.iter().any(|f| text(f, "id") == "TLS1_3" && text(f, "finding").contains("offered")), "{said}");
    assert!(findings.len() > 60, "{} findings:\n{said}", findings.len());
    let severe: Vec<String> = findings
        .iter()
        .filter(|finding| matches!(&*text(finding, "severity"), "MEDIUM" | "HIGH" | "CRITICAL" | "FATAL"))
        .filter(|finding| !NOT_OURS.iter().any(|id| text(finding, "id").starts_with(id)))
        .map(|finding| ["severity", "id", "finding"].map(|key| text(finding, key)).join(" "))
        .collect();
    assert!(severe.is_empty(), "{}", severe.join("\n"));
}
