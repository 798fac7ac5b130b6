//! Which certificates and keys does evenkeel show, and which does it believe? From the files that a plan names to what rustls
//! shakes hands by; no socket. Read the modules in this order:
//!
//! 1. [`pair`]: a certificate and its key, from their files in PEM (`pem`); [`inspect`]: findings about them.
//! 2. `names`: which one a client sees; `tickets`: how its session goes on; `provider`: the cryptography.
//! 3. [`challenges`]: what proves to an authority that a name is served here.
//! 4. `ocsp`: the response that is stapled to a certificate.
//! 5. `authorities`: which certificates are believed; [`clients`]: TLS with clients, and [`endpoints`]: with endpoints.
//! 6. [`identity`]: the identity of a client, from its certificate; [`proof`]: until when that is valid.
//! 7. [`store`]: all of a plan, which takes new files as they come, and [`metrics`] of it.

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
pub mod store;
mod tickets;

pub use challenges::Challenges;
pub use inspect::WithTls;
pub use metrics::Metrics;
pub use store::{Problem, Store};
