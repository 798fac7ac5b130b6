//! Requirements of experiments that a machine may lack: programs, with the Debian package of each.

/// Exit status of an experiment that cannot run here because a requirement is missing, as for skipped tests of
/// Automake.
pub const CANNOT_RUN: u8 = 77;

/// Programs, and the Debian package of each.
const PACKAGES: &[(&str, &str)] = &[
    ("ab", "apache2-utils"),
    ("addr2line", "binutils"),
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("dnsperf", "dnsperf"),
    ("h2load", "nghttp2-client"),
    ("haproxy", "haproxy"),
    ("ip", "iproute2"),
    ("kdig", "knot-dnsutils"),
    ("knotd", "knot"),
    ("nft", "nftables"),
    ("nginx", "nginx-light"),
    ("nsd", "nsd"),
    ("nsenter", "util-linux"),
    ("openssl", "openssl"),
    ("perf", "linux-perf"),
    ("python3", "python3"),
    ("setpriv", "util-linux"),
    ("strace", "strace"),
    ("taskset", "util-linux"),
    ("tc", "iproute2"),
    ("unbound", "unbound"),
    ("wrk", "wrk"),
];

/// Programs that `scripts/setup.sh bench` installs, since Debian lacks them.
const BENCH: &[&str] = &["envoy", "oha"];

/// Returns a hint on how to install a program.
pub fn hint(program: &str) -> String {
    match PACKAGES.iter().find(|(name, _)| *name == program) {
        Some((_, package)) => format!("it is in Debian's {package}; `make setup` installs what the lab uses"),
        None if BENCH.contains(&program) => "run `scripts/setup.sh bench`".into(),
        None => "run `make setup`".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn packages_are_those_that_setup_installs() {
        let setup = include_str!("../../../scripts/setup.sh");
        let list = setup.split_once("programs=(").and_then(|(_, rest)| rest.split_once("\n)")).expect("a list").0;
        let words = list.lines().filter_map(|line| line.split_whitespace().next()?.split_once(':'));
        let mut both = 0;
        for (program, package) in words {
            if let Some((_, ours)) = PACKAGES.iter().find(|(name, _)| *name == program) {
                assert_eq!(package, *ours, "{program}");
                both += 1;
            }
        }
        assert!(both > 12, "{both}");
        assert!(PACKAGES.is_sorted());
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let said = Error::Missing("h2load".into()).to_string();
        assert_eq!(
            said,
            "h2load is not installed: it is in Debian's nghttp2-client; `make setup` installs what the lab uses"
        );
        assert!(Error::Missing("envoy".into()).to_string().ends_with("run `scripts/setup.sh bench`"));
        assert!(Error::Missing("other".into()).cannot_run() && !Error::Wrong(String::new()).cannot_run());
    }
}
