//! Files of users with hashes of their passwords, in the format of `htpasswd`: `NAME:HASH` on each line.

use super::misfit::Misfit;
use crate::code::Code;
use std::collections::HashMap;
use std::fmt::Write;

/// Largest file of users, in bytes: about 13,000 users with hashes of bcrypt.
pub const USER_LIST_MAX: usize = 1 << 20;

/// Most errors that are described.
const ERRORS_MAX: usize = 10;

/// Longest name of a user, in bytes.
const NAME_MAX: usize = 255;

/// Highest cost of bcrypt. Each step doubles the time; 15 takes about two seconds.
const BCRYPT_MAX: u32 = 15;

/// Most rounds of SHA-crypt: about a second.
const ROUNDS_MAX: u32 = 1_000_000;

/// Most memory of Argon2, in KiB.
const MEMORY_MAX: u32 = 256 << 10;

/// Most passes of Argon2 over its memory.
const PASSES_MAX: u32 = 32;

/// A text that stands for masked users. Its hash is malformed, so a text with it is refused.
pub(crate) const MASKED_USERS: &str = "***:$2y$***";

const MAKE: &str = "run htpasswd -B FILE NAME";

/// Reads the users of a file: the hash of the password by the name. Lines that begin with `#` are comments.
///
/// # Errors
/// The lines that are empty, malformed, refused for their weak hash or have a name again, each with the file's name and
/// its number. Of many, the first ten. A file without users is an error too.
pub fn user_list(name: &str, text: &[u8]) -> Result<HashMap<Vec<u8>, String>, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.len() > USER_LIST_MAX {
        return Err(format!("{name} is larger than {} MiB", USER_LIST_MAX >> 20));
    }
    let (mut users, mut errors, mut wrong) = (HashMap::new(), String::new(), 0);
    let mut lines = HashMap::new();
    for (number, line) in text.strip_suffix(b"\n").unwrap_or(text).split(|b| *b == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"#") {
            continue;
        }
        let read = read(line).and_then(|(user, hash)| match lines.insert(user, number + 1) {
            Some(first) => Err(format!("the name is on line {first} already; remove one of the two")),
            None => Ok((user.to_vec(), hash.to_string())),
        });
        match read {
            Ok((user, hash)) => _ = users.insert(user, hash),
            Err(error) => {
                wrong += 1;
                if wrong <= ERRORS_MAX {
                    let start = if errors.is_empty() { "" } else { "\n" };
                    // Writing to a String cannot fail.
                    let _ = write!(errors, "{start}{name}:{}: {error}", number + 1);
                }
            }
        }
    }
    match wrong {
        0 if users.is_empty() => Err(format!("{name} has no users; {MAKE}")),
        0 => Ok(users),
        1..=ERRORS_MAX => Err(errors),
        _ => Err(format!("{errors}\n{name}: and {} more lines", wrong - ERRORS_MAX)),
    }
}

/// Parses users that stand in the configuration itself.
pub(super) fn read_text(text: &str) -> Result<String, Misfit> {
    match user_list("users", text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(errors) => Err(Misfit::new(Code::BadName, errors, "each line is NAME:HASH, as htpasswd -B writes it")),
    }
}

/// Reads a line. Errors never repeat it: it may hold a password.
fn read(line: &[u8]) -> Result<(&[u8], &str), String> {
    if line.trim_ascii().is_empty() {
        return Err("the line is empty; remove it".to_string());
    }
    let at = line.iter().position(|b| *b == b':').ok_or_else(|| format!("the line has no colon; {MAKE}"))?;
    let (user, hash) = (&line[..at], &line[at + 1..]);
    let is_named = !user.is_empty() && user.len() <= NAME_MAX && !user.iter().any(u8::is_ascii_control);
    if !is_named {
        return Err(format!("a name has 1 to {NAME_MAX} bytes and no control characters"));
    }
    let hash = std::str::from_utf8(hash).map_err(|_| format!("the hash is not text; {MAKE}"))?;
    check(hash)?;
    Ok((user, hash))
}

fn check(hash: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("{why}; {MAKE}"));
    let (scheme, rest) = match hash.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
        Some(split) => split,
        None if hash.starts_with("{SHA}") || hash.starts_with("{SSHA}") => {
            return refused("{SHA} is a hash that is guessed billions of times a second");
        }
        None => return refused("the hash is not of bcrypt, Argon2id or SHA-crypt"),
    };
    let is_good = match scheme {
        "2a" | "2b" | "2y" => bcrypt(rest)?,
        "argon2id" => argon2(rest)?,
        "5" => sha_crypt(rest, 43)?,
        "6" => sha_crypt(rest, 86)?,
        "apr1" | "1" => return refused("MD5 is a hash that is guessed millions of times a second"),
        _ => return refused("the hash is not of bcrypt, Argon2id or SHA-crypt"),
    };
    if is_good { Ok(()) } else { refused("the hash is malformed or cut off") }
}

/// Salt and hash in the alphabet of crypt.
fn is_crypt(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/'))
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

fn bcrypt(rest: &str) -> Result<bool, String> {
    let Some((cost, hash)) = rest.split_once('$') else { return Ok(false) };
    let Some(cost) = number(cost).filter(|_| cost.len() == 2) else { return Ok(false) };
    if !(4..=BCRYPT_MAX).contains(&cost) {
        return Err(format!("the cost {cost} is not from 4 to {BCRYPT_MAX}; run htpasswd -B -C 10 FILE NAME"));
    }
    Ok(hash.len() == 53 && is_crypt(hash))
}

fn sha_crypt(rest: &str, len: usize) -> Result<bool, String> {
    let rest = match rest.strip_prefix("rounds=").map(|rest| rest.split_once('$')) {
        Some(Some((rounds, rest))) => match number(rounds) {
            Some(1000..=ROUNDS_MAX) => rest,
            _ => return Err(format!("the rounds are not from 1000 to {ROUNDS_MAX}; {MAKE}")),
        },
        Some(None) => return Ok(false),
        None => rest,
    };
    let Some((salt, hash)) = rest.split_once('$') else { return Ok(false) };
    Ok((1..=16).contains(&salt.len()) && is_crypt(salt) && hash.len() == len && is_crypt(hash))
}

fn argon2(rest: &str) -> Result<bool, String> {
    let parts: Vec<&str> = rest.split('$').collect();
    let [version, costs, salt, hash] = parts[..] else { return Ok(false) };
    let costs: Vec<_> = costs.split(',').map(|cost| cost.split_once('=').unwrap_or_default()).collect();
    let [("m", memory), ("t", passes), ("p", lanes)] = costs[..] else { return Ok(false) };
    let (Some(memory), Some(passes), Some(lanes)) = (number(memory), number(passes), number(lanes)) else {
        return Ok(false);
    };
    if memory > MEMORY_MAX || passes > PASSES_MAX || lanes > 16 {
        return Err(format!(
            "a password would cost too much: at most m={MEMORY_MAX} (KiB), t={PASSES_MAX} and p=16 are taken"
        ));
    }
    let is_base64 = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'));
    // Lengths that PHC strings may have and that leave no partial byte.
    let is_field = |text: &str, max: usize| (11..=max).contains(&text.len()) && text.len() % 4 != 1 && is_base64(text);
    Ok(version == "v=19" && lanes > 0 && passes > 0 && memory >= 8 * lanes && is_field(salt, 64) && is_field(hash, 86))
}

#[cfg(test)]
mod tests;
