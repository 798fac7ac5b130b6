//! Options of experiments with tables of cases, whose files can be kept.

use crate::error::{Error, Result, While};
use crate::scratch::Scratch;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args, Clone, Debug)]
pub struct Cases {
    /// Cases to run, by name.
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    only: Vec<String>,
    /// Keep configurations, logs and commands in this folder.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

impl Cases {
    /// Fails if a case is named that is not in the tables.
    ///
    /// # Errors
    /// The text lists the known cases.
    pub fn check(&self, known: &[&str]) -> Result<()> {
        match self.only.iter().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(Error::Wrong(format!("unknown case `{unknown}`; there are {}", known.join(", ")))),
            None => Ok(()),
        }
    }

    /// True if a case runs: it is named, or no case is and it usually runs.
    pub fn runs(&self, name: &str, is_usual: bool) -> bool {
        if self.only.is_empty() { is_usual } else { self.only.iter().any(|of| of == name) }
    }

    /// Path of the folder to keep, or of the scratch folder. Commands name its files, so that it is absolute.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn folder(&self, scratch: &Scratch) -> Result<PathBuf> {
        let folder: &Path = self.keep.as_deref().unwrap_or(scratch.path());
        std::fs::create_dir_all(folder).or_say(|| format!("cannot create {}", folder.display()))?;
        std::path::absolute(folder).or_say(|| format!("cannot find {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_cases_run_and_unknown_cases_fail() {
        let of = |only: &[&str]| Cases { only: only.iter().map(|name| (*name).to_owned()).collect(), keep: None };
        assert!(of(&[]).runs("a", true) && !of(&[]).runs("a", false));
        assert!(of(&["a"]).runs("a", false) && !of(&["a"]).runs("b", true));
        assert!(of(&["a"]).check(&["a", "b"]).is_ok());
        let error = of(&["a", "c"]).check(&["a", "b"]).expect_err("it is unknown");
        assert_eq!(error.to_string(), "unknown case `c`; there are a, b");
    }
}
