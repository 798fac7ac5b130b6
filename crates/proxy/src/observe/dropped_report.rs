//! Why was a report of an endpoint's load not gone by?

use evenkeel_balance::Refused;
use evenkeel_wire::orca::Malformed;

/// Why a report was not gone by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It cannot be read.
    Malformed(Malformed),
    /// It is not believed.
    Refused(Refused),
    /// Its response took so long that it is no news.
    Stale,
    /// It says how busy the endpoint is, but not with how many requests: shown, and nothing else.
    UtilizationOnly,
}

impl Dropped {
    const AFTER_MALFORMED: usize = Malformed::ALL.len();
    const AFTER_REFUSED: usize = Dropped::AFTER_MALFORMED + Refused::ALL.len();
    /// How many there are.
    pub const COUNT: usize = Dropped::AFTER_REFUSED + 2;

    /// Its number among the counters.
    pub fn index(self) -> usize {
        match self {
            Dropped::Malformed(why) => why as usize,
            Dropped::Refused(why) => Dropped::AFTER_MALFORMED + why as usize,
            Dropped::Stale => Dropped::AFTER_REFUSED,
            Dropped::UtilizationOnly => Dropped::AFTER_REFUSED + 1,
        }
    }

    /// A word for each, in the order of the counters.
    pub fn names() -> [&'static str; Dropped::COUNT] {
        let others = ["stale", "utilization_only"];
        let names =
            Malformed::ALL.map(Malformed::name).into_iter().chain(Refused::ALL.map(Refused::name)).chain(others);
        let mut all = [""; Dropped::COUNT];
        all.iter_mut().zip(names).for_each(|(to, name)| *to = name);
        all
    }
}
