//! Endpoints that are assigned to a cluster. See [`read`].

use crate::kept::List;
use evenkeel_envoy::assignment::{Hosts, endpoints};
use evenkeel_envoy::schema::ASSIGNMENT;
use evenkeel_envoy::wire::resource;

/// Endpoints of an assignment, and the parts of it that mean nothing here.
#[derive(Debug, Default)]
pub struct Assigned {
    pub list: List,
    pub ignored: Vec<String>,
}

/// Reads a `ClusterLoadAssignment`. Returns the name of its cluster, and its endpoints or the parts that are invalid.
///
/// # Errors
/// The bytes are not such a message.
pub fn read(bytes: &[u8]) -> Result<(String, Result<Assigned, String>), String> {
    let node = resource(bytes, &ASSIGNMENT)?;
    let assigned = endpoints(&node, Hosts::Addresses).map(|read| Assigned {
        list: List { endpoints: read.endpoints, ttl: read.ttl, skipped: read.skipped },
        ignored: read.ignored,
    });
    Ok((node.text("cluster_name").unwrap_or_default().to_owned(), assigned))
}
