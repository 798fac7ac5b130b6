//! DNS cookies, which show that a source address is real: a client that returns the cookie sent to its
//! address receives datagrams there.
//!
//! Sources: RFC 7873, and RFC 9018 for a format that all servers of a zone can share.

use domain::base::Serial;
use domain::base::opt::Cookie;
use std::io;
use std::net::IpAddr;

/// Largest age of a cookie, and largest lead of its clock, in seconds (RFC 9018 section 4.3).
const OLD_MAX: u32 = 3600;
const AHEAD_MAX: u32 = 300;

/// Secret key of the cookies.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(****)")
    }
}

impl Secret {
    /// Creates a secret. Cookies of an earlier process are invalid, and their clients get new cookies.
    ///
    /// # Errors
    /// If the kernel provides no random bytes.
    pub fn random() -> io::Result<Secret> {
        let mut bytes = [0; 16];
        let mut missing = &mut bytes[..];
        while !missing.is_empty() {
            let got = rustix::rand::getrandom(&mut *missing, rustix::rand::GetRandomFlags::empty())?;
            missing = &mut missing[got..];
        }
        Ok(Secret(bytes))
    }

    /// True if this server made the cookie for this address, not too long ago. `unix` is in seconds since
    /// 1970.
    pub fn proves(&self, cookie: &Cookie, client: IpAddr, unix: u32) -> bool {
        let fresh = |made: Serial| {
            let age = unix.wrapping_sub(made.into_int());
            age <= OLD_MAX || age >= AHEAD_MAX.wrapping_neg()
        };
        cookie.check_server_hash(client, &self.0, fresh)
    }

    /// Cookie to return to the client.
    pub fn answer(&self, cookie: &Cookie, client: IpAddr, unix: u32) -> Cookie {
        cookie.create_response(Serial(unix), client, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::opt::cookie::ClientCookie;

    #[test]
    fn proves_an_address_for_an_hour() {
        let (secret, ip, other) = (Secret([7; 16]), IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let asked = Cookie::new(ClientCookie::from([1; 8]), None);
        assert!(!secret.proves(&asked, ip, 10_000), "there is none of the server yet");
        let got = secret.answer(&asked, ip, 10_000);
        assert!(secret.proves(&got, ip, 10_000) && secret.proves(&got, ip, 13_600));
        assert!(secret.proves(&got, ip, 9_700), "a clock may be behind");
        assert!(!secret.proves(&got, ip, 13_601) && !secret.proves(&got, ip, 9_699));
        assert!(!secret.proves(&got, other, 10_000));
        assert!(!Secret([8; 16]).proves(&got, ip, 10_000));
    }
}
