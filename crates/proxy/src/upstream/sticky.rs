//! Cookies of sticky sessions: a token that names the endpoint, signed so that a client cannot choose an endpoint.

use crate::peer::hash_key::cookie;
use evenkeel_balance::{EndpointId, sticky};
use evenkeel_config::plan::{self, Secret};
use evenkeel_wire::head::Request;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write;
use std::io;

/// Minimum length of a key in bytes; shorter keys could be guessed.
const SECRET_MIN: usize = 16;

/// Sticky sessions of a pool.
pub struct Sticky {
    cookie: String,
    signer: Signer,
    /// Attributes of the cookie, with the CRLF.
    attributes: String,
    /// Lifetime in seconds; `None` = until the browser is closed.
    ttl: Option<u32>,
}

/// Signs tokens of a pool: its name is part of the MAC, so tokens of another pool with the same key are invalid.
struct Signer {
    mac: Hmac<Sha256>,
}

impl sticky::Sign for Signer {
    fn sign(&self, message: &[u8]) -> [u8; 16] {
        let mut mac = self.mac.clone();
        mac.update(message);
        let full = mac.finalize().into_bytes();
        std::array::from_fn(|i| full[i])
    }
}

impl Sticky {
    /// Creates the sticky sessions of the pool called `pool`. `made` returns the key that the process makes.
    ///
    /// # Errors
    /// The key file cannot be read or made, or the key is too short.
    pub fn new(plan: &plan::Sticky, pool: &str, made: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<Sticky> {
        let secret = match &plan.secret {
            Secret::Inline(secret) => secret.clone().into_bytes(),
            Secret::File(path) => std::fs::read(path)?.trim_ascii_end().to_vec(),
            Secret::Made => made()?.trim_ascii_end().to_vec(),
        };
        if secret.len() < SECRET_MIN {
            return Err(io::Error::other(format!(
                "the key has {} bytes; at least {SECRET_MIN} are required",
                secret.len()
            )));
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).map_err(io::Error::other)?;
        mac.update(pool.as_bytes());
        // Terminates the name: no name contains this byte.
        mac.update(&[0]);
        let ttl = plan.ttl.map(|ttl| u32::try_from(ttl.as_secs().max(1)).unwrap_or(u32::MAX));
        let mut attributes = format!("; Path={}; HttpOnly", plan.path);
        if let Some(ttl) = ttl {
            // Writing to a String cannot fail.
            let _ = write!(attributes, "; Max-Age={ttl}");
        }
        if plan.secure {
            attributes += "; Secure";
        }
        let _ = write!(attributes, "; SameSite={}\r\n", plan.same_site.as_str());
        Ok(Sticky { cookie: plan.cookie.clone(), signer: Signer { mac }, attributes, ttl })
    }

    /// The endpoint that the request's cookie names; `None` without a valid cookie. `now` in seconds since 1970.
    pub fn named(&self, request: &Request<'_, '_>, now: u32) -> Option<EndpointId> {
        let token = cookie(request.field("cookie")?, self.cookie.as_bytes())?;
        sticky::endpoint(token, now, &self.signer)
    }

    /// A `Set-Cookie` line that names this endpoint. `now` in seconds since 1970.
    pub fn field(&self, id: EndpointId, now: u32) -> String {
        let expires = self.ttl.map_or(u32::MAX, |ttl| now.saturating_add(ttl));
        let token = sticky::token(id, expires, &self.signer);
        let token = std::str::from_utf8(&token).expect("a token is ASCII");
        format!("Set-Cookie: {}={token}{}", self.cookie, self.attributes)
    }
}
