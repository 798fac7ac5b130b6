//! Recognition of stacks that were picking an endpoint: by the source files of functions, if most are inlined, or by
//! function names, if a program has no line tables.

use crate::balancers::Balancer;
use crate::error::Result;
use crate::study::perf::{Frame, Lines, Sample};
use std::path::Path;

pub enum How {
    /// By the source files of functions.
    Lines(Lines),
    /// By the names of functions in this program.
    Names(String),
}

impl How {
    /// Chooses the method for a balancer's program.
    ///
    /// # Errors
    /// The program cannot be read, or a tool is missing.
    pub fn of(balancer: &Balancer) -> Result<How> {
        let lines = Lines::of(balancer.program())?;
        Ok(if balancer.kind.name == "evenkeel" { How::Lines(lines) } else { How::Names(lines.program().to_owned()) })
    }

    /// Looks up the functions of these samples that are not known yet.
    ///
    /// # Errors
    /// addr2line fails.
    pub fn learn(&mut self, samples: &[Sample], folder: &Path) -> Result<()> {
        match self {
            How::Lines(lines) => lines.learn(samples, folder),
            How::Names(_) => Ok(()),
        }
    }

    /// True if this sample has known functions. If no sample has, nothing can be concluded.
    pub fn knows(&self, sample: &Sample) -> bool {
        match self {
            How::Lines(lines) => {
                sample.iter().any(|frame| lines.files(frame).iter().any(|file| file.contains("/crates/")))
            }
            How::Names(program) => {
                sample.iter().any(|frame| frame.program == *program && frame.function == HAPROXY_KNOWN)
            }
        }
    }

    /// Reason why nothing can be concluded.
    pub fn unknown(&self) -> String {
        match self {
            How::Lines(lines) => format!("The cost of picking is unknown: {} has no line tables.", lines.program()),
            How::Names(program) => format!(
                "The cost of picking is unknown for {program}, which has no names of its functions; HAPROXY_BIN may name one that has."
            ),
        }
    }

    /// True if the balancer was picking.
    pub fn picks(&self, sample: &Sample) -> bool {
        match self {
            How::Lines(lines) => picks(&rooms(lines, sample)),
            How::Names(program) => sample.iter().any(|frame| frame.program == *program && is_haproxys(frame)),
        }
    }

    /// True if it was balancing: picking, or measuring the inputs of picks. `None` if unknown.
    pub fn balances(&self, sample: &Sample) -> Option<bool> {
        match self {
            // Other code uses these structures, too.
            How::Lines(lines) => Some(rooms(lines, sample).iter().any(|room| *room != "structures")),
            How::Names(_) => None,
        }
    }
}

/// Prefixes of the functions of HAProxy that pick, or that maintain the state for picks.
const HAPROXY: [&str; 9] =
    ["assign_server", "sess_change_server", "get_server_", "fwrr_", "fwlc_", "chash_", "map_get_", "fas_", "lb_ss_"];
/// Function on every stack of a working HAProxy; if it never appears, the program has no names.
const HAPROXY_KNOWN: &str = "process_stream";

fn is_haproxys(frame: &Frame) -> bool {
    HAPROXY.iter().any(|begin| frame.function.starts_with(begin))
}

/// Folders of the balancing crate on the stack of a sample, the innermost function's first.
fn rooms<'l>(lines: &'l Lines, sample: &Sample) -> Vec<&'l str> {
    sample.iter().flat_map(|frame| lines.files(frame)).filter_map(|file| room(file)).collect()
}

fn room(file: &str) -> Option<&str> {
    Some(file.split_once("crates/balance/src/")?.1.split('/').next().unwrap_or_default())
}

/// True if an algorithm, any of its parts or the set of endpoints is on the stack, or if the seam is innermost.
fn picks(rooms: &[&str]) -> bool {
    rooms.iter().any(|room| ["algorithms", "parts", "endpoints"].contains(room)) || rooms.first() == Some(&"seam")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_picks_by_where_its_functions_are() {
        let room_of = |file: &str| room(file).map(str::to_owned);
        assert_eq!(room_of("/x/crates/balance/src/algorithms/leastconn.rs").as_deref(), Some("algorithms"));
        assert_eq!(room_of("/x/crates/proxy/src/http/relay.rs"), None);
        assert!(picks(&["structures", "algorithms", "seam"]) && picks(&["seam"]) && picks(&["endpoints"]));
        // Measuring at the end of a request is counted separately.
        assert!(!picks(&["structures", "measurement", "seam"]) && !picks(&[]));
    }

    #[test]
    fn haproxys_functions_are_known_by_the_begin_of_their_names() {
        let frame = |function: &str| Frame { function: function.into(), program: String::new(), offset: 0 };
        for function in ["assign_server_and_queue", "fwlc_get_next_server", "sess_change_server"] {
            assert!(is_haproxys(&frame(function)), "{function}");
        }
        for function in ["process_stream", "srv_add_to_idle_list", "[unknown]"] {
            assert!(!is_haproxys(&frame(function)), "{function}");
        }
    }
}
