//! Verification of a password against a hash of bcrypt, Argon2id or SHA-crypt. Takes milliseconds to seconds.

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use sha_crypt::{PasswordHashRef, ShaCrypt};

/// True if the hash matches the password. An unreadable hash matches no password.
pub fn is_of(hash: &str, password: &[u8]) -> bool {
    if hash.starts_with("$argon2id$") {
        return Argon2::default().verify_password(password, hash).is_ok();
    }
    if hash.starts_with("$5$") || hash.starts_with("$6$") {
        let hash = PasswordHashRef::new(hash);
        return hash.is_ok_and(|hash| ShaCrypt::default().verify_password(password, hash).is_ok());
    }
    bcrypt::verify(password, hash).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_hash_is_that_of_one_password() {
        // The first comes from `bcrypt::hash`, the hashes of SHA-crypt from `openssl passwd` and glibc, the last from
        // the tests of Argon2's reference.
        let bcrypt = bcrypt::hash_with_salt("secret", 4, [7; 16]).expect("a good cost");
        let sha256 = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        let sha512 =
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1";
        let argon2 = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
        assert!(is_of(argon2, b"password") && !is_of(argon2, b"passwor") && !is_of(argon2, b""));
        for version in [bcrypt::Version::TwoA, bcrypt::Version::TwoB, bcrypt::Version::TwoY] {
            let hash = bcrypt.format_for_version(version);
            assert!(is_of(&hash, b"secret") && !is_of(&hash, b"secre") && !is_of(&hash, b""));
        }
        let rounds = [
            "$5$rounds=1000$saltstring$z/y8l95GSjij6uHx2xAJer7YCODLtrhIxItWC13D4g5",
            "$6$rounds=1000$saltstring$Zu2Vknok2/f53APfN687ADnzeNBLcsEgTwvcBHMD2./07rZQAt8vsuKVufD15dyZh.LOLB/uZKf6I3GyON4bp/",
        ];
        for hash in [sha256, sha512].into_iter().chain(rounds) {
            assert!(is_of(hash, b"Hello world!") && !is_of(hash, b"Hello world"), "{hash}");
        }
        for hash in ["", "$6$", "$5$x", "$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$$", "$2y$05$", "\u{fc}"] {
            assert!(!is_of(hash, b"") && !is_of(hash, b"secret"), "{hash}");
        }
    }
}
