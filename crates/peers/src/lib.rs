//! Resources of tests: foreign programs on this machine, separate addresses, and a TLS client that trusts every
//! certificate. A test whose program is missing is skipped with a line that no test runner hides. With
//! `EVENKEEL_REQUIRE_PEERS=1` a missing program fails the test instead: CI sets it, so that nothing is skipped there.

// Order: addresses, trusting
mod addresses;
mod trusting;

pub use addresses::own_addr;
pub use trusting::Trusting;

use std::env;
use std::io::Write;
use std::path::PathBuf;

/// Folders of servers, which Debian leaves out of a user's path.
const FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// True if all these programs are installed. Otherwise prints a line with the name of the test to standard error.
///
/// # Panics
/// If a program is missing and `EVENKEEL_REQUIRE_PEERS` is `1`.
pub fn installed(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| find(program).is_none()).collect();
    if missing.is_empty() {
        return true;
    }
    skip(&format!("not installed: {}; `make setup` or `make conformance` installs it", missing.join(", ")));
    false
}

/// Says that a test is skipped, and why.
///
/// # Panics
/// If `EVENKEEL_REQUIRE_PEERS` is `1`.
pub fn skip(why: &str) {
    assert!(
        env::var("EVENKEEL_REQUIRE_PEERS").as_deref() != Ok("1"),
        "{why}, and EVENKEEL_REQUIRE_PEERS=1 asks for it"
    );
    let thread = std::thread::current();
    // Not by `eprintln!`, which the test runner keeps to itself while tests pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", thread.name().unwrap_or("a test"));
}

/// Returns the path of a program: on the path, in the folders of Debian for servers, or in the folders of
/// `scripts/setup.sh conformance` and `bench`, which install programs that Debian lacks.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    let own = cached().into_iter().flat_map(|cache| OWN.map(|folder| cache.join(folder)));
    let folders = path.split(':').chain(FOLDERS).map(PathBuf::from).chain(own);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Folders of the cache with programs: clients and judges of protocols; oha; Envoy in its package for Python; kube-apiserver.
const OWN: [&str; 4] = ["conformance/bin", "bench/oha/bin", "bench/envoy/_bin", "kubernetes/bin"];

/// Returns the cache that `scripts/setup.sh` keeps.
pub fn cached() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("evenkeel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_where_it_is() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program"), None);
        assert!(installed(&["sh"]));
    }
}
