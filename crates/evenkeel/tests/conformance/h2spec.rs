//! h2spec looks for frames that evenkeel handles wrongly.

use crate::doors::Subject;
use crate::endpoints::{Endpoint, Speaks};
use crate::support::Folder;
use std::process::Command;

#[test]
#[ignore = "`make conformance` runs it"]
fn every_case_of_h2spec_passes_in_clear() {
    judge(false);
}

#[test]
#[ignore = "`make conformance` runs it"]
fn every_case_of_h2spec_passes_over_tls() {
    judge(true);
}

fn judge(tls: bool) {
    crate::judges!("h2spec", "go", "openssl");
    let folder = Folder::new(if tls { "h2spec-tls" } else { "h2spec" });
    let endpoint = Endpoint::go(&folder, Speaks::H1);
    let subject = Subject::start(&folder, &[&endpoint]);
    let (host, port) = subject.doors[0].addr(tls).rsplit_once(':').expect("an address has a port");
    let report = folder.0.join("report.xml");
    let mut command = Command::new(evenkeel_peers::find("h2spec").expect("the test looked"));
    command.args(["generic", "http2", "hpack", "--strict", "--host", host, "--port", port, "--timeout", "5"]);
    command.arg("--junit-report").arg(&report).args(tls.then_some(["--tls", "--insecure"]).iter().flatten());
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let report = std::fs::read_to_string(&report).unwrap_or_else(|e| panic!("h2spec reported nothing: {e}\n{said}"));
    let (cases, mut failed) = read(&report);
    if !tls {
        // HTTP/1 is served at the same port, so what is no preface is answered as a bad request of HTTP/1.
        failed.retain(|case| !(case.contains("(http2/3.5)") && case.contains("looked like an HTTP/1.1 header")));
    }
    assert!(cases >= 140, "only {cases} cases ran:\n{said}");
    assert!(failed.is_empty(), "{} of {cases} cases failed:\n{}\n{}", failed.len(), failed.join("\n"), subject.said());
}

/// Number of cases in a report in JUnit's form, and the names of those that failed, with what was expected and seen.
fn read(report: &str) -> (usize, Vec<String>) {
    let mut cases = 0;
    let mut failed = Vec::new();
    for case in report.split("<testcase ").skip(1) {
        let (attributes, rest) = case.split_once('>').unwrap_or((case, ""));
        cases += 1;
        let bad = ["<failure", "<error"].into_iter().find_map(|tag| rest.split_once(tag));
        if let Some((_, what)) = bad {
            let attribute = |name: &str| {
                let value = attributes.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split_once('"'));
                value.map_or("", |(value, _)| value)
            };
            let what = what.split_once('>').map_or("", |(_, what)| what).split("</").next().unwrap_or_default();
            let what = what.replace("&#xA;", "; ").replace("&lt;", "<").replace("&gt;", ">").replace("&#34;", "\"");
            failed.push(format!("{} ({}): {}", attribute("classname"), attribute("package"), what.trim()));
        }
    }
    (cases, failed)
}

#[test]
fn failed_cases_of_a_report_are_named() {
    let report = "<testsuites><testsuite tests=\"2\">\
                  <testcase package=\"http2/3.5\" classname=\"Sends a preface\" time=\"0.1\"></testcase>\
                  <testcase package=\"http2/5.1\" classname=\"Sends DATA\" time=\"2\"><failure>&lt;a&gt;&#xA;b</failure></testcase>\
                  </testsuite></testsuites>";
    assert_eq!(read(report), (2, vec!["Sends DATA (http2/5.1): <a>; b".to_string()]));
}
