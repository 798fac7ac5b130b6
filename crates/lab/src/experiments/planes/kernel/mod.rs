//! Planes in the kernel beside proxies, in network namespaces: CPU time of a request, and endpoints that are slow or
//! refuse.

// Order: cost, degraded, site
mod cost;
mod degraded;
mod site;

use crate::balancers::Balancer;
use crate::error::{Error, Result};
use crate::study::{Finding, Found, Options};
use site::{Path, Site};

/// Reason why there are no figures.
pub const LEFT_OUT: &str = "left out: planes of the kernel";

/// Measures the parts that are asked for, and adds the figures to those that were found. Without root or a program,
/// the planes of the kernel are left out with a message on standard error.
///
/// # Errors
/// A balancer does not start, or the experiment is interrupted.
pub fn measure(parts: (bool, bool), balancers: &[Balancer], options: &Options, found: &mut Found) -> Result<()> {
    let site = match Site::start(balancers) {
        Ok(site) => site,
        Err(error @ (Error::NeedsRoot(_) | Error::Missing(_))) => {
            let why = format!("{LEFT_OUT}: {error}");
            eprintln!("{why}");
            found.findings.extend(cost::claims().map(|claim| Finding::not_shown(claim, why.clone())));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if parts.0 {
        cost::measure(&site, &there(&cost::PATHS, balancers), options, found)?;
    }
    if parts.1 {
        degraded::slow(&site, &there(&degraded::PATHS, balancers), options, found)?;
        degraded::refusing(&site, options, found)?;
    }
    Ok(())
}

/// Paths whose balancers are on this machine.
fn there<'p>(paths: &'p [Path], balancers: &[Balancer]) -> Vec<&'p Path> {
    let is_there = |path: &&Path| path.program().is_none_or(|name| balancers.iter().any(|of| of.name == name));
    paths.iter().filter(is_there).collect()
}
