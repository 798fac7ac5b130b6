//! Files that list networks: a network or address on each line, comments after `#`.

use super::cidr::Cidr;
use super::network;
use std::fmt::Write;

/// Largest file, in bytes: a million networks of IPv6 have 44 of them.
pub const NETWORK_LIST_MAX: usize = 64 << 20;

/// Most errors that are described.
const ERRORS_MAX: usize = 10;

/// Reads the networks of a file. Lines that are empty, or that have only a comment, are ignored.
///
/// # Errors
/// The lines that are not networks, each with the file's name and its number. Of many, the first ten.
pub fn network_list(name: &str, text: &[u8]) -> Result<Vec<Cidr>, String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if text.len() > NETWORK_LIST_MAX {
        return Err(format!("{name} is larger than {} MiB", NETWORK_LIST_MAX >> 20));
    }
    let (mut networks, mut errors, mut wrong) = (Vec::new(), String::new(), 0);
    for (number, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.split(|b| *b == b'#').next().unwrap_or_default().trim_ascii();
        if line.is_empty() {
            continue;
        }
        match network::read(&String::from_utf8_lossy(line)) {
            Ok(network) => networks.push(network),
            Err(misfit) => {
                wrong += 1;
                if wrong <= ERRORS_MAX {
                    let start = if errors.is_empty() { "" } else { "\n" };
                    // Writing to a String cannot fail.
                    let _ = write!(errors, "{start}{name}:{}: {}; {}", number + 1, misfit.message, misfit.help);
                }
            }
        }
    }
    match wrong {
        0 => Ok(networks),
        1..=ERRORS_MAX => Err(errors),
        _ => Err(format!("{errors}\n{name}: and {} more lines", wrong - ERRORS_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<Vec<String>, String> {
        network_list("a.txt", text.as_bytes()).map(|all| all.iter().map(Cidr::to_string).collect())
    }

    #[test]
    fn reads_lines_with_comments_and_without() {
        let text = "\u{feff}# office\r\n10.0.0.0/8 # all of it\r\n\r\n  192.0.2.1\t\r\n2001:db8::/32#x\n#\nfd00::1";
        let all = ["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "fd00::1"].map(str::to_string);
        assert_eq!(shown(text), Ok(all.to_vec()));
        assert_eq!(shown(""), Ok(vec![]));
    }

    #[test]
    fn every_wrong_line_is_named_up_to_ten() {
        let said = shown("10.0.0.0/8\nexample.com\n10.1.2.3/8\n").expect_err("two are wrong");
        for part in
            ["a.txt:2: \"example.com\" is not a network", "a.txt:3: \"10.1.2.3/8\"", "\"10.0.0.0/8\" for the whole"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        let many = shown(&"x\n".repeat(50)).expect_err("all are wrong");
        assert!(many.lines().count() == 11 && many.ends_with("a.txt: and 40 more lines"), "{many}");
        assert!(network_list("a.txt", b"\xff\xfe10").expect_err("not text").contains("a.txt:1: "));
        let large = vec![b'\n'; NETWORK_LIST_MAX + 1];
        assert_eq!(network_list("a.txt", &large), Err("a.txt is larger than 64 MiB".to_string()));
    }
}
