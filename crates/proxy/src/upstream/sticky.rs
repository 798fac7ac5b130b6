//! How does a client find its endpoint again? By a cookie that names it, signed so that a client cannot choose one.

use crate::peer::hash_key::cookie;
use evenkeel_balance::{EndpointId, sticky};
use evenkeel_config::plan::{self, Secret};
use evenkeel_wire::head::Request;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write;
use std::io;

/// Shorter keys could be guessed.
const SECRET_MIN: usize = 16;

/// The sticky sessions of one pool.
pub struct Sticky {
    cookie: String,
    signer: Signer,
    /// Behind the token, to the end of the line.
    attributes: String,
    /// Seconds; `None` = as long as the browser runs.
    ttl: Option<u32>,
}

/// Signs for one pool: a token of another one, with the same key, means nothing here.
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
    /// As planned, for the pool of this name.
    ///
    /// # Errors
    /// The file of the key cannot be read, or the key is too short.
    pub fn new(plan: &plan::Sticky, pool: &str) -> io::Result<Sticky> {
        let secret = match &plan.secret {
            Secret::Inline(secret) => secret.clone().into_bytes(),
            Secret::File(path) => std::fs::read(path)?.trim_ascii_end().to_vec(),
        };
        if secret.len() < SECRET_MIN {
            return Err(io::Error::other(format!(
                "the key has {} bytes; at least {SECRET_MIN} are required",
                secret.len()
            )));
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret).map_err(io::Error::other)?;
        mac.update(pool.as_bytes());
        // No name of a pool has this byte in it.
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

    /// The endpoint that a request's cookie names.
    pub fn named(&self, request: &Request<'_, '_>, now: u32) -> Option<EndpointId> {
        let token = cookie(request.field("cookie")?, self.cookie.as_bytes())?;
        sticky::endpoint(token, now, &self.signer)
    }

    /// The field that names this endpoint from `now` on, in seconds since 1970.
    pub fn field(&self, id: EndpointId, now: u32) -> String {
        let expires = self.ttl.map_or(u32::MAX, |ttl| now.saturating_add(ttl));
        let token = sticky::token(id, expires, &self.signer);
        let token = std::str::from_utf8(&token).expect("a token is ASCII");
        format!("Set-Cookie: {}={token}{}", self.cookie, self.attributes)
    }
}
