//! Removal of flows that are over, by a program of the kernel: [`Ends`].
//!
//! A syscall removes an entry by its key, whatever it has become since it was read: the program of forwarding may have
//! put a live flow there. Asking once more before narrows the gap and does not close it. The program `end_flows`
//! compares and removes in a single step (`claim()` of `bpf/flow.h`), and leaves changed entries alone.

use super::walk::KEY;
use crate::driver::Fault;
use crate::ebpf::object::chain;
use aya::TestRun;
use aya::programs::{SchedClassifier, TestRunOptions};

/// Flows that a run of the program takes, and bytes before them: `OVER_MAX` and `OVER_HEAD` of `bpf/forward.c`.
const OVER_MAX: usize = 40;
const OVER_HEAD: usize = 16;

/// Flow to remove, as it was read: the kernel keeps it if any of `begun`, `last` and `bits` has changed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    /// Key of the entry for packets to the endpoint; of a remnant, of the entry that is left.
    pub(super) key: [u8; KEY],
    pub(super) begun: u64,
    pub(super) last: u64,
    /// The kernel keeps the flow if the other direction had a packet after this time.
    pub(super) quiet: u64,
    pub(super) bits: u32,
    pub(super) endpoint: u32,
    /// The kernel keeps the entry if the other direction has an entry.
    pub(super) remnant: bool,
    /// The flow goes even if packets came since.
    pub(super) hurried: bool,
}

impl Over {
    /// Appends `struct over` of `bpf/forward.c`.
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.key);
        for word in [self.begun, self.last, self.quiet] {
            to.extend_from_slice(&word.to_ne_bytes());
        }
        let flags = u64::from(self.remnant) | u64::from(self.hurried) << 1;
        to.extend_from_slice(&self.bits.to_ne_bytes());
        to.extend_from_slice(&self.endpoint.to_ne_bytes());
        to.extend_from_slice(&flags.to_ne_bytes());
    }
}

/// Runs of the program, with a buffer that is kept.
#[derive(Default)]
pub(super) struct Ends {
    packet: Vec<u8>,
}

impl Ends {
    /// Removes flows, and returns how many have gone.
    pub(super) fn run(&mut self, program: &SchedClassifier, over: &[Over]) -> Result<u64, Fault> {
        let mut gone = 0;
        for some in over.chunks(OVER_MAX) {
            self.packet.clear();
            self.packet.resize(OVER_HEAD, 0);
            some.iter().for_each(|over| over.write(&mut self.packet));
            // The kernel runs no program on less than a header of IP.
            let mut options = TestRunOptions::new();
            options.data_in = Some(&self.packet);
            let result = program.test_run(options).map_err(|e| Fault::new("end flows", chain(&e)))?;
            gone += u64::from(result.return_value);
        }
        Ok(gone)
    }
}
