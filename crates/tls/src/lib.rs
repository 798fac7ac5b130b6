//! Certificates and keys that are shown, and those that are trusted: from the files that a plan names to configurations
//! of rustls. There are no sockets here. Read the modules in this order:
//!
//! 1. [`pair`]: a certificate and its key, from files in PEM (`pem`); [`inspect`]: findings about them.
//! 2. `names`: choice of a certificate for a client; `tickets`: session resumption; [`sessions`]: resumption with early data;
//!    `provider`: the cryptography.
//! 3. [`challenges`]: proofs of control of a name, for ACME authorities.
//! 4. `ocsp`: stapled OCSP responses.
//! 5. `authorities`: trusted certificates; [`clients`]: TLS with clients, and [`endpoints`]: with endpoints.
//! 6. [`identity`]: the identity of a client, from its certificate; [`proof`]: the time until which that is valid.
//! 7. [`store`]: all TLS files of a plan, reread when they change, and [`metrics`] of them.

// Order: metrics, store, endpoints, clients, inspect, names, ocsp, sessions, tickets, identity, challenges, authorities,
// proof, pair, clock, pem, provider
mod authorities;
pub mod challenges;
pub mod clients;
mod clock;
pub mod endpoints;
pub mod identity;
pub mod inspect;
pub mod metrics;
mod names;
mod ocsp;
pub mod pair;
mod pem;
pub mod proof;
mod provider;
pub mod sessions;
pub mod store;
mod tickets;

pub use challenges::Challenges;
pub use inspect::with_tls;
pub use metrics::Metrics;
pub use provider::random;
pub use store::{Problem, Store};
