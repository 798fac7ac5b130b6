//! Reasons to ignore a load report.

use evenkeel_balance::Refused;
use evenkeel_wire::orca::Malformed;

/// Reason to ignore a load report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The report cannot be parsed.
    Malformed(Malformed),
    /// The report is not plausible.
    Refused(Refused),
    /// The response took so long that its report is out of date.
    Stale,
    /// The report has a utilization but no requests in flight: shown, but not used for balancing.
    UtilizationOnly,
}

impl Dropped {
    const AFTER_MALFORMED: usize = Malformed::ALL.len();
    const AFTER_REFUSED: usize = Dropped::AFTER_MALFORMED + Refused::ALL.len();
    pub const COUNT: usize = Dropped::AFTER_REFUSED + 2;

    /// Index of its counter, and of its name in [`names`](Self::names).
    pub fn index(self) -> usize {
        match self {
            Dropped::Malformed(why) => why as usize,
            Dropped::Refused(why) => Dropped::AFTER_MALFORMED + why as usize,
            Dropped::Stale => Dropped::AFTER_REFUSED,
            Dropped::UtilizationOnly => Dropped::AFTER_REFUSED + 1,
        }
    }

    /// Labels of the metrics, in the order of the counters.
    pub fn names() -> [&'static str; Dropped::COUNT] {
        let others = ["stale", "utilization_only"];
        let names =
            Malformed::ALL.map(Malformed::name).into_iter().chain(Refused::ALL.map(Refused::name)).chain(others);
        let mut all = [""; Dropped::COUNT];
        all.iter_mut().zip(names).for_each(|(to, name)| *to = name);
        all
    }
}
