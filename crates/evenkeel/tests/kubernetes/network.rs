//! The network that tests have to themselves, in which pods have addresses. See [`with_pods`].

use crate::namespace::Namespace;
use evenkeel_peers::{installed, skip};

/// Runs a test beside an API server's programs, where `addresses` are those of pods: Kubernetes refuses loopback addresses
/// in slices. It is skipped without the programs.
pub fn with_pods(addresses: &str, test: impl AsyncFnOnce() + Send) {
    if !rustix::process::geteuid().is_root() {
        return skip("namespaces need root");
    }
    if !installed(&["kube-apiserver", "etcd", "openssl", "ip"]) {
        return;
    }
    let namespace = Namespace::new();
    namespace.ip(&format!("route add local {addresses} dev lo"));
    namespace.within(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.expect("the system has threads").block_on(test());
    });
}
