//! Pools that follow services in Kubernetes: a real kube-apiserver with etcd, without nodes, whose objects the tests write. Run
//! them by `make test-kubernetes`.

mod follow;
mod ingress;
mod many;
mod measure;
mod outages;
mod pools;
