//! Output of a pool's journal, through a batch and a writer thread as for the access log. If lines are lost because the
//! disk is full or too slow, the journal records how many, as later picks cannot be reproduced without them.

use evenkeel_balance::journal::Sink;
use evenkeel_net::log_writer::{Batch, Writer};
use std::sync::Arc;

/// Output of a balancer's journal.
pub struct Journal {
    batch: Batch,
    /// Lost lines that the journal has recorded so far.
    told: u64,
}

impl Journal {
    /// Creates a journal that writes through `writer`.
    pub fn new(writer: &Writer) -> Journal {
        Journal { batch: writer.batch(Arc::default()), told: 0 }
    }

    fn tell_lost(&mut self) {
        let lost = self.batch.dropped() - self.told;
        if lost > 0 {
            self.told += lost;
            self.batch.add_text(&format!("lost {lost}\n"));
        }
    }
}

impl Sink for Journal {
    fn add(&mut self, lines: &str) {
        self.batch.add_text(lines);
        self.tell_lost();
    }

    fn flush(&mut self) {
        self.batch.hand_over();
        self.tell_lost();
    }
}
