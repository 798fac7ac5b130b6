//! Unix socket of the admin: `unix:/run/evenkeel/admin.sock`, or `off`.

use super::misfit::Misfit;
use crate::code::Code;
use crate::tree::quoted;
use std::path::{Path, PathBuf};

/// Unix socket on which the admin takes commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AdminSocket {
    /// A socket of the process's own in the folder for such files, where commands look for it.
    #[default]
    Found,
    /// Commands go over HTTP, or not at all.
    Off,
    /// A socket at this absolute path.
    At(PathBuf),
}

impl AdminSocket {
    /// The path, if the configuration names any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            AdminSocket::At(path) => Some(path),
            AdminSocket::Found | AdminSocket::Off => None,
        }
    }
}

/// Longest path of a socket, in bytes: `sun_path` of unix(7) holds 108, including the final NUL.
const PATH_MAX: usize = 107;

pub(super) fn read(text: &str) -> Result<AdminSocket, Misfit> {
    if text == "off" {
        return Ok(AdminSocket::Off);
    }
    let bad = |why: String, help: String| {
        Err(Misfit::new(Code::BadAddress, format!("{} is not a Unix socket: {why}", quoted(text)), help))
    };
    let Some(path) = text.strip_prefix("unix:") else {
        let help = match super::address::bind(text) {
            Ok(addr) => format!("for a TCP address write http = {{ bind = \"{addr}\" }}"),
            Err(_) => "write \"unix:/run/evenkeel/admin.sock\", or \"off\" for no socket".to_string(),
        };
        return bad("it does not start with unix:".to_string(), help);
    };
    if !path.starts_with('/') {
        let help = "write all of it, as \"unix:/run/evenkeel/admin.sock\"".to_string();
        return bad("its path is not absolute".to_string(), help);
    }
    if path.len() > PATH_MAX {
        let why = format!("its path has {} bytes, and Linux takes {PATH_MAX}", path.len());
        return bad(why, "put it into a folder with a shorter name, as /run/evenkeel".to_string());
    }
    if path.ends_with('/') || path.contains('\0') {
        let help = "write the path of a file that may be made, as \"unix:/run/evenkeel/admin.sock\"";
        return bad("its path names no file".to_string(), help.to_string());
    }
    Ok(AdminSocket::At(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_absolute_paths_that_fit() {
        assert_eq!(read("unix:/run/a.sock"), Ok(AdminSocket::At(PathBuf::from("/run/a.sock"))));
        assert_eq!(read("off"), Ok(AdminSocket::Off));
        let longest = format!("unix:/{}", "x".repeat(106));
        assert!(read(&longest).is_ok());
        for (text, help) in [
            ("", "unix:/run/"),
            ("/run/a.sock", "unix:/run/"),
            ("127.0.0.1:9900", "http = { bind = \"127.0.0.1:9900\" }"),
            ("unix:a.sock", "all of it"),
            ("unix:", "all of it"),
            ("unix:/run/", "path of a file"),
            ("unix:/a\0b", "path of a file"),
            (format!("{longest}x").as_str(), "shorter name"),
        ] {
            let misfit = read(text).expect_err(text);
            assert!(misfit.help.contains(help), "{text}: {misfit:?}");
        }
    }
}
