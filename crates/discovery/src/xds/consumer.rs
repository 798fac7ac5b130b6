//! Types of resources, and the seam to a provider that takes those that are not endpoints. See [`Consumer`].

use super::messages::{ASSIGNMENT, Any, CLUSTER, LISTENER, RESOURCE, ROUTES, Resource, Status};
use prost::Message;
use std::collections::BTreeSet;
use std::fmt;

/// Longest reason for a refusal, in characters.
const REASON_MAX: usize = 1000;

/// `INVALID_ARGUMENT` of gRPC.
const INVALID: i32 = 3;

/// Type of a resource, in the order in which they are asked for (make before break).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Cluster,
    Assignment,
    Listener,
    Routes,
}

/// Resources of a type that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    Nothing,
    All,
    /// Resources with these names. Never empty.
    Named(BTreeSet<String>),
}

/// Response of a control plane.
#[derive(Debug)]
pub struct Received<'a> {
    pub kind: Kind,
    /// True for the first response of this type on a stream.
    pub is_first: bool,
    /// True if resources that are not in it do not exist.
    pub is_whole: bool,
    pub resources: Vec<Resourced<'a>>,
    /// Names of resources that were removed.
    pub removed: &'a [String],
}

/// A resource, or the reason why it cannot be read.
pub type Resourced<'a> = Result<Vec<u8>, Unread<'a>>;

/// Place and reason of a resource that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Unread<'a> {
    /// Name of the resource; empty if the response does not give it apart.
    pub name: &'a str,
    pub why: String,
}

/// Taker of listeners, route configurations and clusters.
pub trait Consumer: fmt::Debug + Send + Sync {
    /// Names of the route configurations to ask for.
    fn route_names(&self) -> BTreeSet<String>;

    /// Takes a response as a whole.
    ///
    /// # Errors
    /// The resources that cannot be kept, with their fields. Nothing of the response is in use then.
    fn take(&self, received: Received<'_>) -> Result<(), String>;

    /// Notes that there is no stream, and why.
    fn lost(&self, why: &str);

    /// Notes that a control plane responds, or has nothing new to send.
    fn found(&self);
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Cluster, Kind::Assignment, Kind::Listener, Kind::Routes];

    pub fn type_url(self) -> &'static str {
        match self {
            Kind::Cluster => CLUSTER,
            Kind::Assignment => ASSIGNMENT,
            Kind::Listener => LISTENER,
            Kind::Routes => ROUTES,
        }
    }

    pub fn of(type_url: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.type_url() == type_url)
    }
}

/// Reason of a refusal as a control plane gets it.
pub fn refusal(why: &str) -> Status {
    Status { code: INVALID, message: why.chars().take(REASON_MAX).collect() }
}

/// Returns the bytes of a resource, out of the wrapper that it may have.
pub fn unwrapped(resource: &Any, kind: Kind) -> Result<Vec<u8>, String> {
    if resource.type_url == RESOURCE {
        let wrapper = Resource::decode(&*resource.value).map_err(|error| error.to_string())?;
        return of_kind(wrapper.resource.as_ref().ok_or("it is empty")?, kind);
    }
    of_kind(resource, kind)
}

fn of_kind(resource: &Any, kind: Kind) -> Result<Vec<u8>, String> {
    match resource.type_url == kind.type_url() {
        true => Ok(resource.value.clone()),
        false => Err(format!("its type is {:?}", resource.type_url)),
    }
}
