//! Parts that Gateways and Ingresses share: pools of Services ([`backends`]) with [`policies`] about their certificates,
//! [`certificates`] of Secrets, [`grants`] between namespaces, and routes in their order ([`ordered`]) with their [`names`].

// Order: backends, names, ordered, policies, certificates, grants
pub mod backends;
pub mod certificates;
pub mod grants;
pub mod names;
pub mod ordered;
pub mod policies;

/// Reason of a condition that does not hold, and its message.
pub type Fault = (&'static str, String);
