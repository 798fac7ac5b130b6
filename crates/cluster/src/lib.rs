//! A Kubernetes cluster on a single machine. [`server`] starts etcd, kube-apiserver and kube-controller-manager as they
//! are. [`pods`] replaces scheduler and kubelet: each pod is a process in a separate network namespace. A [`rig`] runs
//! all of them in private namespaces, which end with it. There [`conformance`] runs the suite of Gateway API, and
//! [`demo`] a rolling update under load.

// Order: conformance, demo, evenkeel, load, rig, pods, server, slices, objects, contained
pub mod conformance;
pub mod contained;
pub mod demo;
pub mod evenkeel;
pub mod load;
pub mod objects;
pub mod pods;
pub mod rig;
pub mod server;
pub mod slices;
